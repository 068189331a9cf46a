-- name: act_for_chain
-- Empty: a file does not keep scopes apart.
SELECT :chain AS chain

-- name: hold_chain
-- Locks the chain to the end of the transaction.
INSERT INTO receipt_chain (scope_id, key, length, head) VALUES (unhex(:chain), :key, 0, '')
ON CONFLICT (scope_id) DO UPDATE SET length = receipt_chain.length
RETURNING key, length, head

-- name: chain
SELECT lower(hex(scope_id)) AS chain, key, length, head
FROM receipt_chain
WHERE scope_id = unhex(:chain)

-- name: chains
-- All chains, also of tenants that have nothing but receipts left.
SELECT DISTINCT lower(hex(scope_id)) AS chain FROM (
    SELECT scope_id FROM receipt_chain UNION SELECT scope_id FROM receipt
) ORDER BY 1

-- name: insert_receipt
INSERT INTO receipt (scope_id, number, kind, memories, at, who, whose, digests, previous, digest)
VALUES (unhex(:chain), :number, :kind, :memories, :at, :who, :whose, :digests, :previous, :digest)

-- name: move_chain
UPDATE receipt_chain SET length = :number, head = :digest WHERE scope_id = unhex(:chain)

-- name: receipts
SELECT number, kind, memories, at, who, whose, digests, previous, digest
FROM receipt WHERE scope_id = unhex(:chain) AND number > :after ORDER BY number LIMIT :limit
