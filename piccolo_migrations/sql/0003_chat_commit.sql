-- Store one batch of chat messages and read markers in one statement (docs/decisions/0003-chat-commit.md).
--
-- p_sessions: the sessions of the batch, each once, in order of their ids. p_slots: for each message, the place of its
-- session in p_sessions, from 1. The sessions are locked in that order and read by the same statement; the clock is
-- read after the locks.
--
-- `seqs` has one value for each message, in input order: its seq; minus its seq if it was stored before (then
-- `kept_ids` and `kept_ats` have the first id and time); 0 if the session is not active; NULL if the sender is not in
-- the session.
--
-- Nearly every batch has only new messages of active sessions. The function stores them without looking for earlier
-- copies: the unique index finds those. Only then, or if a message must be refused, it judges each message. That
-- statement has a later snapshot and sees every copy that was committed while the function waited for locks.
--
-- The planner settings: batches are small and every look-up is by key, but plans made on an empty table are kept.
CREATE OR REPLACE FUNCTION chat_commit(
  p_sessions UUID[], p_customer_delivered INT[], p_customer_read INT[], p_mitra_delivered INT[], p_mitra_read INT[],
  p_slots INT[], p_ids UUID[], p_senders UUID[], p_client_ids UUID[],
  p_types TEXT[], p_contents TEXT[], p_metadata TEXT[],
  p_anchor TIMESTAMPTZ, p_scale FLOAT8
)
RETURNS TABLE (at TIMESTAMPTZ, seqs INT[], kept_ids UUID[], kept_ats TIMESTAMPTZ[]) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz;
  v_found uuid[];
  v_customers uuid[];
  v_mitras uuid[];
  v_until timestamptz[];  -- until when messages are accepted; -infinity if the session is not active
  v_last int[];
  v_seqs int[];
  v_kept_ids uuid[];
  v_kept_ats timestamptz[];
  v_judge boolean := cardinality(p_slots) > 0;
