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
