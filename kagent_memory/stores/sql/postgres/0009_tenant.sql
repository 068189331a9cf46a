-- One tenant's scopes among all; by hash, for names may be longer than what a tree takes.
CREATE INDEX scope_tenant ON scope USING hash (tenant);
