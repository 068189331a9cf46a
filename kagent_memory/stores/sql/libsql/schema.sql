-- The whole schema, which a new database is made with. A change of it is also a numbered migration, for the others.

-- One row a scope. Whoever writes memories of a scope moves its "version"; "erased" is the version at which memories were
-- last erased, "vectors_set" how often vectors of them were set by themselves.
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
-- One tenant's scopes among all.
-- Scopes in the order in which they are listed, whichever of their parts are given; those with long names apart, as in
-- PostgreSQL, whose indexes would not take them.
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

-- "postings" are the memory's index terms (see stores/postings.py); "touched" is the scope's version that wrote the row
-- last.
-- "said_at": when it was said (NULL: unknown, then "created_at"). "explicit": a caller saved it as it is. "slot": subject
-- and attribute as they are compared (tokenizer.slot), for the values of one slot to be found by it. "category": a label
-- of the caller's own beside the type. "sealed": what is encrypted of a row, whose own columns are empty then (see
-- row_codec.py); NULL: nothing is.
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
CREATE INDEX memory_expiry ON memory (expires_at, scope_id) WHERE expires_at IS NOT NULL AND NOT pinned;
CREATE INDEX memory_slot ON memory (scope_id, slot) WHERE slot IS NOT NULL AND state = 'active';
-- What a tool says again while it waits to be confirmed is found by its text.
CREATE INDEX memory_quarantined ON memory (scope_id, content_hash) WHERE state = 'quarantined';
-- The memories of single sessions are few and looked up with every search of their session.
CREATE INDEX memory_short_term ON memory (scope_id, session_id, created_at, id) WHERE state = 'short_term';

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

-- "final": something else that the same decision changed is gone, so that it cannot be undone any more.
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
CREATE INDEX memory_revision_group ON memory_revision (scope_id, change_group) WHERE change_group IS NOT NULL;

-- "failures": those that count towards a dead letter; "attempts" counts the tries, and so the pauses between them.
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
-- Each job that is queued looks for the waiting one of its key: not in the whole queue of its scope.
CREATE INDEX ingest_job_key ON ingest_job (scope_id, kind, key);

CREATE TABLE taken_event (
    scope_id BLOB NOT NULL,
    session_id TEXT NOT NULL,
    event_id TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (scope_id, session_id, event_id)
) WITHOUT ROWID;

-- kind "event": key is a source event's id; kind "text": key is codec.forgotten_key of a forgotten text.
CREATE TABLE tombstone (
    scope_id BLOB NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (scope_id, kind, key)
) WITHOUT ROWID;

-- One row a generation; its vectors live in memory_vector_<number>. "probe" is float32, little endian. "state": searches
-- go by the vectors of the 'current' one; 'filling' while a new one's are made beside them, 'retired' once they were
-- replaced, 'dropped' without a table (the row keeps the number from being used again).
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

-- A scope's index in columns (see stores/index.py), as it stood at one version of the scope: whoever never saw the
-- scope reads this row, and the memories that were written since. Whoever erases a memory deletes it.
CREATE TABLE scope_index (
    scope_id BLOB NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL,
    packed BLOB NOT NULL
);

-- Bearer tokens of the server: only the SHA-256 of each secret, as hex. "is_operator": bound to no tenant.
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

-- The migrations that were applied, and those that this schema holds already.
CREATE TABLE schema_migration (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    applied_at TEXT NOT NULL
);

-- A memory as readers see it, with its counters.
CREATE VIEW remembered AS
SELECT
    m.scope_id, m.id, m.content, m.type, m.topics, m.tags, m.importance, m.is_error, m.origin, m.author,
    m.session_id, m.position, m.event_ids, m.subject, m.attribute, m.metadata, m.created_at, m.updated_at,
    m.happened_at, m.said_at, m.valid_from, m.valid_to, m.expires_at, m.ttl_days, m.pinned, m.verbatim, m.explicit,
    m.state, m.superseded_by, m.links, m.revision, m.category, m.sealed,
    coalesce(s.retrieved, 0) AS retrieved,
    coalesce(s.delivered, 0) AS delivered,
    coalesce(s.delivered_total, 0) AS delivered_total,
    s.last_delivered_at,
    coalesce(s.successes, 0) AS successes,
    coalesce(s.failures, 0) AS failures
FROM memory AS m
LEFT JOIN memory_stats AS s ON s.scope_id = m.scope_id AND s.id = m.id;
