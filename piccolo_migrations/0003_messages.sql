-- sha256 a30861afab4f50d04f1f68d5a94fe08ec25891d7d19b51c06e57cb2b24fe113f
-- The functions that store messages, set their markers, compute the digest of a chat and say who wrote.

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

-- Set status, delivered_at and read_at of single messages to match the read markers of their sessions.
--
-- p_after: up to which seq the messages of each session are set already. p_many: how many messages after that to set in
-- this call (NULL: all), so that a session with many messages can't exceed the statement timeout. May be repeated.
--
-- `final` is the seq up to which no message will change once all parts are set; NULL while one side has not
-- read further. `goes_on` says whether messages are left for another call.
--
-- Messages are updated in the order of session, sender and seq, so two calls for the same sessions can't deadlock. The
-- planner settings force that order: a loop over the sorted markers.
CREATE OR REPLACE FUNCTION chat_fill(p_sessions UUID[], p_after INT[], p_many INT)
RETURNS TABLE (id UUID, final INT, goes_on BOOLEAN) LANGUAGE sql VOLATILE
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
AS $$
  WITH f AS MATERIALIZED (
    SELECT s.id, u.after, side.*
    FROM unnest(p_sessions, p_after) AS u(id, after)
    JOIN chat_sessions s ON s.id = u.id
    CROSS JOIN LATERAL (
      VALUES
        ('customer', s.mitra_delivered_seq, s.mitra_read_seq, s.mitra_delivered_at, s.mitra_read_at),
        ('mitra', s.customer_delivered_seq, s.customer_read_seq, s.customer_delivered_at, s.customer_read_at)
    ) AS side(sender, delivered_seq, read_seq, delivered_at, read_at)
    WHERE side.delivered_seq > u.after
    ORDER BY s.id, side.sender
  ), filled AS (
    UPDATE chat_messages m
    SET
      status = CASE WHEN m.seq <= f.read_seq THEN 'read' ELSE 'delivered' END,
      delivered_at = coalesce(m.delivered_at, f.delivered_at),
      read_at = CASE WHEN m.seq <= f.read_seq THEN coalesce(m.read_at, f.read_at) END
    FROM f
    WHERE m.session_id = f.id
      AND m.sender_type = f.sender
      AND m.seq > f.after
      AND m.seq <= least(f.delivered_seq, f.after + p_many)
      AND (m.delivered_at IS NULL OR m.read_at IS NULL AND m.seq <= f.read_seq)
  )
  SELECT
    f.id,
    CASE WHEN count(*) = 2 THEN min(f.read_seq) END,
    coalesce(bool_or(f.delivered_seq > f.after + p_many), false)
  FROM f
  GROUP BY f.id
$$;

-- The digest of a session's messages up to p_up_to, continued from the nearest stored one over at most p_at_most
-- messages. Returns a row for each multiple of 64 on the way, and one for the seq that it reached: less than
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

-- Who wrote in a paired session, without texts. A silence ends with a message or with the paid time. No row for
-- a session that was never paired.
CREATE OR REPLACE FUNCTION who_wrote(p_session UUID, p_now TIMESTAMPTZ) RETURNS TABLE (
  messages_by_customer INT,
  messages_by_mitra INT,
  first_reply_seconds INT,
  longest_silence_seconds INT
) LANGUAGE sql STABLE AS $$
  SELECT
    w.by_customer,
    w.by_mitra,
    w.first_reply_seconds,
    greatest(
      w.longest_gap,
      floor(
        extract(EPOCH FROM least(coalesce(s.ended_at, p_now), s.expires_at) - coalesce(w.newest_at, s.paired_at))
      ),
      0
    )::int
  FROM chat_sessions AS s
  CROSS JOIN
    LATERAL (
      SELECT
        count(*) FILTER (WHERE m.sender_type = 'customer')::int AS by_customer,
        count(*) FILTER (WHERE m.sender_type = 'mitra')::int AS by_mitra,
        floor(
          extract(EPOCH FROM min(m.created_at - m.asked_at) FILTER (WHERE m.sender_type = 'mitra'))
        )::int AS first_reply_seconds,
        floor(extract(EPOCH FROM max(m.created_at - m.before_at)))::int AS longest_gap,
        max(m.created_at) AS newest_at
      FROM (
        SELECT
          x.sender_type,
          x.created_at,
          lag(x.created_at, 1, s.paired_at) OVER (ORDER BY x.seq) AS before_at,
          min(x.created_at) FILTER (WHERE x.sender_type = 'customer') OVER (ORDER BY x.seq) AS asked_at
        FROM chat_messages AS x
        WHERE x.session_id = s.id AND x.sender_type <> 'system'
      ) AS m
    ) AS w
  WHERE s.id = p_session AND s.paired_at IS NOT NULL
$$;
