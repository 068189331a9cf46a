-- The whole schema, which a new database is made with. A change of it is also a numbered migration, for the others.

-- One row a scope. Whoever writes memories of a scope holds this row's lock; "version" moves with every such write, and
-- "erased" is the version at which memories were last erased, and "vectors_set" how often vectors of
-- them were set by themselves.
CREATE TABLE scope (
    scope_id uuid NOT NULL PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    user_id text COLLATE "C" NOT NULL,
    app text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    erased bigint NOT NULL DEFAULT 0,
    vectors_set bigint NOT NULL DEFAULT 0,
    salt bytea NOT NULL,
    calls bigint NOT NULL DEFAULT 0,
    tokens bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 70);
-- One user's or tenant's scopes among all; by hash, for names may be longer than what a tree takes.
-- Scopes in the order in which they are listed, whichever of their parts are given. An index of PostgreSQL takes up to
-- 2,704 bytes a row, and a character up to four; the few scopes with longer names are listed by "scope_long".
CREATE INDEX scope_order ON scope (tenant, app, user_id)
WHERE length(tenant) + length(app) + length(user_id) <= 600;
CREATE INDEX scope_order_of_user ON scope (user_id, tenant, app)
WHERE length(tenant) + length(app) + length(user_id) <= 600;
CREATE INDEX scope_order_of_app ON scope (app, tenant, user_id)
WHERE length(tenant) + length(app) + length(user_id) <= 600;
CREATE INDEX scope_order_of_app_and_user ON scope (app, user_id, tenant)
WHERE length(tenant) + length(app) + length(user_id) <= 600;
CREATE INDEX scope_long ON scope (scope_id)
WHERE length(tenant) + length(app) + length(user_id) > 600;

-- "postings" are the memory's index terms (see stores/postings.py); "touched" is the scope's version that wrote the row
-- last, and rides in the key's index, so that what came since a version is found without the rows.
-- "said_at": when it was said (NULL: unknown, then "created_at"). "explicit": a caller saved it as it is. "slot": subject
-- and attribute as they are compared (tokenizer.slot), for the values of one slot to be found by it. "category": a label
-- of the caller's own beside the type. "sealed": what is encrypted of a row, whose own columns are empty then (see
-- row_codec.py); NULL: nothing is.
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
    links text[] NOT NULL DEFAULT '{}',
    revision integer NOT NULL,
    postings bytea NOT NULL,
    touched bigint NOT NULL,
    said_at timestamptz,
    explicit boolean NOT NULL DEFAULT false,
    slot text,
    category text,
    sealed bytea,
    PRIMARY KEY (scope_id, id) INCLUDE (touched)
) WITH (autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
CREATE UNIQUE INDEX memory_identity ON memory (scope_id, content_hash) WHERE state = 'active';
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
    scope_id uuid NOT NULL,
    id uuid NOT NULL,
    retrieved integer NOT NULL DEFAULT 0,
    delivered integer NOT NULL DEFAULT 0,
    delivered_total integer NOT NULL DEFAULT 0,
    last_delivered_at timestamptz,
    successes integer NOT NULL DEFAULT 0,
    failures integer NOT NULL DEFAULT 0,
    PRIMARY KEY (scope_id, id)
) WITH (fillfactor = 70);

-- "final": something else that the same decision changed is gone, so that it cannot be undone any more.
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
    final boolean NOT NULL DEFAULT false,
    sealed bytea,
    PRIMARY KEY (scope_id, memory_id, revision)
);
CREATE INDEX memory_revision_group ON memory_revision (scope_id, change_group) WHERE change_group IS NOT NULL;

-- "failures": those that count towards a dead letter; "attempts" counts the tries, and so the pauses between them.
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
    failures integer NOT NULL DEFAULT 0,
    sealed bytea,
    PRIMARY KEY (scope_id, id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX ingest_job_age ON ingest_job (created_at, id);
-- Each job that is queued looks for the waiting one of its key: not in the whole queue of its scope.
CREATE INDEX ingest_job_key ON ingest_job (scope_id, kind, key);

CREATE TABLE taken_event (
    scope_id uuid NOT NULL,
    session_id text NOT NULL,
    event_id text NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (scope_id, session_id, event_id)
);

-- kind "event": key is a source event's id; kind "text": key is codec.forgotten_key of a forgotten text.
CREATE TABLE tombstone (
    scope_id uuid NOT NULL,
    kind text NOT NULL,
    key text NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (scope_id, kind, key)
);

-- One row a generation; its vectors live in memory_vector_<number>. "probe" is float32, little endian. "state": searches
-- go by the vectors of the 'current' one; 'filling' while a new one's are made beside them, 'retired' once they were
-- replaced, 'dropped' without a table (the row keeps the number from being used again).
CREATE TABLE embedder (
    number integer NOT NULL PRIMARY KEY,
    name text NOT NULL,
    dimensions integer NOT NULL,
    probe bytea,
    state text NOT NULL DEFAULT 'current'
);
CREATE UNIQUE INDEX embedder_name ON embedder (name, dimensions);

CREATE TABLE lease (
    name text NOT NULL PRIMARY KEY,
    owner text NOT NULL,
    until timestamptz NOT NULL
);

-- A scope's index in columns (see stores/index.py), as it stood at one version of the scope: whoever never saw the
-- scope reads this row, and the memories that were written since. Whoever erases a memory deletes it.
CREATE TABLE scope_index (
    scope_id uuid PRIMARY KEY,
    version bigint NOT NULL,
    packed bytea NOT NULL
);
-- read whole and in one go, and hardly to be made smaller
ALTER TABLE scope_index ALTER COLUMN packed SET STORAGE EXTERNAL;

-- Bearer tokens of the server: only the SHA-256 of each secret, as hex. "is_operator": bound to no tenant.
CREATE TABLE token (
    digest text NOT NULL PRIMARY KEY,
    id text NOT NULL,
    tenant text NOT NULL,
    user_id text,
    label text NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    is_operator boolean NOT NULL DEFAULT false
);

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

-- The migrations that were applied, and those that this schema holds already.
CREATE TABLE schema_migration (
    number integer NOT NULL PRIMARY KEY,
    name text NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
);

-- A memory as readers see it, with its counters.
CREATE VIEW remembered AS
SELECT
    m.scope_id, m.id, m.content, m.type, m.topics, m.tags, m.importance, m.is_error, m.origin, m.author,
    m.session_id, m.position, m.event_ids, m.subject, m.attribute, m.metadata, m.created_at, m.updated_at,
    m.happened_at, m.valid_from, m.valid_to, m.expires_at, m.ttl_days, m.pinned, m.verbatim, m.state,
    m.superseded_by, m.links, m.revision,
    coalesce(s.retrieved, 0) AS retrieved,
    coalesce(s.delivered, 0) AS delivered,
    coalesce(s.delivered_total, 0) AS delivered_total,
    s.last_delivered_at,
    coalesce(s.successes, 0) AS successes,
    coalesce(s.failures, 0) AS failures,
    m.said_at,
    m.explicit,
    m.category,
    m.sealed
FROM memory AS m
LEFT JOIN memory_stats AS s ON s.scope_id = m.scope_id AND s.id = m.id;
