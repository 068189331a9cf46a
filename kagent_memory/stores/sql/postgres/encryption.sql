-- Re-encryption: the rows not sealed by the current key, whose header is %(header)s, and the
-- statements that write them. "sealed" is NULL in plain rows.

-- name: next_scopes
-- The next scopes in order of id, and whether they hold anything to re-encrypt.
SELECT
    s.tenant, s.user_id, s.app, (
        substr(s.salt, 1, octet_length(%(header)s::bytea)) <> %(header)s::bytea
        OR EXISTS (
            SELECT 1 FROM memory AS m
            WHERE m.scope_id = s.scope_id
                AND (
                    m.sealed IS NULL
                    OR substr(m.sealed, 1, octet_length(%(header)s::bytea)) <> %(header)s::bytea
                )
        )
        OR EXISTS (
            SELECT 1 FROM memory_revision AS r
            WHERE r.scope_id = s.scope_id
                AND (
                    r.sealed IS NULL
                    OR substr(r.sealed, 1, octet_length(%(header)s::bytea)) <> %(header)s::bytea
                )
        )
        OR EXISTS (
            SELECT 1 FROM ingest_job AS j
            WHERE j.scope_id = s.scope_id AND (
                j.sealed IS NULL
                OR substr(j.sealed, 1, octet_length(%(header)s::bytea)) <> %(header)s::bytea
                OR (
                    j.error <> ''
                    AND substr(j.error, 1, 1 + 2 * octet_length(%(header)s::bytea))
                        <> (chr(31) || encode(%(header)s::bytea, 'hex'))
                )
            )
        )
    ) AS stale
FROM scope AS s
WHERE %(scope_id)s::uuid IS NULL OR s.scope_id > %(scope_id)s::uuid
ORDER BY s.scope_id
LIMIT %(limit)s

-- name: content_hashes
SELECT id, content_hash FROM memory WHERE scope_id = %(scope_id)s ORDER BY id

-- name: replace_hash
UPDATE memory SET content_hash = %(content_hash)s
WHERE scope_id = %(scope_id)s AND id = %(id)s::uuid

-- name: replace_salt
UPDATE scope SET salt = %(salt)s WHERE scope_id = %(scope_id)s

-- name: stale_memories
SELECT r.*, m.touched
FROM (
    SELECT scope_id, id, touched FROM memory
    WHERE scope_id = %(scope_id)s
        AND (
            sealed IS NULL
            OR substr(sealed, 1, octet_length(%(header)s::bytea)) <> %(header)s::bytea
        )
    ORDER BY id
    LIMIT %(limit)s
) AS m
JOIN remembered AS r ON r.scope_id = m.scope_id AND r.id = m.id
WHERE r.scope_id = %(scope_id)s
ORDER BY r.id

-- name: stale_revisions
SELECT memory_id, revision, kind, before, at, who, why, event_ids, change_group AS "group", final,
    sealed
FROM memory_revision
WHERE scope_id = %(scope_id)s
    AND (sealed IS NULL OR substr(sealed, 1, octet_length(%(header)s::bytea)) <> %(header)s::bytea)
ORDER BY memory_id, revision
LIMIT %(limit)s

-- name: stale_jobs
SELECT *
FROM ingest_job
WHERE scope_id = %(scope_id)s AND (
    sealed IS NULL OR substr(sealed, 1, octet_length(%(header)s::bytea)) <> %(header)s::bytea
    OR (
        error <> ''
        AND substr(error, 1, 1 + 2 * octet_length(%(header)s::bytea))
            <> (chr(31) || encode(%(header)s::bytea, 'hex'))
    )
)
ORDER BY id
LIMIT %(limit)s

-- name: reseal_job
UPDATE ingest_job SET payload = %(payload)s, error = %(error)s, sealed = %(sealed)s
WHERE scope_id = %(scope_id)s AND id = %(id)s::uuid
