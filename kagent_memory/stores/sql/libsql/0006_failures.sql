-- "failures": those that count towards a dead letter; "attempts" counts the tries, and so the pauses between them.
ALTER TABLE ingest_job ADD COLUMN failures INTEGER NOT NULL DEFAULT 0;
