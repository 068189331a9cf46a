-- "said_at": when it was said (NULL: unknown, then "created_at"). "explicit": a caller saved it as it is. "slot": subject
-- and attribute as they are compared (text.slot), for the values of one slot to be found by it.
ALTER TABLE memory ADD COLUMN said_at timestamptz;
ALTER TABLE memory ADD COLUMN explicit boolean NOT NULL DEFAULT false;
ALTER TABLE memory ADD COLUMN slot text;
-- What is there already counts as explicit where no event says otherwise, or where our own tools and doors wrote it.
UPDATE memory SET explicit = true
WHERE NOT verbatim AND (event_ids = '{}' OR metadata ->> 'source' = 'explicit_save');
UPDATE memory SET slot = left(lower(trim(subject)), 100) || chr(10) || left(lower(trim(attribute)), 100)
WHERE trim(subject) <> '' AND trim(attribute) <> '' AND NOT verbatim;
CREATE INDEX memory_slot ON memory (scope_id, slot) WHERE slot IS NOT NULL AND state = 'active';
CREATE OR REPLACE VIEW remembered AS
SELECT
    m.scope_id, m.id, m.content, m.type, m.topics, m.tags, m.importance, m.is_error, m.origin, m.author,
    m.session_id, m.position, m.event_ids, m.subject, m.attribute, m.metadata, m.created_at, m.updated_at,
    m.happened_at, m.valid_from, m.valid_to, m.expires_at, m.ttl_days, m.pinned, m.verbatim, m.state,
    m.superseded_by, m.revision,
    coalesce(s.retrieved, 0) AS retrieved,
    coalesce(s.delivered, 0) AS delivered,
    coalesce(s.delivered_total, 0) AS delivered_total,
    s.last_delivered_at,
    coalesce(s.successes, 0) AS successes,
    coalesce(s.failures, 0) AS failures,
    m.said_at,
    m.explicit
FROM memory AS m
LEFT JOIN memory_stats AS s ON s.scope_id = m.scope_id AND s.id = m.id;
