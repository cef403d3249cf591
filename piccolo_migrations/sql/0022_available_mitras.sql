CREATE INDEX IF NOT EXISTS auth_sessions_mitras ON auth_sessions (user_id, expires_at)
WHERE user_type = 'mitra' AND revoked_at IS NULL;

-- The mitras who have a living auth session, once for each of these (docs/product.md#end-of-a-sign-in).
CREATE OR REPLACE FUNCTION signed_in_mitras(p_now TIMESTAMPTZ)
RETURNS TABLE (mitra_id UUID) LANGUAGE sql STABLE AS $$
  SELECT a.user_id
  FROM auth_sessions a
  WHERE a.user_type = 'mitra' AND a.revoked_at IS NULL AND a.expires_at > p_now
$$;

-- The active mitras who are online and signed in, with the number of sessions that they hold, and which of the other
-- conditions of docs/product.md#eligible-mitras they meet. LIMIT 1 instead of EXISTS: for the latter the planner
-- expects few mitras, and looks each of them up in every table that follows.
CREATE OR REPLACE FUNCTION online_mitras(
  p_now TIMESTAMPTZ, p_require_ping BOOLEAN, p_stale_seconds FLOAT8, p_capacity INT
)
RETURNS TABLE (mitra_id UUID, active_session_count INT, is_fresh BOOLEAN, has_room BOOLEAN) LANGUAGE sql STABLE AS $$
  SELECT
    m.id,
    load.sessions,
    NOT p_require_ping OR o.silent_since + make_interval(secs => p_stale_seconds) > p_now,
    load.sessions < p_capacity
  FROM mitras m
  JOIN mitra_silences(p_now) o ON o.mitra_id = m.id
  CROSS JOIN LATERAL (SELECT 1 FROM signed_in_mitras(p_now) WHERE mitra_id = m.id LIMIT 1) signed_in
  CROSS JOIN LATERAL (
    SELECT count(*)::int AS sessions
    FROM chat_sessions s
    WHERE s.mitra_id = m.id AND s.status IN ('active', 'expired')
  ) load
  WHERE m.is_active
$$;
