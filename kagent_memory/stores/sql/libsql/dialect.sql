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

-- name: all_embedding_spaces
-- With those that were dropped, whose numbers nobody has again.
SELECT number, name, dimensions, probe, state FROM embedder ORDER BY number

-- name: keep_vectors_aside
CREATE TABLE moved_vector AS
SELECT 0 AS number, scope_id, id, embedding, seq FROM memory_vector_{space} WHERE false

-- name: put_vectors_aside
INSERT INTO moved_vector (number, scope_id, id, embedding, seq)
SELECT {space}, scope_id, id, embedding, seq FROM memory_vector_{space}

-- name: put_vectors_back
INSERT INTO memory_vector_{space} (scope_id, id, embedding)
SELECT scope_id, id, embedding FROM moved_vector WHERE number = :former ORDER BY seq

-- name: drop_vectors_aside
DROP TABLE moved_vector

-- name: erase_embedding_spaces
DELETE FROM embedder

-- name: number_embedding_space
INSERT INTO embedder (number, name, dimensions, probe, state) VALUES (:number, :name, :dimensions, :probe, :state)

-- name: a_tenant
-- Whose file this is; no row where nobody was there yet, or nobody is left.
SELECT tenant FROM scope LIMIT 1

-- name: note_work
INSERT INTO tenant_work (tenant, due_at, look_at, noted_at, notes)
VALUES (
    :tenant, :due_at,
    CASE WHEN :seconds IS NULL THEN '9999'
        ELSE strftime('%Y-%m-%dT%H:%M:%f000Z', 'now', printf('%.3f seconds', :seconds)) END,
    strftime('%Y-%m-%dT%H:%M:%f000Z', 'now'), 1
)
ON CONFLICT (tenant) DO UPDATE SET
    due_at = min(tenant_work.due_at, excluded.due_at), look_at = min(tenant_work.look_at, excluded.look_at),
    noted_at = excluded.noted_at, notes = tenant_work.notes + 1

-- name: due_work
-- Those served last come last.
SELECT tenant, notes FROM tenant_work
WHERE due_at <= :now OR look_at <= strftime('%Y-%m-%dT%H:%M:%f000Z', 'now')
ORDER BY coalesce((SELECT key + 1 FROM json_each(:served) WHERE value = tenant), 0), due_at, tenant

-- name: working_tenants
SELECT tenant FROM tenant_work ORDER BY tenant

-- name: next_work
SELECT
    count(*) AS jobs, min(CASE WHEN state = 'queued' THEN run_after END) AS run_after,
    min(CASE WHEN state = 'running' THEN coalesce(lease_until, '') END) AS look_at
FROM ingest_job

-- name: put_off_work
-- Unless somebody has noted more meanwhile.
UPDATE tenant_work SET due_at = :due_at, look_at = :look_at WHERE tenant = :tenant AND notes = :notes

-- name: end_work
-- Once the last note is so old that whoever made it has written his job, or never will.
DELETE FROM tenant_work
WHERE tenant = :tenant AND notes = :notes
    AND noted_at <= strftime('%Y-%m-%dT%H:%M:%f000Z', 'now', '-60 seconds')

-- name: expect_work
-- Till then: the job may be on its way.
UPDATE tenant_work SET due_at = '9999', look_at = strftime('%Y-%m-%dT%H:%M:%f000Z', noted_at, '+60 seconds')
WHERE tenant = :tenant AND notes = :notes

-- name: forget_work
DELETE FROM tenant_work WHERE tenant = :tenant
