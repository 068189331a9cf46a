-- name: insert_token
INSERT INTO token (digest, id, tenant, user_id, label, created_at, expires_at, is_operator)
VALUES (:digest, :id, :tenant, :user, :label, :created_at, :expires_at, :is_operator)

-- name: tokens
SELECT digest, id, tenant, user_id AS "user", label, created_at, expires_at, is_operator
FROM token
WHERE :digest IS NULL OR digest = :digest
ORDER BY created_at, id

-- name: drop_token
DELETE FROM token WHERE id = :id
RETURNING id

-- name: drop_tokens
-- Operators' tokens belong to no tenant and stay.
DELETE FROM token WHERE tenant = :tenant AND NOT is_operator
RETURNING id
