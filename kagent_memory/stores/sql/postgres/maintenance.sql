-- name: take_lease
-- Leases go by the database's clock. The other's lease has ended if a new one would end a full
-- lease later; Citus does not allow a second call of the clock here.
INSERT INTO lease AS l (name, owner, until)
VALUES (%(name)s, %(owner)s, statement_timestamp() + %(seconds)s::float8 * interval '1 second')
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until
WHERE l.owner = excluded.owner
    OR excluded.until - l.until >= %(seconds)s::float8 * interval '1 second'
RETURNING l.name

-- name: expired_scopes
-- The next scopes in order of id that hold something to prune.
SELECT DISTINCT m.scope_id, s.tenant, s.user_id, s.app
FROM memory AS m
JOIN scope AS s ON s.scope_id = m.scope_id
WHERE m.expires_at <= %(now)s AND NOT m.pinned
    AND (%(scope_id)s::uuid IS NULL OR m.scope_id > %(scope_id)s::uuid)
ORDER BY m.scope_id
LIMIT %(limit)s

-- name: advance_version
-- Like touch_scope, for an existing scope.
UPDATE scope SET version = version + %(step)s WHERE scope_id = %(scope_id)s

-- name: extend_memories
-- Extend each memory by its own time to live. The arithmetic is without time zone, since Citus accepts only
-- immutable expressions here.
UPDATE memory AS t SET
    expires_at = CASE
        WHEN t.ttl_days > 0
        THEN (
            %(now)s::timestamptz AT TIME ZONE 'UTC' + t.ttl_days * interval '24 hours'
        ) AT TIME ZONE 'UTC'
    END,
    touched = s.version
FROM scope AS s
WHERE s.scope_id = t.scope_id AND t.scope_id = %(scope_id)s AND t.id = ANY(%(ids)s::uuid[])

-- name: reset_delivered
-- Locks rows in the same order as count_usage.
UPDATE memory_stats AS t SET delivered = 0
FROM (
    SELECT id FROM memory_stats
    WHERE scope_id = %(scope_id)s AND id = ANY(%(ids)s::uuid[])
    ORDER BY id
    FOR UPDATE
) AS locked
WHERE t.scope_id = %(scope_id)s AND t.id = locked.id

-- name: lacking_vectors
-- The scopes among these that hold a visible or short-term memory without a vector.
SELECT s.tenant, s.user_id, s.app
FROM scope AS s
WHERE s.scope_id = ANY(%(scope_ids)s::uuid[]) AND EXISTS (
    SELECT 1 FROM memory AS m
    WHERE m.scope_id = s.scope_id AND m.state IN ('active', 'short_term', 'source')
        AND (m.pinned OR m.expires_at IS NULL OR m.expires_at > %(now)s)
        AND NOT EXISTS (
            SELECT 1 FROM memory_vector_{space} AS v WHERE v.scope_id = m.scope_id AND v.id = m.id
        )
)
ORDER BY s.tenant, s.app, s.user_id

-- fragment: listed
SELECT s.tenant, s.user_id, s.app
FROM scope AS s
WHERE NOT s.is_empty

-- name: scopes
-- Each of these queries starts its index at a lower bound of the names that are not given.
{listed} AND NOT s.is_long
    AND (s.tenant, s.app, s.user_id) >= (
        %(from_tenant)s::text, %(from_app)s::text, %(from_user)s::text
    )
ORDER BY s.tenant, s.app, s.user_id
LIMIT %(limit)s

-- name: scopes_tenant
{listed} AND NOT s.is_long
    AND s.tenant = %(tenant)s::text
    AND (s.app, s.user_id) >= (%(from_app)s::text, %(from_user)s::text)
ORDER BY s.app, s.user_id
LIMIT %(limit)s

-- name: scopes_app
{listed} AND NOT s.is_long
    AND s.app = %(app)s::text
    AND (s.tenant, s.user_id) >= (%(from_tenant)s::text, %(from_user)s::text)
ORDER BY s.tenant, s.user_id
LIMIT %(limit)s

-- name: scopes_user
{listed} AND NOT s.is_long
    AND s.user_id = %(user)s::text
    AND (s.tenant, s.app) >= (%(from_tenant)s::text, %(from_app)s::text)
ORDER BY s.tenant, s.app
LIMIT %(limit)s

-- name: scopes_tenant_app
{listed} AND NOT s.is_long
    AND s.tenant = %(tenant)s::text
    AND s.app = %(app)s::text
    AND s.user_id >= %(from_user)s::text
ORDER BY s.user_id
LIMIT %(limit)s

