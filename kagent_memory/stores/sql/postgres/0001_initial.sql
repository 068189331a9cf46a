-- The schema of the first release. Once that is out, changes are numbered migrations of their own.

-- One row per scope. Every write to its memories locks this row and moves "version"; "erased" is
-- the version of the last erasure, "vectors_set" the number of times vectors were set on their own.
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
-- Scopes in the order of lists, whichever names are given. A PostgreSQL index row holds up to 2,704
-- bytes, and a character up to four; "scope_long" lists the few scopes with longer names.
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

-- "postings": the index terms of the memory (see stores/postings.py). "touched": the version of the
-- scope that last wrote the row; it is included in the index of the key, which finds later changes
-- without reading rows.
-- "said_at": when it was said (NULL: unknown, then "created_at"). "explicit": saved by a caller as
-- it is. "slot": normalized subject and attribute (tokenizer.slot), by which the values of a slot
-- are found. "category": a label of the caller beside the type. "sealed": the encrypted values of
-- the row, whose own columns are then empty (see row_codec.py); NULL: the row is plain.
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
CREATE INDEX memory_expiry ON memory (expires_at, scope_id)
WHERE expires_at IS NOT NULL AND NOT pinned;
CREATE INDEX memory_slot ON memory (scope_id, slot) WHERE slot IS NOT NULL AND state = 'active';
-- Finds by its text a tool result that is repeated before it is confirmed.
CREATE INDEX memory_quarantined ON memory (scope_id, content_hash) WHERE state = 'quarantined';
-- Short-term memories are few, and every search of their session reads them.
CREATE INDEX memory_short_term ON memory (scope_id, session_id, created_at, id)
WHERE state = 'short_term';

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

-- "final": True if another change of the same decision was erased, so that it cannot be undone.
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
CREATE INDEX memory_revision_group ON memory_revision (scope_id, change_group)
WHERE change_group IS NOT NULL;

-- "failures": attempts that count towards a dead letter. "attempts": all attempts; they determine
-- the delay before the next.
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
-- Finds the waiting job of a key without reading the whole queue of its scope.
CREATE INDEX ingest_job_key ON ingest_job (scope_id, kind, key);

CREATE TABLE taken_event (
    scope_id uuid NOT NULL,
    session_id text NOT NULL,
    event_id text NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (scope_id, session_id, event_id)
);

-- "key" is the id of a source event (kind "event"), or codec.forgotten_key of a forgotten text
-- (kind "text").
CREATE TABLE tombstone (
    scope_id uuid NOT NULL,
    kind text NOT NULL,
    key text NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (scope_id, kind, key)
);

-- One row per embedding space; its vectors are in memory_vector_<number>. "probe": float32, little
-- endian. "state": 'current' is searched, 'filling' gets its vectors beside it, 'retired' was
-- replaced, 'dropped' has no table any more (the row reserves its number).
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

-- The packed index of a scope (see stores/index.py) at one version. A process new to the scope
-- loads it and the memories written since. An erasure deletes the row.
CREATE TABLE scope_index (
    scope_id uuid PRIMARY KEY,
    version bigint NOT NULL,
    packed bytea NOT NULL
);
-- always read whole, and hardly compressible
ALTER TABLE scope_index ALTER COLUMN packed SET STORAGE EXTERNAL;

-- Bearer tokens of the server: only the SHA-256 of each secret, in hex. "is_operator": bound to no
-- tenant.
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

-- Receipts of forgotten memories, without content: one chain per tenant, each receipt with the
-- digest of the one before. "scope_id" is the id of the tenant without user and app; "key" keys the
-- digests of scopes and ids.
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

-- The applied migrations, this one included.
CREATE TABLE schema_migration (
    number integer NOT NULL PRIMARY KEY,
    name text NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
);

-- Memories as readers see them, with their counters.
CREATE VIEW remembered AS
SELECT
    m.scope_id, m.id, m.content, m.type, m.topics, m.tags, m.importance, m.is_error, m.origin,
    m.author, m.session_id, m.position, m.event_ids, m.subject, m.attribute, m.metadata,
    m.created_at, m.updated_at, m.happened_at, m.valid_from, m.valid_to, m.expires_at, m.ttl_days,
    m.pinned, m.verbatim, m.state, m.superseded_by, m.links, m.revision,
    coalesce(s.retrieved, 0) AS retrieved, coalesce(s.delivered, 0) AS delivered,
    coalesce(s.delivered_total, 0) AS delivered_total, s.last_delivered_at,
    coalesce(s.successes, 0) AS successes, coalesce(s.failures, 0) AS failures, m.said_at,
    m.explicit, m.category, m.sealed
FROM memory AS m
LEFT JOIN memory_stats AS s ON s.scope_id = m.scope_id AND s.id = m.id;
