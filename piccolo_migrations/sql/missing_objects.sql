-- Files of earlier migrations were edited after databases had run them. This gives those databases what they lack; in all
-- others each statement finds its object as it should be. Building an index holds the writers of its table: on a large
-- service create both indexes before the migration, by these lines with CONCURRENTLY.
CREATE INDEX IF NOT EXISTS webhook_logs_invoice ON webhook_logs (gateway_invoice_id);
CREATE INDEX IF NOT EXISTS chat_sessions_completed_lately ON chat_sessions (ended_at) WHERE status = 'completed';

-- A session keeps its messages: also against a new id, and against TRUNCATE.
CREATE OR REPLACE FUNCTION chat_session_keeps_messages() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM chat_messages WHERE session_id = OLD.id) THEN
    RAISE EXCEPTION 'chat session %: it has messages', OLD.id USING ERRCODE = 'foreign_key_violation';
  END IF;
  RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE OR REPLACE TRIGGER chat_session_keeps_messages BEFORE DELETE OR UPDATE OF id ON chat_sessions
  FOR EACH ROW EXECUTE FUNCTION chat_session_keeps_messages();

CREATE OR REPLACE FUNCTION chat_sessions_keep_messages() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM chat_messages) THEN
    RAISE EXCEPTION 'chat sessions: there are messages' USING ERRCODE = 'foreign_key_violation';
  END IF;
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER chat_sessions_keep_messages AFTER TRUNCATE ON chat_sessions
  FOR EACH STATEMENT EXECUTE FUNCTION chat_sessions_keep_messages();

-- For one version `chat_fill` returned two columns, and OR REPLACE cannot add the third.
DO $$ BEGIN
  IF EXISTS (SELECT 1 FROM pg_proc WHERE oid = to_regprocedure('chat_fill(uuid[], int[], int)') AND NOT 'goes_on' = ANY (proargnames)) THEN
    DROP FUNCTION chat_fill(uuid[], int[], int);
  END IF;
END $$;
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
