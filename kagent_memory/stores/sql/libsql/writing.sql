-- name: touch_scope
-- Every writer of a scope's memories begins with this. Step 0 keeps the version.
INSERT INTO scope (scope_id, tenant, user_id, app, version, salt)
VALUES (:scope_id, :tenant, :user, :app, :step, :salt)
ON CONFLICT (scope_id) DO UPDATE SET
    version = scope.version + excluded.version, is_empty = false
RETURNING version, salt

-- name: mark_empty
-- Ends every write that may leave neither memories nor jobs. touch_scope takes the mark back.
UPDATE scope SET is_empty = true
WHERE scope_id = :scope_id
    AND NOT EXISTS (SELECT 1 FROM memory AS m WHERE m.scope_id = :scope_id)
    AND NOT EXISTS (SELECT 1 FROM ingest_job AS j WHERE j.scope_id = :scope_id)

-- name: hold_index
-- No row if something was erased since the index was read. The file's lock is held.
SELECT scope_id FROM scope WHERE scope_id = :scope_id AND salt = :salt AND erased = :erased

-- name: put_index
-- Keeps a newer index that is stored already.
INSERT INTO scope_index (scope_id, version, packed) VALUES (:scope_id, :version, :packed)
ON CONFLICT (scope_id) DO UPDATE SET version = excluded.version, packed = excluded.packed
WHERE scope_index.version <= excluded.version

-- name: add_costs
UPDATE scope SET calls = calls + :calls, tokens = tokens + :tokens WHERE scope_id = :scope_id

-- name: end_job
DELETE FROM ingest_job
WHERE scope_id = :scope_id AND id = :id AND fence = :fence AND state = 'running'
RETURNING id

-- name: taken_pairs
-- The end of a session is not an event.
WITH given_event AS MATERIALIZED (
    SELECT key AS place, value FROM json_each(:event_ids) WHERE value <> ''
)
SELECT t.session_id, t.event_id
FROM json_each(:session_ids) AS s
CROSS JOIN given_event AS e ON e.place = s.key
CROSS JOIN taken_event AS t ON t.scope_id = :scope_id AND t.session_id = s.value
    AND t.event_id = e.value

-- name: reopen_sessions
-- A session with new events has not ended.
DELETE FROM taken_event
WHERE scope_id = :scope_id AND event_id = '' AND session_id IN (
    SELECT s.value FROM json_each(:session_ids) AS s
    WHERE s.key IN (SELECT e.key FROM json_each(:event_ids) AS e WHERE e.value <> '')
)

-- name: insert_taken
WITH given_event AS MATERIALIZED (SELECT key AS place, value FROM json_each(:event_ids))
INSERT INTO taken_event (scope_id, session_id, event_id, at)
SELECT :scope_id, s.value, e.value, :at
FROM json_each(:session_ids) AS s
CROSS JOIN given_event AS e ON e.place = s.key
WHERE true
ON CONFLICT DO NOTHING

-- name: tombstoned
WITH given_key AS MATERIALIZED (SELECT key AS place, value FROM json_each(:keys))
SELECT t.kind, t.key
FROM json_each(:kinds) AS k
CROSS JOIN given_key AS g ON g.place = k.key
CROSS JOIN tombstone AS t ON t.scope_id = :scope_id AND t.kind = k.value AND t.key = g.value

-- name: next_positions
SELECT session_id, max(position) + 1 AS position
FROM memory
WHERE scope_id = :scope_id AND session_id IN (SELECT value FROM json_each(:session_ids))
    AND position IS NOT NULL
GROUP BY session_id

-- name: insert_memory
INSERT INTO memory (
    scope_id, id, content, content_hash, type, topics, tags, importance, is_error, origin, author,
    session_id, position, event_ids, subject, attribute, metadata, created_at, updated_at,
    happened_at, valid_from, valid_to, expires_at, ttl_days, pinned, verbatim, state, superseded_by,
    links, revision, said_at, explicit, slot, category, postings, touched, sealed
) VALUES (
    :scope_id, :id, :content, :content_hash, :type, :topics, :tags, :importance, :is_error, :origin,
    :author, :session_id, :position, :event_ids, :subject, :attribute, :metadata, :created_at,
    :updated_at, :happened_at, :valid_from, :valid_to, :expires_at, :ttl_days, :pinned, :verbatim,
    :state, :superseded_by, :links, :revision, :said_at, :explicit, :slot, :category, :postings,
    :touched, :sealed
)

