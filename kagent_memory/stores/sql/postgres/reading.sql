-- fragment: passes_filter
-- True if a memory m is visible and meets all conditions of a filter; NULL sets none. A parameter
-- "sealed_…" is the same condition for encrypted rows (see row_codec.py).
(
    (m.state = 'active' OR %(superseded)s OR %(sources)s AND m.state = 'source')
    AND (%(state)s::text IS NULL OR m.state = %(state)s)
    AND (m.pinned OR m.expires_at IS NULL OR m.expires_at > %(now)s)
    AND (%(types)s::text[] IS NULL OR m.type = ANY(%(types)s::text[]))
    AND (
        %(topics)s::text[] IS NULL
        OR m.topics && %(topics)s::text[]
        OR m.topics && %(sealed_topics)s::text[]
    )
    AND (
        %(tags)s::text[] IS NULL
        OR m.tags @> %(tags)s::text[]
        OR m.tags @> %(sealed_tags)s::text[]
    )
    AND (%(origins)s::text[] IS NULL OR m.origin = ANY(%(origins)s::text[]))
    AND (
        %(metadata)s::jsonb IS NULL OR m.metadata::jsonb @> %(metadata)s::jsonb
        OR m.metadata::jsonb @> %(sealed_metadata)s::jsonb
    )
    AND (%(session_id)s::text IS NULL OR m.session_id = %(session_id)s::text)
    AND (%(author)s::text IS NULL OR m.author IN (%(author)s::text, %(sealed_author)s::text))
    AND (
        %(category)s::text IS NULL OR m.category IN (%(category)s::text, %(sealed_category)s::text)
    )
    AND (%(min_importance)s::float8 IS NULL OR m.importance >= %(min_importance)s::float8)
    AND (%(created_after)s::timestamptz IS NULL OR m.created_at >= %(created_after)s::timestamptz)
    AND (%(created_before)s::timestamptz IS NULL OR m.created_at < %(created_before)s::timestamptz)
    AND (
        %(happened_after)s::timestamptz IS NULL OR m.happened_at >= %(happened_after)s::timestamptz
    )
    AND (
        %(happened_before)s::timestamptz IS NULL OR m.happened_at < %(happened_before)s::timestamptz
    )
)

-- fragment: wanted_memories
-- Look up each memory by its id: a planner that expects few rows would read the whole scope. The
-- number of ids is hidden from the planner, which would otherwise plan anew for every number; that
-- takes longer than reading the rows. The columns are those of "remembered", since a cluster plans
-- every level of a statement anew at each call.
unnest((SELECT %(ids)s::uuid[])) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT
        r.id, r.content, r.type, r.topics, r.tags, r.importance, r.is_error, r.origin, r.author,
        r.session_id, r.position, r.event_ids, r.subject, r.attribute, r.metadata, r.created_at,
        r.updated_at, r.happened_at, r.valid_from, r.valid_to, r.expires_at, r.ttl_days, r.pinned,
        r.verbatim, r.state, r.superseded_by, r.links, r.revision,
        coalesce(u.retrieved, 0) AS retrieved, coalesce(u.delivered, 0) AS delivered,
        coalesce(u.delivered_total, 0) AS delivered_total, u.last_delivered_at,
        coalesce(u.successes, 0) AS successes, coalesce(u.failures, 0) AS failures, r.said_at,
        r.explicit, r.category, r.sealed
    FROM memory AS r
    LEFT JOIN memory_stats AS u ON u.scope_id = %(scope_id)s AND u.id = r.id
    WHERE r.scope_id = %(scope_id)s AND r.id = wanted.id
    OFFSET 0
) AS m

-- name: visible_memories
SELECT m.*
FROM {wanted_memories}
WHERE (m.state IN ('active', 'source') OR %(superseded)s)
    AND (%(state)s::text IS NULL OR m.state = %(state)s::text)
    AND (m.pinned OR m.expires_at IS NULL OR m.expires_at > %(now)s)

-- name: stored_memories
-- These memories, in any state, expired or not.
SELECT m.* FROM {wanted_memories} ORDER BY m.id

