-- Row level security, if switched on: which rows a role may see, and the role of a transaction.

-- name: act_for
-- Until the end of the transaction, act as a role that sees the rows of one scope; without one, of
-- all scopes.
SELECT
    set_config('kagent.scope', coalesce(%(scope)s::text, ''), true),
    set_config(
        'role',
        CASE WHEN %(scope)s::text IS NULL THEN 'kagent_memory_maintenance' ELSE 'kagent_memory_app' END,
        true
    )

-- name: guarded
-- True if nothing is left to do: the user may act as both roles, and these see only the rows of
-- their policies; no table with rows of scopes or tenants is unguarded, and no view reads with the
-- rights of its owner.
SELECT
    (SELECT count(*) FROM pg_roles
     WHERE rolname IN ('kagent_memory_app', 'kagent_memory_maintenance')
        AND NOT (rolcanlogin OR rolbypassrls OR rolsuper)
        AND pg_has_role(
            current_user, oid,
            CASE
                WHEN current_setting('server_version_num')::integer < 160000 THEN 'MEMBER'
                ELSE 'SET'
            END
        )
    ) = 2
    AND NOT EXISTS (
        SELECT FROM pg_class AS c
        WHERE c.relnamespace = to_regnamespace(quote_ident(%(schema)s::text))
            AND c.relkind IN ('r', 'p')
            AND NOT (c.relrowsecurity AND c.relforcerowsecurity)
            AND EXISTS (
                SELECT FROM pg_attribute AS a
                WHERE a.attrelid = c.oid AND a.attname IN ('scope_id', 'tenant')
                    AND NOT a.attisdropped
            )
    )
    AND NOT EXISTS (
        SELECT FROM pg_class AS c
        WHERE c.relnamespace = to_regnamespace(quote_ident(%(schema)s::text)) AND c.relkind = 'v'
            AND c.relname = 'remembered'
            AND NOT coalesce('security_invoker=true' = ANY(c.reloptions), false)
    ) AS guarded

-- name: make_roles
-- Create the roles that transactions act as, and make the user a member. They cannot log in and own
-- no table of the schema's owner. Roles belong to the whole server, so another of its databases may
-- create them at the same moment. From PostgreSQL 15 on, views read with the rights of the caller.
DO $$
DECLARE
    unfit text;
BEGIN
    IF current_setting('server_version_num')::integer < 150000 THEN
        RAISE EXCEPTION 'rls needs PostgreSQL 15 or newer; leave it out, or update the server.';
    END IF;
    SELECT string_agg(rolname, ' and ') INTO unfit FROM pg_roles
    WHERE rolname IN ('kagent_memory_app', 'kagent_memory_maintenance')
        AND (rolcanlogin OR rolbypassrls OR rolsuper);
    IF unfit IS NOT NULL THEN
        RAISE EXCEPTION 'rls needs roles that see only what their policies allow: % can log in or '
            'bypass row level security. Run ALTER ROLE … NOLOGIN NOBYPASSRLS NOSUPERUSER.', unfit;
    END IF;
    IF current_setting('is_superuser') <> 'on' AND 2 = (
        SELECT count(*) FROM pg_roles
        WHERE rolname IN ('kagent_memory_app', 'kagent_memory_maintenance') AND pg_has_role(
            current_user, oid,
            CASE
                WHEN current_setting('server_version_num')::integer < 160000 THEN 'MEMBER'
                ELSE 'SET'
            END
        )
    ) THEN
        RETURN;
    END IF;
    FOR attempt IN 1..5 LOOP
        BEGIN
            IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'kagent_memory_app') THEN
                CREATE ROLE kagent_memory_app NOLOGIN;
            END IF;
            IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'kagent_memory_maintenance') THEN
                CREATE ROLE kagent_memory_maintenance NOLOGIN;
            END IF;
            GRANT kagent_memory_app, kagent_memory_maintenance TO CURRENT_USER;
            RETURN;
        EXCEPTION
            WHEN insufficient_privilege THEN
                RAISE EXCEPTION 'rls needs two roles, which the user ''%'' may not make or grant '
                    '(%). Let a superuser run once: CREATE ROLE kagent_memory_app NOLOGIN; '
                    'CREATE ROLE kagent_memory_maintenance NOLOGIN; '
                    'GRANT kagent_memory_app, kagent_memory_maintenance TO %;',
                    current_user, SQLERRM, quote_ident(current_user);
            WHEN unique_violation OR duplicate_object OR internal_error THEN
                IF attempt = 5 THEN
                    RAISE;
                END IF;
                PERFORM pg_sleep(0.1);
        END;
    END LOOP;
END $$

-- name: guard_schema
-- Grant the rights that policies then restrict, and make the view read with the rights of the
-- caller. If it does already, all is done.
DO $$
DECLARE
    place text;
BEGIN
    IF EXISTS (
        SELECT FROM pg_class
        WHERE oid = 'remembered'::regclass AND 'security_invoker=true' = ANY(reloptions)
    ) THEN
        RETURN;
    END IF;
    EXECUTE format(
        'GRANT USAGE ON SCHEMA %I TO kagent_memory_app, kagent_memory_maintenance', current_schema()
    );
    EXECUTE format('GRANT CREATE ON SCHEMA %I TO kagent_memory_maintenance', current_schema());
    SELECT n.nspname INTO place
    FROM pg_extension AS e
    JOIN pg_namespace AS n ON n.oid = e.extnamespace
    WHERE e.extname = 'vector';
    IF NOT (
        has_schema_privilege('kagent_memory_app', place, 'USAGE')
        AND has_schema_privilege('kagent_memory_maintenance', place, 'USAGE')
    ) THEN
        EXECUTE format(
            'GRANT USAGE ON SCHEMA %I TO kagent_memory_app, kagent_memory_maintenance', place
        );
    END IF;
    ALTER VIEW remembered SET (security_invoker = true);
    GRANT SELECT ON remembered, embedder TO kagent_memory_app;
    GRANT SELECT ON remembered, schema_migration TO kagent_memory_maintenance;
    GRANT SELECT, INSERT, UPDATE, DELETE ON embedder, lease TO kagent_memory_maintenance;
