-- What was forgotten, without its content: a chain a tenant, in which each receipt holds the digest of the one before.
-- "scope_id" is that of the tenant alone, without user and app; "key" keys the digests of scopes and ids in it.
CREATE TABLE receipt_chain (
    scope_id uuid NOT NULL PRIMARY KEY,
    key bytea NOT NULL,
    length integer NOT NULL,
    head text COLLATE "C" NOT NULL
);
CREATE TABLE receipt (
    scope_id uuid NOT NULL,
    number integer NOT NULL,
    kind text COLLATE "C" NOT NULL,
    memories integer NOT NULL,
    at timestamptz NOT NULL,
    who text COLLATE "C" NOT NULL,
    whose text COLLATE "C" NOT NULL,
    digests text COLLATE "C" NOT NULL,
    previous text COLLATE "C" NOT NULL,
    digest text COLLATE "C" NOT NULL,
    PRIMARY KEY (scope_id, number)
);
