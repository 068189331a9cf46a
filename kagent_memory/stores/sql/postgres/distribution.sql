-- Spreading the tables over the nodes of a Citus cluster.

-- name: has_citus
SELECT
    to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL AS citus,
    to_regclass('schema_migration') IS NOT NULL AS migrated

-- name: distributed
-- Our tables that are spread already: by hash ("h"), or whole on every node ("n"). Needs Citus.
SELECT c.relname::text AS name, p.partmethod::text AS method
FROM pg_dist_partition AS p
JOIN pg_class AS c ON c.oid = p.logicalrelid
WHERE c.relnamespace = quote_ident(current_schema())::regnamespace
    AND c.relname ~ (
        '^(scope|memory|memory_stats|memory_revision|memory_vector_[0-9]+|ingest_job|taken_event|tombstone|'
        'scope_index|receipt_chain|receipt|embedder|token|lease|caller_width|schema_migration)$'
    )

-- name: distribute_scope
SELECT create_distributed_table('scope', 'scope_id', shard_count => %(shards)s)

-- name: distribute_table
-- Beside the rows of the same scope.
SELECT create_distributed_table(%(name)s::text::regclass, 'scope_id', colocate_with => 'scope')

-- name: refer_to_table
SELECT create_reference_table(%(name)s::text::regclass)

-- name: truncate_local
-- What the coordinator itself still keeps of a table that is spread by now.
SELECT truncate_local_data_after_distributing_table(%(name)s::text::regclass)

-- name: about_cluster
SELECT 'nodes' AS part, string_agg(
    nodename || ':' || nodeport || CASE WHEN isactive THEN '' ELSE ' (inactive)' END,
    ', ' ORDER BY nodename, nodeport
) AS text
FROM pg_dist_node
WHERE noderole = 'primary'
UNION ALL
SELECT 'undistributed', string_agg(t.tablename, ', ' ORDER BY t.tablename)
FROM pg_tables AS t
WHERE t.schemaname = current_schema()
    AND t.tablename ~ (
        '^(scope|memory|memory_stats|memory_revision|memory_vector_[0-9]+|ingest_job|taken_event|tombstone|'
        'scope_index|receipt_chain|receipt|embedder|token|lease|caller_width|schema_migration)$'
    )
    AND NOT EXISTS (
        SELECT FROM pg_dist_partition AS p
        WHERE p.logicalrelid = (quote_ident(t.schemaname) || '.' || quote_ident(t.tablename))::regclass
    )
