-- name: chosen_memories
-- The given memories, those of a session, or all; and the facts learned only from kept turns among
-- them.
WITH chosen AS MATERIALIZED (
    SELECT id, state, session_id, event_ids
    FROM memory
    WHERE scope_id = %(scope_id)s AND %(everything)s::boolean
    UNION
    SELECT id, state, session_id, event_ids
    FROM memory
    WHERE scope_id = %(scope_id)s AND id = ANY(%(ids)s::uuid[])
    UNION
    SELECT id, state, session_id, event_ids
    FROM memory
    WHERE scope_id = %(scope_id)s AND session_id = %(session_id)s::text
),
said AS MATERIALIZED (
    SELECT DISTINCT t.session_id, e.event_id
    FROM chosen AS t
    CROSS JOIN LATERAL unnest(t.event_ids) AS e (event_id)
    WHERE t.state = 'source' AND t.session_id IS NOT NULL
)
SELECT id FROM chosen
UNION
SELECT f.id
FROM (
    SELECT m.id, m.session_id, unnest(m.event_ids) AS event_id
    FROM (SELECT DISTINCT session_id FROM said) AS d
    JOIN memory AS m ON m.scope_id = %(scope_id)s AND m.session_id IS NOT NULL
        AND m.session_id = d.session_id
) AS f
LEFT JOIN said AS s ON s.session_id = f.session_id AND s.event_id = f.event_id
GROUP BY f.id
HAVING count(*) = count(s.event_id)
ORDER BY id

-- name: scope_memories
SELECT id FROM memory WHERE scope_id = %(scope_id)s ORDER BY id

-- name: kin
-- Memories to forget along with these: those merged into or superseded by them, results of merging
-- them, and superseded ones of equal content; and of former replacements, the results of undone
-- decisions.
SELECT id FROM memory WHERE scope_id = %(scope_id)s AND superseded_by = ANY(%(ids)s::uuid[])
UNION
SELECT m.superseded_by
FROM memory AS m
JOIN memory_revision AS r ON r.scope_id = %(scope_id)s AND r.memory_id = m.id
WHERE m.scope_id = %(scope_id)s AND m.id = ANY(%(ids)s::uuid[]) AND m.superseded_by IS NOT NULL
    AND (
        r.kind = 'merge' AND r.revision = m.revision - 1
        -- another decision may have set its replacement
        OR EXISTS (
            SELECT 1 FROM memory_revision AS h
            WHERE h.scope_id = %(scope_id)s AND h.memory_id = m.superseded_by
                AND h.change_group = r.change_group
        )
        AND EXISTS (
            SELECT 1 FROM memory_revision AS g
            WHERE g.scope_id = %(scope_id)s AND g.change_group = r.change_group AND g.kind = 'merge'
        )
    )
UNION
SELECT id FROM memory
WHERE scope_id = %(scope_id)s AND state <> 'active'
    AND content_hash IN (
        SELECT content_hash FROM memory WHERE scope_id = %(scope_id)s AND id = ANY(%(ids)s::uuid[])
    )
UNION
SELECT id FROM memory
WHERE scope_id = %(scope_id)s AND id = ANY(%(holders)s::uuid[])
    AND state = 'superseded' AND superseded_by IS NULL

-- fragment: with_merged
-- The chosen memories, and those merged into them by merges that are not undone.
found (id) AS (
    SELECT id FROM chosen
    UNION
    SELECT m.id
    FROM found AS f
    JOIN memory AS m ON m.scope_id = %(scope_id)s AND m.superseded_by = f.id
    WHERE EXISTS (
        SELECT 1 FROM memory_revision AS r
        WHERE r.scope_id = %(scope_id)s AND r.memory_id = m.id AND r.revision = m.revision - 1
            AND r.kind = 'merge'
    )
)

