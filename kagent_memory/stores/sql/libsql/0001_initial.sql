-- The schema of the first release. Once that is out, changes are numbered migrations of their own.

-- One row per scope. Every write to its memories moves "version"; "erased" is the version of the
-- last erasure, "vectors_set" the number of times vectors were set on their own.
CREATE TABLE scope (
    scope_id BLOB NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL,
    user_id TEXT NOT NULL,
    app TEXT NOT NULL,
    version INTEGER NOT NULL,
    erased INTEGER NOT NULL DEFAULT 0,
    vectors_set INTEGER NOT NULL DEFAULT 0,
    salt BLOB NOT NULL,
    calls INTEGER NOT NULL DEFAULT 0,
    tokens INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
-- The scopes of one tenant.
-- Scopes in the order of lists, whichever names are given. Long names are apart, as in PostgreSQL,
-- whose indexes cannot hold them.
CREATE INDEX scope_order ON scope (tenant, app, user_id)
WHERE length(tenant) + length(app) + length(user_id) <= 600;
CREATE INDEX scope_order_of_user ON scope (user_id, tenant, app)
WHERE length(tenant) + length(app) + length(user_id) <= 600;
CREATE INDEX scope_order_of_app ON scope (app, tenant, user_id)
WHERE length(tenant) + length(app) + length(user_id) <= 600;
CREATE INDEX scope_order_of_app_and_user ON scope (app, user_id, tenant)
WHERE length(tenant) + length(app) + length(user_id) <= 600;
CREATE INDEX scope_long ON scope (tenant, app, user_id)
WHERE length(tenant) + length(app) + length(user_id) > 600;

-- "postings": the index terms of the memory (see stores/postings.py). "touched": the version of the
-- scope that last wrote the row.
-- "said_at": when it was said (NULL: unknown, then "created_at"). "explicit": saved by a caller as
-- it is. "slot": normalized subject and attribute (tokenizer.slot), by which the values of a slot
-- are found. "category": a label of the caller beside the type. "sealed": the encrypted values of
-- the row, whose own columns are then empty (see row_codec.py); NULL: the row is plain.
CREATE TABLE memory (
    scope_id BLOB NOT NULL,
    id TEXT NOT NULL,
    content TEXT NOT NULL,
    content_hash BLOB NOT NULL,
    type TEXT NOT NULL,
    topics TEXT NOT NULL,
    tags TEXT NOT NULL,
    importance REAL NOT NULL,
    is_error INTEGER NOT NULL,
    origin TEXT NOT NULL,
    author TEXT,
    session_id TEXT,
    position INTEGER,
    event_ids TEXT NOT NULL,
    subject TEXT,
    attribute TEXT,
    metadata TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    happened_at TEXT,
    valid_from TEXT,
    valid_to TEXT,
    expires_at TEXT,
    ttl_days INTEGER,
    pinned INTEGER NOT NULL,
    verbatim INTEGER NOT NULL,
    state TEXT NOT NULL,
    superseded_by TEXT,
    links TEXT NOT NULL DEFAULT '[]',
    revision INTEGER NOT NULL,
    postings BLOB NOT NULL,
    touched INTEGER NOT NULL,
    said_at TEXT,
    explicit INTEGER NOT NULL DEFAULT 0,
    slot TEXT,
    category TEXT,
    sealed BLOB
);
CREATE UNIQUE INDEX memory_key ON memory (scope_id, id);
CREATE UNIQUE INDEX memory_identity ON memory (scope_id, content_hash) WHERE state = 'active';
CREATE INDEX memory_touched ON memory (scope_id, touched, id);
CREATE INDEX memory_session ON memory (scope_id, session_id, position) WHERE session_id IS NOT NULL;
CREATE INDEX memory_created ON memory (scope_id, created_at, id);
CREATE INDEX memory_superseded ON memory (scope_id, superseded_by) WHERE superseded_by IS NOT NULL;
CREATE INDEX memory_expiry ON memory (expires_at, scope_id)
WHERE expires_at IS NOT NULL AND NOT pinned;
CREATE INDEX memory_slot ON memory (scope_id, slot) WHERE slot IS NOT NULL AND state = 'active';
-- Finds by its text a tool result that is repeated before it is confirmed.
CREATE INDEX memory_quarantined ON memory (scope_id, content_hash) WHERE state = 'quarantined';
-- Short-term memories are few, and every search of their session reads them.
CREATE INDEX memory_short_term ON memory (scope_id, session_id, created_at, id)
WHERE state = 'short_term';

CREATE TABLE memory_stats (
    scope_id BLOB NOT NULL,
    id TEXT NOT NULL,
    retrieved INTEGER NOT NULL DEFAULT 0,
    delivered INTEGER NOT NULL DEFAULT 0,
    delivered_total INTEGER NOT NULL DEFAULT 0,
    last_delivered_at TEXT,
    successes INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (scope_id, id)
) WITHOUT ROWID;

-- "final": True if another change of the same decision was erased, so that it cannot be undone.
CREATE TABLE memory_revision (
    scope_id BLOB NOT NULL,
    memory_id TEXT NOT NULL,
    revision INTEGER NOT NULL,
    kind TEXT NOT NULL,
    before TEXT,
    at TEXT NOT NULL,
    who TEXT NOT NULL,
    why TEXT NOT NULL,
    event_ids TEXT NOT NULL,
    change_group TEXT,
    final INTEGER NOT NULL DEFAULT 0,
    sealed BLOB,
    PRIMARY KEY (scope_id, memory_id, revision)
);
CREATE INDEX memory_revision_group ON memory_revision (scope_id, change_group)
WHERE change_group IS NOT NULL;

-- "failures": attempts that count towards a dead letter. "attempts": all attempts; they determine
-- the delay before the next.
CREATE TABLE ingest_job (
    scope_id BLOB NOT NULL,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    session_id TEXT NOT NULL,
    key TEXT NOT NULL,
    payload TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    run_after TEXT NOT NULL,
    created_at TEXT NOT NULL,
    lease_until TEXT,
    owner TEXT NOT NULL,
    fence INTEGER NOT NULL,
    error TEXT NOT NULL,
    calls INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    failures INTEGER NOT NULL DEFAULT 0,
    sealed BLOB,
    PRIMARY KEY (scope_id, id)
);
CREATE INDEX ingest_job_age ON ingest_job (created_at, id);
-- Finds the waiting job of a key without reading the whole queue of its scope.
CREATE INDEX ingest_job_key ON ingest_job (scope_id, kind, key);

CREATE TABLE taken_event (
    scope_id BLOB NOT NULL,
    session_id TEXT NOT NULL,
    event_id TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (scope_id, session_id, event_id)
) WITHOUT ROWID;

-- "key" is the id of a source event (kind "event"), or codec.forgotten_key of a forgotten text
-- (kind "text").
CREATE TABLE tombstone (
    scope_id BLOB NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (scope_id, kind, key)
) WITHOUT ROWID;

-- One row per embedding space; its vectors are in memory_vector_<number>. "probe": float32, little
-- endian. "state": 'current' is searched, 'filling' gets its vectors beside it, 'retired' was
-- replaced, 'dropped' has no table any more (the row reserves its number).
CREATE TABLE embedder (
    number INTEGER NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    dimensions INTEGER NOT NULL,
    probe BLOB,
    state TEXT NOT NULL DEFAULT 'current'
);
CREATE UNIQUE INDEX embedder_name ON embedder (name, dimensions);

CREATE TABLE lease (
    name TEXT NOT NULL PRIMARY KEY,
    owner TEXT NOT NULL,
    until TEXT NOT NULL
) WITHOUT ROWID;

-- The packed index of a scope (see stores/index.py) at one version. A process new to the scope
-- loads it and the memories written since. An erasure deletes the row.
CREATE TABLE scope_index (
    scope_id BLOB NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL,
    packed BLOB NOT NULL
);

-- Bearer tokens of the server: only the SHA-256 of each secret, in hex. "is_operator": bound to no
-- tenant.
CREATE TABLE token (
    digest TEXT NOT NULL PRIMARY KEY,
    id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    user_id TEXT,
    label TEXT NOT NULL,
    created_at TEXT NOT NULL,
    expires_at TEXT,
    is_operator INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

-- Receipts of forgotten memories, without content: one chain per tenant, each receipt with the
-- digest of the one before. "scope_id" is the id of the tenant without user and app; "key" keys the
-- digests of scopes and ids.
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

-- The applied migrations, this one included.
CREATE TABLE schema_migration (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    applied_at TEXT NOT NULL
);

-- Memories as readers see them, with their counters.
CREATE VIEW remembered AS
SELECT
    m.scope_id, m.id, m.content, m.type, m.topics, m.tags, m.importance, m.is_error, m.origin,
    m.author, m.session_id, m.position, m.event_ids, m.subject, m.attribute, m.metadata,
    m.created_at, m.updated_at, m.happened_at, m.said_at, m.valid_from, m.valid_to, m.expires_at,
    m.ttl_days, m.pinned, m.verbatim, m.explicit, m.state, m.superseded_by, m.links, m.revision,
    m.category, m.sealed, coalesce(s.retrieved, 0) AS retrieved,
    coalesce(s.delivered, 0) AS delivered, coalesce(s.delivered_total, 0) AS delivered_total,
    s.last_delivered_at, coalesce(s.successes, 0) AS successes, coalesce(s.failures, 0) AS failures
FROM memory AS m
LEFT JOIN memory_stats AS s ON s.scope_id = m.scope_id AND s.id = m.id;
