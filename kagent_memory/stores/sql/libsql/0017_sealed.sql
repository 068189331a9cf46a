-- "sealed": what is encrypted of a row, whose own columns are empty then (see sealing.py); NULL: nothing is.
ALTER TABLE memory ADD COLUMN sealed BLOB;
ALTER TABLE memory_revision ADD COLUMN sealed BLOB;
ALTER TABLE ingest_job ADD COLUMN sealed BLOB;
DROP VIEW remembered;
CREATE VIEW remembered AS
SELECT
    m.scope_id, m.id, m.content, m.type, m.topics, m.tags, m.importance, m.is_error, m.origin, m.author,
    m.session_id, m.position, m.event_ids, m.subject, m.attribute, m.metadata, m.created_at, m.updated_at,
    m.happened_at, m.said_at, m.valid_from, m.valid_to, m.expires_at, m.ttl_days, m.pinned, m.verbatim, m.explicit,
    m.state, m.superseded_by, m.revision, m.category, m.sealed,
    coalesce(s.retrieved, 0) AS retrieved,
    coalesce(s.delivered, 0) AS delivered,
    coalesce(s.delivered_total, 0) AS delivered_total,
    s.last_delivered_at,
    coalesce(s.successes, 0) AS successes,
    coalesce(s.failures, 0) AS failures
FROM memory AS m
LEFT JOIN memory_stats AS s ON s.scope_id = m.scope_id AND s.id = m.id;
