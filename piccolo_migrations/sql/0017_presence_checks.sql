-- Presence checks: a push asks the phone of a silent mitra for a heartbeat (docs/product.md#presence-check).
ALTER TABLE mitra_online_status
ADD COLUMN IF NOT EXISTS checked_at TIMESTAMPTZ,
ADD COLUMN IF NOT EXISTS check_ends_at TIMESTAMPTZ,
ADD COLUMN IF NOT EXISTS reachable_at TIMESTAMPTZ;

-- The rule: when a mitra's next presence check is due. A check is unanswered until a heartbeat follows it, or an outage
-- that excuses the silence: then the answer may have been lost. A silence never begins before the last heartbeat.
CREATE OR REPLACE FUNCTION presence_check_due(
  p_silent_since TIMESTAMPTZ, p_checked_at TIMESTAMPTZ, p_silence INTERVAL, p_pause INTERVAL
)
RETURNS TIMESTAMPTZ LANGUAGE sql STABLE AS $$
  SELECT greatest(p_silent_since + p_silence, CASE WHEN p_checked_at > p_silent_since THEN p_checked_at + p_pause END)
$$;

-- Return when the earliest presence check is due; NULL when no mitra is online. For each channel it reads the first
-- index entry without an unanswered check, and from the other index all mitras with one.
CREATE OR REPLACE FUNCTION next_presence_check(p_now TIMESTAMPTZ, p_silence INTERVAL, p_pause INTERVAL)
RETURNS TIMESTAMPTZ LANGUAGE sql STABLE AS $$
  WITH c AS MATERIALIZED (SELECT * FROM heartbeat_channels(p_now))
  SELECT least(
    (
      SELECT min(silent_since(o.last_heartbeat_at, c.able_since, c.served_since, c.excuse)) + p_silence
      FROM c
      CROSS JOIN LATERAL (
        SELECT o.last_heartbeat_at
        FROM mitra_online_status o
        WHERE
          o.is_online
          AND o.heartbeat_channel = c.channel
          AND (o.checked_at IS NULL OR o.checked_at <= o.last_heartbeat_at)
        ORDER BY o.last_heartbeat_at
        LIMIT 1
      ) o
    ),
    (
      SELECT min(presence_check_due(
        silent_since(o.last_heartbeat_at, c.able_since, c.served_since, c.excuse),
        o.checked_at,
        p_silence,
        p_pause
      ))
      FROM mitra_online_status o
      JOIN c ON c.channel = o.heartbeat_channel
      WHERE o.is_online AND o.checked_at > o.last_heartbeat_at
    )
  )
$$;
