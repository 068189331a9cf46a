-- One row a scope. Whoever writes memories of a scope holds this row's lock; "version" moves with every such write, and
-- "erased" is the version at which memories were last erased.
CREATE TABLE scope (
    scope_id uuid NOT NULL PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    user_id text COLLATE "C" NOT NULL,
    app text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    erased bigint NOT NULL DEFAULT 0,
    salt bytea NOT NULL,
    calls bigint NOT NULL DEFAULT 0,
    tokens bigint NOT NULL DEFAULT 0
);

-- "postings" are the memory's index terms (see stores/postings.py); "touched" is the scope's version that wrote the row
-- last, and rides in the key's index, so that what came since a version is found without the rows.
CREATE TABLE memory (
    scope_id uuid NOT NULL,
    id uuid NOT NULL,
    content text NOT NULL,
    content_hash bytea NOT NULL,
    type text NOT NULL,
    topics text[] NOT NULL,
    tags text[] NOT NULL,
    importance double precision NOT NULL,
    is_error boolean NOT NULL,
    origin text NOT NULL,
    author text,
    session_id text,
    position integer,
    event_ids text[] NOT NULL,
    subject text,
    attribute text,
    metadata json NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    happened_at timestamptz,
    valid_from timestamptz,
    valid_to timestamptz,
    expires_at timestamptz,
    ttl_days integer,
    pinned boolean NOT NULL,
    verbatim boolean NOT NULL,
    state text NOT NULL,
    superseded_by uuid,
    revision integer NOT NULL,
    postings bytea NOT NULL,
    touched bigint NOT NULL,
    PRIMARY KEY (scope_id, id) INCLUDE (touched)
);
CREATE UNIQUE INDEX memory_identity ON memory (scope_id, content_hash) WHERE state = 'active';
CREATE INDEX memory_session ON memory (scope_id, session_id, position) WHERE session_id IS NOT NULL;
CREATE INDEX memory_superseded ON memory (scope_id, superseded_by) WHERE superseded_by IS NOT NULL;
CREATE INDEX memory_expiry ON memory (expires_at, scope_id) WHERE expires_at IS NOT NULL AND NOT pinned;

CREATE TABLE memory_stats (
    scope_id uuid NOT NULL,
    id uuid NOT NULL,
    retrieved integer NOT NULL DEFAULT 0,
    delivered integer NOT NULL DEFAULT 0,
    delivered_total integer NOT NULL DEFAULT 0,
    last_delivered_at timestamptz,
    successes integer NOT NULL DEFAULT 0,
    failures integer NOT NULL DEFAULT 0,
    PRIMARY KEY (scope_id, id)
);

CREATE TABLE memory_revision (
    scope_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    revision integer NOT NULL,
    kind text NOT NULL,
    before text,
    at timestamptz NOT NULL,
    who text NOT NULL,
    why text NOT NULL,
    event_ids text[] NOT NULL,
    change_group text,
    PRIMARY KEY (scope_id, memory_id, revision)
);
CREATE INDEX memory_revision_group ON memory_revision (scope_id, change_group) WHERE change_group IS NOT NULL;

CREATE TABLE ingest_job (
    scope_id uuid NOT NULL,
    id uuid NOT NULL,
    kind text NOT NULL,
    session_id text NOT NULL,
    key text NOT NULL,
    payload json NOT NULL,
    provider text NOT NULL,
    model text NOT NULL,
    state text NOT NULL,
    attempts integer NOT NULL,
    run_after timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    lease_until timestamptz,
    owner text NOT NULL,
    fence integer NOT NULL,
    error text NOT NULL,
    calls integer NOT NULL,
    tokens integer NOT NULL,
    PRIMARY KEY (scope_id, id)
);
CREATE INDEX ingest_job_age ON ingest_job (created_at, id);

CREATE TABLE taken_event (
    scope_id uuid NOT NULL,
    session_id text NOT NULL,
    event_id text NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (scope_id, session_id, event_id)
);

-- kind "event": key is a source event's id; kind "text": key is rows.forgotten_key of a forgotten text.
CREATE TABLE tombstone (
    scope_id uuid NOT NULL,
    kind text NOT NULL,
    key text NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (scope_id, kind, key)
);

-- One row a generation; its vectors live in memory_vector_<number>. "probe" is float32, little endian.
CREATE TABLE embedder (
    number integer NOT NULL PRIMARY KEY,
    name text NOT NULL,
    dimensions integer NOT NULL,
    probe bytea
);
CREATE UNIQUE INDEX embedder_name ON embedder (name, dimensions);

CREATE TABLE lease (
    name text NOT NULL PRIMARY KEY,
    owner text NOT NULL,
    until timestamptz NOT NULL
);

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
