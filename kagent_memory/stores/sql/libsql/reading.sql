-- fragment: passes_filter
-- True if a memory m is visible and meets all conditions of a filter; NULL sets none. A parameter
-- "sealed_…" is the same condition for encrypted rows (see row_codec.py).
(
    (m.state = 'active' OR :superseded OR :sources AND m.state = 'source')
    AND (:state IS NULL OR m.state = :state)
    AND (m.pinned OR m.expires_at IS NULL OR m.expires_at > :now)
    AND (:types IS NULL OR m.type IN (SELECT value FROM json_each(:types)))
    AND (:topics IS NULL OR EXISTS (
        SELECT 1 FROM json_each(m.topics) AS h
        WHERE h.value IN (
            SELECT value FROM json_each(:topics)
            UNION ALL
            SELECT value FROM json_each(:sealed_topics)
        )
    ))
    AND (
        :tags IS NULL
        OR NOT EXISTS (
            SELECT 1
            FROM json_each(:tags) AS w
            WHERE w.value NOT IN (SELECT value FROM json_each(m.tags))
        )
        OR (:sealed_tags IS NOT NULL AND NOT EXISTS (
            SELECT 1
            FROM json_each(:sealed_tags) AS w
            WHERE w.value NOT IN (SELECT value FROM json_each(m.tags))
        ))
    )
    AND (:origins IS NULL OR m.origin IN (SELECT value FROM json_each(:origins)))
    AND (
        :metadata IS NULL
        OR NOT EXISTS (
            SELECT 1 FROM json_each(:metadata) AS w
            WHERE NOT EXISTS (
                SELECT 1 FROM json_each(m.metadata) AS h
                WHERE h.key = w.key AND h.value IS w.value
                    AND replace(h.type, 'real', 'integer') = replace(w.type, 'real', 'integer')
            )
        )
        OR (:sealed_metadata IS NOT NULL AND NOT EXISTS (
            SELECT 1 FROM json_each(:sealed_metadata) AS w
            WHERE NOT EXISTS (
                SELECT 1 FROM json_each(m.metadata) AS h WHERE h.key = w.key AND h.value = w.value
            )
        ))
    )
    AND (:session_id IS NULL OR m.session_id = :session_id)
    AND (:author IS NULL OR m.author IN (:author, :sealed_author))
    AND (:category IS NULL OR m.category IN (:category, :sealed_category))
    AND (:min_importance IS NULL OR m.importance >= :min_importance)
    AND (:created_after IS NULL OR m.created_at >= :created_after)
    AND (:created_before IS NULL OR m.created_at < :created_before)
    AND (:happened_after IS NULL OR m.happened_at >= :happened_after)
    AND (:happened_before IS NULL OR m.happened_at < :happened_before)
)

-- name: visible_memories
SELECT * FROM remembered
WHERE scope_id = :scope_id AND id IN (SELECT value FROM json_each(:ids))
    AND (state IN ('active', 'source') OR :superseded)
    AND (:state IS NULL OR state = :state)
    AND (pinned OR expires_at IS NULL OR expires_at > :now)

-- name: stored_memories
-- These memories, in any state, expired or not.
SELECT *
FROM remembered
WHERE scope_id = :scope_id AND id IN (SELECT value FROM json_each(:ids))
ORDER BY id

-- name: met_memories
-- The ids of those of these memories that exist, and of the active, short-term and quarantined ones
-- with one of these content hashes, expired or not.
SELECT id FROM memory
WHERE scope_id = :scope_id AND id IN (SELECT value FROM json_each(:ids))
UNION ALL
SELECT id
FROM memory INDEXED BY memory_identity
WHERE scope_id = :scope_id AND state = 'active'
    AND content_hash IN (SELECT unhex(value) FROM json_each(:hashes))
UNION ALL
SELECT id
FROM memory INDEXED BY memory_short_term
WHERE scope_id = :scope_id AND state = 'short_term'
    AND content_hash IN (SELECT unhex(value) FROM json_each(:hashes))
UNION ALL
SELECT id
FROM memory INDEXED BY memory_quarantined
WHERE scope_id = :scope_id AND state = 'quarantined'
    AND content_hash IN (SELECT unhex(value) FROM json_each(:hashes))

-- fragment: mark
-- A number that grows when vectors of the scope s are set on their own, or those of an embedding
-- space are dropped.
(s.vectors_set * 10000 + (SELECT count(*) FROM embedder AS e WHERE e.state = 'dropped'))

-- name: scope_row
SELECT s.version, s.erased, s.salt, {mark} AS mark, s.calls, s.tokens
FROM scope AS s
WHERE s.scope_id = :scope_id

-- name: vectors_of
-- The vectors of these memories of a scope, in one row, since many rows cost more than their
-- content: the ids, 36 characters each, and all numbers. Each vector is read by its key.
SELECT s.version, s.salt, {mark} AS mark, c.ids, c.sent
FROM scope AS s, (
    SELECT group_concat(v.id, '') AS ids, CAST(group_concat(v.embedding, '') AS BLOB) AS sent
    FROM json_each(:ids) AS w
    CROSS JOIN memory_vector_{space} AS v ON v.scope_id = :scope_id AND v.id = w.value
) AS c
WHERE s.scope_id = :scope_id

