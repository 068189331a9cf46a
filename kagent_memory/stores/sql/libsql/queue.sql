-- name: queued_job
-- The newest queued job of this key, none for the empty key. Nobody drops it before the transaction
-- ends.
SELECT j.*
FROM ingest_job AS j
WHERE j.scope_id = :scope_id AND j.kind = :kind AND j.key = :key AND j.key <> ''
    AND j.state = 'queued'
ORDER BY j.created_at DESC, j.id DESC
LIMIT 1

-- name: coalesce_job
-- A queued job takes over the values of a later one of its key. A rescheduled timer has not failed
-- yet.
UPDATE ingest_job SET
    payload = :payload, sealed = :sealed,
    run_after = :run_after, session_id = :session_id, provider = :provider,
    model = :model,
    attempts = CASE WHEN kind = 'session_end' THEN 0 ELSE attempts END,
    failures = CASE WHEN kind = 'session_end' THEN 0 ELSE failures END,
    error = CASE WHEN kind = 'session_end' THEN '' ELSE error END
WHERE scope_id = :scope_id AND id = :id

-- name: insert_job
INSERT INTO ingest_job (
    scope_id, id, kind, session_id, key, payload, provider, model, state, attempts, run_after,
    created_at, lease_until, owner, fence, error, calls, tokens, failures, sealed
) VALUES (
    :scope_id, :id, :kind, :session_id, :key, :payload, :provider, :model, :state, :attempts,
    :run_after, :created_at, :lease_until, :owner, :fence, :error, :calls, :tokens, :failures,
    :sealed
)
ON CONFLICT (scope_id, id) DO NOTHING

-- fragment: is_free
-- The job j is due, or its lease has ended.
(
    (j.state = 'queued' AND j.run_after <= :now)
    OR (
        j.state = 'running'
        AND (
            j.lease_until IS NULL
            OR j.lease_until <= strftime('%Y-%m-%dT%H:%M:%f000Z', 'now')
        )
    )
)

-- name: claimable
-- take_job decides. Jobs are due by the caller's clock, but leases go by the database's, so that
-- workers with different clocks agree on who holds a job. New jobs come before failed ones, so that
-- an outage delays nothing new, and scopes served last come last, so that a long queue does not
-- block others. Busy scopes are found once: looking for each job would be quadratic in a long
-- queue.
SELECT j.scope_id, j.id, j.fence
FROM ingest_job AS j
LEFT JOIN (
    SELECT unhex(value) AS scope_id, max(key) + 1 AS turn FROM json_each(:served) GROUP BY value
) AS served ON served.scope_id = j.scope_id
WHERE {is_free}
    AND j.scope_id NOT IN (
        SELECT o.scope_id FROM ingest_job AS o
        WHERE o.state = 'running' AND o.lease_until > strftime('%Y-%m-%dT%H:%M:%f000Z', 'now')
    )
    AND j.provider || char(31) || j.model NOT IN (SELECT value FROM json_each(:models))
ORDER BY j.attempts > 0, coalesce(served.turn, 0), j.created_at, j.id
LIMIT :limit

-- name: take_job
-- Compare-and-set: of two workers with two jobs of one scope only one succeeds.
UPDATE ingest_job AS j SET
    state = 'running', fence = fence + 1, attempts = attempts + 1, owner = :owner,
    lease_until = strftime('%Y-%m-%dT%H:%M:%f000Z', 'now', printf('%.3f seconds', :lease_seconds))
WHERE scope_id = :scope_id AND id = :id AND fence = :fence
    AND {is_free}
    AND NOT EXISTS (
        SELECT 1 FROM ingest_job AS o
        WHERE o.scope_id = :scope_id AND o.id <> :id AND o.state = 'running'
            AND o.lease_until > strftime('%Y-%m-%dT%H:%M:%f000Z', 'now')
    )
RETURNING *

-- name: lock_scope
-- Like touch_scope without a step, for an existing scope.
UPDATE scope SET version = version WHERE scope_id = :scope_id
RETURNING tenant, user_id, app, salt

-- name: renew_job
UPDATE ingest_job SET lease_until = strftime(
    '%Y-%m-%dT%H:%M:%f000Z', 'now', printf('%.3f seconds', :lease_seconds)
)
WHERE scope_id = :scope_id AND id = :id AND fence = :fence AND state = 'running'
RETURNING id

-- name: release_job
UPDATE ingest_job SET
    state = :state, run_after = :run_after, error = :error, calls = :calls, tokens = :tokens,
    attempts = :attempts, failures = :failures,
    lease_until = NULL, owner = ''
WHERE scope_id = :scope_id AND id = :id AND fence = :fence AND state = 'running'
RETURNING id

-- name: jobs
SELECT
    j.id, j.kind, j.session_id, j.key, j.provider, j.model, j.state, j.attempts, j.run_after,
    j.created_at, j.lease_until, j.owner, j.fence, j.error, j.calls, j.tokens, j.failures, s.tenant,
    s.user_id, s.app, CASE WHEN :payloads THEN j.payload ELSE json_object() END AS payload,
    CASE WHEN :payloads THEN j.sealed END AS sealed
FROM ingest_job AS j
JOIN scope AS s ON s.scope_id = j.scope_id
WHERE (:scope_id IS NULL OR j.scope_id = :scope_id)
    AND (:tenant IS NULL OR s.tenant = :tenant)
    AND (:user IS NULL OR s.user_id = :user)
    AND (:app IS NULL OR s.app = :app)
    AND (:state IS NULL OR j.state = :state)
    AND (:ids IS NULL OR j.id IN (SELECT value FROM json_each(:ids)))
ORDER BY j.created_at, j.id
LIMIT :limit

-- name: retry_jobs
UPDATE ingest_job SET
    state = 'queued', attempts = 0, failures = 0, run_after = :now, error = ''
WHERE id IN (SELECT value FROM json_each(:ids)) AND state = 'dead'
RETURNING id

-- name: idle_jobs
SELECT scope_id, id FROM ingest_job
WHERE id IN (SELECT value FROM json_each(:ids)) AND state <> 'running'

-- name: drop_job
DELETE FROM ingest_job
WHERE scope_id = :scope_id AND id = :id AND state <> 'running'
RETURNING id

-- name: waiting_job
SELECT j.*, s.tenant, s.user_id, s.app
FROM ingest_job AS j
JOIN scope AS s ON s.scope_id = j.scope_id
WHERE j.scope_id = :scope_id AND j.kind = :kind AND j.key = :key AND j.state = 'queued'
ORDER BY j.created_at DESC, j.id DESC
LIMIT 1

-- name: pending_jobs
-- Accepted work that is not finished. Timers count once they are due.
SELECT count(*) AS count, min(created_at) AS oldest_at FROM ingest_job
WHERE state <> 'dead'
    AND (
        kind IN ('transcript', 'embed')
        OR (kind = 'session_end' AND (run_after <= :now OR error <> ''))
    )
