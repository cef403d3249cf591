-- Brings status, delivered_at and read_at of single messages, those behind `p_after`, up to their sessions' marks; of each
-- session the next `p_many` (NULL: all), so that no flood of messages outlasts a statement. Safe to repeat.
-- Messages are taken by session, sender and seq, whoever asks and however: two that fill the same sessions meet in one
-- order. So the plan is a loop over the sorted marks, by switches and not by luck. Returns up to where nothing is to be
-- filled in any more once all parts are (NULL where one side has not gone on), and whether there is a part behind this one.
CREATE OR REPLACE FUNCTION chat_fill(p_sessions uuid[], p_after int[], p_many int)
RETURNS TABLE (id uuid, final int, goes_on boolean) LANGUAGE sql VOLATILE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET jit = off AS $$
  WITH f AS MATERIALIZED (
    SELECT s.id, u.after, side.* FROM unnest(p_sessions, p_after) AS u(id, after) JOIN chat_sessions s ON s.id = u.id
    CROSS JOIN LATERAL (VALUES
      ('customer', s.mitra_delivered_seq, s.mitra_read_seq, s.mitra_delivered_at, s.mitra_read_at),
      ('mitra', s.customer_delivered_seq, s.customer_read_seq, s.customer_delivered_at, s.customer_read_at)
    ) AS side(sender, delivered_seq, read_seq, delivered_at, read_at)
    WHERE side.delivered_seq > u.after ORDER BY s.id, side.sender
  ), filled AS (UPDATE chat_messages m SET
    status = CASE WHEN m.seq <= f.read_seq THEN 'read' ELSE 'delivered' END,
    delivered_at = coalesce(m.delivered_at, f.delivered_at),
    read_at = CASE WHEN m.seq <= f.read_seq THEN coalesce(m.read_at, f.read_at) END
  FROM f
  WHERE m.session_id = f.id AND m.sender_type = f.sender AND m.seq > f.after AND m.seq <= least(f.delivered_seq, f.after + p_many)
    AND (m.delivered_at IS NULL OR m.read_at IS NULL AND m.seq <= f.read_seq))
  SELECT f.id, CASE WHEN count(*) = 2 THEN min(f.read_seq) END, coalesce(bool_or(f.delivered_seq > f.after + p_many), false)
  FROM f GROUP BY f.id
$$;

-- As processes of the version before ask for it.
CREATE OR REPLACE FUNCTION chat_fill(p_sessions uuid[], p_after int[]) RETURNS TABLE (id uuid, final int) LANGUAGE sql VOLATILE AS $$
  SELECT f.id, f.final FROM chat_fill(p_sessions, p_after, NULL) f WHERE f.final IS NOT NULL
$$;
