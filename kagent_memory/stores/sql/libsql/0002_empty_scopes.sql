-- A scope's row says if it holds neither memories nor jobs, "is_empty": lists of scopes read nothing
-- but their index.
ALTER TABLE scope ADD COLUMN is_empty INTEGER NOT NULL DEFAULT 0;
UPDATE scope SET is_empty = true
WHERE NOT EXISTS (SELECT 1 FROM memory AS m WHERE m.scope_id = scope.scope_id)
    AND NOT EXISTS (SELECT 1 FROM ingest_job AS j WHERE j.scope_id = scope.scope_id);

DROP INDEX scope_order;
DROP INDEX scope_order_of_user;
DROP INDEX scope_order_of_app;
DROP INDEX scope_order_of_app_and_user;
DROP INDEX scope_long;
CREATE INDEX scope_order ON scope (tenant, app, user_id, is_empty)
WHERE length(tenant) + length(app) + length(user_id) <= 600;
CREATE INDEX scope_order_of_user ON scope (user_id, tenant, app, is_empty)
WHERE length(tenant) + length(app) + length(user_id) <= 600;
CREATE INDEX scope_order_of_app ON scope (app, tenant, user_id, is_empty)
WHERE length(tenant) + length(app) + length(user_id) <= 600;
CREATE INDEX scope_order_of_app_and_user ON scope (app, user_id, tenant, is_empty)
WHERE length(tenant) + length(app) + length(user_id) <= 600;
CREATE INDEX scope_long ON scope (tenant, app, user_id, is_empty)
WHERE length(tenant) + length(app) + length(user_id) > 600;
