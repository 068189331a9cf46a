-- One row a scope. Whoever writes memories of a scope moves its "version"; "erased" is the version at which memories were
-- last erased.
CREATE TABLE scope (
    scope_id BLOB NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL,
    user_id TEXT NOT NULL,
    app TEXT NOT NULL,
    version INTEGER NOT NULL,
    erased INTEGER NOT NULL DEFAULT 0,
    salt BLOB NOT NULL,
    calls INTEGER NOT NULL DEFAULT 0,
    tokens INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

-- "postings" are the memory's index terms (see stores/postings.py); "touched" is the scope's version that wrote the row
-- last.
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
    revision INTEGER NOT NULL,
    postings BLOB NOT NULL,
    touched INTEGER NOT NULL
);
CREATE UNIQUE INDEX memory_key ON memory (scope_id, id);
CREATE UNIQUE INDEX memory_identity ON memory (scope_id, content_hash) WHERE state = 'active';
CREATE INDEX memory_touched ON memory (scope_id, touched, id);
CREATE INDEX memory_session ON memory (scope_id, session_id, position) WHERE session_id IS NOT NULL;
CREATE INDEX memory_superseded ON memory (scope_id, superseded_by) WHERE superseded_by IS NOT NULL;
CREATE INDEX memory_expiry ON memory (expires_at, scope_id) WHERE expires_at IS NOT NULL AND NOT pinned;

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
    PRIMARY KEY (scope_id, memory_id, revision)
);
CREATE INDEX memory_revision_group ON memory_revision (scope_id, change_group) WHERE change_group IS NOT NULL;

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
    PRIMARY KEY (scope_id, id)
);
CREATE INDEX ingest_job_age ON ingest_job (created_at, id);

CREATE TABLE taken_event (
    scope_id BLOB NOT NULL,
    session_id TEXT NOT NULL,
    event_id TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (scope_id, session_id, event_id)
) WITHOUT ROWID;

-- kind "event": key is a source event's id; kind "text": key is rows.forgotten_key of a forgotten text.
CREATE TABLE tombstone (
    scope_id BLOB NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (scope_id, kind, key)
) WITHOUT ROWID;

-- One row a generation; its vectors live in memory_vector_<number>. "probe" is float32, little endian.
CREATE TABLE embedder (
    number INTEGER NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    dimensions INTEGER NOT NULL,
    probe BLOB
);
CREATE UNIQUE INDEX embedder_name ON embedder (name, dimensions);

CREATE TABLE lease (
    name TEXT NOT NULL PRIMARY KEY,
    owner TEXT NOT NULL,
    until TEXT NOT NULL
) WITHOUT ROWID;

-- A memory as readers see it, with its counters.
CREATE VIEW remembered AS
SELECT
    m.scope_id, m.id, m.content, m.type, m.topics, m.tags, m.importance, m.is_error, m.origin, m.author,
    m.session_id, m.position, m.event_ids, m.subject, m.attribute, m.metadata, m.created_at, m.updated_at,
    m.happened_at, m.valid_from, m.valid_to, m.expires_at, m.ttl_days, m.pinned, m.verbatim, m.state,
    m.superseded_by, m.revision,
    coalesce(s.retrieved, 0) AS retrieved,
    coalesce(s.delivered, 0) AS delivered,
    coalesce(s.delivered_total, 0) AS delivered_total,
    s.last_delivered_at,
    coalesce(s.successes, 0) AS successes,
    coalesce(s.failures, 0) AS failures
FROM memory AS m
LEFT JOIN memory_stats AS s ON s.scope_id = m.scope_id AND s.id = m.id;