-- name: unchanged_memories
-- The visible ones of these memories and the row of their scope, unless the scope has changed. They
-- are found before the join, or SQLite would materialize the view for the whole scope.
WITH found AS MATERIALIZED (
    SELECT * FROM remembered
    WHERE scope_id = :scope_id AND id IN (SELECT value FROM json_each(:ids))
        AND state IN ('active', 'source')
        AND (pinned OR expires_at IS NULL OR expires_at > :now)
)
SELECT m.*
FROM scope AS s
LEFT JOIN found AS m
WHERE s.scope_id = :scope_id AND s.version = :version AND s.erased = :erased AND s.salt = :salt
    AND {mark} = :mark

-- name: in_slots
-- The visible memories that fill one of these slots.
SELECT * FROM remembered
WHERE scope_id = :scope_id AND state = 'active'
    AND (pinned OR expires_at IS NULL OR expires_at > :now)
    AND id IN (
        SELECT m.id FROM memory AS m
        WHERE m.scope_id = :scope_id AND m.state = 'active'
            AND m.slot IN (SELECT value FROM json_each(:slots))
    )
ORDER BY created_at, id
LIMIT :limit

-- name: list_newest
-- A page starts in the index of the scope's memories by time, however many there are.
SELECT m.*
FROM remembered AS m
WHERE m.scope_id = :scope_id
    AND (m.created_at, m.id) < (coalesce(:after_key, '~'), coalesce(:after_id, '~'))
    AND {passes_filter}
ORDER BY m.created_at DESC, m.id DESC
LIMIT :limit

-- name: list_short_term
-- Short-term memories are few and have an index of their own. "+" keeps SQLite from reading the
-- whole scope by time.
WITH brief AS MATERIALIZED (
    SELECT b.id FROM memory AS b
    WHERE b.scope_id = :scope_id AND b.state = 'short_term'
        AND (:session_id IS NULL OR b.session_id = :session_id)
)
SELECT m.*
FROM remembered AS m
WHERE m.scope_id = :scope_id AND m.id IN (SELECT id FROM brief)
    AND (+m.created_at, m.id) < (coalesce(:after_key, '~'), coalesce(:after_id, '~'))
    AND {passes_filter}
ORDER BY +m.created_at DESC, m.id DESC
LIMIT :limit

-- name: list_oldest
SELECT m.*
FROM remembered AS m
WHERE m.scope_id = :scope_id
    AND (m.created_at, m.id) > (coalesce(:after_key, ''), coalesce(:after_id, ''))
    AND {passes_filter}
ORDER BY m.created_at, m.id
LIMIT :limit

-- name: scope_changes
-- A scope's row with the changes since a stamp: the ids, 36 characters each and concatenated, of
-- memories written since, and of all that remain if some were erased. For a process that is new to
-- the scope also its packed index, and the changes since that was packed. Ids are read only if
-- there are any.
SELECT s.version, s.erased, s.salt, {mark} AS mark, s.is_new, i.packed,
    CASE WHEN s.is_new OR s.version <> :version THEN (
        SELECT group_concat(m.id, '')
        FROM memory AS m
        WHERE m.scope_id = :scope_id AND m.touched > CASE
            WHEN s.is_new THEN coalesce(i.version, -1) ELSE :version
        END
    ) END AS written,
    CASE WHEN NOT s.is_new AND s.erased <> :erased THEN (
        SELECT coalesce(group_concat(m.id, ''), '') FROM memory AS m WHERE m.scope_id = :scope_id
    ) END AS remaining
FROM (
    SELECT *, salt <> :salt OR version < :version AS is_new FROM scope WHERE scope_id = :scope_id
) AS s
LEFT JOIN scope_index AS i ON i.scope_id = s.scope_id AND s.is_new

-- name: indexed
-- The index entries of these memories.
SELECT m.id, m.session_id, m.position, m.author, m.created_at, m.happened_at,
    length(m.content) AS chars,
    substr(rtrim(m.content, char(9, 10, 13, 32)), -1) IN ('?', '？', '؟') AS asks,
    m.state IN ('active', 'source') AS active, m.state = 'source' AS turn,
    CASE WHEN NOT m.pinned THEN m.expires_at END AS expires_at, m.postings,
    m.sealed IS NOT NULL AS is_sealed
FROM memory AS m
WHERE m.scope_id = :scope_id AND m.id IN (SELECT value FROM json_each(:ids))

-- name: passing
-- The visible memories that pass a filter.
SELECT m.id
FROM memory AS m
WHERE m.scope_id = :scope_id
    AND {passes_filter}