BEGIN
  SELECT array_agg(id), array_agg(customer_id), array_agg(mitra_id), array_agg(until), array_agg(last_seq)
    INTO v_found, v_customers, v_mitras, v_until, v_last
    FROM (
      SELECT
        id, customer_id, mitra_id,
        CASE status WHEN 'active' THEN expires_at ELSE '-infinity' END AS until,
        last_seq
      FROM chat_sessions
      WHERE id = ANY (p_sessions)
      ORDER BY id
      FOR NO KEY UPDATE
    ) s;
  v_now := p_anchor + (clock_timestamp() - p_anchor) * p_scale;
  IF v_found IS DISTINCT FROM p_sessions THEN  -- one of them does not exist
    SELECT
        array_agg(v_customers[place] ORDER BY n),
        array_agg(v_mitras[place] ORDER BY n),
        array_agg(v_until[place] ORDER BY n),
        array_agg(v_last[place] ORDER BY n)
      INTO v_customers, v_mitras, v_until, v_last
      FROM (
        SELECT n, array_position(v_found, id) AS place
        FROM unnest(p_sessions) WITH ORDINALITY AS u(id, n)
      ) x;
  ELSIF v_judge THEN
    SELECT NOT coalesce(bool_and(v_until[slot] > v_now AND sender IN (v_customers[slot], v_mitras[slot])), false)
      INTO v_judge
      FROM unnest(p_slots, p_senders) AS i(slot, sender);
    IF NOT v_judge THEN
      BEGIN
        WITH placed AS (
          SELECT *, v_last[slot] + (row_number() OVER (PARTITION BY slot ORDER BY n))::int AS seq
          FROM unnest(p_slots, p_ids, p_senders, p_client_ids, p_types, p_contents, p_metadata) WITH ORDINALITY
            AS i(slot, id, sender, client_id, type, content, metadata, n)
        ), stored AS (
          INSERT INTO chat_messages (
            id, session_id, seq, sender_type, sender_id, client_message_id, type, content, metadata, created_at
          )
          SELECT
            id, p_sessions[slot], seq,
            CASE sender WHEN v_customers[slot] THEN 'customer' ELSE 'mitra' END,
            sender, client_id, type, content, metadata::jsonb, v_now
          FROM placed
          ORDER BY n
        )
        SELECT array_agg(seq ORDER BY n) INTO v_seqs FROM placed;
      EXCEPTION WHEN unique_violation THEN
        v_judge := true;
      END;
    END IF;
  END IF;
  IF v_judge THEN
    WITH judged AS (
      SELECT
        i.*,
        kept.id AS kept_id, kept.seq AS kept_seq, kept.created_at AS kept_at,
        CASE i.sender WHEN v_customers[slot] THEN 'customer' WHEN v_mitras[slot] THEN 'mitra' END AS sender_type,
        kept.id IS NULL AND v_until[slot] > v_now AND i.sender IN (v_customers[slot], v_mitras[slot]) AS accepted
      FROM unnest(p_slots, p_ids, p_senders, p_client_ids, p_types, p_contents, p_metadata) WITH ORDINALITY
        AS i(slot, id, sender, client_id, type, content, metadata, n)
      LEFT JOIN LATERAL (
        SELECT m.id, m.seq, m.created_at
        FROM chat_messages m
        WHERE m.session_id = p_sessions[i.slot] AND m.sender_id = i.sender AND m.client_message_id = i.client_id
        LIMIT 1
      ) kept ON true
    ), placed AS (
      SELECT *, v_last[slot] + (count(*) FILTER (WHERE accepted) OVER (PARTITION BY slot ORDER BY n))::int AS seq
      FROM judged
    ), stored AS (
      INSERT INTO chat_messages (
        id, session_id, seq, sender_type, sender_id, client_message_id, type, content, metadata, created_at
      )
      SELECT
        id, p_sessions[slot], seq, sender_type, sender, client_id, type, content, metadata::jsonb, v_now
      FROM placed
      WHERE accepted
      ORDER BY n
    )
    SELECT
        array_agg(CASE
          WHEN kept_id IS NOT NULL THEN -kept_seq
          WHEN accepted THEN seq
          WHEN sender_type IS NOT NULL THEN 0
        END ORDER BY n),
        array_agg(kept_id ORDER BY n) FILTER (WHERE kept_id IS NOT NULL),
        array_agg(kept_at ORDER BY n) FILTER (WHERE kept_id IS NOT NULL)
      INTO v_seqs, v_kept_ids, v_kept_ats
      FROM placed;
  END IF;
  -- One new version of each session row. UNION ALL, because a join of the batch to itself would take quadratic time.
  UPDATE chat_sessions s
  SET
    last_seq = greatest(s.last_seq, d.top),
    customer_delivered_seq = greatest(s.customer_delivered_seq, least(s.last_seq, d.cd)),
    customer_read_seq = greatest(s.customer_read_seq, least(s.last_seq, d.cr)),
    mitra_delivered_seq = greatest(s.mitra_delivered_seq, least(s.last_seq, d.md)),
    mitra_read_seq = greatest(s.mitra_read_seq, least(s.last_seq, d.mr)),
    customer_delivered_at = CASE
      WHEN least(s.last_seq, d.cd) > s.customer_delivered_seq THEN v_now ELSE s.customer_delivered_at END,
    customer_read_at = CASE
      WHEN least(s.last_seq, d.cr) > s.customer_read_seq THEN v_now ELSE s.customer_read_at END,
    mitra_delivered_at = CASE
      WHEN least(s.last_seq, d.md) > s.mitra_delivered_seq THEN v_now ELSE s.mitra_delivered_at END,
    mitra_read_at = CASE
      WHEN least(s.last_seq, d.mr) > s.mitra_read_seq THEN v_now ELSE s.mitra_read_at END,
    customer_sent_seq = greatest(s.customer_sent_seq, d.cs),
    mitra_sent_seq = greatest(s.mitra_sent_seq, d.ms)
  FROM (
    SELECT
      slot, max(top) AS top,
      max(cd) AS cd, max(cr) AS cr, max(md) AS md, max(mr) AS mr,
      max(cs) AS cs, max(ms) AS ms
    FROM (
      SELECT n AS slot, 0 AS top, cd, cr, md, mr, 0 AS cs, 0 AS ms
        FROM unnest(p_customer_delivered, p_customer_read, p_mitra_delivered, p_mitra_read) WITH ORDINALITY
          AS u(cd, cr, md, mr, n)
      UNION ALL
      SELECT
        slot, seq, 0, 0, 0, 0,
        CASE sender WHEN v_customers[slot] THEN seq ELSE 0 END,
        CASE sender WHEN v_mitras[slot] THEN seq ELSE 0 END
        FROM unnest(p_slots, v_seqs, p_senders) AS u(slot, seq, sender)
        WHERE seq > 0
    ) x
    GROUP BY slot
  ) d
  WHERE s.id = p_sessions[d.slot]
    AND (
      d.top > s.last_seq
      OR d.cd > s.customer_delivered_seq
      OR d.cr > s.customer_read_seq
      OR d.md > s.mitra_delivered_seq
      OR d.mr > s.mitra_read_seq
    );
  RETURN QUERY SELECT v_now, v_seqs, v_kept_ids, v_kept_ats;
END $$;
