-- The memories of single sessions are few and looked up with every search of their session.
CREATE INDEX memory_short_term ON memory (scope_id, session_id, created_at, id) WHERE state = 'short_term';
