-- name: take_lease
-- Leases go by the database's clock.
INSERT INTO lease (name, owner, until)
VALUES (:name, :owner, strftime('%Y-%m-%dT%H:%M:%f000Z', 'now', printf('%.3f seconds', :seconds)))
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until
WHERE lease.owner = excluded.owner OR lease.until <= strftime('%Y-%m-%dT%H:%M:%f000Z', 'now')
RETURNING name

-- name: expired_scopes
-- The next scopes in order of id that hold something to prune.
SELECT DISTINCT m.scope_id, s.tenant, s.user_id, s.app
FROM memory AS m
JOIN scope AS s ON s.scope_id = m.scope_id
WHERE m.expires_at <= :now AND m.expires_at IS NOT NULL AND NOT m.pinned
    AND (:scope_id IS NULL OR m.scope_id > :scope_id)
ORDER BY m.scope_id
LIMIT :limit

-- name: advance_version
-- Like touch_scope, for an existing scope.
UPDATE scope SET version = version + :step WHERE scope_id = :scope_id

-- name: extend_memories
-- Extend each memory by its own time to live, to the microsecond.
UPDATE memory SET
    expires_at = CASE
        WHEN ttl_days > 0
        THEN strftime('%Y-%m-%d', :now, ttl_days || ' days') || substr(:now, 11)
    END,
    touched = (SELECT s.version FROM scope AS s WHERE s.scope_id = :scope_id)
WHERE scope_id = :scope_id AND id IN (SELECT value FROM json_each(:ids))

-- name: reset_delivered
UPDATE memory_stats SET delivered = 0
WHERE scope_id = :scope_id AND id IN (SELECT value FROM json_each(:ids))

-- name: lacking_vectors
-- Those of the given scopes that hold a visible or short-term memory without a vector.
SELECT s.tenant, s.user_id, s.app
FROM scope AS s
WHERE s.scope_id IN (SELECT unhex(value) FROM json_each(:scope_ids)) AND EXISTS (
    SELECT 1 FROM memory AS m
    WHERE m.scope_id = s.scope_id AND m.state IN ('active', 'short_term', 'source')
        AND (m.pinned OR m.expires_at IS NULL OR m.expires_at > :now)
        AND NOT EXISTS (
            SELECT 1 FROM memory_vector_{space} AS v WHERE v.scope_id = m.scope_id AND v.id = m.id
        )
)
ORDER BY s.tenant, s.app, s.user_id

-- fragment: listed
SELECT s.tenant, s.user_id, s.app
FROM scope AS s
WHERE NOT s.is_empty

-- fragment: short
length(s.tenant) + length(s.app) + length(s.user_id) <= 600

-- fragment: long
length(s.tenant) + length(s.app) + length(s.user_id) > 600

-- name: scopes
-- Each of these queries starts its index at a lower bound of the names that are not given.
{listed} AND {short}
    AND (s.tenant, s.app, s.user_id) >= (:from_tenant, :from_app, :from_user)
ORDER BY s.tenant, s.app, s.user_id
LIMIT :limit

-- name: scopes_tenant
{listed} AND {short}
    AND s.tenant = :tenant
    AND (s.app, s.user_id) >= (:from_app, :from_user)
ORDER BY s.app, s.user_id
LIMIT :limit

-- name: scopes_app
{listed} AND {short}
    AND s.app = :app
    AND (s.tenant, s.user_id) >= (:from_tenant, :from_user)
ORDER BY s.tenant, s.user_id
LIMIT :limit

-- name: scopes_user
{listed} AND {short}
    AND s.user_id = :user
    AND (s.tenant, s.app) >= (:from_tenant, :from_app)
ORDER BY s.tenant, s.app
LIMIT :limit

-- name: scopes_tenant_app
{listed} AND {short}
    AND s.tenant = :tenant
    AND s.app = :app
    AND s.user_id >= :from_user
ORDER BY s.user_id
LIMIT :limit

-- name: scopes_tenant_user
-- Long names, too.
{listed} AND {short}
    AND s.tenant = :tenant AND s.user_id = :user AND s.app >= :from_app
UNION ALL
{listed} AND {long}
    AND s.tenant = :tenant AND s.user_id = :user AND s.app >= :from_app
ORDER BY s.app
LIMIT :limit

-- name: scopes_app_user
{listed} AND {short}
    AND s.app = :app
    AND s.user_id = :user
    AND s.tenant >= :from_tenant
ORDER BY s.tenant
LIMIT :limit

-- name: scopes_tenant_app_user
{listed} AND {short}
    AND s.tenant = :tenant
    AND s.app = :app
    AND s.user_id = :user
LIMIT :limit

-- name: long_scopes
-- Scopes whose names are too long for the indexes of the other queries.
{listed} AND {long}
    AND (:tenant IS NULL OR s.tenant = :tenant)
    AND (:app IS NULL OR s.app = :app)
    AND (:user IS NULL OR s.user_id = :user)
    AND (s.tenant, s.app, s.user_id) >= (:from_tenant, :from_app, :from_user)
ORDER BY s.tenant, s.app, s.user_id
LIMIT :limit

-- name: embedding_spaces
SELECT number, name, dimensions, probe, state FROM embedder WHERE state <> 'dropped' ORDER BY number

-- name: insert_embedding_space
-- No row if another transaction adds one at the same time: read again.
INSERT INTO embedder (number, name, dimensions, probe, state)
SELECT coalesce(max(number), 0) + 1, :name, :dimensions, :probe, :state FROM embedder
WHERE true
ON CONFLICT DO NOTHING
RETURNING number

-- name: choose_embedding_space
-- Fill the embedder's vectors beside the current one's, or make it current if there is none. An
-- unfinished replacement by another embedder is given up.
UPDATE embedder SET state = CASE
    WHEN number <> :number THEN 'retired'
    WHEN EXISTS (
        SELECT 1
        FROM embedder AS c
        WHERE c.state = 'current' AND substr(c.name, 1, 9) <> 'external-'
    )
    THEN 'filling'
    ELSE 'current'
END
WHERE (number = :number OR state = 'filling')
    AND (SELECT own.state FROM embedder AS own WHERE own.number = :number) <> 'current'

-- name: finish_embedding_space
UPDATE embedder SET state = 'current' WHERE number = :number AND state IN ('filling', 'current')
RETURNING number

-- name: retire_embedding_spaces
-- Retire all spaces that the given one replaces. Vectors of callers are never replaced.
UPDATE embedder SET state = 'retired'
WHERE number <> :number AND state IN ('filling', 'current') AND substr(name, 1, 9) <> 'external-'

-- name: mark_dropped
-- Free the name for another embedder, but not the number, by which processes know cached vectors.
UPDATE embedder SET state = 'dropped', name = name || ' (dropped ' || number || ')'
WHERE number = :number

-- name: about
SELECT 'database' AS part, 'SQLite ' || sqlite_version() AS text
UNION ALL
SELECT 'extension', 'SQLite needs none'
UNION ALL
SELECT 'migrations', group_concat(number || ' ' || name, ', ')
FROM (SELECT * FROM schema_migration ORDER BY number)
