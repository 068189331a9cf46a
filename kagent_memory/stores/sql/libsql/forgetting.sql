-- name: chosen_memories
-- The given memories, those of a session, or all; and the facts learned only from kept turns among
-- them.
WITH chosen AS MATERIALIZED (
    SELECT id, state, session_id, event_ids FROM memory WHERE scope_id = :scope_id AND :everything
    UNION
    SELECT id, state, session_id, event_ids
    FROM memory
    WHERE scope_id = :scope_id AND id IN (SELECT value FROM json_each(:ids))
    UNION
    SELECT id, state, session_id, event_ids
    FROM memory
    WHERE scope_id = :scope_id AND session_id = :session_id
),
said AS MATERIALIZED (
    SELECT DISTINCT t.session_id, e.value AS event_id
    FROM chosen AS t
    CROSS JOIN json_each(t.event_ids) AS e
    WHERE t.state = 'source' AND t.session_id IS NOT NULL
)
SELECT id FROM chosen
UNION
SELECT f.id
FROM (SELECT DISTINCT session_id FROM said) AS d
CROSS JOIN memory AS f ON f.scope_id = :scope_id AND f.session_id = d.session_id
WHERE f.event_ids <> '[]'
    AND NOT EXISTS (
        SELECT 1 FROM json_each(f.event_ids) AS e
        WHERE (f.session_id, e.value) NOT IN (SELECT session_id, event_id FROM said)
    )
ORDER BY id

-- name: scope_memories
SELECT id FROM memory WHERE scope_id = :scope_id ORDER BY id

-- name: kin
-- Memories to forget along with these: those merged into or superseded by them, results of merging
-- them, and superseded ones of equal content; and of former replacements, the results of undone
-- decisions.
SELECT id
FROM memory
WHERE scope_id = :scope_id AND superseded_by IN (SELECT value FROM json_each(:ids))
UNION
SELECT m.superseded_by
FROM memory AS m
JOIN memory_revision AS r ON r.scope_id = :scope_id AND r.memory_id = m.id
WHERE m.scope_id = :scope_id AND m.id IN (SELECT value FROM json_each(:ids))
    AND m.superseded_by IS NOT NULL
    AND (
        r.kind = 'merge' AND r.revision = m.revision - 1
        -- another decision may have set its replacement
        OR EXISTS (
            SELECT 1 FROM memory_revision AS h
            WHERE h.scope_id = :scope_id AND h.memory_id = m.superseded_by
                AND h.change_group = r.change_group
        )
        AND EXISTS (
            SELECT 1 FROM memory_revision AS g
            WHERE g.scope_id = :scope_id AND g.change_group = r.change_group AND g.kind = 'merge'
        )
    )
UNION
SELECT id FROM memory
WHERE scope_id = :scope_id AND state <> 'active'
    AND content_hash IN (
        SELECT content_hash
        FROM memory
        WHERE scope_id = :scope_id AND id IN (SELECT value FROM json_each(:ids))
    )
UNION
SELECT id FROM memory
WHERE scope_id = :scope_id AND id IN (SELECT value FROM json_each(:holders))
    AND state = 'superseded' AND superseded_by IS NULL

-- fragment: with_merged
-- The chosen memories, and those merged into them by merges that are not undone.
found (id) AS (
    SELECT id FROM chosen
    UNION
    SELECT m.id
    FROM found AS f
    JOIN memory AS m ON m.scope_id = :scope_id AND m.superseded_by = f.id
    WHERE EXISTS (
        SELECT 1 FROM memory_revision AS r
        WHERE r.scope_id = :scope_id AND r.memory_id = m.id AND r.revision = m.revision - 1
            AND r.kind = 'merge'
    )
)

