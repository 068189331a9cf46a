-- Vectors too long for a row of one page could not be written: those tables keep them in pieces beside the row.
DO $$
DECLARE
    made record;
BEGIN
    FOR made IN SELECT number FROM embedder WHERE dimensions > 4000 LOOP
        EXECUTE format('ALTER TABLE {prefix}memory_vector_%s ALTER COLUMN embedding SET STORAGE EXTERNAL', made.number);
    END LOOP;
END $$;