-- name: met_memories
-- The ids of those of these memories that exist, and of the active, short-term and quarantined ones
-- with one of these content hashes, expired or not. Active ones are many, so each hash is looked up
-- by itself, like the ids in `wanted_memories`.
SELECT m.id
FROM unnest((SELECT %(ids)s::uuid[])) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT one.id FROM memory AS one
    WHERE one.scope_id = %(scope_id)s AND one.id = wanted.id
    OFFSET 0
) AS m
UNION ALL
SELECT m.id
FROM unnest((SELECT %(hashes)s::bytea[])) AS wanted (content_hash)
CROSS JOIN LATERAL (
    SELECT one.id FROM memory AS one
    WHERE one.scope_id = %(scope_id)s AND one.state = 'active'
        AND one.content_hash = wanted.content_hash
    OFFSET 0
) AS m
UNION ALL
SELECT id
FROM memory
WHERE scope_id = %(scope_id)s AND state = 'short_term'
    AND content_hash = ANY((SELECT %(hashes)s::bytea[])::bytea[])
UNION ALL
SELECT id
FROM memory
WHERE scope_id = %(scope_id)s AND state = 'quarantined'
    AND content_hash = ANY((SELECT %(hashes)s::bytea[])::bytea[])

-- fragment: mark
-- A number that grows when vectors of the scope s are set on their own, or those of an embedding
-- space are dropped.
(s.vectors_set * 10000 + (SELECT count(*) FROM embedder AS e WHERE e.state = 'dropped'))

-- name: scope_row
SELECT s.version, s.erased, s.salt, {mark} AS mark, s.calls, s.tokens
FROM scope AS s
WHERE s.scope_id = %(scope_id)s

-- name: vectors_of
-- The vectors of these memories of a scope, in one row, since many rows cost more than their
-- content: the ids, 36 characters each, and all numbers.
SELECT s.version, s.salt, {mark} AS mark, c.ids, c.sent
FROM scope AS s
CROSS JOIN LATERAL (
    SELECT
        string_agg(v.id::text, '' ORDER BY v.id) AS ids,
        string_agg(substring(halfvec_send(v.embedding) FROM 5), '' ORDER BY v.id) AS sent
    FROM unnest(%(ids)s::uuid[]) AS w (id)
    JOIN memory_vector_{space} AS v ON v.scope_id = %(scope_id)s AND v.id = w.id
) AS c
WHERE s.scope_id = %(scope_id)s

-- name: unchanged_memories
-- The visible ones of these memories and the row of their scope, unless the scope has changed.
SELECT m.*
FROM scope AS s
LEFT JOIN ({wanted_memories})
    ON m.state IN ('active', 'source')
        AND (m.pinned OR m.expires_at IS NULL OR m.expires_at > %(now)s)
WHERE s.scope_id = %(scope_id)s AND s.version = %(version)s AND s.erased = %(erased)s
    AND s.salt = %(salt)s
    AND {mark} = %(mark)s

-- name: in_slots
-- The visible memories that fill one of these slots.
SELECT * FROM remembered
WHERE scope_id = %(scope_id)s AND state = 'active'
    AND (pinned OR expires_at IS NULL OR expires_at > %(now)s)
    AND id IN (
        SELECT m.id FROM memory AS m
        WHERE m.scope_id = %(scope_id)s AND m.state = 'active' AND m.slot = ANY(%(slots)s::text[])
    )
ORDER BY created_at, id
LIMIT %(limit)s

