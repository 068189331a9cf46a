-- "said_at": when it was said (NULL: unknown, then "created_at"). "explicit": a caller saved it as it is. "slot": subject
-- and attribute as they are compared (text.slot), for the values of one slot to be found by it.
ALTER TABLE memory ADD COLUMN said_at TEXT;
ALTER TABLE memory ADD COLUMN explicit INTEGER NOT NULL DEFAULT 0;
ALTER TABLE memory ADD COLUMN slot TEXT;
-- What is there already counts as explicit where no event says otherwise, or where our own tools and doors wrote it.
UPDATE memory SET explicit = 1
WHERE NOT verbatim AND (event_ids = '[]' OR json_extract(metadata, '$.source') = 'explicit_save');
UPDATE memory SET slot = substr(lower(trim(subject)), 1, 100) || char(10) || substr(lower(trim(attribute)), 1, 100)
WHERE trim(subject) <> '' AND trim(attribute) <> '' AND NOT verbatim;
CREATE INDEX memory_slot ON memory (scope_id, slot) WHERE slot IS NOT NULL AND state = 'active';
DROP VIEW remembered;
CREATE VIEW remembered AS
SELECT
    m.scope_id, m.id, m.content, m.type, m.topics, m.tags, m.importance, m.is_error, m.origin, m.author,
    m.session_id, m.position, m.event_ids, m.subject, m.attribute, m.metadata, m.created_at, m.updated_at,
    m.happened_at, m.said_at, m.valid_from, m.valid_to, m.expires_at, m.ttl_days, m.pinned, m.verbatim, m.explicit,
    m.state, m.superseded_by, m.revision,
    coalesce(s.retrieved, 0) AS retrieved,
    coalesce(s.delivered, 0) AS delivered,
    coalesce(s.delivered_total, 0) AS delivered_total,
    s.last_delivered_at,
    coalesce(s.successes, 0) AS successes,
    coalesce(s.failures, 0) AS failures
FROM memory AS m
LEFT JOIN memory_stats AS s ON s.scope_id = m.scope_id AND s.id = m.id;