-- name: scopes_tenant_user
-- These are few, so one statement reads long names, too, by both indexes: a second one costs as
-- much again on a cluster.
{listed}
    AND (NOT s.is_long OR s.is_long)
    AND s.tenant = %(tenant)s::text
    AND s.user_id = %(user)s::text
    AND s.app >= %(from_app)s::text
ORDER BY s.app
LIMIT %(limit)s

-- name: scopes_app_user
{listed} AND NOT s.is_long
    AND s.app = %(app)s::text
    AND s.user_id = %(user)s::text
    AND s.tenant >= %(from_tenant)s::text
ORDER BY s.tenant
LIMIT %(limit)s

-- name: scopes_tenant_app_user
{listed} AND NOT s.is_long
    AND s.tenant = %(tenant)s::text
    AND s.app = %(app)s::text
    AND s.user_id = %(user)s::text
LIMIT %(limit)s

-- name: long_scopes
-- Scopes whose names are too long for the indexes of the other queries.
{listed} AND s.is_long
    AND (%(tenant)s::text IS NULL OR s.tenant = %(tenant)s::text)
    AND (%(app)s::text IS NULL OR s.app = %(app)s::text)
    AND (%(user)s::text IS NULL OR s.user_id = %(user)s::text)
    AND (s.tenant, s.app, s.user_id) >= (
        %(from_tenant)s::text, %(from_app)s::text, %(from_user)s::text
    )
ORDER BY s.tenant, s.app, s.user_id
LIMIT %(limit)s

-- name: embedding_spaces
SELECT number, name, dimensions, probe, state FROM embedder WHERE state <> 'dropped' ORDER BY number

-- name: insert_embedding_space
-- No row if another transaction adds one at the same time: read again.
INSERT INTO embedder (number, name, dimensions, probe, state)
SELECT coalesce(max(number), 0) + 1, %(name)s, %(dimensions)s, %(probe)s, %(state)s FROM embedder
ON CONFLICT DO NOTHING
RETURNING number

-- name: choose_embedding_space
-- Fill the embedder's vectors beside the current one's, or make it current if there is none. An
-- unfinished replacement by another embedder is given up.
UPDATE embedder SET state = CASE
    WHEN number <> %(number)s THEN 'retired'
    WHEN EXISTS (
        SELECT 1
        FROM embedder AS c
        WHERE c.state = 'current' AND substr(c.name, 1, 9) <> 'external-'
    )
    THEN 'filling'
    ELSE 'current'
END
WHERE (number = %(number)s OR state = 'filling')
    AND (SELECT own.state FROM embedder AS own WHERE own.number = %(number)s) <> 'current'

-- name: finish_embedding_space
UPDATE embedder SET state = 'current' WHERE number = %(number)s AND state IN ('filling', 'current')
RETURNING number

-- name: retire_embedding_spaces
-- Retire all spaces that the given one replaces. Vectors of callers are never replaced.
UPDATE embedder SET state = 'retired'
WHERE number <> %(number)s AND state IN ('filling', 'current') AND substr(name, 1, 9) <> 'external-'

-- name: mark_dropped
-- Free the name for another embedder, but not the number, by which processes know cached vectors.
UPDATE embedder SET state = 'dropped', name = name || ' (dropped ' || number || ')'
WHERE number = %(number)s

-- name: about
SELECT 'database' AS part, 'PostgreSQL ' || current_setting('server_version') AS text
UNION ALL
SELECT 'extension', 'pgvector ' || extversion FROM pg_extension WHERE extname = 'vector'
UNION ALL
SELECT 'cluster', 'Citus ' || extversion FROM pg_extension WHERE extname = 'citus'
UNION ALL
SELECT 'migrations', string_agg(number || ' ' || name, ', ' ORDER BY number) FROM schema_migration
UNION ALL
SELECT 'lacking', string_agg(
    lacking.privilege || ' on ' || lacking.place, ', ' ORDER BY lacking.place
)
FROM (
    SELECT privilege, tablename AS place
    FROM pg_tables, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS privilege
    WHERE schemaname = current_schema()
        AND tablename ~ (
            '^(scope|memory|memory_stats|memory_revision|memory_vector_[0-9]+|ingest_job|'
            'taken_event|tombstone|scope_index|receipt_chain|receipt|embedder|token|lease)$'
        )
        AND NOT has_table_privilege(
            quote_ident(schemaname) || '.' || quote_ident(tablename), privilege
        )
    UNION ALL
    SELECT 'CREATE', current_schema() WHERE NOT has_schema_privilege(current_schema(), 'CREATE')
) AS lacking