END $$

-- name: unguard_tables
-- Let the owner see the rows that a migration changes. Its transaction guards them again before it
-- ends.
DO $$
DECLARE
    part record;
BEGIN
    FOR part IN
        SELECT c.oid::regclass AS place FROM pg_class AS c
        WHERE c.relnamespace = quote_ident(current_schema())::regnamespace AND c.relforcerowsecurity
    LOOP
        EXECUTE format('ALTER TABLE %s NO FORCE ROW LEVEL SECURITY', part.place);
    END LOOP;
END $$

-- fragment: guard
-- Every table of the schema with rows of scopes that is not guarded yet; those with rows of tenants
-- belong to maintenance. A session may set anything as its scope: an invalid id matches no row. The
-- setting is read once per statement, and the policy equals the statement's own condition, so the
-- planner does not check each row again.
DO $body$
DECLARE
    part record;
    given constant text := 'replace(current_setting(''kagent.scope'', true), ''-'', '''')';
BEGIN
    FOR part IN
        SELECT
            c.oid::regclass AS place,
            EXISTS (
                SELECT FROM pg_attribute AS a
                WHERE a.attrelid = c.oid AND a.attname = 'scope_id' AND NOT a.attisdropped
            ) AS scoped
        FROM pg_class AS c
        WHERE c.relnamespace = quote_ident(current_schema())::regnamespace
            AND c.relkind IN ('r', 'p')
                AND NOT (c.relrowsecurity AND c.relforcerowsecurity)
            AND EXISTS (
                SELECT FROM pg_attribute AS a
                WHERE a.attrelid = c.oid AND a.attname IN ('scope_id', 'tenant')
                    AND NOT a.attisdropped
            )
    LOOP
        EXECUTE format('DROP POLICY IF EXISTS of_one_scope ON %s', part.place);
        EXECUTE format('DROP POLICY IF EXISTS of_maintenance ON %s', part.place);
        EXECUTE format(
            'CREATE POLICY of_maintenance ON %s TO kagent_memory_maintenance '
            'USING ((SELECT current_user) = ''kagent_memory_maintenance'')',
            part.place
        );
        EXECUTE format('GRANT SELECT ON %s TO kagent_memory_app', part.place);
        EXECUTE format(
            'GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO kagent_memory_maintenance', part.place
        );
        IF part.scoped THEN
            EXECUTE format(
                'CREATE POLICY of_one_scope ON %s TO kagent_memory_app USING (scope_id = ('
                'SELECT CASE WHEN length(%s) = 32 AND %s ~ ''^[0-9A-Fa-f]+$'' THEN %s::uuid END))',
                part.place, given, given, given
            );
            EXECUTE format('GRANT INSERT, UPDATE, DELETE ON %s TO kagent_memory_app', part.place);
        END IF;
        EXECUTE format(
            'ALTER TABLE %s ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', part.place
        );
    END LOOP;
END $body$

-- name: guard_tables
{guard}

-- fragment: is_guarded
(SELECT relforcerowsecurity FROM pg_class WHERE oid = 'memory'::regclass)

-- name: make_vectors
-- Vectors are included in the index of the key, so that a search reads those of one scope from
-- neighbouring pages, unless they are too wide for an index row (2,704 bytes). They are stored
-- uncompressed in the row, since a search reads every vector of a scope, and fetching each one from
-- elsewhere costs most. Vectors too long for a row of one page (8,160 bytes) are stored out of line
-- in pieces, uncompressed, since float16 does not compress. The table is guarded or distributed if
-- the others are.
DO $$
BEGIN
    IF {width} > 16000 THEN
        RAISE EXCEPTION 'PostgreSQL keeps vectors of up to 16,000 dimensions, and this embedder '
            'gives {width}; set dimensions=16000 or less, choose another model, or use libSQL.';
    END IF;
    EXECUTE 'CREATE TABLE memory_vector_{space} (
        scope_id uuid NOT NULL,
        id uuid NOT NULL,
        embedding halfvec({width}) NOT NULL,
        PRIMARY KEY (scope_id, id)'
        || CASE WHEN {width} <= 1300 THEN ' INCLUDE (embedding)' ELSE '' END
        || ') WITH (autovacuum_vacuum_insert_scale_factor = 0.02)';
    IF {width} <= 4000 THEN
        ALTER TABLE memory_vector_{space}
            ALTER COLUMN embedding SET STORAGE PLAIN, SET (toast_tuple_target = 8160);
    ELSE
        ALTER TABLE memory_vector_{space} ALTER COLUMN embedding SET STORAGE EXTERNAL;
    END IF;
    IF {is_guarded} THEN
        EXECUTE $guard$ {guard} $guard$;
    END IF;
    IF to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL THEN
        IF EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'scope'::regclass) THEN
            PERFORM create_distributed_table(
                'memory_vector_{space}', 'scope_id', colocate_with => 'scope'
            );
        END IF;
    END IF;
END $$

-- name: drop_vectors
-- A table older than the guard belongs not to maintenance but to the user who logged in, or who
-- created it.
DO $$
BEGIN
    IF {is_guarded} THEN
        PERFORM set_config('role', 'none', true);
    END IF;
    DROP TABLE memory_vector_{space};
END $$
