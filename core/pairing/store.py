"""Writes and locking reads of invitations (`chat_request_notifications`)."""

import datetime as dt
from collections.abc import Sequence

import attrs

from core.base import ids
from core.mitras.rules import AvailabilityPolicy
from core.pairing import rules
from core.pairing.rules import Response, Tally
from core.storage.database import Tx
from core.storage.reads import Reader

# An available mitra f may be asked (core/pairing/rules.py): they have no open invitation for this session and never
# rejected it.
# In ELIGIBLE: $1 session, $2 now, $3 to $5 the availability policy, $6 the only mitras to invite (null: all).
MAY_BE_ASKED = """NOT EXISTS (SELECT 1 FROM chat_request_notifications n
      WHERE n.session_id = {session} AND n.mitra_id = f.mitra_id AND (n.response IS NULL OR n.response = 'REJECTED'))"""
ELIGIBLE = f"""FROM free_mitras($2, $3, $4, $5) f
  WHERE ($6::uuid[] IS NULL OR f.mitra_id = ANY($6)) AND {MAY_BE_ASKED.format(session="$1")}"""
# Counts the invitations of a session. `mitra_id IS NOT NULL` leaves out the row of nulls that a LEFT JOIN gives to a
# session without any.
TALLY = """count(DISTINCT mitra_id)::int AS asked,
  count(DISTINCT mitra_id) FILTER (WHERE response = 'REJECTED')::int AS rejected,
  count(*) FILTER (WHERE response IS NULL AND mitra_id IS NOT NULL)::int AS open"""


async def anyone_eligible(reader: Reader, session_id: str, policy: AvailabilityPolicy, *, now: dt.datetime) -> bool:
    """Return whether an available mitra can be invited, for the first time or again."""
    args = (session_id, now, policy.require_ping, policy.stale_after_seconds, policy.capacity, None)
    return bool(await reader.fetchval(f"SELECT 1 {ELIGIBLE} LIMIT 1", *args))


@attrs.frozen(kw_only=True)
class Invited:
    """The mitras who were invited now, and whether one of them had not been invited to this session before."""

    mitra_ids: list[str]
    any_new: bool


async def invite(
    tx: Tx,
    session_id: str,
    policy: AvailabilityPolicy,
    *,
    round_number: int,
    answer_by: dt.datetime,
    only: Sequence[str] | None = None,
) -> Invited:
    """Invite every eligible mitra, or those of them that are in `only`. The caller has locked the session."""
    rows = await tx.fetch(
        f"""SELECT f.mitra_id, f.active_session_count, NOT EXISTS (SELECT 1 FROM chat_request_notifications n
              WHERE n.session_id = $1 AND n.mitra_id = f.mitra_id) AS is_new {ELIGIBLE}""",
        session_id, tx.now, policy.require_ping, policy.stale_after_seconds, policy.capacity, only,
    )  # fmt: skip
    if not rows:
        return Invited(mitra_ids=[], any_new=False)
    asked = await tx.fetch(
        """INSERT INTO chat_request_notifications (id, session_id, mitra_id, round_number, notified_at, answer_by, active_session_count)
           SELECT i.id, $2, i.mitra_id, $5, $6, $7, i.load FROM unnest($1::uuid[], $3::uuid[], $4::int[]) AS i(id, mitra_id, load)
           ON CONFLICT (session_id, mitra_id) WHERE response IS NULL DO NOTHING RETURNING mitra_id""",
        [ids.new_id() for _ in rows], session_id, [row["mitra_id"] for row in rows],
        [row["active_session_count"] for row in rows], round_number, tx.now, answer_by,
    )  # fmt: skip
    return Invited(mitra_ids=[str(row["mitra_id"]) for row in asked], any_new=any(row["is_new"] for row in rows))


async def asked_for(reader: Reader, session_ids: list[str]) -> dict[str, int]:
    """Return session id -> how many distinct mitras it has invited. A session without invitations is left out."""
    rows = await reader.fetch(
        """SELECT session_id::text, count(DISTINCT mitra_id)::int AS asked FROM chat_request_notifications
           WHERE session_id = ANY($1) GROUP BY session_id""",
        session_ids,
    )  # fmt: skip
    return {row["session_id"]: row["asked"] for row in rows}


async def last_response(reader: Reader, session_id: str, mitra_id: str) -> tuple[bool, str | None]:
    """Return (whether the mitra was ever invited, the response of their newest invitation).

    The response is None unless that invitation has ended.
    """
    row = await reader.fetchrow(
        """SELECT response FROM chat_request_notifications WHERE session_id = $1 AND mitra_id = $2
           ORDER BY response IS NULL DESC, round_number DESC, notified_at DESC, id DESC LIMIT 1""",
        session_id, mitra_id,
    )  # fmt: skip
    return (False, None) if row is None else (True, row["response"])


