-- Store one chat message, with read markers of its session: what chat_commit does for a batch of one message, for two
-- thirds of its cost (docs/decisions/0003-chat-commit.md). Most batches of a quiet service are such ones.
--
-- The session is locked, and the clock is read after the lock. `seq`, `kept_id` and `kept_at` are those of chat_commit
-- for this message. A message that is not simply new (a repeated one, or one that may have to be refused) is left to
-- chat_commit, in this transaction and with the session locked.
--
-- The planner settings are those of chat_commit that matter without joins: plans made on an empty table are kept.
CREATE OR REPLACE FUNCTION chat_commit_one(
  p_session UUID, p_customer_delivered INT, p_customer_read INT, p_mitra_delivered INT, p_mitra_read INT,
  p_id UUID, p_sender UUID, p_client_id UUID, p_type TEXT, p_content TEXT, p_metadata TEXT,
  p_anchor TIMESTAMPTZ, p_scale FLOAT8
)
RETURNS TABLE (at TIMESTAMPTZ, seq INT, kept_id UUID, kept_at TIMESTAMPTZ) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz;
  v_customer uuid;
  v_mitra uuid;
  v_until timestamptz;  -- until when messages are accepted; -infinity if the session is not active
  v_seq int;
BEGIN
  SELECT customer_id, mitra_id, CASE status WHEN 'active' THEN expires_at ELSE '-infinity' END, last_seq + 1
    INTO v_customer, v_mitra, v_until, v_seq
    FROM chat_sessions
    WHERE id = p_session
    FOR NO KEY UPDATE;
  v_now := p_anchor + (clock_timestamp() - p_anchor) * p_scale;
  IF v_until > v_now AND p_sender IN (v_customer, v_mitra) THEN
    INSERT INTO chat_messages (
      id, session_id, seq, sender_type, sender_id, client_message_id, type, content, metadata, created_at
    )
    VALUES (
      p_id, p_session, v_seq, CASE p_sender WHEN v_customer THEN 'customer' ELSE 'mitra' END,
      p_sender, p_client_id, p_type, p_content, p_metadata::jsonb, v_now
    )
    ON CONFLICT DO NOTHING;  -- of a named index it would fail while a partition's index is rebuilt
    IF FOUND THEN
      UPDATE chat_sessions s
      SET
        last_seq = v_seq,
        customer_delivered_seq = greatest(s.customer_delivered_seq, least(s.last_seq, p_customer_delivered)),
        customer_read_seq = greatest(s.customer_read_seq, least(s.last_seq, p_customer_read)),
        mitra_delivered_seq = greatest(s.mitra_delivered_seq, least(s.last_seq, p_mitra_delivered)),
        mitra_read_seq = greatest(s.mitra_read_seq, least(s.last_seq, p_mitra_read)),
        customer_delivered_at = CASE
          WHEN least(s.last_seq, p_customer_delivered) > s.customer_delivered_seq THEN v_now
          ELSE s.customer_delivered_at END,
        customer_read_at = CASE
          WHEN least(s.last_seq, p_customer_read) > s.customer_read_seq THEN v_now ELSE s.customer_read_at END,
        mitra_delivered_at = CASE
          WHEN least(s.last_seq, p_mitra_delivered) > s.mitra_delivered_seq THEN v_now ELSE s.mitra_delivered_at END,
        mitra_read_at = CASE
          WHEN least(s.last_seq, p_mitra_read) > s.mitra_read_seq THEN v_now ELSE s.mitra_read_at END,
        customer_sent_seq = CASE p_sender WHEN v_customer THEN v_seq ELSE s.customer_sent_seq END,
        mitra_sent_seq = CASE p_sender WHEN v_mitra THEN v_seq ELSE s.mitra_sent_seq END
      WHERE s.id = p_session;
      at := v_now;
      seq := v_seq;
      RETURN NEXT;
      RETURN;
    END IF;
  END IF;
  RETURN QUERY
    SELECT c.at, c.seqs[1], c.kept_ids[1], c.kept_ats[1]
    FROM chat_commit(
      ARRAY[p_session], ARRAY[p_customer_delivered], ARRAY[p_customer_read], ARRAY[p_mitra_delivered], ARRAY[p_mitra_read],
      ARRAY[1], ARRAY[p_id], ARRAY[p_sender], ARRAY[p_client_id],
      ARRAY[p_type], ARRAY[p_content], ARRAY[p_metadata],
      p_anchor, p_scale
    ) c;
END $$;
