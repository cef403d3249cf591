"""Writes and locking reads of invitations (`chat_request_notifications`)."""

import datetime as dt
from collections.abc import Sequence

import attrs

from core.accounts.mitras.rules import AvailabilityPolicy
from core.base import ids
from core.pairing import rules
from core.pairing.eligible import ANYONE_ELIGIBLE, INVITING, LONGEST_WAITING, MAY_BE_ASKED, SOME_ELIGIBLE
from core.pairing.rules import EVERYONE, Asking, InvitationTally, Response, Waves
from core.pairing.tables import ChatRequestNotification as Invitations
from core.storage import sql_files
from core.storage.fragments import OLDEST_SEARCH
from core.storage.statements import p, statement
from core.storage.transaction import Reader, Tx

SQL = sql_files.load(__file__)
CLOSE_OPEN = statement(
    Invitations.update(response=p.response, responded_at=p.now)
    .where(Invitations.session_id == p.session_id, Invitations.response.is_null())
    .returning(Invitations.mitra_id)
)
ANY_OPEN = statement(
    Invitations.select(Invitations.id)
    .where(Invitations.session_id == p.session_id, Invitations.response.is_null())
    .limit(1)
)
OPEN_OF = f"""SELECT {{}}
FROM chat_request_notifications AS n
WHERE
  n.mitra_id = ANY($1::uuid[])
  AND n.response IS NULL
  AND n.session_id >= {OLDEST_SEARCH}
"""
OPEN_INVITATIONS = OPEN_OF.format("n.session_id::text, n.mitra_id::text") + "ORDER BY n.session_id"
COUNT_OPEN = OPEN_OF.format("n.mitra_id::text, count(*)::int AS open") + "GROUP BY n.mitra_id"
# The mitras who have an open invitation and are not online.
ASKED_OFFLINE = f"""SELECT DISTINCT n.mitra_id
FROM chat_request_notifications AS n
WHERE
  n.response IS NULL
  AND n.session_id >= {OLDEST_SEARCH}
  AND NOT EXISTS (
    SELECT 1
    FROM mitra_online_status AS o
    WHERE o.mitra_id = n.mitra_id AND o.is_online
  )
ORDER BY n.mitra_id"""
# Counts the invitations of a session. `mitra_id IS NOT NULL` leaves out the row of nulls that a LEFT JOIN gives to a
# session without any.
COUNTS = """count(DISTINCT mitra_id)::int AS asked,
  count(DISTINCT mitra_id) FILTER (WHERE response = 'REJECTED')::int AS rejected,
  count(*) FILTER (WHERE response IS NULL AND mitra_id IS NOT NULL)::int AS open"""
TALLY = f"""SELECT
  {COUNTS}
FROM chat_request_notifications
WHERE session_id = $1"""
# MATERIALIZED reads the available mitras once, not once for each search.
TALLIES = f"""WITH free AS MATERIALIZED (
  SELECT mitra_id
  FROM free_mitras($2, $3, $4, $5)
),
tallies AS (
  SELECT s.id, {COUNTS}
  FROM unnest($1::uuid[]) AS s (id)
  LEFT JOIN chat_request_notifications AS n ON n.session_id = s.id
  GROUP BY s.id
)
SELECT
  t.*,
  EXISTS (SELECT 1 FROM free AS f WHERE {MAY_BE_ASKED.format(session="t.id")}) AS anyone_eligible
FROM tallies AS t"""


async def anyone_eligible(reader: Reader, session_id: str, policy: AvailabilityPolicy, *, now: dt.datetime) -> bool:
    """Return whether an available mitra can be invited, for the first time or again."""
    args = (session_id, now, policy.require_ping, policy.stale_after_seconds, policy.capacity, None)
    return bool(await reader.fetchval(ANYONE_ELIGIBLE, *args))


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
    asking: Asking = EVERYONE,
    only: Sequence[str] | None = None,
) -> Invited:
    """Invite the eligible mitras (those in `only`, if given), at most as many as `asking` says.

    The caller has locked the session.
    """
    args = (session_id, tx.now, policy.require_ping, policy.stale_after_seconds, policy.capacity, only)
    sql = SOME_ELIGIBLE if asking.wave.ends_at is None else LONGEST_WAITING
    rows = await tx.fetch(sql, *args, asking.at_most)
    if not rows:
        return Invited(mitra_ids=[], any_new=False)
    asked = await tx.fetch(
        SQL["invite"],
        [ids.new_id() for _ in rows],
        session_id,
        [row["mitra_id"] for row in rows],
        [row["active_session_count"] for row in rows],
        round_number,
        tx.now,
        answer_by,
        asking.wave.number,
    )
    return Invited(mitra_ids=[str(row["mitra_id"]) for row in asked], any_new=any(row["is_new"] for row in rows))


