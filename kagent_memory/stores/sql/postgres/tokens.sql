-- name: insert_token
INSERT INTO token (digest, id, tenant, user_id, label, created_at, expires_at, is_operator)
VALUES (
    %(digest)s, %(id)s, %(tenant)s, %(user)s, %(label)s, %(created_at)s, %(expires_at)s,
    %(is_operator)s
)

-- name: tokens
SELECT digest, id, tenant, user_id AS "user", label, created_at, expires_at, is_operator
FROM token
WHERE %(digest)s::text IS NULL OR digest = %(digest)s::text
ORDER BY created_at, id

-- name: drop_token
DELETE FROM token WHERE id = %(id)s
RETURNING id

-- name: drop_tokens
-- Operators' tokens belong to no tenant and stay.
DELETE FROM token WHERE tenant = %(tenant)s AND NOT is_operator
RETURNING id
