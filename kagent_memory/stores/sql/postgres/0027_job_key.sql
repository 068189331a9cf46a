-- Each job that is queued looks for the waiting one of its key: not in the whole queue of its scope.
CREATE INDEX ingest_job_key ON ingest_job (scope_id, kind, key);
