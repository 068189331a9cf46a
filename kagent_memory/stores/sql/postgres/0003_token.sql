-- Bearer tokens of the server: only the SHA-256 of each secret, as hex.
CREATE TABLE token (
    digest text NOT NULL PRIMARY KEY,
    id text NOT NULL,
    tenant text NOT NULL,
    user_id text,
    label text NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz
);