-- name: changed_since
-- The memories that may have been different at a time, or were not there yet. Their ids are joined
-- by spaces, since a scope has thousands.
SELECT
    coalesce(group_concat(id, ' ') FILTER (WHERE existed), '') AS existing,
    coalesce(group_concat(id, ' ') FILTER (WHERE NOT existed), '') AS absent
FROM (
    SELECT
        m.id,
        m.revision > 1 OR coalesce(m.valid_from, m.said_at, m.created_at) <= :at AS existed
    FROM memory AS m
    WHERE m.scope_id = :scope_id
        AND (
            coalesce(m.valid_from, m.said_at, m.created_at) > :at
            OR m.valid_to > :at
            OR m.state = 'short_term'
            OR (
                m.revision > 1
                AND EXISTS (
                    SELECT 1 FROM memory_revision AS r
                    WHERE r.scope_id = :scope_id AND r.memory_id = m.id AND r.at > :at
                )
            )
        )
) AS changed

-- name: taken_events
SELECT event_id FROM taken_event
WHERE scope_id = :scope_id AND session_id = :session_id
    AND event_id IN (SELECT value FROM json_each(:event_ids))
UNION
SELECT key FROM tombstone
WHERE scope_id = :scope_id AND kind = 'event' AND key IN (SELECT value FROM json_each(:event_ids))

-- name: revisions_in
SELECT memory_id, revision, kind, before, at, who, why, event_ids, change_group AS "group", final,
    sealed
FROM memory_revision
WHERE scope_id = :scope_id AND change_group = :group
ORDER BY at, memory_id, revision

-- name: unembedded
SELECT * FROM remembered AS r
WHERE r.scope_id = :scope_id AND r.state IN ('active', 'short_term', 'source')
    AND (r.pinned OR r.expires_at IS NULL OR r.expires_at > :now)
    AND NOT EXISTS (
        SELECT 1 FROM memory_vector_{space} AS v WHERE v.scope_id = r.scope_id AND v.id = r.id
    )
ORDER BY r.created_at, r.id
LIMIT :limit

-- name: facets
-- The number of memories that pass a filter, their most frequent topics and tags, and one sealed
-- memory, if there is any: its topics and tags are only digests.
WITH passing AS (
    SELECT m.id, m.topics, m.tags, m.sealed
    FROM memory AS m
    WHERE m.scope_id = :scope_id
        AND {passes_filter}
)
SELECT
    (SELECT count(*) FROM passing) AS total,
    (
        SELECT json_group_object(value, n) FROM (
            SELECT h.value, count(*) AS n
            FROM passing AS p, json_each(p.topics) AS h
            GROUP BY h.value ORDER BY n DESC, h.value LIMIT :most
        ) AS t
    ) AS topics,
    (
        SELECT json_group_object(value, n) FROM (
            SELECT h.value, count(*) AS n
            FROM passing AS p, json_each(p.tags) AS h
            GROUP BY h.value ORDER BY n DESC, h.value LIMIT :most
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
        (pinned OR expires_at IS NULL OR expires_at > :now) AS lives
    FROM remembered
    WHERE scope_id = :scope_id
)
SELECT
    count(*) FILTER (WHERE state = 'active' AND lives) AS visible,
    (
        SELECT json_group_object(name, n) FROM (
            SELECT type AS name, count(*) AS n
            FROM kept
            WHERE state = 'active' AND lives
            GROUP BY type
            ORDER BY type
        ) AS t
    ) AS by_type,
    count(*) FILTER (WHERE state = 'active' AND NOT lives) AS expired,
    count(*) FILTER (
        WHERE NOT lives AND (delivered < :popular_after OR state = 'short_term')
    ) AS unused,
    count(*) FILTER (WHERE state = 'superseded') AS superseded,
    count(*) FILTER (WHERE state = 'quarantined' AND lives) AS quarantined,
    count(*) FILTER (WHERE state = 'short_term' AND lives) AS short_term,
    count(*) FILTER (WHERE state = 'active' AND pinned) AS pins,
    coalesce(sum(delivered_total) FILTER (WHERE state = 'active' AND lives), 0) AS delivered_total,
    (
        SELECT json_group_object(name, n) FROM (
            SELECT state AS name, count(*) AS n
            FROM ingest_job
            WHERE scope_id = :scope_id
            GROUP BY state
            ORDER BY state
        ) AS t
    ) AS jobs,
    -- the time since which an accepted save has waited (see pending_jobs)
    (
        SELECT min(created_at) FROM ingest_job
        WHERE scope_id = :scope_id AND state <> 'dead'
            AND (
                kind IN ('transcript', 'embed')
                OR (kind = 'session_end' AND (run_after <= :now OR error <> ''))
            )
    ) AS oldest_job_at,
    coalesce((SELECT calls FROM scope WHERE scope_id = :scope_id), 0) AS calls,
    coalesce((SELECT tokens FROM scope WHERE scope_id = :scope_id), 0) AS tokens,
    coalesce((SELECT version FROM scope WHERE scope_id = :scope_id), 0) AS version
FROM kept
