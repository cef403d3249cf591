-- The last signs of life of the parties of running sessions, and their absences (docs/fairness.md#absent-party). The
-- row of a session is written every few seconds, so its pages have room for updates in place.
CREATE TABLE IF NOT EXISTS session_presence (
  session_id UUID PRIMARY KEY NOT NULL,
  customer_seen_at TIMESTAMPTZ,
  mitra_seen_at TIMESTAMPTZ
) WITH (fillfactor = 50);

CREATE TABLE IF NOT EXISTS session_absences (
  id UUID PRIMARY KEY NOT NULL,
  session_id UUID NOT NULL REFERENCES chat_sessions (id) ON DELETE RESTRICT,
  user_type VARCHAR(10) NOT NULL,
  since TIMESTAMPTZ NOT NULL,
  declared_at TIMESTAMPTZ NOT NULL,
  ended_at TIMESTAMPTZ,
  returned BOOLEAN NOT NULL DEFAULT false,
  CONSTRAINT session_absences_known_user_type CHECK (user_type IN ('customer', 'mitra')),
  CONSTRAINT session_absences_declared_after_silence CHECK (declared_at > since),
  CONSTRAINT session_absences_ended_after_silence CHECK (ended_at > since),
  CONSTRAINT session_absences_returned_has_ended CHECK (NOT returned OR ended_at IS NOT NULL)
);

-- A party has one open absence in a session. The index also finds the open ones.
CREATE UNIQUE INDEX IF NOT EXISTS session_absences_one_open ON session_absences (session_id, user_type)
WHERE ended_at IS NULL;
CREATE INDEX IF NOT EXISTS session_absences_session ON session_absences (session_id);

-- The parties of active sessions without a sign of life for `p_after`, and since when, apart from those who count as
-- absent already. Phones use sockets and REST, so silence counts only while both could take signs (channel `any`). A
-- party who has given no sign is silent since the session started, and none is silent since before the configuration
-- row was set: until then, signs were not stored.
CREATE OR REPLACE FUNCTION silent_parties(p_now TIMESTAMPTZ, p_after INTERVAL)
RETURNS TABLE (session_id UUID, user_type TEXT, since TIMESTAMPTZ) LANGUAGE sql STABLE AS $$
  SELECT s.id, party.user_type, silence.since
  FROM chat_sessions s
  LEFT JOIN session_presence p ON p.session_id = s.id
  CROSS JOIN LATERAL (
    VALUES
      ('customer', greatest(p.customer_seen_at, s.paired_at)),
      ('mitra', greatest(p.mitra_seen_at, s.paired_at))
  ) party (user_type, seen_at)
  JOIN heartbeat_channels(p_now) c ON c.channel = 'any'
  CROSS JOIN (SELECT max(updated_at) AS at FROM app_config WHERE key = 'peer_absent_seconds') switched
  CROSS JOIN LATERAL (
    SELECT greatest(silent_since(party.seen_at, c.able_since, c.served_since, c.excuse), switched.at) AS since
  ) silence
  WHERE s.status = 'active'
    AND s.expires_at > p_now
    AND party.seen_at <= p_now - p_after
    AND silence.since <= p_now - p_after
    AND NOT EXISTS (
      SELECT 1
      FROM session_absences a
      WHERE a.session_id = s.id AND a.user_type = party.user_type AND a.ended_at IS NULL
    )
$$;
