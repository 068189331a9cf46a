-- Statements that this dialect alone has.

-- name: search_vector
-- Exact in the scope by construction: "+ 0" keeps any approximate index out, so it is one walk over the scope's part of
-- the vectors' key. One row a query vector, nearest first: the ids, 36 characters each, and the cosines in millionths.
SELECT
    q.number,
    string_agg(n.id::text, '' ORDER BY n.score DESC, n.id DESC) AS ids,
    array_agg(n.score::integer ORDER BY n.score DESC, n.id DESC) AS scores
FROM unnest(%(vectors)b::halfvec[]) WITH ORDINALITY AS q (vector, number)
CROSS JOIN LATERAL (
    SELECT v.id, round((1 - (v.embedding <=> q.vector)) * 1e6::float8) + 0 AS score
    FROM memory_vector_{space} AS v
    WHERE v.scope_id = %(scope_id)s AND (%(among)s::uuid[] IS NULL OR v.id = ANY(%(among)s::uuid[]))
    ORDER BY score DESC, v.id DESC
    LIMIT %(limit)s
) AS n
GROUP BY q.number

-- name: make_vectors
-- The vectors ride in the key's index, so that a search reads one scope's vectors from neighbouring pages.
CREATE TABLE memory_vector_{space} (
    scope_id uuid NOT NULL,
    id uuid NOT NULL,
    embedding halfvec({dimensions}) NOT NULL,
    PRIMARY KEY (scope_id, id) INCLUDE (embedding)
)

-- name: make_wide_vectors
-- Too wide for an index row (2,704 bytes): an exact search reads the table's rows.
CREATE TABLE memory_vector_{space} (
    scope_id uuid NOT NULL,
    id uuid NOT NULL,
    embedding halfvec({dimensions}) NOT NULL,
    PRIMARY KEY (scope_id, id)
)

-- name: tune_vectors
-- Unpacked beside the row: a search reads every vector of a scope, and fetching each from its own place costs most.
ALTER TABLE memory_vector_{space}
    ALTER COLUMN embedding SET STORAGE PLAIN,
    SET (toast_tuple_target = 8160, autovacuum_vacuum_insert_scale_factor = 0.02)

-- name: tune_long_vectors
-- Too long for a row of one page (8,160 bytes): kept beside the table in pieces, unpacked, since no float16 compresses.
ALTER TABLE memory_vector_{space}
    ALTER COLUMN embedding SET STORAGE EXTERNAL,
    SET (autovacuum_vacuum_insert_scale_factor = 0.02)

-- name: drop_vectors
DROP TABLE memory_vector_{space}

-- name: act_for_self
-- For one transaction: as the user who logged in, who owns the tables, or may act as whoever made them.
SELECT set_config('role', 'none', true)
