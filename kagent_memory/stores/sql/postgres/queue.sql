-- name: queued_job
-- The newest queued job of this key, none for the empty key. Nobody drops it before the transaction
-- ends.
SELECT j.*
FROM ingest_job AS j
WHERE j.scope_id = %(scope_id)s AND j.kind = %(kind)s AND j.key = %(key)s AND j.key <> ''
    AND j.state = 'queued'
ORDER BY j.created_at DESC, j.id DESC
LIMIT 1
FOR UPDATE OF j

-- name: coalesce_job
-- A queued job takes over the values of a later one of its key. A rescheduled timer has not failed
-- yet.
UPDATE ingest_job SET
    payload = %(payload)s, sealed = %(sealed)s::bytea,
    run_after = %(run_after)s, session_id = %(session_id)s, provider = %(provider)s,
    model = %(model)s,
    attempts = CASE WHEN kind = 'session_end' THEN 0 ELSE attempts END,
    failures = CASE WHEN kind = 'session_end' THEN 0 ELSE failures END,
    error = CASE WHEN kind = 'session_end' THEN '' ELSE error END
WHERE scope_id = %(scope_id)s AND id = %(id)s

-- name: insert_job
INSERT INTO ingest_job (
    scope_id, id, kind, session_id, key, payload, provider, model, state, attempts, run_after,
    created_at, lease_until, owner, fence, error, calls, tokens, failures, sealed
) VALUES (
    %(scope_id)s, %(id)s, %(kind)s, %(session_id)s, %(key)s, %(payload)s, %(provider)s, %(model)s,
    %(state)s, %(attempts)s, %(run_after)s, %(created_at)s, %(lease_until)s, %(owner)s, %(fence)s,
    %(error)s, %(calls)s, %(tokens)s, %(failures)s, %(sealed)s
)
ON CONFLICT (scope_id, id) DO NOTHING

-- fragment: is_free
-- The job j is due, or its lease has ended.
(
    (j.state = 'queued' AND j.run_after <= %(now)s)
    OR (
        j.state = 'running'
        AND (j.lease_until IS NULL OR j.lease_until <= statement_timestamp())
    )
)

-- name: claimable
-- Reads without locks; take_job decides. Jobs are due by the caller's clock, but leases go by the
-- database's, so that workers with different clocks agree on who holds a job. New jobs come before
-- failed ones, so that an outage delays nothing new, and scopes served last come last, so that a
-- long queue does not block others.
SELECT j.scope_id, j.id, j.fence
FROM ingest_job AS j
LEFT JOIN (
    SELECT v.scope_id, max(v.turn) AS turn
    FROM unnest(%(served)s::uuid[]) WITH ORDINALITY AS v (scope_id, turn)
    GROUP BY v.scope_id
) AS served ON served.scope_id = j.scope_id
WHERE {is_free}
    AND NOT EXISTS (
        SELECT 1 FROM ingest_job AS o
        WHERE o.scope_id = j.scope_id AND o.id <> j.id AND o.state = 'running'
            AND o.lease_until > statement_timestamp()
    )
    AND j.provider || chr(31) || j.model <> ALL(%(models)s::text[])
ORDER BY j.attempts > 0, coalesce(served.turn, 0), j.created_at, j.id
LIMIT %(limit)s

-- name: take_job
-- Compare-and-set under the scope's lock: of two workers with two jobs of one scope only one
-- succeeds.
UPDATE ingest_job AS j SET
    state = 'running', fence = j.fence + 1, attempts = j.attempts + 1, owner = %(owner)s,
    lease_until = statement_timestamp() + %(lease_seconds)s::float8 * interval '1 second'
WHERE j.scope_id = %(scope_id)s AND j.id = %(id)s::uuid AND j.fence = %(fence)s
    AND {is_free}
    AND NOT EXISTS (
        SELECT 1 FROM ingest_job AS o
        WHERE o.scope_id = %(scope_id)s AND o.id <> j.id AND o.state = 'running'
            AND o.lease_until > statement_timestamp()
    )
RETURNING j.*

-- name: lock_scope
-- Like touch_scope without a step, for an existing scope.
UPDATE scope SET version = version WHERE scope_id = %(scope_id)s
RETURNING tenant, user_id, app, salt

-- name: renew_job
UPDATE ingest_job SET
    lease_until = statement_timestamp() + %(lease_seconds)s::float8 * interval '1 second'
WHERE scope_id = %(scope_id)s AND id = %(id)s::uuid AND fence = %(fence)s AND state = 'running'
RETURNING id

-- name: release_job
UPDATE ingest_job SET
    state = %(state)s, run_after = %(run_after)s, error = %(error)s, calls = %(calls)s,
    tokens = %(tokens)s, attempts = %(attempts)s, failures = %(failures)s, lease_until = NULL,
    owner = ''
WHERE scope_id = %(scope_id)s AND id = %(id)s::uuid AND fence = %(fence)s AND state = 'running'
RETURNING id

-- name: jobs
SELECT
    j.id, j.kind, j.session_id, j.key, j.provider, j.model, j.state, j.attempts, j.run_after,
    j.created_at, j.lease_until, j.owner, j.fence, j.error, j.calls, j.tokens, j.failures, s.tenant,
    s.user_id, s.app,
    CASE WHEN %(payloads)s::boolean THEN j.payload ELSE json_build_object() END AS payload,
    CASE WHEN %(payloads)s::boolean THEN j.sealed END AS sealed
FROM ingest_job AS j
JOIN scope AS s ON s.scope_id = j.scope_id
WHERE (%(scope_id)s::uuid IS NULL OR j.scope_id = %(scope_id)s::uuid)
    AND (%(tenant)s::text IS NULL OR s.tenant = %(tenant)s::text)
    AND (%(user)s::text IS NULL OR s.user_id = %(user)s::text)
    AND (%(app)s::text IS NULL OR s.app = %(app)s::text)
    AND (%(state)s::text IS NULL OR j.state = %(state)s::text)
    AND (%(ids)s::uuid[] IS NULL OR j.id = ANY(%(ids)s::uuid[]))
ORDER BY j.created_at, j.id
LIMIT %(limit)s

-- name: retry_jobs
UPDATE ingest_job SET
    state = 'queued', attempts = 0, failures = 0, run_after = %(now)s, error = ''
WHERE id = ANY(%(ids)s::uuid[]) AND state = 'dead'
RETURNING id

-- name: idle_jobs
SELECT scope_id, id FROM ingest_job
WHERE id = ANY(%(ids)s::uuid[]) AND state <> 'running'

-- name: drop_job
DELETE FROM ingest_job
WHERE scope_id = %(scope_id)s AND id = %(id)s::uuid AND state <> 'running'
RETURNING id

-- name: waiting_job
SELECT j.*, s.tenant, s.user_id, s.app
FROM ingest_job AS j
JOIN scope AS s ON s.scope_id = j.scope_id
WHERE j.scope_id = %(scope_id)s AND j.kind = %(kind)s AND j.key = %(key)s AND j.state = 'queued'
ORDER BY j.created_at DESC, j.id DESC
LIMIT 1

-- name: pending_jobs
-- Accepted work that is not finished. Timers count once they are due.
SELECT count(*) AS count, min(created_at) AS oldest_at FROM ingest_job
WHERE state <> 'dead'
    AND (
        kind IN ('transcript', 'embed')
        OR (kind = 'session_end' AND (run_after <= %(now)s OR error <> ''))
    )
