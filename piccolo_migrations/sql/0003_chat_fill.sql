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
