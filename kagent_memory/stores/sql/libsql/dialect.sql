-- Statements of this dialect only.

-- name: make_vectors
CREATE TABLE memory_vector_{space} (
    scope_id BLOB NOT NULL,
    id TEXT NOT NULL,
    embedding BLOB NOT NULL,
    PRIMARY KEY (scope_id, id)
)

-- name: drop_vectors
DROP TABLE memory_vector_{space}
