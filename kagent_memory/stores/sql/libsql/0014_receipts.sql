-- What was forgotten, without its content: a chain a tenant, in which each receipt holds the digest of the one before.
-- "scope_id" is that of the tenant alone, without user and app; "key" keys the digests of scopes and ids in it.
CREATE TABLE receipt_chain (
    scope_id BLOB NOT NULL PRIMARY KEY,
    key BLOB NOT NULL,
    length INTEGER NOT NULL,
    head TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE receipt (
    scope_id BLOB NOT NULL,
    number INTEGER NOT NULL,
    kind TEXT NOT NULL,
    memories INTEGER NOT NULL,
    at TEXT NOT NULL,
    who TEXT NOT NULL,
    whose TEXT NOT NULL,
    digests TEXT NOT NULL,
    previous TEXT NOT NULL,
    digest TEXT NOT NULL,
    PRIMARY KEY (scope_id, number)
) WITHOUT ROWID;
