-- One row for each time that a session got back (docs/fairness.md#fair-clock). The interval is the lost time; its part
-- that another credit of the session covers is not in `milliseconds`.
CREATE TABLE IF NOT EXISTS session_time_credits (
  id UUID PRIMARY KEY NOT NULL,
  session_id UUID NOT NULL REFERENCES chat_sessions (id) ON DELETE RESTRICT,
  reason VARCHAR(16) NOT NULL,
  outage_id UUID,
  began_at TIMESTAMPTZ NOT NULL,
  ended_at TIMESTAMPTZ NOT NULL,
  milliseconds INTEGER NOT NULL,
  created_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp,
  CONSTRAINT session_time_credits_outage_once UNIQUE (session_id, outage_id),
  CONSTRAINT session_time_credits_interval_once UNIQUE (session_id, reason, began_at),
  CONSTRAINT session_time_credits_known_reason CHECK (reason IN ('database', 'realtime', 'mitra_absent')),
  CONSTRAINT session_time_credits_outage_has_an_id CHECK ((reason = 'mitra_absent') = (outage_id IS NULL)),
  CONSTRAINT session_time_credits_end_after_begin CHECK (ended_at > began_at),
  CONSTRAINT session_time_credits_not_more_than_lost CHECK (
    milliseconds > 0 AND milliseconds <= ceil(extract(EPOCH FROM ended_at - began_at) * 1000)
  )
);

-- next transaction
-- Since when the paid time of a session runs that had expired and was extended; null: since `paired_at`.
ALTER TABLE chat_sessions ADD COLUMN IF NOT EXISTS resumed_at TIMESTAMPTZ;

-- next transaction
-- When the jobs process credits the sessions with an outage, and when it has first done so. `credit_at` is null if the
-- outage is not credited (any more): another kind, or the fair clock is off.
ALTER TABLE outages ADD COLUMN IF NOT EXISTS credit_at TIMESTAMPTZ;
ALTER TABLE outages ADD COLUMN IF NOT EXISTS credited_at TIMESTAMPTZ;

-- next transaction
-- Since when the clock of sessions stands; NULL if it runs. It stands while no realtime process has a lease, and until
-- the credits of an outage are committed. `p_scale` is the scale of service time.
CREATE OR REPLACE FUNCTION sessions_stand_since(p_scale FLOAT8) RETURNS TIMESTAMPTZ LANGUAGE sql STABLE AS $$
  SELECT least(
    (SELECT min(began_at) FROM outages WHERE credit_at IS NOT NULL AND credited_at IS NULL),
    (
      SELECT max(p.alive_at)
      FROM service_processes p
      WHERE p.kind = 'realtime'
      HAVING NOT bool_or(
        p.lost_at > (SELECT c.anchor + (clock_timestamp() - c.anchor) * p_scale FROM service_clock c)
      )
    )
  )
$$;
