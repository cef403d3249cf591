-- Which processes live, which outages there were, and since when a mitra's silence counts. Safe to run again.

-- One row for each place where a process runs (host and port). Each process renews its lease every second.
CREATE TABLE IF NOT EXISTS service_processes (
  place VARCHAR(255) PRIMARY KEY NOT NULL,
  kind VARCHAR(16) NOT NULL,
  since_at TIMESTAMPTZ NOT NULL,
  alive_at TIMESTAMPTZ NOT NULL,
  lost_at TIMESTAMPTZ NOT NULL,
  given_up_at TIMESTAMPTZ NOT NULL,
  CONSTRAINT service_processes_known_kind CHECK (kind in ('api', 'realtime', 'jobs'))
) WITH (fillfactor = 50);

CREATE TABLE IF NOT EXISTS outages (
  id UUID PRIMARY KEY NOT NULL,
  kind VARCHAR(16) NOT NULL,
  began_at TIMESTAMPTZ NOT NULL,
  ended_at TIMESTAMPTZ NOT NULL,
  CONSTRAINT outages_known_kind CHECK (kind in ('database', 'realtime', 'api')),
  CONSTRAINT outages_end_after_begin CHECK (ended_at > began_at)
);
CREATE UNIQUE INDEX IF NOT EXISTS outages_one_begin ON outages (kind, began_at);
CREATE INDEX IF NOT EXISTS outages_by_end ON outages (ended_at);

ALTER TABLE mitra_online_status ADD COLUMN IF NOT EXISTS heartbeat_channel VARCHAR(8) NOT NULL DEFAULT 'any';
DO $$ BEGIN
  ALTER TABLE mitra_online_status ADD CONSTRAINT mitra_online_status_known_channel
    CHECK (heartbeat_channel in ('any', 'socket', 'rest'));
EXCEPTION WHEN duplicate_object THEN NULL;
END $$;
CREATE INDEX IF NOT EXISTS mitra_online_status_silence ON mitra_online_status (heartbeat_channel, last_heartbeat_at) WHERE is_online;
DROP INDEX IF EXISTS mitra_online_status_heartbeat;

-- Since when the processes of a kind could take heartbeats without a break. While none of them lives, and while one of them
-- may only be cut off from the database, that is `p_now`: a silence of that time does not count.
CREATE OR REPLACE FUNCTION kind_able_since(p_kind text, p_now timestamptz) RETURNS timestamptz LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN bool_or(lost_at > p_now)
    THEN least(max(CASE WHEN lost_at > p_now THEN since_at ELSE given_up_at END), p_now) ELSE p_now END
  FROM service_processes WHERE kind = p_kind
$$;

-- The same for each channel of heartbeats. A mitra who has just gone online has used neither yet: `any`.
CREATE OR REPLACE FUNCTION heartbeat_channels(p_now timestamptz)
RETURNS TABLE (channel text, able_since timestamptz) LANGUAGE sql STABLE AS $$
  SELECT k.channel, k.able_since FROM (SELECT kind_able_since('realtime', p_now) AS socket, kind_able_since('api', p_now) AS rest OFFSET 0) able
  CROSS JOIN LATERAL (VALUES ('socket', able.socket), ('rest', able.rest), ('any', greatest(able.socket, able.rest))) k (channel, able_since)
$$;

-- The one place that says since when an online mitra has been silent; every judgement of staleness reads it.
CREATE OR REPLACE FUNCTION mitra_silences(p_now timestamptz)
RETURNS TABLE (mitra_id uuid, last_heartbeat_at timestamptz, silent_since timestamptz) LANGUAGE sql STABLE AS $$
  SELECT o.mitra_id, o.last_heartbeat_at, greatest(o.last_heartbeat_at, c.able_since)
  FROM heartbeat_channels(p_now) c JOIN mitra_online_status o ON o.heartbeat_channel = c.channel
  WHERE o.is_online
$$;

-- The begin of the longest silence; NULL when nobody is online. One index probe for each channel.
CREATE OR REPLACE FUNCTION longest_silence_since(p_now timestamptz) RETURNS timestamptz LANGUAGE sql STABLE AS $$
  SELECT min(greatest(first.heartbeat_at, c.able_since)) FROM heartbeat_channels(p_now) c
  JOIN LATERAL (SELECT min(last_heartbeat_at) AS heartbeat_at FROM mitra_online_status o
    WHERE o.is_online AND o.heartbeat_channel = c.channel) first ON first.heartbeat_at IS NOT NULL
$$;

-- The one predicate of "free for a request": the availability count, the blast, the targeted check and the accept use it.
CREATE OR REPLACE FUNCTION free_mitras(p_now timestamptz, p_require_ping boolean, p_stale_seconds int, p_capacity int)
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
