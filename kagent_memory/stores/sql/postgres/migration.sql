-- Steps of every migration besides its own script. Callers see their exceptions verbatim.

-- name: begin_migration
-- Settings of the transaction: no time-out, the name of the schema, which may not exist yet, and
-- the distribution.
SELECT
    set_config('statement_timeout', '0', true), set_config('kagent.schema', %(schema)s, true),
    set_config('kagent.shards', coalesce(%(shards)s::text, ''), true),
    set_config('kagent.guarded', %(guarded)s::text, true),
    set_config('kagent.dry_run', %(dry_run)s::text, true), set_config('kagent.places', 'null', true)

-- name: hold_migrations
-- One at a time in all schemas of a database, since they create the same extension.
SELECT pg_advisory_xact_lock(7737579320141704549)

-- name: make_schema
-- Create pgvector and the schema, with a search path of both, set for the transaction only: behind
-- a pooler the session soon belongs to another client.
DO $$
DECLARE
    wanted constant text := current_setting('kagent.schema');
    place text;
BEGIN
    BEGIN
        CREATE EXTENSION IF NOT EXISTS vector;
    EXCEPTION WHEN feature_not_supported OR undefined_file OR insufficient_privilege THEN
        RAISE EXCEPTION 'The pgvector extension is missing: `CREATE EXTENSION vector` needs '
            'pgvector installed on the server and a user who may create extensions; run it once '
            'as such a user. (%)', SQLERRM;
    END;
    SELECT n.nspname INTO place FROM pg_extension AS e
    JOIN pg_namespace AS n ON n.oid = e.extnamespace
    JOIN pg_type AS t ON t.typnamespace = n.oid AND t.typname = 'halfvec'
    WHERE e.extname = 'vector';
    IF place IS NULL THEN
        RAISE EXCEPTION 'The installed pgvector has no halfvec; update the extension to 0.7 or '
            'newer.';
    END IF;
    IF to_regnamespace(quote_ident(wanted)) IS NULL THEN
        EXECUTE format('CREATE SCHEMA %I', wanted);
    END IF;
    PERFORM set_config('search_path', quote_ident(wanted) || ', ' || quote_ident(place), true);
END $$

-- name: note_migration
INSERT INTO schema_migration (number, name) VALUES (%(number)s, %(name)s)
