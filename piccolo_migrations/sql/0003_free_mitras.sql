-- The mitras who can take another session, with the number of sessions that they hold
-- (docs/product.md#eligible-mitras). The availability count, the blast, the targeted request and the accept all use
-- this function.
CREATE OR REPLACE FUNCTION free_mitras(
  p_now TIMESTAMPTZ, p_require_ping BOOLEAN, p_stale_seconds FLOAT8, p_capacity INT
)
RETURNS TABLE (mitra_id UUID, active_session_count INT) LANGUAGE sql STABLE AS $$
  SELECT m.id, load.sessions
  FROM mitras m
  JOIN mitra_silences(p_now) o ON o.mitra_id = m.id
  CROSS JOIN LATERAL (
    SELECT count(*)::int AS sessions
    FROM chat_sessions s
    WHERE s.mitra_id = m.id AND s.status IN ('active', 'expired')
  ) load
  WHERE m.is_active
    AND (NOT p_require_ping OR o.silent_since + make_interval(secs => p_stale_seconds) > p_now)
    AND load.sessions < p_capacity
$$;