-- name: expired_memories
-- Expired memories: those to delete, with the memories merged into them, and those that live on. A
-- short-term memory is promoted or deleted, however often it was delivered. A kept turn stays while
-- one of its facts does.
WITH RECURSIVE expired AS MATERIALIZED (
    SELECT m.id, CASE WHEN m.state = 'source' THEN m.links ELSE '[]' END AS links,
        m.state <> 'short_term' AND coalesce(s.delivered, 0) >= :popular_after AS popular
    FROM memory AS m
    LEFT JOIN memory_stats AS s ON s.scope_id = m.scope_id AND s.id = m.id
    WHERE m.scope_id = :scope_id AND m.expires_at <= :now AND NOT m.pinned
),
chosen (id) AS (
    SELECT e.id FROM expired AS e
    WHERE NOT e.popular
        AND NOT EXISTS (
            SELECT 1
            FROM json_each(e.links) AS l
            WHERE l.value IN (SELECT p.id FROM expired AS p WHERE p.popular)
        )
        AND NOT EXISTS (
            SELECT 1 FROM memory AS f
            WHERE f.scope_id = :scope_id AND f.id IN (SELECT value FROM json_each(e.links))
                AND f.state <> 'superseded'
                AND (f.pinned OR f.expires_at IS NULL OR f.expires_at > :now)
        )
),
{with_merged}
SELECT id, 0 AS lives FROM found
UNION ALL
SELECT id, 1 FROM expired WHERE id NOT IN (SELECT id FROM found)
ORDER BY id

-- name: evictable
-- The first of these memories beyond the number to keep, with the memories merged into them.
WITH RECURSIVE chosen (id, place) AS (
    SELECT m.id, given.key
    FROM json_each(:ids) AS given
    CROSS JOIN memory AS m ON m.scope_id = :scope_id AND m.id = given.value
    WHERE m.state IN ('active', 'source') AND NOT m.pinned
        AND (m.expires_at IS NULL OR m.expires_at > :now)
    ORDER BY given.key
    LIMIT max(0, -:keep + (
        SELECT count(*) FROM memory AS v
        WHERE v.scope_id = :scope_id AND v.state = 'active'
            AND (v.pinned OR v.expires_at IS NULL OR v.expires_at > :now)
    ))
),
{with_merged}
SELECT f.id
FROM found AS f
LEFT JOIN chosen AS c ON c.id = f.id
ORDER BY c.place IS NULL, c.place, f.id

-- name: sources_of
-- Kept turns that are linked with these facts, or share an event of a session with them.
WITH given_event AS MATERIALIZED (SELECT key AS place, value FROM json_each(:event_ids)),
said AS MATERIALIZED (
    SELECT s.value AS session_id, e.value AS event_id
    FROM json_each(:session_ids) AS s
    CROSS JOIN given_event AS e ON e.place = s.key
)
SELECT m.id FROM memory AS m
WHERE m.scope_id = :scope_id AND m.state = 'source' AND (
    EXISTS (
        SELECT 1 FROM json_each(m.links) AS l WHERE l.value IN (SELECT value FROM json_each(:ids))
    )
    OR EXISTS (
        SELECT 1 FROM json_each(m.event_ids) AS e
        WHERE (coalesce(m.session_id, ''), e.value) IN (
            SELECT coalesce(session_id, ''), event_id FROM said
        )
    )
)
ORDER BY m.id

-- name: revisions_of_all
SELECT memory_id, revision, kind, before, at, who, why, event_ids, change_group AS "group", final,
    sealed
FROM memory_revision WHERE scope_id = :scope_id AND memory_id IN (SELECT value FROM json_each(:ids))
ORDER BY memory_id, revision

-- name: insert_tombstones
-- Parallel lists are joined by position. A materialized list gets an index.
WITH given_key AS MATERIALIZED (SELECT key AS place, value FROM json_each(:keys))
INSERT INTO tombstone (scope_id, kind, key, at)
SELECT :scope_id, k.value, g.value, :at
FROM json_each(:kinds) AS k
CROSS JOIN given_key AS g ON g.place = k.key
WHERE true
ON CONFLICT DO NOTHING

-- name: scope_jobs
SELECT * FROM ingest_job WHERE scope_id = :scope_id ORDER BY id

