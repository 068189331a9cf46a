-- Bearer tokens of the server: only the SHA-256 of each secret, as hex.
CREATE TABLE token (
    digest TEXT NOT NULL PRIMARY KEY,
    id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    user_id TEXT,
    label TEXT NOT NULL,
    created_at TEXT NOT NULL,
    expires_at TEXT
) WITHOUT ROWID;
