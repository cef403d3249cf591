"""The statements that find the mitras that a search may ask (core/pairing/rules.py)."""

# An invitation n because of which the search does not ask its mitra: it is open, or the mitra has rejected it.
KEEPS_FROM_ASKING = "(n.response IS NULL OR n.response = 'REJECTED')"
# The mitras b who have a block with the customer of a session.
BLOCKED = "chat_sessions AS own CROSS JOIN LATERAL blocked_mitras(own.customer_id) AS b WHERE own.id = {session}"
# An available mitra f may be asked (core/pairing/rules.py). This form is for statements about many sessions.
MAY_BE_ASKED = f"""NOT EXISTS (
    SELECT 1
    FROM chat_request_notifications AS n
    WHERE n.session_id = {{session}} AND n.mitra_id = f.mitra_id AND {KEEPS_FROM_ASKING}
  )
  AND NOT EXISTS (SELECT 1 FROM {BLOCKED} AND b.mitra_id = f.mitra_id)"""
# Parameters: $1 session, $2 now, $3 to $5 the availability policy, $6 the only mitras to invite (null: all). NOT IN
# reads the invitations of the session once; for NOT EXISTS the planner may read all of them for each mitra.
AVAILABLE = "FROM free_mitras($2, $3, $4, $5) AS f"
NOT_KEPT = f"""f.mitra_id NOT IN (
    SELECT n.mitra_id
    FROM chat_request_notifications AS n
    WHERE n.session_id = {{session}} AND {KEEPS_FROM_ASKING}
    UNION ALL
    SELECT b.mitra_id FROM {BLOCKED}
  )"""
MAY_BE_INVITED = f"""WHERE
  ($6::uuid[] IS NULL OR f.mitra_id = ANY($6))
  AND {NOT_KEPT.format(session="$1")}"""
ANYONE_ELIGIBLE = f"""SELECT 1
{AVAILABLE}
{MAY_BE_INVITED}
LIMIT 1"""
# At most $7 of the eligible mitras.
SOME_ELIGIBLE = f"""SELECT
  f.mitra_id,
  f.active_session_count,
  f.mitra_id NOT IN (
    SELECT n.mitra_id
    FROM chat_request_notifications AS n
    WHERE n.session_id = $1
  ) AS is_new
{AVAILABLE}
{MAY_BE_INVITED}
LIMIT $7"""
# The same in the order of waves. Mitras that this search has not asked come first, then those that it asked in earlier
# rounds. Among equals the one who has waited longest comes first, since coming online or last accepting a session.
# The session that a mitra accepted last may be older than their newest one, by the length of a search.
# The invitations of each mitra are looked up, because the planner compares each mitra with all that were asked if they
# are joined.
LONGEST_WAITING = f"""SELECT
  f.mitra_id,
  f.active_session_count,
  q.round_number IS NULL AS is_new
{AVAILABLE}
JOIN mitra_online_status AS o ON o.mitra_id = f.mitra_id
CROSS JOIN LATERAL (
  SELECT max(n.round_number) AS round_number
  FROM chat_request_notifications AS n
  WHERE n.session_id = $1 AND n.mitra_id = f.mitra_id
) AS q
CROSS JOIN LATERAL (
  SELECT max(s.paired_at) AS paired_at
  FROM (
    SELECT created_at - coalesce(search_ends_at - created_at, '0') AS created_from
    FROM chat_sessions
    WHERE mitra_id = f.mitra_id
    ORDER BY created_at DESC
    LIMIT 1
  ) AS newest
  JOIN chat_sessions AS s ON s.mitra_id = f.mitra_id AND s.created_at >= newest.created_from
) AS accepted
{MAY_BE_INVITED}
ORDER BY q.round_number NULLS FIRST, greatest(o.last_online_at, accepted.paired_at), f.mitra_id
LIMIT $7"""
# The running blasts for which a mitra is available and may be asked now; $5 limits the mitras (null: all), and $6 is
# the size of a wave (0: no waves).
INVITING = f"""WITH free AS MATERIALIZED (
  SELECT mitra_id
  FROM free_mitras($1, $2, $3, $4)
  WHERE $5::uuid[] IS NULL OR mitra_id = ANY($5)
)
SELECT s.id
FROM chat_sessions AS s
WHERE
  s.status = 'searching'
  AND s.targeted_mitra_id IS NULL
  AND s.round_ends_at > $1
  AND (
    $6 = 0
    OR s.wave_ends_at IS NULL
    OR s.wave_ends_at <= $1
    OR (
      SELECT count(*)
      FROM chat_request_notifications AS w
      WHERE w.session_id = s.id AND w.wave_number = s.wave_number
    ) < $6
  )
  AND EXISTS (SELECT 1 FROM free AS f WHERE {MAY_BE_ASKED.format(session="s.id")})
ORDER BY s.id"""
# Store the beginning of rounds ($1 their ids, $2 their searches), with the mitras that each could ask at $3, under the
# availability policy $4 to $6. $7 is the one mitra of a targeted search (null: all mitras). The mitras are read once
# for all rounds, and for each round those who are fresh and have room.
BEGIN_ROUNDS = f"""WITH online AS MATERIALIZED (
  SELECT mitra_id, is_fresh, has_room
  FROM online_mitras($3, $4, $5, $6)
  WHERE $7::uuid IS NULL OR mitra_id = $7
),
askable AS MATERIALIZED (
  SELECT mitra_id
  FROM online
  WHERE is_fresh AND has_room
),
counts AS (
  SELECT
    count(*)::int AS online,
    count(*) FILTER (WHERE is_fresh)::int AS fresh,
    count(*) FILTER (WHERE is_fresh AND has_room)::int AS with_room
  FROM online
)
INSERT INTO search_rounds (
  id, session_id, round_number, is_targeted, began_at, active, online, fresh, with_room, askable
)
SELECT
  r.id,
  s.id,
  s.round_number,
  $7::uuid IS NOT NULL,
  $3,
  (SELECT count(*)::int FROM mitras AS m WHERE m.is_active AND ($7::uuid IS NULL OR m.id = $7)),
  c.online,
  c.fresh,
  c.with_room,
  (SELECT count(*)::int FROM askable AS f WHERE {NOT_KEPT.format(session="s.id")})
FROM unnest($1::uuid[], $2::uuid[]) AS r (id, session_id)
JOIN chat_sessions AS s ON s.id = r.session_id
CROSS JOIN counts AS c"""
