-- Statements that this dialect alone has.

-- name: search_vector
-- Exact in the scope by construction: "+ 0" keeps any approximate index out, so it is one walk over the scope's part of
-- the vectors' key. One row a query vector, nearest first: the ids, 36 characters each, and the cosines in millionths; of
-- all memories but the hidden ones. How many vectors, answers and hidden memories there are is kept from the planner:
-- to plan anew takes as long as to search 300, and what it takes for many it would not hash.
SELECT q.number, a.ids, a.scores
FROM unnest((SELECT %(vectors)b::halfvec[])) WITH ORDINALITY AS q (vector, number)
CROSS JOIN LATERAL (
    SELECT
        string_agg(n.id::text, '' ORDER BY n.score DESC, n.id DESC) AS ids,
        array_agg(n.score::integer ORDER BY n.score DESC, n.id DESC) AS scores
    FROM (
        SELECT v.id, round((1 - (v.embedding <=> q.vector)) * 1e6::float8) + 0 AS score
        FROM memory_vector_{space} AS v
        WHERE v.scope_id = %(scope_id)s AND v.id NOT IN (SELECT unnest((SELECT %(hidden)s::uuid[])))
        ORDER BY score DESC, v.id DESC
        LIMIT (SELECT %(limit)s::bigint)
    ) AS n
    HAVING count(*) > 0
) AS a
