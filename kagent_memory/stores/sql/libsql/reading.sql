-- name: visible_memories
SELECT * FROM remembered
WHERE scope_id = :scope_id AND id IN (SELECT value FROM json_each(:ids))
    AND (state = 'active' OR :superseded)
    AND (expires_at IS NULL OR expires_at > :now)

-- name: list_memories
-- Ascending by sort_key, which is negated for the orders that run downwards; ties by id in the order's direction.
-- Times count in microseconds; 9e15 stands after them all.
SELECT l.*, l.key AS sort_key
FROM (
    SELECT
        m.*,
        CASE :order
            WHEN 'newest' THEN -(unixepoch(m.created_at) * 1000000 + substr(m.created_at, 21, 6))
            WHEN 'oldest' THEN unixepoch(m.created_at) * 1000000 + substr(m.created_at, 21, 6)
            WHEN 'delivered' THEN -m.delivered
            WHEN 'expires' THEN coalesce(unixepoch(m.expires_at) * 1000000 + substr(m.expires_at, 21, 6), 9e15)
            ELSE -m.importance
        END AS key,
        :order IN ('oldest', 'expires') AS upwards
    FROM remembered AS m
    WHERE m.scope_id = :scope_id
        AND (m.state = 'active' OR :superseded)
        AND (m.expires_at IS NULL OR m.expires_at > :now)
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
) AS l
WHERE :after_id IS NULL
    OR l.key > :after_key + 0
    OR (l.key = :after_key + 0 AND CASE WHEN l.upwards THEN l.id > :after_id ELSE l.id < :after_id END)
ORDER BY l.key, CASE WHEN l.upwards THEN l.id END, CASE WHEN NOT l.upwards THEN l.id END DESC
LIMIT :limit

-- name: search_text
-- One row a term with its postings packed; first the row without a term: the number of memories and the sum of their
-- lengths. Without a filter nearly all are visible: the few that are not are left out. "+" keeps each term to one walk
-- over its rows.
WITH dead AS MATERIALIZED (
    SELECT m.id
    FROM memory AS m
    WHERE m.scope_id = :scope_id AND ((m.state <> 'active' AND NOT :superseded) OR m.expires_at <= :now)
),
passing AS MATERIALIZED (
    SELECT f.id
    FROM memory AS f
    WHERE f.scope_id = :scope_id
        AND (f.state = 'active' OR :superseded)
        AND (f.expires_at IS NULL OR f.expires_at > :now)
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
)
SELECT NULL AS term, count(*) AS frequency, coalesce(sum(m.length), 0) AS total, NULL AS postings
FROM memory AS m
WHERE m.scope_id = :scope_id
    AND (m.state = 'active' OR :superseded)
    AND (m.expires_at IS NULL OR m.expires_at > :now)
    AND (NOT :filtered OR m.id IN (SELECT id FROM passing))
UNION ALL
SELECT t.term, count(*), 0, CAST(group_concat(t.posting, '') AS BLOB)
FROM memory_term AS t
WHERE t.scope_id = :scope_id AND t.term IN (SELECT value FROM json_each(:terms))
    AND CASE WHEN :filtered THEN +t.id IN (SELECT id FROM passing) ELSE +t.id NOT IN (SELECT id FROM dead) END
GROUP BY t.term

-- name: places
SELECT m.id, m.session_id, m.position, m.author, m.type, m.origin, m.importance, m.created_at, m.happened_at,
    length(m.content) AS chars, substr(rtrim(m.content, char(9, 10, 13, 32)), -1) IN ('?', '？', '؟') AS asks
FROM memory AS m
WHERE m.scope_id = :scope_id AND m.state = 'active' AND (m.expires_at IS NULL OR m.expires_at > :now)
    AND m.id IN (
        SELECT value FROM json_each(:ids)
        UNION
        SELECT n.id
        FROM memory AS a
        JOIN memory AS n
            ON n.scope_id = a.scope_id AND n.session_id = a.session_id
            AND n.position BETWEEN a.position - :reach AND a.position + :reach
        WHERE a.scope_id = :scope_id AND a.id IN (SELECT value FROM json_each(:ids))
            AND a.state = 'active' AND (a.expires_at IS NULL OR a.expires_at > :now)
            AND :reach > 0
    )
ORDER BY m.id

-- name: taken_events
SELECT event_id FROM taken_event
WHERE scope_id = :scope_id AND session_id = :session_id AND event_id IN (SELECT value FROM json_each(:event_ids))
UNION
SELECT key FROM tombstone
WHERE scope_id = :scope_id AND kind = 'event' AND key IN (SELECT value FROM json_each(:event_ids))

-- name: revisions_of
SELECT memory_id, revision, kind, before, at, who, why, event_ids, change_group
FROM memory_revision WHERE scope_id = :scope_id AND memory_id = :id ORDER BY revision

-- name: revisions_in
SELECT memory_id, revision, kind, before, at, who, why, event_ids, change_group
FROM memory_revision WHERE scope_id = :scope_id AND change_group = :group ORDER BY at, memory_id, revision

-- name: unembedded
SELECT * FROM remembered AS r
WHERE r.scope_id = :scope_id AND r.state = 'active' AND (r.expires_at IS NULL OR r.expires_at > :now)
    AND NOT EXISTS (
        SELECT 1 FROM memory_vector_{generation} AS v WHERE v.scope_id = r.scope_id AND v.id = r.id
    )
ORDER BY r.created_at, r.id
LIMIT :limit

-- name: scope_counts
SELECT
    type,
    count(*) FILTER (WHERE state = 'active' AND (expires_at IS NULL OR expires_at > :now)) AS visible,
    count(*) FILTER (WHERE state = 'active' AND expires_at <= :now) AS expired,
    count(*) FILTER (WHERE state = 'superseded') AS superseded,
    count(*) FILTER (WHERE state = 'active' AND pinned AND (expires_at IS NULL OR expires_at > :now)) AS pins,
    coalesce(sum(delivered_total) FILTER (WHERE state = 'active' AND (expires_at IS NULL OR expires_at > :now)), 0)
        AS delivered_total
FROM remembered
WHERE scope_id = :scope_id
GROUP BY type
ORDER BY type

-- name: job_counts
SELECT state, count(*) AS jobs FROM ingest_job WHERE scope_id = :scope_id GROUP BY state ORDER BY state
