-- Statements of this dialect only.

-- name: search_vector
-- Exact within the scope: "+ 0" excludes approximate indexes, so this is one walk over the scope's
-- part of the vectors' key. One row per query vector, nearest first: the ids, 36 characters each,
-- and the cosines in millionths, without hidden memories. The numbers of vectors, answers and
-- hidden memories are hidden from the planner: planning anew takes as long as searching 300
-- vectors, and it would not hash at its estimate for many.
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
