-- Spreading the tables over the nodes of a Citus cluster.

-- name: has_citus
SELECT to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL AS citus

-- name: is_distributed
-- Whether the tables are spread. Needs Citus, as all below.
SELECT count(*) > 0 AS spread FROM pg_dist_partition WHERE logicalrelid = to_regclass('scope')

-- fragment: ours
SELECT
    c.relname::text AS name,
    EXISTS (
        SELECT FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attname = 'scope_id' AND NOT a.attisdropped
    ) AS by_scope,
    EXISTS (SELECT FROM pg_dist_partition AS p WHERE p.logicalrelid = c.oid) AS spread
FROM pg_class AS c
WHERE c.relnamespace = quote_ident(current_schema())::regnamespace AND c.relkind = 'r'
    AND c.relname ~ (
        '^(scope|memory|memory_stats|memory_revision|memory_vector_[0-9]+|ingest_job|taken_event|tombstone|'
        'scope_index|receipt_chain|receipt|embedder|token|lease|schema_migration)$'
    )

-- name: distributed
-- Our tables that are spread already.
SELECT name FROM ({ours}) AS ours WHERE spread

-- name: undistributed
-- Our tables that are not spread yet, and where their rows go, in the order in which they must be: what has rows of scopes
-- lies beside the scopes, and the others whole on every node.
SELECT name, CASE WHEN by_scope THEN 'by scope' ELSE 'on every node' END AS place
FROM ({ours}) AS ours
WHERE NOT spread
ORDER BY name <> 'scope', NOT by_scope, name

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
SELECT 'undistributed', string_agg(name, ', ' ORDER BY name) FROM ({ours}) AS ours WHERE NOT spread
