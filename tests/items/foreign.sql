-- The tables of kagent, mem0 and LangGraph, as their systems make them, with what each may hold.
CREATE TABLE memory (
    id TEXT PRIMARY KEY DEFAULT gen_random_uuid(), agent_name TEXT NOT NULL, user_id TEXT NOT NULL,
    content TEXT, embedding {vector}(768), metadata TEXT, created_at TIMESTAMPTZ DEFAULT now(),
    expires_at TIMESTAMPTZ, access_count BIGINT DEFAULT 0
);
INSERT INTO memory
SELECT id, 'kagent__NS__helper', name, content,
    (SELECT array_agg((number = place)::int ORDER BY number) FROM generate_series(0, 767) AS number)::{vector},
    metadata, '2026-02-09 12:00Z', expires_at::timestamptz, used
FROM (VALUES
    ('m1', 'ada', 'Ada likes tea', 3, '{"session_id": "s1", "source": "explicit_save", "n": [1, null]}', '2026-03-11 12:00Z', 12),
    ('m2', 'ada', 'Ada''s token is ghp_' || repeat('a1B2', 9), 4, '{}', NULL, 0),
    ('m3', 'grace', 'Grace skis', -1, '[1]', '2026-03-11 12:00Z', 0),
    ('m4', 'grace', ' ', 5, NULL, '2026-03-11 12:00Z', 0),
    ('m5', 'grace', 'Gone', 6, '{}', '2026-02-28 12:00Z', 0)
) AS rows(id, name, content, place, metadata, expires_at, used);

CREATE TABLE mem0 (id UUID PRIMARY KEY, vector {vector}(3), payload JSONB);
INSERT INTO mem0
SELECT format('00000000-0000-0000-0000-00000000000%s', number)::uuid, '[1,2,3]',
    '{"hash": "h", "created_at": "2026-01-01T10:00:00-08:00", "updated_at": "2026-01-02T10:00:00"}'::jsonb || payload::jsonb
FROM (VALUES
    (0, '{"data": "Likes tea", "user_id": "ada", "agent_id": "a", "run_id": "r", "actor_id": "Bob", "food": 1}'),
    (1, '{"data": "password=hunter2secret", "user_id": "ada", "text_lemmatized": "x"}'),
    (2, '{"data": "", "user_id": "ada"}'),
    (3, '{"data": "Other agent", "user_id": "ada", "agent_id": "b"}')
) AS rows(number, payload);

CREATE TABLE store (
    prefix text NOT NULL, key text NOT NULL, value jsonb NOT NULL,
    created_at timestamptz DEFAULT CURRENT_TIMESTAMP,
    updated_at timestamptz DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (prefix, key)
);
INSERT INTO store
SELECT prefix, key, value::jsonb, '2026-02-09 12:00Z', '2026-02-10 12:00Z'
FROM (VALUES
    ('memories.ada', 'k1', '{"text": "Likes tea", "kind": "food"}'),
    ('memories.ada', 'k2', '{"kind": "Memory", "content": {"content": "Token", "x": ["password=hunter2secret"]}}'),
    ('memories.grace', 'k1', '{"colour": "blue"}'),
    ('memories.grace.deep', 'k1', '{"text": "Too deep"}'),
    ('cache.ada', 'k1', '{"text": "No memory"}'),
    ('memories.grace', 'k2', '{}')
) AS rows(prefix, key, value);
