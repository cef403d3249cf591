-- `stale_after_seconds` may have a fraction. Statements of the version before, which give a whole number, find this function
-- too. Only the type of `p_stale_seconds` differs from before.
DROP FUNCTION IF EXISTS free_mitras(timestamptz, boolean, int, int);
CREATE OR REPLACE FUNCTION free_mitras(p_now timestamptz, p_require_ping boolean, p_stale_seconds float8, p_capacity int)
RETURNS TABLE (mitra_id uuid, active_session_count int) LANGUAGE sql STABLE AS $$
  SELECT m.id, load.sessions
  FROM mitras m
  JOIN mitra_silences(p_now) o ON o.mitra_id = m.id
  CROSS JOIN LATERAL (
    SELECT count(*)::int AS sessions FROM chat_sessions s
    WHERE s.mitra_id = m.id AND s.status IN ('active', 'expired')
  ) load
  WHERE m.is_active
    AND (NOT p_require_ping OR o.silent_since + make_interval(secs => p_stale_seconds) > p_now)
    AND load.sessions < p_capacity
$$;
