-- Distribution of the tables over the nodes of a Citus cluster. Callers see its exceptions
-- verbatim.

-- fragment: undistributed
-- Our tables that are not distributed yet, in the order of their distribution. Tables with rows of
-- scopes are placed with the scopes; the others are copied to every node.
SELECT name, CASE WHEN by_scope THEN 'by scope' ELSE 'on every node' END AS place
FROM ({ours}) AS ours
WHERE NOT spread
ORDER BY name <> 'scope', NOT by_scope, name

-- fragment: ours
SELECT
    c.relname::text AS name,
    EXISTS (
        SELECT FROM pg_attribute AS a
        WHERE a.attrelid = c.oid AND a.attname = 'scope_id' AND NOT a.attisdropped
    ) AS by_scope,
    EXISTS (SELECT FROM pg_dist_partition AS p WHERE p.logicalrelid = c.oid) AS spread
FROM pg_class AS c
WHERE c.relnamespace = quote_ident(current_schema())::regnamespace AND c.relkind = 'r'
    AND c.relname ~ (
        '^(scope|memory|memory_stats|memory_revision|memory_vector_[0-9]+|ingest_job|taken_event|'
        'tombstone|scope_index|receipt_chain|receipt|embedder|token|lease|schema_migration)$'
    )

-- name: distribute
-- Distribute the remaining tables, if asked for or if others are distributed already, by the
-- settings of `begin_migration`. A dry run only records them in "kagent.places". Statements that
-- cross scopes go to every shard, so there are few unless the operator sets another number: two a
-- node, so that as many nodes can be added.
DO $$
DECLARE
    shards constant integer := nullif(current_setting('kagent.shards'), '')::integer;
    found json;
    one record;
BEGIN
    IF to_regclass('pg_catalog.pg_dist_partition') IS NULL THEN
        IF shards IS NULL THEN
            RETURN;
        END IF;
        RAISE EXCEPTION 'The tables are distributed by Citus, which this database does not have: '
            'install it on all nodes, run CREATE EXTENSION citus and add the worker nodes '
            '(docs/how-to/databases.md), or leave --distribute out.';
    END IF;
    IF shards IS NULL AND NOT EXISTS (
        SELECT FROM pg_dist_partition WHERE logicalrelid = to_regclass('scope')
    ) THEN
        RETURN;
    END IF;
    IF current_setting('kagent.guarded')::boolean THEN
        RAISE EXCEPTION 'Row level security and Citus exclude each other: Citus hands no '
            'transaction''s scope on to its nodes. Leave out rls, or --distribute.';
    END IF;
    SELECT json_object_agg(u.name, u.place) INTO found FROM ({undistributed}) AS u;
    PERFORM set_config('kagent.places', coalesce(found::text, 'null'), true);
    IF current_setting('kagent.dry_run')::boolean OR found IS NULL THEN
        RETURN;
    END IF;
    IF (SELECT groupid <> 0 FROM pg_dist_local_group) THEN
        RAISE EXCEPTION 'Tables are distributed from the coordinator, and this is another node of '
            'the cluster: correct --uri.';
    END IF;
    FOR one IN {undistributed} LOOP
        IF one.name = 'scope' THEN
            PERFORM create_distributed_table(
                'scope', 'scope_id', shard_count => coalesce(
                    nullif(shards, 0), (
                        SELECT setting::integer FROM pg_settings
                        WHERE name = 'citus.shard_count' AND source <> 'default'
                    ), (
                        SELECT greatest(4, 2 * count(*))::integer FROM pg_dist_node
                        WHERE shouldhaveshards AND noderole = 'primary'
                    )
                )
            );
        ELSIF one.place = 'by scope' THEN
            PERFORM create_distributed_table(
                one.name::regclass, 'scope_id', colocate_with => 'scope'
            );
        ELSE
            PERFORM create_reference_table(one.name::regclass);
        END IF;
    END LOOP;
END $$

-- name: places
-- The tables that were not distributed before, and the placement of their rows.
SELECT current_setting('kagent.places')::json AS places

-- name: drop_local_rows
-- Drop the rows that the coordinator still keeps of distributed tables.
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN SELECT name FROM ({ours}) AS ours WHERE spread LOOP
        PERFORM truncate_local_data_after_distributing_table(one.name::regclass);
    END LOOP;
END $$

-- name: about_cluster
SELECT 'nodes' AS part, string_agg(
    nodename || ':' || nodeport || CASE WHEN isactive THEN '' ELSE ' (inactive)' END,
    ', ' ORDER BY nodename, nodeport
) AS text
FROM pg_dist_node
WHERE noderole = 'primary'
UNION ALL
SELECT 'undistributed', string_agg(name, ', ' ORDER BY name) FROM ({ours}) AS ours WHERE NOT spread