-- fragment: older
-- True for a memory older than the last one of the previous page, if there is such a page.
(m.created_at, m.id) < (
        coalesce(%(after_key)s::timestamptz, 'infinity'),
        coalesce(%(after_id)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    )

-- name: list_newest
-- A page starts in the index of the scope's memories by time, however many there are.
SELECT m.*
FROM remembered AS m
WHERE m.scope_id = %(scope_id)s
    AND {older}
    AND {passes_filter}
ORDER BY m.created_at DESC, m.id DESC
LIMIT %(limit)s

-- name: list_short_term
-- Short-term memories are few and have an index of their own.
WITH brief AS MATERIALIZED (
    SELECT b.id FROM memory AS b
    WHERE b.scope_id = %(scope_id)s AND b.state = 'short_term'
        AND (%(session_id)s::text IS NULL OR b.session_id = %(session_id)s::text)
)
SELECT m.*
FROM remembered AS m
WHERE m.scope_id = %(scope_id)s AND m.id IN (SELECT id FROM brief)
    AND {older}
    AND {passes_filter}
ORDER BY m.created_at DESC, m.id DESC
LIMIT %(limit)s

-- name: list_oldest
SELECT m.*
FROM remembered AS m
WHERE m.scope_id = %(scope_id)s
    AND (m.created_at, m.id) > (
        coalesce(%(after_key)s::timestamptz, '-infinity'),
        coalesce(%(after_id)s::uuid, '00000000-0000-0000-0000-000000000000')
    )
    AND {passes_filter}
ORDER BY m.created_at, m.id
LIMIT %(limit)s

-- name: scope_changes
-- A scope's row with the changes since a stamp: the ids, 36 characters each and concatenated, of
-- memories written since, and of all that remain if some were erased. For a process that is new to
-- the scope also its packed index, and the changes since that was packed. Ids are read only if
-- there are any, from the index of the key alone.
SELECT s.version, s.erased, s.salt, {mark} AS mark, s.is_new, i.packed,
    CASE WHEN s.is_new OR s.version <> %(version)s THEN (
        SELECT string_agg(m.id::text, '')
        FROM memory AS m
        WHERE m.scope_id = %(scope_id)s AND m.touched > CASE
            WHEN s.is_new THEN coalesce(i.version, -1) ELSE %(version)s
        END
    ) END AS written,
    CASE WHEN NOT s.is_new AND s.erased <> %(erased)s THEN (
        SELECT coalesce(string_agg(m.id::text, ''), '')
        FROM memory AS m
        WHERE m.scope_id = %(scope_id)s
    ) END AS remaining
FROM (
    SELECT *, salt <> %(salt)s OR version < %(version)s AS is_new
    FROM scope
    WHERE scope_id = %(scope_id)s
) AS s
LEFT JOIN scope_index AS i ON i.scope_id = s.scope_id AND i.scope_id = %(scope_id)s AND s.is_new

-- name: indexed
-- The index entries of these memories.
SELECT m.id, m.session_id, m.position, m.author, m.created_at, m.happened_at,
    length(m.content) AS chars,
    right(rtrim(m.content, E' \n\r\t'), 1) IN ('?', '？', '؟') AS asks,
    m.state IN ('active', 'source') AS active, m.state = 'source' AS turn,
    CASE WHEN NOT m.pinned THEN m.expires_at END AS expires_at, m.postings,
    m.sealed IS NOT NULL AS is_sealed
FROM memory AS m
WHERE m.scope_id = %(scope_id)s AND m.id = ANY(%(ids)s::uuid[])

-- name: passing
-- The visible memories that pass a filter.
SELECT m.id
FROM memory AS m
WHERE m.scope_id = %(scope_id)s
    AND {passes_filter}

-- name: changed_since
-- The memories that may have been different at a time, or were not there yet. Their ids are joined
-- by spaces, since a scope has thousands.
SELECT
    coalesce(string_agg(id::text, ' ') FILTER (WHERE existed), '') AS existing,
    coalesce(string_agg(id::text, ' ') FILTER (WHERE NOT existed), '') AS absent
FROM (
    SELECT
        m.id,
        m.revision > 1 OR coalesce(m.valid_from, m.said_at, m.created_at) <= %(at)s AS existed
    FROM memory AS m
    WHERE m.scope_id = %(scope_id)s
        AND (
            coalesce(m.valid_from, m.said_at, m.created_at) > %(at)s
            OR m.valid_to > %(at)s
            OR m.state = 'short_term'
            OR (
                m.revision > 1
                AND EXISTS (
                    SELECT 1 FROM memory_revision AS r
                    WHERE r.scope_id = %(scope_id)s AND r.memory_id = m.id AND r.at > %(at)s
                )
            )
        )
) AS changed

-- name: taken_events
SELECT event_id FROM taken_event
WHERE scope_id = %(scope_id)s AND session_id = %(session_id)s
    AND event_id = ANY(%(event_ids)s::text[])
UNION
SELECT key FROM tombstone
WHERE scope_id = %(scope_id)s AND kind = 'event' AND key = ANY(%(event_ids)s::text[])

-- name: revisions_in
SELECT memory_id, revision, kind, before, at, who, why, event_ids, change_group AS "group", final,
    sealed
FROM memory_revision
WHERE scope_id = %(scope_id)s AND change_group = %(group)s
ORDER BY at, memory_id, revision

-- name: unembedded
SELECT * FROM remembered AS r
WHERE r.scope_id = %(scope_id)s AND r.state IN ('active', 'short_term', 'source')
    AND (r.pinned OR r.expires_at IS NULL OR r.expires_at > %(now)s)
    AND NOT EXISTS (
        SELECT 1 FROM memory_vector_{space} AS v WHERE v.scope_id = r.scope_id AND v.id = r.id
    )
ORDER BY r.created_at, r.id
LIMIT %(limit)s

-- name: facets
-- The number of memories that pass a filter, their most frequent topics and tags, and one sealed
-- memory, if there is any: its topics and tags are only digests.
WITH passing AS (
    SELECT m.id, m.topics, m.tags, m.sealed
    FROM memory AS m
    WHERE m.scope_id = %(scope_id)s
        AND {passes_filter}
)
SELECT
    (SELECT count(*) FROM passing) AS total,
    (
        SELECT coalesce(json_object_agg(value, n ORDER BY n DESC, value), json_build_object())
        FROM (
            SELECT h.value, count(*) AS n
            FROM passing AS p CROSS JOIN unnest(p.topics) AS h (value)
            GROUP BY h.value ORDER BY n DESC, h.value LIMIT %(most)s
        ) AS t
    ) AS topics,
    (
        SELECT coalesce(json_object_agg(value, n ORDER BY n DESC, value), json_build_object())
        FROM (
            SELECT h.value, count(*) AS n
            FROM passing AS p CROSS JOIN unnest(p.tags) AS h (value)
            GROUP BY h.value ORDER BY n DESC, h.value LIMIT %(most)s
        ) AS t
    ) AS tags,
    one.id, one.sealed
FROM (SELECT 1 AS only) AS r
LEFT JOIN (
    SELECT p.id, p.sealed FROM passing AS p WHERE p.sealed IS NOT NULL LIMIT 1
) AS one ON true

-- name: scope_stats
WITH kept AS MATERIALIZED (
    SELECT type, state, pinned, delivered, delivered_total,
        (pinned OR expires_at IS NULL OR expires_at > %(now)s) AS lives
    FROM remembered
    WHERE scope_id = %(scope_id)s
)
SELECT
    count(*) FILTER (WHERE state = 'active' AND lives) AS visible,
    (
        SELECT coalesce(json_object_agg(name, n ORDER BY name), json_build_object()) FROM (
            SELECT type AS name, count(*) AS n
            FROM kept
            WHERE state = 'active' AND lives
            GROUP BY type
            ORDER BY type
        ) AS t
    ) AS by_type,
    count(*) FILTER (WHERE state = 'active' AND NOT lives) AS expired,
    count(*) FILTER (
        WHERE NOT lives AND (delivered < %(popular_after)s OR state = 'short_term')
    ) AS unused,
    count(*) FILTER (WHERE state = 'superseded') AS superseded,
    count(*) FILTER (WHERE state = 'quarantined' AND lives) AS quarantined,
    count(*) FILTER (WHERE state = 'short_term' AND lives) AS short_term,
    count(*) FILTER (WHERE state = 'active' AND pinned) AS pins,
    coalesce(
        sum(delivered_total) FILTER (WHERE state = 'active' AND lives), 0
    )::bigint AS delivered_total,
    (
        SELECT coalesce(json_object_agg(name, n ORDER BY name), json_build_object()) FROM (
            SELECT state AS name, count(*) AS n
            FROM ingest_job
            WHERE scope_id = %(scope_id)s
            GROUP BY state
            ORDER BY state
        ) AS t
    ) AS jobs,
    -- the time since which an accepted save has waited (see pending_jobs)
    (
        SELECT min(created_at) FROM ingest_job
        WHERE scope_id = %(scope_id)s AND state <> 'dead'
            AND (
                kind IN ('transcript', 'embed')
                OR (kind = 'session_end' AND (run_after <= %(now)s OR error <> ''))
            )
    ) AS oldest_job_at,
    coalesce((SELECT calls FROM scope WHERE scope_id = %(scope_id)s), 0) AS calls,
    coalesce((SELECT tokens FROM scope WHERE scope_id = %(scope_id)s), 0) AS tokens,
    coalesce((SELECT version FROM scope WHERE scope_id = %(scope_id)s), 0) AS version
FROM kept
