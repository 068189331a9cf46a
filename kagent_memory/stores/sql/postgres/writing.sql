-- name: touch_scope
-- Every write to a scope's memories begins with this statement, which locks the scope. Step 0 keeps
-- the version.
INSERT INTO scope (scope_id, tenant, user_id, app, version, salt)
VALUES (%(scope_id)s, %(tenant)s, %(user)s, %(app)s, %(step)s, %(salt)s)
ON CONFLICT (scope_id) DO UPDATE SET
    version = scope.version + excluded.version, is_empty = false
RETURNING version, salt

-- name: mark_empty
-- Ends every write that may leave neither memories nor jobs. touch_scope takes the mark back.
UPDATE scope SET is_empty = true
WHERE scope_id = %(scope_id)s
    AND NOT EXISTS (SELECT 1 FROM memory AS m WHERE m.scope_id = %(scope_id)s)
    AND NOT EXISTS (SELECT 1 FROM ingest_job AS j WHERE j.scope_id = %(scope_id)s)

-- name: hold_index
-- Locks the scope, unless something was erased since the index was read.
SELECT scope_id
FROM scope
WHERE scope_id = %(scope_id)s AND salt = %(salt)s AND erased = %(erased)s
FOR NO KEY UPDATE

-- name: put_index
-- Keeps a newer index that is stored already.
INSERT INTO scope_index (scope_id, version, packed) VALUES (%(scope_id)s, %(version)s, %(packed)s)
ON CONFLICT (scope_id) DO UPDATE SET version = excluded.version, packed = excluded.packed
WHERE scope_index.version <= excluded.version

-- name: add_costs
UPDATE scope SET calls = calls + %(calls)s, tokens = tokens + %(tokens)s
WHERE scope_id = %(scope_id)s

-- name: end_job
DELETE FROM ingest_job
WHERE scope_id = %(scope_id)s AND id = %(id)s::uuid AND fence = %(fence)s AND state = 'running'
RETURNING id

-- name: taken_pairs
-- The end of a session is not an event.
SELECT t.session_id, t.event_id
FROM taken_event AS t
JOIN unnest(%(session_ids)s::text[], %(event_ids)s::text[]) AS given (session_id, event_id)
    ON t.session_id = given.session_id AND t.event_id = given.event_id
WHERE t.scope_id = %(scope_id)s AND t.event_id <> ''

-- name: reopen_sessions
-- A session with new events has not ended.
DELETE FROM taken_event
WHERE scope_id = %(scope_id)s AND event_id = '' AND session_id IN (
    SELECT given.session_id
    FROM unnest(%(session_ids)s::text[], %(event_ids)s::text[]) AS given (session_id, event_id)
    WHERE given.event_id <> ''
)

-- name: insert_taken
-- From the scope's row, here and below: a distributed engine then runs the whole statement on the
-- scope's node.
INSERT INTO taken_event (scope_id, session_id, event_id, at)
SELECT s.scope_id, given.session_id, given.event_id, %(at)s
FROM scope AS s,
    unnest(%(session_ids)s::text[], %(event_ids)s::text[]) AS given (session_id, event_id)
WHERE s.scope_id = %(scope_id)s
ON CONFLICT DO NOTHING

-- name: tombstoned
SELECT t.kind, t.key
FROM tombstone AS t
JOIN unnest(%(kinds)s::text[], %(keys)s::text[]) AS given (kind, key)
    ON t.kind = given.kind AND t.key = given.key
WHERE t.scope_id = %(scope_id)s

-- name: next_positions
SELECT session_id, max(position) + 1 AS position
FROM memory
WHERE scope_id = %(scope_id)s AND session_id = ANY(%(session_ids)s::text[]) AND position IS NOT NULL
GROUP BY session_id

-- name: insert_memory
INSERT INTO memory (
    scope_id, id, content, content_hash, type, topics, tags, importance, is_error, origin, author,
    session_id, position, event_ids, subject, attribute, metadata, created_at, updated_at,
    happened_at, valid_from, valid_to, expires_at, ttl_days, pinned, verbatim, state, superseded_by,
    links, revision, said_at, explicit, slot, category, postings, touched, sealed
)
SELECT
    s.scope_id, m.id, m.content, m.content_hash, m.type, m.topics, m.tags, m.importance,
    m.is_error, m.origin, m.author, m.session_id, m.position, m.event_ids, m.subject,
    m.attribute, m.metadata, m.created_at, m.updated_at, m.happened_at, m.valid_from,
    m.valid_to, m.expires_at, m.ttl_days, m.pinned, m.verbatim, m.state, m.superseded_by,
    m.links, m.revision, m.said_at, m.explicit, m.slot, m.category, m.postings, m.touched,
    m.sealed