-- name: expired_memories
-- Expired memories: those to delete, with the memories merged into them, and those that live on. A
-- short-term memory is promoted or deleted, however often it was delivered. A kept turn stays while
-- one of its facts does.
WITH RECURSIVE expired AS MATERIALIZED (
    SELECT m.id, CASE WHEN m.state = 'source' THEN m.links ELSE ARRAY[]::text[] END AS links,
        m.state <> 'short_term' AND coalesce(s.delivered, 0) >= %(popular_after)s AS popular
    FROM memory AS m
    LEFT JOIN memory_stats AS s ON s.scope_id = m.scope_id AND s.id = m.id
    WHERE m.scope_id = %(scope_id)s AND m.expires_at <= %(now)s AND NOT m.pinned
),
chosen (id) AS (
    SELECT e.id FROM expired AS e
    WHERE NOT e.popular
        AND NOT EXISTS (
            SELECT 1
            FROM unnest(e.links) AS l (id)
            WHERE l.id::uuid IN (SELECT p.id FROM expired AS p WHERE p.popular)
        )
        AND NOT EXISTS (
            SELECT 1 FROM memory AS f
            WHERE f.scope_id = %(scope_id)s AND f.id = ANY(e.links::uuid[])
                AND f.state <> 'superseded'
                AND (f.pinned OR f.expires_at IS NULL OR f.expires_at > %(now)s)
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
    SELECT m.id, given.place
    FROM unnest(%(ids)s::uuid[]) WITH ORDINALITY AS given (id, place)
    JOIN memory AS m ON m.scope_id = %(scope_id)s AND m.id = given.id
    WHERE m.state IN ('active', 'source') AND NOT m.pinned
        AND (m.expires_at IS NULL OR m.expires_at > %(now)s)
    ORDER BY given.place
    LIMIT greatest(0, -%(keep)s::bigint + (
        SELECT count(*) FROM memory AS v
        WHERE v.scope_id = %(scope_id)s AND v.state = 'active'
            AND (v.pinned OR v.expires_at IS NULL OR v.expires_at > %(now)s)
    ))
),
{with_merged}
SELECT f.id
FROM found AS f
LEFT JOIN chosen AS c ON c.id = f.id
ORDER BY c.place IS NULL, c.place, f.id

-- name: sources_of
-- Kept turns that are linked with these facts, or share an event of a session with them. The join
-- by equal texts keeps the cost linear in the number of events.
WITH turn AS MATERIALIZED (
    SELECT t.id, t.links, coalesce(t.session_id, '') AS session_id, t.event_ids
    FROM memory AS t
    WHERE t.scope_id = %(scope_id)s AND t.state = 'source'
),
said AS MATERIALIZED (
    SELECT coalesce(given.session_id, '') AS session_id, given.event_id
    FROM unnest(%(session_ids)s::text[], %(event_ids)s::text[]) AS given (session_id, event_id)
)
SELECT t.id FROM turn AS t WHERE t.links && %(ids)s::text[]
UNION
SELECT t.id
FROM (SELECT turn.id, turn.session_id, unnest(turn.event_ids) AS event_id FROM turn) AS t
JOIN said AS s ON s.event_id = t.event_id AND s.session_id = t.session_id
ORDER BY id

-- name: revisions_of_all
SELECT memory_id, revision, kind, before, at, who, why, event_ids, change_group AS "group", final,
    sealed
FROM memory_revision WHERE scope_id = %(scope_id)s AND memory_id = ANY(%(ids)s::uuid[])
ORDER BY memory_id, revision

-- name: insert_tombstones
INSERT INTO tombstone (scope_id, kind, key, at)
SELECT s.scope_id, given.kind, given.key, %(at)s
FROM scope AS s, unnest(%(kinds)s::text[], %(keys)s::text[]) AS given (kind, key)
WHERE s.scope_id = %(scope_id)s
ON CONFLICT DO NOTHING

-- name: scope_jobs
SELECT * FROM ingest_job WHERE scope_id = %(scope_id)s ORDER BY id

-- name: withdraw_jobs
DELETE FROM ingest_job WHERE scope_id = %(scope_id)s AND id = ANY(%(ids)s::uuid[])

-- name: replace_payload
UPDATE ingest_job SET payload = %(payload)s, sealed = %(sealed)s::bytea
WHERE scope_id = %(scope_id)s AND id = %(id)s

-- name: mark_erased
-- Makes every cached index of the scope compare its ids with those that remain.
UPDATE scope SET erased = version WHERE scope_id = %(scope_id)s

-- name: unlink_memories
-- Remove these memories from the links of others; links are symmetric.
WITH partners AS MATERIALIZED (
    SELECT DISTINCT unnest(gone.links)::uuid AS id FROM memory AS gone
    WHERE gone.scope_id = %(scope_id)s AND gone.id = ANY(%(ids)s::uuid[])
        AND cardinality(gone.links) > 0
)
UPDATE memory AS t
SET links = ARRAY(SELECT l FROM unnest(t.links) AS l WHERE l::uuid <> ALL(%(ids)s::uuid[]))
FROM (
    SELECT m.id FROM partners AS p
    JOIN memory AS m ON m.scope_id = %(scope_id)s AND m.id = p.id
    ORDER BY m.id
    FOR UPDATE OF m
) AS linked
WHERE t.scope_id = %(scope_id)s AND t.id = linked.id

-- name: erase_memories
-- Locks rows in the same order as count_usage.
DELETE FROM memory AS t
USING (
    SELECT id FROM memory
    WHERE scope_id = %(scope_id)s AND id = ANY(%(ids)s::uuid[])
    ORDER BY id
    FOR UPDATE
) AS locked
WHERE t.scope_id = %(scope_id)s AND t.id = locked.id

-- name: erase_stats
-- Locks rows in the same order as count_usage.
DELETE FROM memory_stats AS t
USING (
    SELECT id FROM memory_stats
    WHERE scope_id = %(scope_id)s AND id = ANY(%(ids)s::uuid[])
    ORDER BY id
    FOR UPDATE
) AS locked
WHERE t.scope_id = %(scope_id)s AND t.id = locked.id

-- name: end_decisions
-- A decision that loses a part of its changes cannot be undone any more.
UPDATE memory_revision AS t SET final = true
FROM memory_revision AS r
WHERE t.scope_id = %(scope_id)s AND t.change_group = r.change_group
    AND r.scope_id = %(scope_id)s AND r.memory_id = ANY(%(ids)s::uuid[])

-- name: replace_revision
UPDATE memory_revision SET event_ids = %(event_ids)s, before = %(before)s, why = %(why)s,
    who = %(who)s, sealed = %(sealed)s
WHERE scope_id = %(scope_id)s AND memory_id = %(memory_id)s::uuid
    AND revision = %(revision)s::integer

-- name: erase_revisions
DELETE FROM memory_revision WHERE scope_id = %(scope_id)s AND memory_id = ANY(%(ids)s::uuid[])

-- name: erase_vectors
DELETE FROM memory_vector_{space} WHERE scope_id = %(scope_id)s AND id = ANY(%(ids)s::uuid[])

-- name: tenant_scopes
-- Some remaining scopes of a tenant, also those with nothing but tombstones. One index holds short
-- names, the other long ones.
SELECT * FROM (
    SELECT tenant, user_id, app FROM scope
    WHERE tenant = %(tenant)s AND NOT is_long
    ORDER BY app, user_id
    LIMIT %(limit)s
) AS short
UNION ALL
SELECT * FROM (
    SELECT tenant, user_id, app FROM scope
    WHERE tenant = %(tenant)s AND is_long
    ORDER BY app, user_id
    LIMIT %(limit)s
) AS long
LIMIT %(limit)s

-- name: some_memories
SELECT id FROM memory WHERE scope_id = %(scope_id)s ORDER BY id LIMIT %(limit)s

-- name: erase_scope_vectors
DELETE FROM memory_vector_{space} WHERE scope_id = %(scope_id)s

-- name: erase_scope_stats
DELETE FROM memory_stats WHERE scope_id = %(scope_id)s

-- name: erase_scope_revisions
DELETE FROM memory_revision WHERE scope_id = %(scope_id)s

-- name: erase_scope_jobs
DELETE FROM ingest_job WHERE scope_id = %(scope_id)s

-- name: erase_scope_events
DELETE FROM taken_event WHERE scope_id = %(scope_id)s

-- name: erase_scope_tombstones
DELETE FROM tombstone WHERE scope_id = %(scope_id)s

-- name: erase_scope_index
DELETE FROM scope_index WHERE scope_id = %(scope_id)s

-- name: erase_scope
DELETE FROM scope WHERE scope_id = %(scope_id)s
