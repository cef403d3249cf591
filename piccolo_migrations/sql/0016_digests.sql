-- The digest of a chat at certain seqs (docs/fairness.md#digest): at each multiple of 64 that was computed, and at the
-- end once its texts are blanked.
CREATE TABLE IF NOT EXISTS chat_digests (
  id UUID PRIMARY KEY NOT NULL,
  session_id UUID NOT NULL REFERENCES chat_sessions (id) ON DELETE RESTRICT,
  seq INTEGER NOT NULL,
  digest BYTEA NOT NULL,
  CONSTRAINT chat_digests_once UNIQUE (session_id, seq),
  CONSTRAINT chat_digests_sane CHECK (seq > 0 AND length(digest) = 32)
);

-- The digest of a session's messages up to p_up_to, continued from the nearest stored one over at most p_at_most
-- messages. Returns a row for each multiple of 64 on the way, and one for the seq that it reached. That is less than
-- p_up_to if there are more messages than p_at_most, or no such message. After the texts were removed, a digest that
-- was not stored is null.
--
-- The function is STABLE, so that all its statements have one snapshot. The last digest is stored before the first text
-- is removed, so a reader who sees no texts sees that digest.
CREATE OR REPLACE FUNCTION chat_digest(p_session UUID, p_up_to INT, p_at_most INT)
RETURNS TABLE (seq INT, digest BYTEA) LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
AS $$
DECLARE
  v_message record;
BEGIN
  SELECT d.seq, d.digest INTO seq, digest
    FROM chat_digests d
    WHERE d.session_id = p_session AND d.seq <= p_up_to
    ORDER BY d.seq DESC
    LIMIT 1;
  IF seq IS NULL THEN
    seq := 0;
    digest := decode(repeat('00', 32), 'hex');
  END IF;
  FOR v_message IN
    SELECT
      m.seq,
      CASE
        WHEN m.content <> '' THEN
          convert_to(
            m.seq || ':' || m.id || ':' || encode(sha256(convert_to(m.content, 'UTF8')), 'hex') || E'\n', 'UTF8'
          )
      END AS line
    FROM chat_messages m
    WHERE m.session_id = p_session AND m.seq > chat_digest.seq AND m.seq <= p_up_to
    ORDER BY m.seq
    LIMIT p_at_most
  LOOP
    seq := v_message.seq;
    digest := sha256(digest || v_message.line);
    IF digest IS NULL THEN
      EXIT;
    ELSIF seq % 64 = 0 AND seq < p_up_to THEN
      RETURN NEXT;
    END IF;
  END LOOP;
  RETURN NEXT;
END $$;