async def asked_in_wave(reader: Reader, session_id: str, wave_number: int) -> int:
    """Return how many invitations a wave of a search has."""
    return await reader.fetchval(SQL["asked_in_wave"], session_id, wave_number)


async def asked_for(reader: Reader, session_ids: list[str]) -> dict[str, int]:
    """Return session id -> how many distinct mitras it has invited. A session without invitations is left out."""
    return dict(await reader.fetch(SQL["asked_for"], session_ids))


async def last_response(reader: Reader, session_id: str, mitra_id: str) -> tuple[bool, str | None]:
    """Return (whether the mitra was ever invited, the response of their newest invitation).

    The response is None unless that invitation has ended.
    """
    row = await reader.fetchrow(SQL["last_response"], session_id, mitra_id)
    return (False, None) if row is None else (True, row["response"])


async def respond(tx: Tx, session_id: str, mitra_ids: Sequence[str], response: Response) -> list[str]:
    """Close the open invitations of these mitras to a session; return the ids of those who had one."""
    rows = await tx.fetch(SQL["respond"], session_id, mitra_ids, response.value, tx.now)
    return [row["mitra_id"] for row in rows]


async def close_open(tx: Tx, session_id: str, response: Response) -> list[str]:
    """Close all open invitations of a session; return the ids of the invited mitras."""
    closed = await CLOSE_OPEN.all(tx, session_id=session_id, response=response.value, now=tx.now)
    return [one["mitra_id"] for one in closed]


async def keep_loss(tx: Tx, session_id: str, mitra_id: str, *, arrived_at: dt.datetime) -> None:
    """Store how long after the winner a mitra's acceptance arrived, if it did so in the time to answer.

    Their first acceptance counts. Clocks of processes differ, so it is at least 0.
    """
    await tx.execute(SQL["keep_loss"], session_id, mitra_id, arrived_at)


async def any_open(reader: Reader, session_id: str) -> bool:
    """Return whether a session has an open invitation."""
    return bool(await ANY_OPEN.all(reader, session_id=session_id))


async def open_invitations(reader: Reader, mitra_ids: Sequence[str]) -> dict[str, list[str]]:
    """Return session id -> those of these mitras who have an open invitation to it, in the order of the session ids,
    which is the order of locking."""
    found: dict[str, list[str]] = {}
    for row in await reader.fetch(OPEN_INVITATIONS, mitra_ids):
        found.setdefault(row["session_id"], []).append(row["mitra_id"])
    return found


async def count_open(reader: Reader, mitra_ids: Sequence[str]) -> dict[str, int]:
    """Return mitra id -> how many open invitations they have. A mitra without one is left out."""
    return dict(await reader.fetch(COUNT_OPEN, mitra_ids))


async def asked_offline(reader: Reader) -> list[str]:
    """Return the ids of the mitras who have an open invitation and are not online."""
    return [str(row["mitra_id"]) for row in await reader.fetch(ASKED_OFFLINE)]


async def tally(reader: Reader, session_id: str) -> InvitationTally:
    """Count the invitations of a search."""
    return InvitationTally(**dict(await reader.fetchrow(TALLY, session_id)))


async def idle_of(reader: Reader, session_ids: list[str], policy: AvailabilityPolicy, *, now: dt.datetime) -> list[str]:
    """Return those of these sessions whose round can end without effect (see `rules.is_idle`)."""
    args = (session_ids, now, policy.require_ping, policy.stale_after_seconds, policy.capacity)
    found = []
    for row in await reader.fetch(TALLIES, *args):
        tally = InvitationTally(asked=row["asked"], rejected=row["rejected"], open=row["open"])
        if rules.is_idle(tally, anyone_eligible=row["anyone_eligible"]):
            found.append(str(row["id"]))
    return found


async def due_rounds(reader: Reader, *, now: dt.datetime, limit: int) -> list[str]:
    """Return the ids of at most `limit` searching sessions whose round is over, the longest overdue first."""
    return [str(row["id"]) for row in await reader.fetch(SQL["due_rounds"], now, limit)]


async def due_waves(reader: Reader, *, now: dt.datetime, limit: int) -> list[str]:
    """Return the ids of at most `limit` searching sessions whose wave is over, but not its round."""
    return [str(row["id"]) for row in await reader.fetch(SQL["due_waves"], now, limit)]


async def inviting_sessions(
    reader: Reader, policy: AvailabilityPolicy, waves: Waves, *, now: dt.datetime, only: list[str] | None
) -> list[str]:
    """Return the ids of running blasts that may ask an available mitra now.

    `only` limits the mitras that are considered; None means all.
    """
    args = (now, policy.require_ping, policy.stale_after_seconds, policy.capacity, only, waves.size)
    return [str(row["id"]) for row in await reader.fetch(INVITING, *args)]
