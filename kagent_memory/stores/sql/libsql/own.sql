-- Statements that this dialect alone has.

-- name: make_vectors
-- Every vector that is set takes a new "seq", never used before: what came since a known one is a range of it.
CREATE TABLE memory_vector_{generation} (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    scope_id BLOB NOT NULL,
    id TEXT NOT NULL,
    embedding BLOB NOT NULL
)

-- name: index_vectors
CREATE UNIQUE INDEX memory_vector_{generation}_key ON memory_vector_{generation} (scope_id, id)

-- name: index_vector_changes
CREATE INDEX memory_vector_{generation}_seq ON memory_vector_{generation} (scope_id, seq)

-- name: vectors_since
SELECT seq, id, embedding FROM memory_vector_{generation}
WHERE scope_id = :scope_id AND seq > :seq
ORDER BY seq
LIMIT :limit

-- name: count_vectors
SELECT count(*) FROM memory_vector_{generation} WHERE scope_id = :scope_id

-- name: passing
-- Which of these ids, or of all, are visible and pass the filter.
SELECT m.id
FROM memory AS m
WHERE m.scope_id = :scope_id AND m.id IN (SELECT value FROM json_each(:ids))
    AND (m.state = 'active' OR :superseded)
    AND (m.expires_at IS NULL OR m.expires_at > :now)
    AND (NOT :filtered OR (
        true
        AND (:types IS NULL OR m.type IN (SELECT value FROM json_each(:types)))
        AND (:topics IS NULL OR EXISTS (
            SELECT 1 FROM json_each(m.topics) AS h WHERE h.value IN (SELECT value FROM json_each(:topics))
        ))
        AND (:tags IS NULL OR NOT EXISTS (
            SELECT 1 FROM json_each(:tags) AS w WHERE w.value NOT IN (SELECT value FROM json_each(m.tags))
        ))
        AND (:origins IS NULL OR m.origin IN (SELECT value FROM json_each(:origins)))
        AND (:metadata IS NULL OR NOT EXISTS (
            SELECT 1 FROM json_each(:metadata) AS w
            WHERE NOT EXISTS (
                SELECT 1 FROM json_each(m.metadata) AS h
                WHERE h.key = w.key AND h.value IS w.value
                    AND replace(h.type, 'real', 'integer') = replace(w.type, 'real', 'integer')
            )
        ))
        AND (:session_id IS NULL OR m.session_id = :session_id)
        AND (:min_importance IS NULL OR m.importance >= :min_importance)
        AND (:created_after IS NULL OR m.created_at >= :created_after)
        AND (:created_before IS NULL OR m.created_at < :created_before)
        AND (:happened_after IS NULL OR m.happened_at >= :happened_after)
        AND (:happened_before IS NULL OR m.happened_at < :happened_before)
    ))

-- name: passing_all
SELECT m.id
FROM memory AS m
WHERE m.scope_id = :scope_id
    AND (m.state = 'active' OR :superseded)
    AND (m.expires_at IS NULL OR m.expires_at > :now)
    AND (NOT :filtered OR m.id IN (
        SELECT f.id FROM memory AS f
        WHERE f.scope_id = :scope_id
            AND (:types IS NULL OR f.type IN (SELECT value FROM json_each(:types)))
            AND (:topics IS NULL OR EXISTS (
                SELECT 1 FROM json_each(f.topics) AS h WHERE h.value IN (SELECT value FROM json_each(:topics))
            ))
            AND (:tags IS NULL OR NOT EXISTS (
                SELECT 1 FROM json_each(:tags) AS w WHERE w.value NOT IN (SELECT value FROM json_each(f.tags))
            ))
            AND (:origins IS NULL OR f.origin IN (SELECT value FROM json_each(:origins)))
            AND (:metadata IS NULL OR NOT EXISTS (
                SELECT 1 FROM json_each(:metadata) AS w
                WHERE NOT EXISTS (
                    SELECT 1 FROM json_each(f.metadata) AS h
                    WHERE h.key = w.key AND h.value IS w.value
                        AND replace(h.type, 'real', 'integer') = replace(w.type, 'real', 'integer')
                )
            ))
            AND (:session_id IS NULL OR f.session_id = :session_id)
            AND (:min_importance IS NULL OR f.importance >= :min_importance)
            AND (:created_after IS NULL OR f.created_at >= :created_after)
            AND (:created_before IS NULL OR f.created_at < :created_before)
            AND (:happened_after IS NULL OR f.happened_at >= :happened_after)
            AND (:happened_before IS NULL OR f.happened_at < :happened_before)
    ))
