-- "final": something else that the same decision changed is gone, so that it cannot be undone any more.
ALTER TABLE memory_revision ADD COLUMN final INTEGER NOT NULL DEFAULT 0;
