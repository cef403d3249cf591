-- How long a disturbance of single processes excuses a mitra's silence (the rule: core/outages/rules.py). Safe to run again.

-- By how much a silence is excused at most. Rows carry GIVE_UP_S in service time, and EXCUSE_S is five times as long.
CREATE OR REPLACE FUNCTION longest_excuse(p_now timestamptz) RETURNS interval LANGUAGE sql STABLE AS $$
  SELECT coalesce(5 * max(given_up_at - alive_at), interval '5 minutes') FROM service_processes WHERE lost_at > p_now
$$;

-- Since when there was a process of a kind, without a break of more than a tenth of an excuse (BREAK_S). Without one now,
-- that is `p_now`. Each break is recorded as an outage by the transaction in which the next process begins.
CREATE OR REPLACE FUNCTION kind_served_since(p_kind text, p_now timestamptz, p_excuse interval) RETURNS timestamptz LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN EXISTS (SELECT 1 FROM service_processes WHERE kind = p_kind AND lost_at > p_now)
    THEN coalesce((SELECT max(ended_at) FROM outages WHERE kind IN (p_kind, 'database') AND ended_at - began_at > p_excuse / 10), '-infinity')
    ELSE p_now END
$$;

-- For each channel of heartbeats: since when all its processes could take them without a break, and since when there was
-- a process. A mitra who has just gone online has used neither channel yet: `any`.
DROP FUNCTION IF EXISTS heartbeat_channels(timestamptz);
CREATE FUNCTION heartbeat_channels(p_now timestamptz)
RETURNS TABLE (channel text, able_since timestamptz, served_since timestamptz, excuse interval) LANGUAGE sql STABLE AS $$
  SELECT k.channel, k.able_since, k.served_since, x.excuse
  FROM (SELECT longest_excuse(p_now) AS excuse OFFSET 0) x
  CROSS JOIN LATERAL (SELECT kind_able_since('realtime', p_now) AS socket, kind_able_since('api', p_now) AS rest,
      kind_served_since('realtime', p_now, x.excuse) AS socket_served, kind_served_since('api', p_now, x.excuse) AS rest_served OFFSET 0) able
  CROSS JOIN LATERAL (VALUES ('socket', able.socket, able.socket_served), ('rest', able.rest, able.rest_served),
      ('any', greatest(able.socket, able.rest), greatest(able.socket_served, able.rest_served))) k (channel, able_since, served_since)
$$;

-- The one place that says since when a silence counts: not before all processes of the channel could take heartbeats,
-- unless that excuses it for too long.
CREATE OR REPLACE FUNCTION silent_since(p_heartbeat_at timestamptz, p_able_since timestamptz, p_served_since timestamptz, p_excuse interval)
RETURNS timestamptz LANGUAGE sql STABLE AS $$
  SELECT least(greatest(p_heartbeat_at, p_able_since), greatest(p_heartbeat_at, p_served_since) + p_excuse)
$$;

-- Since when each online mitra has been silent; every judgement of staleness reads it.
CREATE OR REPLACE FUNCTION mitra_silences(p_now timestamptz)
RETURNS TABLE (mitra_id uuid, last_heartbeat_at timestamptz, silent_since timestamptz) LANGUAGE sql STABLE AS $$
  SELECT o.mitra_id, o.last_heartbeat_at, silent_since(o.last_heartbeat_at, c.able_since, c.served_since, c.excuse)
  FROM heartbeat_channels(p_now) c JOIN mitra_online_status o ON o.heartbeat_channel = c.channel
  WHERE o.is_online
$$;

-- The begin of the longest silence; NULL when no mitra is online. One index probe for each channel.
CREATE OR REPLACE FUNCTION longest_silence_since(p_now timestamptz) RETURNS timestamptz LANGUAGE sql STABLE AS $$
  SELECT min(silent_since(first.heartbeat_at, c.able_since, c.served_since, c.excuse)) FROM heartbeat_channels(p_now) c
  JOIN LATERAL (SELECT min(last_heartbeat_at) AS heartbeat_at FROM mitra_online_status o
    WHERE o.is_online AND o.heartbeat_channel = c.channel) first ON first.heartbeat_at IS NOT NULL
$$;
