-- The online mitras with an unanswered presence check: few, and none while `reachability_probe` is off.
CREATE INDEX IF NOT EXISTS mitra_online_status_unanswered ON mitra_online_status (checked_at)
WHERE is_online AND checked_at > last_heartbeat_at;
