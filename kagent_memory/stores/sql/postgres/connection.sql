-- Statements that set up a connection or a transaction.

-- name: set_up
-- Runs once per connection. Behind a pooler that shares servers, the process that answers is not the
-- one that accepted the connection. Settings of the session would then reach other clients, so none
-- are made; nor before pgvector is installed. A client that is lost in a transaction loses its locks
-- after a minute.
WITH server AS MATERIALIZED (
    SELECT
        coalesce(%(pooled)s::boolean, pg_backend_pid() <> %(pid)s::integer) AS pooled,
        quote_ident(%(schema)s::text) || ', ' || quote_ident(n.nspname) AS path,
        t.oid::bigint AS halfvec,
        coalesce(t.typarray::bigint, 0) AS halfvec_array,
        EXISTS (
            SELECT FROM pg_class AS c
            JOIN pg_namespace AS s ON s.oid = c.relnamespace
            WHERE s.nspname = %(schema)s::text AND c.relname = 'memory' AND c.relforcerowsecurity
        ) AS row_security
    FROM (VALUES (1)) AS one (x)
    LEFT JOIN pg_extension AS e ON e.extname = 'vector'
    LEFT JOIN pg_namespace AS n ON n.oid = e.extnamespace
    LEFT JOIN pg_type AS t ON t.typnamespace = n.oid AND t.typname = 'halfvec'
)
SELECT pooled, path, halfvec, halfvec_array, row_security
FROM server
WHERE CASE
    WHEN NOT pooled AND halfvec IS NOT NULL
    THEN set_config('search_path', path, false) || set_config('TimeZone', 'UTC', false)
        || set_config('jit', 'off', false)
        || set_config('statement_timeout', %(statement_seconds)s::float8 || 's', false)
        || set_config('idle_in_transaction_session_timeout', '60s', false)
    ELSE ''
END IS NOT NULL

-- name: set_locally
-- Runs once per transaction of a pooled connection, and ends with the transaction.
SELECT
    set_config('search_path', %(path)s, true), set_config('jit', 'off', true),
    set_config('statement_timeout', %(statement_seconds)s::float8 || 's', true),
    set_config('idle_in_transaction_session_timeout', '60s', true)

-- name: look
-- True if our tables exist before a store is opened; if not, the reason why they cannot be created.
SELECT
    to_regclass(quote_ident(%(schema)s::text) || '.schema_migration') IS NOT NULL AS migrated,
    CASE
        WHEN to_regclass(quote_ident(%(schema)s::text) || '.schema_migration') IS NOT NULL THEN NULL
        WHEN NOT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector')
            AND NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'vector')
        THEN 'The pgvector extension is missing: `CREATE EXTENSION vector` needs pgvector '
            'installed on the server.'
        WHEN to_regnamespace(quote_ident(%(schema)s::text)) IS NULL
            AND NOT has_database_privilege(current_database(), 'CREATE')
        THEN 'The database user lacks a privilege: CREATE on the database, to make '
            || quote_literal(%(schema)s::text) || '.'
    END AS trouble

-- name: node
-- Identifies the answering server, with the same value for a primary and its standbys; its position
-- in the log (written, or replayed on a standby); and the age in seconds of a standby's last
-- transaction.
SELECT
    pg_is_in_recovery() AS is_standby,
    c.system_identifier AS system,
    d.oid::bigint AS database,
    coalesce(
        pg_wal_lsn_diff(
            CASE
                WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
                ELSE pg_current_wal_insert_lsn()
            END,
            '0/0'
        ),
        0
    )::bigint AS position,
    coalesce(
        extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()), 0
    )::double precision AS seconds
FROM pg_control_system() AS c
JOIN pg_database AS d ON d.datname = current_database()
