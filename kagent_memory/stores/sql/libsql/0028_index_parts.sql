-- A scope's index in parts, each of the memories in a range of ids: what is erased takes along only the part that held it,
-- which is left empty (see stores/text_index.py). Nothing is lost: it is made anew from the memories.
DROP TABLE scope_index;
CREATE TABLE scope_index (
    scope_id BLOB NOT NULL,
    first_id TEXT NOT NULL,
    last_id TEXT NOT NULL,
    version INTEGER NOT NULL,
    erased INTEGER NOT NULL,
    packed BLOB NOT NULL,
    PRIMARY KEY (scope_id, first_id)
);
