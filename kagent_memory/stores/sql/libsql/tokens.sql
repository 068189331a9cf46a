-- name: insert_token
INSERT INTO token (digest, id, tenant, user_id, label, created_at, expires_at)
VALUES (:digest, :id, :tenant, :user, :label, :created_at, :expires_at)

-- name: tokens
SELECT digest, id, tenant, user_id, label, created_at, expires_at
FROM token
WHERE :digest IS NULL OR digest = :digest
ORDER BY created_at, id

-- name: drop_token
DELETE FROM token WHERE id = :id
