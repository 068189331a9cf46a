-- One tenant's scopes among all.
CREATE INDEX scope_tenant ON scope (tenant);
