-- "final": something else that the same decision changed is gone, so that it cannot be undone any more.
ALTER TABLE memory_revision ADD COLUMN final boolean NOT NULL DEFAULT false;

-- One user's scopes among all; by hash, for names may be longer than what a tree takes.
CREATE INDEX scope_user ON scope USING hash (user_id);
