-- A scope's row says if it holds neither memories nor jobs, "is_empty", and if its names are long,
-- "is_long": lists of scopes read nothing else.
ALTER TABLE scope ADD COLUMN is_empty boolean NOT NULL DEFAULT false;
ALTER TABLE scope ADD COLUMN is_long boolean GENERATED ALWAYS AS (
    length(tenant) + length(app) + length(user_id) > 600
) STORED;
UPDATE scope SET is_empty = true
WHERE NOT EXISTS (SELECT 1 FROM memory AS m WHERE m.scope_id = scope.scope_id)
    AND NOT EXISTS (SELECT 1 FROM ingest_job AS j WHERE j.scope_id = scope.scope_id);

-- The planner knows how few names are long, since it keeps statistics of a column.
DROP INDEX scope_order;
DROP INDEX scope_order_of_user;
DROP INDEX scope_order_of_app;
DROP INDEX scope_order_of_app_and_user;
DROP INDEX scope_long;
CREATE INDEX scope_order ON scope (tenant, app, user_id) WHERE NOT is_long;
CREATE INDEX scope_order_of_user ON scope (user_id, tenant, app) WHERE NOT is_long;
CREATE INDEX scope_order_of_app ON scope (app, tenant, user_id) WHERE NOT is_long;
CREATE INDEX scope_order_of_app_and_user ON scope (app, user_id, tenant) WHERE NOT is_long;
CREATE INDEX scope_long ON scope (scope_id) WHERE is_long;
