-- Statements that this dialect alone has.

-- name: search_vector
-- Exact in the scope by construction: "+ 0" keeps any approximate index out, so it is one walk over the scope's part of
-- the vectors' key. One row a query vector, packed, nearest first, 20 bytes each: id (16) and the cosine in millionths (4).
SELECT q.number, string_agg(uuid_send(n.id) || int4send(n.score::integer), ''::bytea ORDER BY n.score DESC, n.id DESC)
    AS nearest
FROM unnest(%(vectors)s::halfvec[]) WITH ORDINALITY AS q (vector, number)
CROSS JOIN LATERAL (
    SELECT v.id, round((1 - (v.embedding <=> q.vector)) * 1e6::float8) + 0 AS score
    FROM memory_vector_{generation} AS v
    WHERE v.scope_id = %(scope_id)s AND (%(among)s::uuid[] IS NULL OR v.id = ANY(%(among)s::uuid[]))
    ORDER BY score DESC, v.id DESC
    LIMIT %(limit)s
) AS n
GROUP BY q.number

-- name: make_vectors
-- The vectors ride in the key's index, so that a search reads one scope's vectors from neighbouring pages.
CREATE TABLE memory_vector_{generation} (
    scope_id uuid NOT NULL,
    id uuid NOT NULL,
    embedding halfvec({dimensions}) NOT NULL,
    PRIMARY KEY (scope_id, id) INCLUDE (embedding)
)

-- name: make_wide_vectors
-- Too wide for an index row (2,704 bytes).
CREATE TABLE memory_vector_{generation} (
    scope_id uuid NOT NULL,
    id uuid NOT NULL,
    embedding halfvec({dimensions}) NOT NULL,
    PRIMARY KEY (scope_id, id)
)

-- name: tune_vectors
-- Unpacked beside the row: a search reads every vector of a scope, and fetching each from its own place costs most.
ALTER TABLE memory_vector_{generation}
    ALTER COLUMN embedding SET STORAGE PLAIN,
    SET (toast_tuple_target = 8160, autovacuum_vacuum_insert_scale_factor = 0.02)
