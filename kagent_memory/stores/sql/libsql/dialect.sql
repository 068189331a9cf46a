-- Statements that this dialect alone has.

-- name: make_vectors
-- Every vector that is set takes a new "seq", never used before: what came since a known one is a range of it.
CREATE TABLE memory_vector_{space} (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    scope_id BLOB NOT NULL,
    id TEXT NOT NULL,
    embedding BLOB NOT NULL
)

-- name: index_vectors
CREATE UNIQUE INDEX memory_vector_{space}_key ON memory_vector_{space} (scope_id, id)

-- name: index_vector_changes
CREATE INDEX memory_vector_{space}_seq ON memory_vector_{space} (scope_id, seq)

-- name: vectors_since
-- In one row, for rows take longer than what they hold: the last "seq", the ids, 36 characters each, and the vectors in
-- the same order.
SELECT max(v.seq), coalesce(group_concat(v.id, ''), ''), CAST(coalesce(group_concat(v.embedding, ''), '') AS BLOB)
FROM (
    SELECT seq, id, embedding FROM memory_vector_{space}
    WHERE scope_id = :scope_id AND seq > :seq
    ORDER BY seq
    LIMIT :limit
) AS v

-- name: later_vector
SELECT seq FROM memory_vector_{space} WHERE scope_id = :scope_id AND seq > :seq LIMIT 1

-- name: count_vectors
SELECT count(*) FROM memory_vector_{space} WHERE scope_id = :scope_id

-- name: drop_vectors
DROP TABLE memory_vector_{space}
