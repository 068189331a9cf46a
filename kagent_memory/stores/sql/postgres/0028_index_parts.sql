-- A scope's index in parts, each of the memories in a range of ids: what is erased takes along only the part that held it,
-- which is left empty (see stores/text_index.py). Nothing is lost: it is made anew from the memories.
DROP TABLE scope_index;
CREATE TABLE scope_index (
    scope_id uuid NOT NULL,
    first_id uuid NOT NULL,
    last_id uuid NOT NULL,
    version bigint NOT NULL,
    erased bigint NOT NULL,
    packed bytea NOT NULL,
    PRIMARY KEY (scope_id, first_id)
);
-- read whole and in one go, and hardly to be made smaller
ALTER TABLE scope_index ALTER COLUMN packed SET STORAGE EXTERNAL;
