-- Beside one file a tenant: which of them hold jobs, and from when on it is worth looking for one that is due.
-- "due_at" goes by the callers' clocks, as jobs do, the other times by the database's; every note counts "notes" up.
CREATE TABLE tenant_work (
    tenant TEXT NOT NULL PRIMARY KEY,
    due_at TEXT NOT NULL,
    look_at TEXT NOT NULL,
    noted_at TEXT NOT NULL,
    notes INTEGER NOT NULL
) WITHOUT ROWID;
