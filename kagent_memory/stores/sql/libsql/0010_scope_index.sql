-- A scope's index in columns (see stores/text_index.py), as it stood at one version of the scope: whoever never saw the
-- scope reads this one row, and the memories that were written since. No scope that lost memories later keeps it.
CREATE TABLE scope_index (
    scope_id BLOB NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL,
    erased INTEGER NOT NULL,
    packed BLOB NOT NULL
);
