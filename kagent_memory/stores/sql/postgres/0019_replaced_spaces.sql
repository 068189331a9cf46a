-- Whose vectors searches go by: the 'current' embedder's; 'filling' while a new one's are made beside them, 'retired' once
-- they were replaced, 'dropped' without a table (the row keeps the number from being used again).
ALTER TABLE embedder ADD COLUMN state text NOT NULL DEFAULT 'current';
