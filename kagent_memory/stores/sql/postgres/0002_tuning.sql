-- Postgres alone needs these; another engine that speaks its protocol may leave the file out.
ALTER TABLE memory SET (autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE memory_stats SET (fillfactor = 70);
ALTER TABLE ingest_job SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE scope SET (fillfactor = 70);
