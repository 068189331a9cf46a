-- A scope's index in columns (see stores/text_index.py), as it stood at one version of the scope: whoever never saw the
-- scope reads this one row, and the memories that were written since. No scope that lost memories later keeps it.
CREATE TABLE scope_index (
    scope_id uuid NOT NULL PRIMARY KEY,
    version bigint NOT NULL,
    erased bigint NOT NULL,
    packed bytea NOT NULL
);
-- read whole and in one go, and hardly to be made smaller
ALTER TABLE scope_index ALTER COLUMN packed SET STORAGE EXTERNAL;
