-- What callers bring: a token for the operator, bound to no tenant; and how wide the vectors of their own are that the
-- callers of a tenant keep. A tenant has so many slots, so that two processes at once cannot give it one more.
ALTER TABLE token ADD COLUMN is_operator boolean NOT NULL DEFAULT false;
CREATE TABLE caller_width (
    tenant text COLLATE "C" NOT NULL,
    slot integer NOT NULL,
    dimensions integer NOT NULL,
    PRIMARY KEY (tenant, slot)
);
CREATE UNIQUE INDEX caller_width_dimensions ON caller_width (tenant, dimensions);
