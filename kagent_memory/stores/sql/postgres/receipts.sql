-- name: act_for_chain
-- Under row level security, the rest of the transaction sees the rows of the tenant's chain.
SELECT set_config('kagent.scope', %(chain)s, true)

-- name: hold_chain
-- Locks the chain to the end of the transaction.
INSERT INTO receipt_chain (scope_id, key, length, head) VALUES (%(chain)s::uuid, %(key)s, 0, '')
ON CONFLICT (scope_id) DO UPDATE SET length = receipt_chain.length
RETURNING key, length, head

-- name: chain
SELECT replace(scope_id::text, '-', '') AS chain, key, length, head
FROM receipt_chain
WHERE scope_id = %(chain)s::uuid

-- name: chains
-- All chains, also of tenants that have nothing but receipts left.
SELECT replace(c.scope_id::text, '-', '') AS chain FROM (
    SELECT scope_id FROM receipt_chain UNION SELECT scope_id FROM receipt
) AS c ORDER BY 1

-- name: insert_receipt
INSERT INTO receipt (scope_id, number, kind, memories, at, who, whose, digests, previous, digest)
VALUES (
    %(chain)s::uuid, %(number)s, %(kind)s, %(memories)s, %(at)s, %(who)s, %(whose)s, %(digests)s,
    %(previous)s, %(digest)s
)

-- name: move_chain
UPDATE receipt_chain SET length = %(number)s, head = %(digest)s WHERE scope_id = %(chain)s::uuid

-- name: receipts
SELECT number, kind, memories, at, who, whose, digests, previous, digest
FROM receipt WHERE scope_id = %(chain)s::uuid AND number > %(after)s ORDER BY number LIMIT %(limit)s
