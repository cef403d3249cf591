-- One row for each round of a search (docs/fairness.md#why-no-mitra-was-found).
CREATE TABLE IF NOT EXISTS search_rounds (
  id UUID PRIMARY KEY NOT NULL,
  session_id UUID NOT NULL REFERENCES chat_sessions (id) ON DELETE RESTRICT,
  round_number INTEGER NOT NULL,
  is_targeted BOOLEAN NOT NULL DEFAULT false,
  began_at TIMESTAMPTZ NOT NULL,
  ended_at TIMESTAMPTZ,
  active INTEGER NOT NULL,
  online INTEGER NOT NULL,
  fresh INTEGER NOT NULL,
  with_room INTEGER NOT NULL,
  askable INTEGER NOT NULL,
  asked INTEGER NOT NULL DEFAULT 0,
  accepted INTEGER NOT NULL DEFAULT 0,
  rejected INTEGER NOT NULL DEFAULT 0,
  unanswered INTEGER NOT NULL DEFAULT 0,
  closed INTEGER NOT NULL DEFAULT 0,
  CONSTRAINT search_rounds_once UNIQUE (session_id, round_number),
  CONSTRAINT search_rounds_narrowing CHECK (
    active >= online AND online >= fresh AND fresh >= with_room AND with_room >= askable AND askable >= 0
  ),
  CONSTRAINT search_rounds_adds_up CHECK (asked = accepted + rejected + unanswered + closed)
);

-- The active mitras who are online, with the number of sessions that they hold, and which of the other conditions of
-- docs/product.md#eligible-mitras they meet.
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
  CROSS JOIN LATERAL (
    SELECT count(*)::int AS sessions
    FROM chat_sessions s
    WHERE s.mitra_id = m.id AND s.status IN ('active', 'expired')
  ) load
  WHERE m.is_active
$$;

-- The mitras who can take another session, with the number of sessions that they hold
-- (docs/product.md#eligible-mitras). The availability count, the blast, the targeted request and the accept all use
-- this function.
CREATE OR REPLACE FUNCTION free_mitras(
  p_now TIMESTAMPTZ, p_require_ping BOOLEAN, p_stale_seconds FLOAT8, p_capacity INT
)
RETURNS TABLE (mitra_id UUID, active_session_count INT) LANGUAGE sql STABLE AS $$
  SELECT o.mitra_id, o.active_session_count
  FROM online_mitras(p_now, p_require_ping, p_stale_seconds, p_capacity) o
  WHERE o.is_fresh AND o.has_room
$$;
