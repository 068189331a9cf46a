-- Statements that this dialect alone has.

-- name: search_vector
-- Exact in the scope by construction: "+ 0" keeps any approximate index out, IS TRUE keeps the visible ids a hashed
-- subplan beside one walk over the scope's part of the vectors' key. The score is the cosine in millionths.
WITH live AS MATERIALIZED (
    SELECT m.id
    FROM memory AS m
    WHERE m.scope_id = %(scope_id)s
        AND (m.state = 'active' OR %(superseded)s)
        AND (m.expires_at IS NULL OR m.expires_at > %(now)s)
        AND (NOT %(filtered)s OR m.id IN (
            SELECT f.id FROM memory AS f
            WHERE f.scope_id = %(scope_id)s
                AND (%(types)s::text[] IS NULL OR f.type = ANY(%(types)s::text[]))
                AND (%(topics)s::text[] IS NULL OR f.topics && %(topics)s::text[])
                AND (%(tags)s::text[] IS NULL OR f.tags @> %(tags)s::text[])
                AND (%(origins)s::text[] IS NULL OR f.origin = ANY(%(origins)s::text[]))
                AND (%(metadata)s::jsonb IS NULL OR f.metadata::jsonb @> %(metadata)s::jsonb)
                AND (%(session_id)s::text IS NULL OR f.session_id = %(session_id)s::text)
                AND (%(min_importance)s::float8 IS NULL OR f.importance >= %(min_importance)s::float8)
                AND (%(created_after)s::timestamptz IS NULL OR f.created_at >= %(created_after)s::timestamptz)
                AND (%(created_before)s::timestamptz IS NULL OR f.created_at < %(created_before)s::timestamptz)
                AND (%(happened_after)s::timestamptz IS NULL OR f.happened_at >= %(happened_after)s::timestamptz)
                AND (%(happened_before)s::timestamptz IS NULL OR f.happened_at < %(happened_before)s::timestamptz)
        ))
)
SELECT q.number, n.id, n.score
FROM unnest(%(vectors)s::halfvec[]) WITH ORDINALITY AS q (vector, number)
CROSS JOIN LATERAL (
    SELECT v.id, round((1 - (v.embedding <=> q.vector)) * 1e6::float8) + 0 AS score
    FROM memory_vector_{generation} AS v
    WHERE v.scope_id = %(scope_id)s AND (v.id IN (SELECT id FROM live)) IS TRUE
    ORDER BY score DESC, v.id DESC
    LIMIT %(limit)s
) AS n
ORDER BY q.number, n.score DESC, n.id DESC

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