FROM scope AS s, json_populate_recordset(NULL::memory, %(rows)s) AS m
WHERE s.scope_id = %(scope_id)s

-- name: replace_memory
UPDATE memory SET
    content = %(content)s, content_hash = %(content_hash)s, type = %(type)s, topics = %(topics)s,
    tags = %(tags)s, importance = %(importance)s, is_error = %(is_error)s, origin = %(origin)s,
    author = %(author)s, session_id = %(session_id)s, position = %(position)s,
    event_ids = %(event_ids)s, subject = %(subject)s, attribute = %(attribute)s,
    metadata = %(metadata)s, created_at = %(created_at)s, updated_at = %(updated_at)s,
    happened_at = %(happened_at)s, valid_from = %(valid_from)s, valid_to = %(valid_to)s,
    expires_at = %(expires_at)s, ttl_days = %(ttl_days)s, pinned = %(pinned)s,
    verbatim = %(verbatim)s, state = %(state)s, superseded_by = %(superseded_by)s,
    links = %(links)s, revision = %(revision)s, said_at = %(said_at)s, explicit = %(explicit)s,
    slot = %(slot)s, category = %(category)s, sealed = %(sealed)s::bytea,
    postings = coalesce(%(postings)s::bytea, postings), touched = %(touched)s
WHERE scope_id = %(scope_id)s AND id = %(id)s

-- name: mark_vectors
-- Count new vectors of memories that do not change otherwise.
UPDATE scope SET vectors_set = vectors_set + 1 WHERE scope_id = %(scope_id)s

-- name: put_vector
INSERT INTO memory_vector_{space} (scope_id, id, embedding)
SELECT s.scope_id, given.id, given.embedding
FROM scope AS s, unnest(%(id)s::uuid[], %(embedding)b::halfvec[]) AS given (id, embedding)
WHERE s.scope_id = %(scope_id)s
ON CONFLICT (scope_id, id) DO UPDATE SET embedding = excluded.embedding

-- name: count_usage
-- In order of ids, so that overlapping calls lock rows in the same order. Locking the memories
-- makes an erasure wait and find the new counters.
INSERT INTO memory_stats AS s (
    scope_id, id, retrieved, delivered, delivered_total, last_delivered_at, successes, failures
)
SELECT
    m.scope_id, m.id, given.retrieved, given.delivered, given.delivered,
    CASE WHEN given.delivered > 0 THEN %(now)s::timestamptz END, given.successes, given.failures
FROM unnest(
    %(ids)s::uuid[], %(retrieved)s::integer[], %(delivered)s::integer[], %(successes)s::integer[],
    %(failures)s::integer[]
) AS given (id, retrieved, delivered, successes, failures)
JOIN memory AS m ON m.scope_id = %(scope_id)s AND m.id = given.id
ORDER BY m.id
FOR KEY SHARE OF m
ON CONFLICT (scope_id, id) DO UPDATE SET
    retrieved = s.retrieved + excluded.retrieved,
    delivered = s.delivered + excluded.delivered,
    delivered_total = s.delivered_total + excluded.delivered_total,
    last_delivered_at = greatest(s.last_delivered_at, excluded.last_delivered_at),
    successes = s.successes + excluded.successes, failures = s.failures + excluded.failures

-- name: insert_revision
INSERT INTO memory_revision (
    scope_id, memory_id, revision, kind, before, at, who, why, event_ids, change_group, final,
    sealed
)
VALUES (
    %(scope_id)s, %(memory_id)s, %(revision)s, %(kind)s, %(before)s, %(at)s, %(who)s, %(why)s,
    %(event_ids)s, %(group)s, %(final)s, %(sealed)s
)

-- name: restore_usage
INSERT INTO memory_stats (
    scope_id, id, retrieved, delivered, delivered_total, last_delivered_at, successes, failures
) VALUES (
    %(scope_id)s, %(id)s, %(retrieved)s, %(delivered)s, %(delivered_total)s, %(last_delivered_at)s,
    %(successes)s, %(failures)s
)

-- name: written_spaces
-- The embedding space to write vectors to, unless it was dropped; and the spaces that replace it or
-- that it replaces, which need the vectors too.
SELECT e.name, e.number = %(number)s::integer AS is_own
FROM embedder AS e
WHERE (e.number = %(number)s::integer AND e.state <> 'dropped')
    OR (
        e.number <> %(number)s::integer AND substr(e.name, 1, 9) <> 'external-'
        AND e.state = CASE coalesce((
            SELECT own.state FROM embedder AS own WHERE own.number = %(number)s::integer
        ), 'dropped')
            WHEN 'current' THEN 'filling' WHEN 'filling' THEN NULL ELSE 'current'
        END
    )
