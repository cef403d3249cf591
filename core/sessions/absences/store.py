"""Read and write the signs of life of the parties of running sessions, and their absences."""

import datetime as dt
from collections.abc import Mapping, Sequence

import attrs

from core.base import ids
from core.base.field_types import Party, SessionId
from core.storage import sql_files
from core.storage.records import many
from core.storage.transaction import Reader, Tx

SQL = sql_files.load(__file__)
KEEP = dt.timedelta(days=400)
AT_ONCE = 1_000


@attrs.frozen(kw_only=True)
class HeldSession:
    """A locked session in `active` or `expired`."""

    id: str
    customer_id: str
    mitra_id: str
    status: str
    expires_at: dt.datetime

    def runs(self, now: dt.datetime) -> bool:
        """Return whether the session's paid time is not over."""
        return self.status == "active" and now < self.expires_at

    def party(self, user_type: Party) -> str:
        """Return the id of one party."""
        return self.customer_id if user_type == "customer" else self.mitra_id

    def other(self, user_type: Party) -> tuple[Party, str]:
        """Return the kind and id of the other party."""
        return ("mitra", self.mitra_id) if user_type == "customer" else ("customer", self.customer_id)


@attrs.frozen(kw_only=True)
class Absence:
    """An absence of one party; `ended_at` is None while it is open."""

    session_id: SessionId
    user_type: Party
    since: dt.datetime
    ended_at: dt.datetime | None = None
    returned: bool = False


async def see(tx: Tx, signs: Mapping[str, dt.datetime], *, gap: dt.timedelta) -> int:
    """Store signs of life, given as user id -> service time, of the parties of running sessions.

    A sign within `gap` of the stored one is left out. Return how many sessions were written.
    """
    return await tx.execute(SQL["see"], list(signs), list(signs.values()), gap)


async def any_open(reader: Reader) -> bool:
    """Return whether any absence is open."""
    return await reader.fetchval(SQL["any_open"])


async def returned(
    reader: Reader, *, anyway: bool, limit: int, user_ids: Sequence[str] | None = None
) -> dict[str, str]:
    """Return the open absences in running sessions whose parties have returned, as id -> session id.

    `anyway`: return all open ones in running sessions. `user_ids`: only those of these parties.
    """
    return {row["id"]: row["session_id"] for row in await reader.fetch(SQL["returned"], anyway, limit, user_ids)}


async def lock_held(tx: Tx, session_ids: Sequence[str]) -> dict[str, HeldSession]:
    """Lock the running sessions with these ids, and return them by id. Those that are locked elsewhere are left out."""
    return {one.id: one for one in many(HeldSession, await tx.fetch(SQL["lock_held"], session_ids))}


async def end_returned(tx: Tx, absence_ids: Sequence[str], session_ids: Sequence[str]) -> list[Absence]:
    """End the open ones of these absences in locked sessions, and return them."""
    return many(Absence, await tx.fetch(SQL["end_returned"], absence_ids, session_ids, tx.now))


async def silent(reader: Reader, *, now: dt.datetime, after: dt.timedelta, limit: int) -> list[str]:
    """Return the ids of active sessions in which a party has been silent for `after` and is not yet absent."""
    return [row["session_id"] for row in await reader.fetch(SQL["silent"], now, after, limit)]


async def declare(tx: Tx, session_ids: Sequence[str], *, after: dt.timedelta) -> list[Absence]:
    """Declare the parties of locked sessions absent who are silent for `after`; return the new absences."""
    new_ids = [ids.new_id() for _ in range(2 * len(session_ids))]
    return many(Absence, await tx.fetch(SQL["declare"], tx.now, after, session_ids, new_ids))


async def end_with_sessions(tx: Tx, *, limit: int) -> int:
    """End open absences whose sessions are over; return how many."""
    return await tx.execute(SQL["end_with_sessions"], tx.now, limit)


async def open_of(reader: Reader, session_ids: Sequence[str]) -> list[Absence]:
    """Return the open absences in these sessions."""
    return many(Absence, await reader.fetch(SQL["open_of"], session_ids))


async def purge_presence(tx: Tx) -> int:
    """Delete the signs of life of up to AT_ONCE sessions that are over; return how many."""
    return await tx.execute(SQL["purge_presence"], AT_ONCE)


async def purge(tx: Tx, *, end_id: str) -> int:
    """Delete up to AT_ONCE absences with ids before `end_id`, the first id that is kept (for KEEP); return how many."""
    return await tx.execute(SQL["purge"], end_id, AT_ONCE)