-- name: withdraw_jobs
DELETE FROM ingest_job WHERE scope_id = :scope_id AND id IN (SELECT value FROM json_each(:ids))

-- name: replace_payload
UPDATE ingest_job SET payload = :payload, sealed = :sealed WHERE scope_id = :scope_id AND id = :id

-- name: mark_erased
-- Makes every cached index of the scope compare its ids with those that remain.
UPDATE scope SET erased = version WHERE scope_id = :scope_id

-- name: unlink_memories
-- Remove these memories from the links of others; links are symmetric.
UPDATE memory SET links = (
    SELECT json_group_array(l.value)
    FROM json_each(memory.links) AS l
    WHERE l.value NOT IN (SELECT value FROM json_each(:ids))
)
WHERE scope_id = :scope_id AND id IN (
    SELECT l.value
    FROM memory AS gone, json_each(gone.links) AS l
    WHERE gone.scope_id = :scope_id AND gone.id IN (SELECT value FROM json_each(:ids))
)

-- name: erase_memories
DELETE FROM memory WHERE scope_id = :scope_id AND id IN (SELECT value FROM json_each(:ids))

-- name: erase_stats
DELETE FROM memory_stats WHERE scope_id = :scope_id AND id IN (SELECT value FROM json_each(:ids))

-- name: end_decisions
-- A decision that loses a part of its changes cannot be undone any more. The plus keeps SQLite from
-- using the index of all groups.
UPDATE memory_revision SET final = 1
WHERE scope_id = :scope_id AND change_group IN (
    SELECT r.change_group
    FROM json_each(:ids) AS gone
    CROSS JOIN memory_revision AS r ON r.scope_id = :scope_id AND r.memory_id = gone.value
    WHERE +r.change_group IS NOT NULL
)

-- name: replace_revision
UPDATE memory_revision SET event_ids = :event_ids, before = :before, why = :why, who = :who,
    sealed = :sealed
WHERE scope_id = :scope_id AND memory_id = :memory_id AND revision = :revision

-- name: erase_revisions
DELETE FROM memory_revision
WHERE scope_id = :scope_id AND memory_id IN (SELECT value FROM json_each(:ids))

-- name: erase_vectors
DELETE FROM memory_vector_{space}
WHERE scope_id = :scope_id AND id IN (SELECT value FROM json_each(:ids))

-- name: tenant_scopes
-- Some remaining scopes of a tenant, also those with nothing but tombstones. One index holds short
-- names, the other long ones.
SELECT * FROM (
    SELECT tenant, user_id, app FROM scope
    WHERE tenant = :tenant AND length(tenant) + length(app) + length(user_id) <= 600
    ORDER BY app, user_id
    LIMIT :limit
) AS short
UNION ALL
SELECT * FROM (
    SELECT tenant, user_id, app FROM scope
    WHERE tenant = :tenant AND length(tenant) + length(app) + length(user_id) > 600
    ORDER BY app, user_id
    LIMIT :limit
) AS long
LIMIT :limit

-- name: some_memories
SELECT id FROM memory WHERE scope_id = :scope_id ORDER BY id LIMIT :limit

-- name: erase_scope_vectors
DELETE FROM memory_vector_{space} WHERE scope_id = :scope_id

-- name: erase_scope_stats
DELETE FROM memory_stats WHERE scope_id = :scope_id

-- name: erase_scope_revisions
DELETE FROM memory_revision WHERE scope_id = :scope_id

-- name: erase_scope_jobs
DELETE FROM ingest_job WHERE scope_id = :scope_id

-- name: erase_scope_events
DELETE FROM taken_event WHERE scope_id = :scope_id

-- name: erase_scope_tombstones
DELETE FROM tombstone WHERE scope_id = :scope_id

-- name: erase_scope_index
DELETE FROM scope_index WHERE scope_id = :scope_id

-- name: erase_scope
DELETE FROM scope WHERE scope_id = :scope_id
