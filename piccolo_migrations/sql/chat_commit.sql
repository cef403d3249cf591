-- One batch of chat messages and marks, one transaction, one round trip.
--
-- Sessions are locked in id order; the clock is read after the locks; the statement behind it has a fresh snapshot and
-- so sees every duplicate that was committed while it waited. `seqs` answers in input order: the seq; minus the seq when
-- the message was stored before (`kept_*` hold the first answer); 0 when the session is not active; NULL for a stranger.
-- Planner switches: batches are small and every look-up is by key, but plans made on an empty table are kept for long.
CREATE OR REPLACE FUNCTION chat_commit(
  p_ids uuid[], p_sessions uuid[], p_senders uuid[], p_client_ids uuid[],
  p_types text[], p_contents text[], p_metadata text[],
  p_touched uuid[], p_customer_delivered int[], p_customer_read int[], p_mitra_delivered int[], p_mitra_read int[],
  p_anchor timestamptz, p_scale float8)
RETURNS TABLE (at timestamptz, seqs int[], kept_ids uuid[], kept_ats timestamptz[]) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz;
BEGIN
  PERFORM 1 FROM chat_sessions WHERE id = ANY (p_touched) ORDER BY id FOR NO KEY UPDATE;
  v_now := p_anchor + (clock_timestamp() - p_anchor) * p_scale;
  RETURN QUERY WITH judged AS (
    SELECT i.*, s.last_seq, kept.id AS kept_id, kept.seq AS kept_seq, kept.created_at AS kept_at,
      CASE i.sender_id WHEN s.customer_id THEN 'customer' WHEN s.mitra_id THEN 'mitra' END AS sender_type,
      kept.id IS NULL AND s.status = 'active' AND s.expires_at > v_now
        AND i.sender_id IN (s.customer_id, s.mitra_id) AS accepted
    FROM unnest(p_ids, p_sessions, p_senders, p_client_ids, p_types, p_contents, p_metadata) WITH ORDINALITY
      AS i(id, session_id, sender_id, client_message_id, type, content, metadata, n)
    LEFT JOIN chat_sessions s ON s.id = i.session_id
    LEFT JOIN LATERAL (SELECT m.id, m.seq, m.created_at FROM chat_messages m WHERE m.session_id = i.session_id
      AND m.sender_id = i.sender_id AND m.client_message_id = i.client_message_id LIMIT 1) kept ON true
  ), placed AS (
    SELECT *, last_seq + (count(*) FILTER (WHERE accepted) OVER (PARTITION BY session_id ORDER BY n))::int AS seq
    FROM judged
  ), stored AS (
    INSERT INTO chat_messages (id, session_id, seq, sender_type, sender_id, client_message_id, type, content, metadata, created_at)
    SELECT id, session_id, seq, sender_type, sender_id, client_message_id, type, content, metadata::jsonb, v_now
    FROM placed WHERE accepted ORDER BY n
  ), moved AS (  -- one new version of each session row; UNION ALL, because joining batch to batch is quadratic here
    UPDATE chat_sessions s SET last_seq = greatest(s.last_seq, d.top),
      customer_delivered_seq = greatest(s.customer_delivered_seq, least(s.last_seq, d.cd)),
      customer_read_seq = greatest(s.customer_read_seq, least(s.last_seq, d.cr)),
      mitra_delivered_seq = greatest(s.mitra_delivered_seq, least(s.last_seq, d.md)),
      mitra_read_seq = greatest(s.mitra_read_seq, least(s.last_seq, d.mr)),
      customer_delivered_at = CASE WHEN least(s.last_seq, d.cd) > s.customer_delivered_seq THEN v_now ELSE s.customer_delivered_at END,
      customer_read_at = CASE WHEN least(s.last_seq, d.cr) > s.customer_read_seq THEN v_now ELSE s.customer_read_at END,
      mitra_delivered_at = CASE WHEN least(s.last_seq, d.md) > s.mitra_delivered_seq THEN v_now ELSE s.mitra_delivered_at END,
      mitra_read_at = CASE WHEN least(s.last_seq, d.mr) > s.mitra_read_seq THEN v_now ELSE s.mitra_read_at END
    FROM (SELECT id, max(top) AS top, max(cd) AS cd, max(cr) AS cr, max(md) AS md, max(mr) AS mr FROM (
        SELECT id, 0 AS top, cd, cr, md, mr FROM unnest(p_touched, p_customer_delivered, p_customer_read,
          p_mitra_delivered, p_mitra_read) AS u(id, cd, cr, md, mr)
        UNION ALL SELECT session_id, seq, 0, 0, 0, 0 FROM placed WHERE accepted) x GROUP BY id) d
    WHERE s.id = d.id AND (d.top > s.last_seq OR d.cd > s.customer_delivered_seq OR d.cr > s.customer_read_seq
      OR d.md > s.mitra_delivered_seq OR d.mr > s.mitra_read_seq)
  )
  SELECT v_now,
    array_agg(CASE WHEN kept_id IS NOT NULL THEN -kept_seq WHEN accepted THEN seq WHEN sender_type IS NOT NULL THEN 0 END ORDER BY n),
    array_agg(kept_id ORDER BY n) FILTER (WHERE kept_id IS NOT NULL),
    array_agg(kept_at ORDER BY n) FILTER (WHERE kept_id IS NOT NULL)
  FROM placed;
END $$;
