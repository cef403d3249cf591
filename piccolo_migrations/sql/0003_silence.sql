-- Since when a mitra has been silent. Silence counts only while all processes of the mitra's channel could take
-- heartbeats, and a disturbance of single processes excuses it for a limited time (core/outages/rules.py,
-- docs/product.md#presence).

-- Return since when the processes of a kind could take heartbeats without a break. While none of them is alive, or one
-- may be cut off from the database, that is `p_now`.
CREATE OR REPLACE FUNCTION kind_able_since(p_kind TEXT, p_now TIMESTAMPTZ) RETURNS TIMESTAMPTZ LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN bool_or(lost_at > p_now)
    THEN least(max(CASE WHEN lost_at > p_now THEN since_at ELSE given_up_at END), p_now)
    ELSE p_now
  END
  FROM service_processes
  WHERE kind = p_kind
$$;

-- Return by how much a silence is excused at most. Rows carry GIVE_UP_S in service time, and EXCUSE_S is five times as
-- long.
CREATE OR REPLACE FUNCTION longest_excuse(p_now TIMESTAMPTZ) RETURNS INTERVAL LANGUAGE sql STABLE AS $$
  SELECT coalesce(5 * max(given_up_at - alive_at), interval '5 minutes')
  FROM service_processes
  WHERE lost_at > p_now
$$;

-- Return since when there was a process of a kind, without a break of more than a tenth of an excuse (BREAK_S); `p_now`
-- without one. The transaction in which the next process starts records each break as an outage.
CREATE OR REPLACE FUNCTION kind_served_since(p_kind TEXT, p_now TIMESTAMPTZ, p_excuse INTERVAL)
RETURNS TIMESTAMPTZ LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN EXISTS (SELECT 1 FROM service_processes WHERE kind = p_kind AND lost_at > p_now)
    THEN coalesce(
      (SELECT max(ended_at) FROM outages WHERE kind IN (p_kind, 'database') AND ended_at - began_at > p_excuse / 10),
      '-infinity'
    )
    ELSE p_now
  END
$$;

-- For each channel of heartbeats: since when all its processes could take them without a break, and since when there
-- was a process. A mitra who has just gone online has used neither channel yet: `any`.
CREATE OR REPLACE FUNCTION heartbeat_channels(p_now TIMESTAMPTZ)
RETURNS TABLE (
  channel TEXT, able_since TIMESTAMPTZ, served_since TIMESTAMPTZ, excuse INTERVAL
) LANGUAGE sql STABLE AS $$
  SELECT k.channel, k.able_since, k.served_since, x.excuse
  FROM (SELECT longest_excuse(p_now) AS excuse OFFSET 0) x
  CROSS JOIN LATERAL (
    SELECT
      kind_able_since('realtime', p_now) AS socket,
      kind_able_since('api', p_now) AS rest,
      kind_served_since('realtime', p_now, x.excuse) AS socket_served,
      kind_served_since('api', p_now, x.excuse) AS rest_served
    OFFSET 0
  ) able
  CROSS JOIN LATERAL (
    VALUES
      ('socket', able.socket, able.socket_served),
      ('rest', able.rest, able.rest_served),
      ('any', greatest(able.socket, able.rest), greatest(able.socket_served, able.rest_served))
  ) k (channel, able_since, served_since)
$$;

-- The rule: a silence does not begin before all processes of the channel could take heartbeats, unless that excuses it
-- for too long.
CREATE OR REPLACE FUNCTION silent_since(
  p_heartbeat_at TIMESTAMPTZ, p_able_since TIMESTAMPTZ, p_served_since TIMESTAMPTZ, p_excuse INTERVAL
)
RETURNS TIMESTAMPTZ LANGUAGE sql STABLE AS $$
  SELECT least(greatest(p_heartbeat_at, p_able_since), greatest(p_heartbeat_at, p_served_since) + p_excuse)
$$;

-- For each online mitra: since when they have been silent.
CREATE OR REPLACE FUNCTION mitra_silences(p_now TIMESTAMPTZ)
RETURNS TABLE (mitra_id UUID, last_heartbeat_at TIMESTAMPTZ, silent_since TIMESTAMPTZ) LANGUAGE sql STABLE AS $$
  SELECT
    o.mitra_id,
    o.last_heartbeat_at,
    silent_since(o.last_heartbeat_at, c.able_since, c.served_since, c.excuse)
  FROM heartbeat_channels(p_now) c
  JOIN mitra_online_status o ON o.heartbeat_channel = c.channel
  WHERE o.is_online
$$;

-- Return when the longest silence began; NULL when no mitra is online. It reads one index entry for each channel.
CREATE OR REPLACE FUNCTION longest_silence_since(p_now TIMESTAMPTZ) RETURNS TIMESTAMPTZ LANGUAGE sql STABLE AS $$
  SELECT min(silent_since(first.heartbeat_at, c.able_since, c.served_since, c.excuse))
  FROM heartbeat_channels(p_now) c
  JOIN LATERAL (
    SELECT min(last_heartbeat_at) AS heartbeat_at
    FROM mitra_online_status o
    WHERE o.is_online AND o.heartbeat_channel = c.channel
  ) first ON first.heartbeat_at IS NOT NULL
$$;