async def respond(tx: Tx, session_id: str, mitra_id: str, response: Response) -> bool:
    """Close one mitra's open invitation. Return False if it was not open."""
    return bool(
        await tx.execute(
            """UPDATE chat_request_notifications SET response = $3, responded_at = $4
               WHERE session_id = $1 AND mitra_id = $2 AND response IS NULL""",
            session_id,
            mitra_id,
            response.value,
            tx.now,
        )
    )


async def close_open(tx: Tx, session_id: str, response: Response) -> list[str]:
    """Close all open invitations of a session; return the ids of the invited mitras."""
    rows = await tx.fetch(
        """UPDATE chat_request_notifications SET response = $2, responded_at = $3
           WHERE session_id = $1 AND response IS NULL RETURNING mitra_id""",
        session_id, response.value, tx.now,
    )  # fmt: skip
    return [str(row["mitra_id"]) for row in rows]


async def open_sessions_of(reader: Reader, mitra_id: str) -> list[str]:
    """Return the ids of the sessions with an open invitation to this mitra, in id order (the order of locking)."""
    rows = await reader.fetch(
        """SELECT session_id FROM chat_request_notifications WHERE mitra_id = $1 AND response IS NULL ORDER BY session_id""",
        mitra_id,
    )
    return [str(row["session_id"]) for row in rows]


async def asked_offline(reader: Reader) -> list[str]:
    """Return the ids of the mitras who have an open invitation and are not online."""
    rows = await reader.fetch(
        """SELECT DISTINCT n.mitra_id FROM chat_request_notifications n WHERE n.response IS NULL AND NOT EXISTS
             (SELECT 1 FROM mitra_online_status o WHERE o.mitra_id = n.mitra_id AND o.is_online) ORDER BY n.mitra_id"""
    )
    return [str(row["mitra_id"]) for row in rows]


async def tally(reader: Reader, session_id: str) -> Tally:
    """Count the invitations of a search."""
    row = await reader.fetchrow(f"SELECT {TALLY} FROM chat_request_notifications WHERE session_id = $1", session_id)
    return Tally(**dict(row))


async def idle_of(reader: Reader, session_ids: list[str], policy: AvailabilityPolicy, *, now: dt.datetime) -> list[str]:
    """Return those of these sessions whose round can end without effect (see `rules.is_idle`)."""
    rows = await reader.fetch(
        f"""WITH free AS MATERIALIZED (SELECT mitra_id FROM free_mitras($2, $3, $4, $5)),
              tallies AS (SELECT s.id, {TALLY} FROM unnest($1::uuid[]) s(id)
                LEFT JOIN chat_request_notifications n ON n.session_id = s.id GROUP BY s.id)
            SELECT t.*, EXISTS (SELECT 1 FROM free f WHERE {MAY_BE_ASKED.format(session="t.id")}) AS anyone_eligible
            FROM tallies t""",
        session_ids, now, policy.require_ping, policy.stale_after_seconds, policy.capacity,
    )  # fmt: skip
    found = []
    for row in rows:
        tally = Tally(asked=row["asked"], rejected=row["rejected"], open=row["open"])
        if rules.is_idle(tally, anyone_eligible=row["anyone_eligible"]):
            found.append(str(row["id"]))
    return found


async def due_rounds(reader: Reader, *, now: dt.datetime, limit: int) -> list[str]:
    """Return the ids of at most `limit` searching sessions whose round is over, the longest overdue first."""
    rows = await reader.fetch(
        "SELECT id FROM chat_sessions WHERE status = 'searching' AND round_ends_at <= $1 ORDER BY round_ends_at LIMIT $2",
        now, limit,
    )  # fmt: skip
    return [str(row["id"]) for row in rows]


async def inviting_sessions(
    reader: Reader, policy: AvailabilityPolicy, *, now: dt.datetime, only: list[str] | None
) -> list[str]:
    """Return the ids of running blasts for which an available mitra can be invited.

    `only` limits the mitras that are considered; None means all.
    """
    rows = await reader.fetch(
        # MATERIALIZED reads the available mitras once, not once for each search.
        f"""WITH free AS MATERIALIZED (
              SELECT mitra_id FROM free_mitras($1, $2, $3, $4) WHERE $5::uuid[] IS NULL OR mitra_id = ANY($5))
            SELECT s.id FROM chat_sessions s WHERE s.status = 'searching' AND s.targeted_mitra_id IS NULL AND s.round_ends_at > $1
              AND EXISTS (SELECT 1 FROM free f WHERE {MAY_BE_ASKED.format(session="s.id")})
            ORDER BY s.id""",
        now, policy.require_ping, policy.stale_after_seconds, policy.capacity, only,
    )  # fmt: skip
    return [str(row["id"]) for row in rows]
