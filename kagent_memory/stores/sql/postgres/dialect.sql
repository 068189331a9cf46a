-- Statements that this dialect alone has.

-- fragment: scored
-- Exact in the scope by construction: "+ 0" keeps any approximate index out, so it is one walk over the scope's part of
-- the vectors' key. One row a query vector, nearest first: the ids, 36 characters each, and the cosines in millionths.
-- How many vectors and answers there are is kept from the planner: to plan anew takes as long as to search 300.
SELECT q.number, a.ids, a.scores
FROM unnest((SELECT %(vectors)b::halfvec[])) WITH ORDINALITY AS q (vector, number)
CROSS JOIN LATERAL (
    SELECT
        string_agg(n.id::text, '' ORDER BY n.score DESC, n.id DESC) AS ids,
        array_agg(n.score::integer ORDER BY n.score DESC, n.id DESC) AS scores
    FROM (
        SELECT v.id, round((1 - (v.embedding <=> q.vector)) * 1e6::float8) + 0 AS score
        FROM memory_vector_{space} AS v
        WHERE v.scope_id = %(scope_id)s

-- fragment: nearest
        ORDER BY score DESC, v.id DESC
        LIMIT (SELECT %(limit)s::bigint)
    ) AS n
    HAVING count(*) > 0
) AS a

-- name: search_vector
-- Of all but these.
{scored} AND v.id NOT IN (SELECT unnest(%(hidden)s::uuid[]))
{nearest}

-- name: search_vector_among
-- Of these memories alone; a few are read each by its own key, so this is planned for as many as they are.
{scored} AND v.id = ANY(%(among)s::uuid[])
{nearest}

-- name: make_vectors
-- The vectors ride in the key's index, so that a search reads one scope's vectors from neighbouring pages, unless they are
-- too wide for an index row (2,704 bytes). Beside the row, too, they lie unpacked: a search reads every vector of a scope,
-- and fetching each from its own place costs most. Those too long for a row of one page (8,160 bytes) are kept beside the
-- table in pieces, unpacked, since no float16 compresses.
DO $$
BEGIN
    EXECUTE 'CREATE TABLE memory_vector_{space} (
        scope_id uuid NOT NULL,
        id uuid NOT NULL,
        embedding halfvec({width}) NOT NULL,
        PRIMARY KEY (scope_id, id)' || CASE WHEN {width} <= 1300 THEN ' INCLUDE (embedding)' ELSE '' END
        || ') WITH (autovacuum_vacuum_insert_scale_factor = 0.02)';
    IF {width} <= 4000 THEN
        ALTER TABLE memory_vector_{space}
            ALTER COLUMN embedding SET STORAGE PLAIN, SET (toast_tuple_target = 8160);
    ELSE
        ALTER TABLE memory_vector_{space} ALTER COLUMN embedding SET STORAGE EXTERNAL;
    END IF;
END $$

-- name: drop_vectors
DROP TABLE memory_vector_{space}

-- name: act_for_self
-- For one transaction: as the user who logged in, who owns the tables, or may act as whoever made them.
SELECT set_config('role', 'none', true)