-- name: replace_memory
UPDATE memory SET
    content = :content, content_hash = :content_hash, type = :type, topics = :topics, tags = :tags,
    importance = :importance, is_error = :is_error, origin = :origin, author = :author,
    session_id = :session_id, position = :position, event_ids = :event_ids, subject = :subject,
    attribute = :attribute, metadata = :metadata, created_at = :created_at,
    updated_at = :updated_at, happened_at = :happened_at, valid_from = :valid_from,
    valid_to = :valid_to, expires_at = :expires_at, ttl_days = :ttl_days, pinned = :pinned,
    verbatim = :verbatim, state = :state, superseded_by = :superseded_by, links = :links,
    revision = :revision, said_at = :said_at, explicit = :explicit, slot = :slot,
    category = :category, sealed = :sealed, postings = coalesce(:postings, postings),
    touched = :touched
WHERE scope_id = :scope_id AND id = :id

-- name: mark_vectors
-- Count new vectors of memories that do not change otherwise.
UPDATE scope SET vectors_set = vectors_set + 1 WHERE scope_id = :scope_id

-- name: put_vector
INSERT OR REPLACE INTO memory_vector_{space} (scope_id, id, embedding)
VALUES (:scope_id, :id, :embedding)

-- name: count_usage
WITH given_retrieved AS MATERIALIZED (SELECT key AS place, value FROM json_each(:retrieved)),
given_delivered AS MATERIALIZED (SELECT key AS place, value FROM json_each(:delivered)),
given_success AS MATERIALIZED (SELECT key AS place, value FROM json_each(:successes)),
given_failure AS MATERIALIZED (SELECT key AS place, value FROM json_each(:failures))
INSERT INTO memory_stats (
    scope_id, id, retrieved, delivered, delivered_total, last_delivered_at, successes, failures
)
SELECT
    m.scope_id, m.id, r.value, d.value, d.value, CASE WHEN d.value > 0 THEN :now END, s.value,
    f.value
FROM json_each(:ids) AS g
CROSS JOIN memory AS m ON m.scope_id = :scope_id AND m.id = g.value
CROSS JOIN given_retrieved AS r ON r.place = g.key
CROSS JOIN given_delivered AS d ON d.place = g.key
CROSS JOIN given_success AS s ON s.place = g.key
CROSS JOIN given_failure AS f ON f.place = g.key
WHERE true
ON CONFLICT (scope_id, id) DO UPDATE SET
    retrieved = memory_stats.retrieved + excluded.retrieved,
    delivered = memory_stats.delivered + excluded.delivered,
    delivered_total = memory_stats.delivered_total + excluded.delivered_total,
    last_delivered_at = max(
        coalesce(memory_stats.last_delivered_at, excluded.last_delivered_at),
        coalesce(excluded.last_delivered_at, memory_stats.last_delivered_at)
    ),
    successes = memory_stats.successes + excluded.successes,
    failures = memory_stats.failures + excluded.failures

-- name: insert_revision
INSERT INTO memory_revision (
    scope_id, memory_id, revision, kind, before, at, who, why, event_ids, change_group, final,
    sealed
)
VALUES (
    :scope_id, :memory_id, :revision, :kind, :before, :at, :who, :why, :event_ids, :group, :final,
    :sealed
)

-- name: restore_usage
INSERT INTO memory_stats (
    scope_id, id, retrieved, delivered, delivered_total, last_delivered_at, successes, failures
) VALUES (
    :scope_id, :id, :retrieved, :delivered, :delivered_total, :last_delivered_at, :successes,
    :failures
)

-- name: written_spaces
-- The embedding space to write vectors to, unless it was dropped; and the spaces that replace it or
-- that it replaces, which need the vectors too.
SELECT e.name, e.number = :number AS is_own
FROM embedder AS e
WHERE (e.number = :number AND e.state <> 'dropped')
    OR (
        e.number <> :number AND substr(e.name, 1, 9) <> 'external-'
        AND e.state = CASE coalesce((
            SELECT own.state FROM embedder AS own WHERE own.number = :number
        ), 'dropped')
            WHEN 'current' THEN 'filling' WHEN 'filling' THEN NULL ELSE 'current'
        END
    )
