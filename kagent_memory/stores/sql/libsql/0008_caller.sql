-- What callers bring: a token for the operator, bound to no tenant; and how wide the vectors of their own are that the
-- callers of a tenant keep. A tenant has so many slots, so that two processes at once cannot give it one more.
ALTER TABLE token ADD COLUMN is_operator INTEGER NOT NULL DEFAULT 0;
CREATE TABLE caller_width (
    tenant TEXT NOT NULL,
    slot INTEGER NOT NULL,
    dimensions INTEGER NOT NULL,
    PRIMARY KEY (tenant, slot)
) WITHOUT ROWID;
CREATE UNIQUE INDEX caller_width_dimensions ON caller_width (tenant, dimensions);
