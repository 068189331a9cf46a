-- What a tool says again while it waits to be confirmed is found by its text.
CREATE INDEX memory_quarantined ON memory (scope_id, content_hash) WHERE state = 'quarantined';
