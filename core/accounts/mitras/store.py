"""Read, lock and write mitras, their presence and its log."""

import datetime as dt
from collections.abc import Iterable, Sequence

import attrs

from core.accounts.mitras.rules import (
    AvailabilityPolicy,
    HeartbeatChannel,
    MitraPresence,
    NoMitraAvailable,
    check_available,
)
from core.accounts.mitras.tables import Mitra as Mitras
from core.accounts.mitras.tables import MitraOnlineLog as OnlineLogs
from core.accounts.mitras.tables import MitraOnlineStatus as OnlineStatuses
from core.base import ids
from core.base.field_types import MitraId
from core.storage import locks, sql_files
from core.storage.locks import AdvisoryLock
from core.storage.records import one
from core.storage.statements import columns_of, insert, p, statement
from core.storage.transaction import Reader, Tx


@attrs.frozen(kw_only=True)
class Mitra:
    """A row of mitras."""

    id: MitraId
    phone: str
    display_name: str
    is_active: bool
    created_at: dt.datetime


SQL = sql_files.load(__file__)
MITRA = columns_of(Mitras, Mitra)
GET = statement(Mitras.select(*MITRA).where(Mitras.id == p.id), Mitra)
BY_PHONE = statement(Mitras.select(*MITRA).where(Mitras.phone == p.phone), Mitra)
IS_ACTIVE = statement(Mitras.select(Mitras.is_active).where(Mitras.id == p.id))
LOCK = statement(Mitras.select(*MITRA).where(Mitras.id == p.id).lock_rows("NO KEY UPDATE"), Mitra)
CREATE = statement(
    insert(Mitras, "id phone display_name is_active created_at")
    .on_conflict(Mitras.phone, "DO NOTHING")
    .returning(*MITRA),
    Mitra,
)
SET_PUSH_TOKEN = statement(Mitras.update(push_token=p.push_token).where(Mitras.id == p.id))
CREATE_STATUS = statement(insert(OnlineStatuses, "id mitra_id updated_at"))
GO_ONLINE = statement(
    OnlineStatuses.update(
        is_online=True,
        last_online_at=p.now,
        last_heartbeat_at=p.now,
        heartbeat_channel=HeartbeatChannel.ANY,
        updated_at=p.now,
    ).where(OnlineStatuses.mitra_id == p.mitra_id, OnlineStatuses.is_online.eq(False))
)
LOG = statement(insert(OnlineLogs, "id mitra_id status timestamp"))


async def get(reader: Reader, mitra_id: str) -> Mitra | None:
    """Read a mitra."""
    return await GET.first(reader, id=mitra_id)


async def by_phone(reader: Reader, phone: str) -> Mitra | None:
    """Read the mitra with this phone number."""
    return await BY_PHONE.first(reader, phone=phone)


async def create(tx: Tx, *, phone: str, display_name: str, is_active: bool) -> Mitra | None:
    """Insert a mitra and their presence; return None if the phone number is taken."""
    mitra = await CREATE.first(
        tx, id=ids.new_id(), phone=phone, display_name=display_name, is_active=is_active, created_at=tx.now
    )
    if mitra is not None:
        await CREATE_STATUS.execute(tx, id=ids.new_id(), mitra_id=mitra.id, updated_at=tx.now)
    return mitra


async def hold_phone(tx: Tx, phone: str) -> None:
    """Lock a phone number until the commit, so that of two changes to it the second sees the first."""
    await locks.hold(tx, AdvisoryLock.MITRA_PHONE, phone)


async def hold_logins(tx: Tx, mitra_id: str) -> None:
    """Lock a mitra's sign-ins until the commit, so that no device signs in while all of them are signed out.

    Take this lock before those of the mitra's auth sessions and row.
    """
    await locks.hold(tx, AdvisoryLock.MITRA_LOGINS, mitra_id)


async def update(tx: Tx, mitra_id: str, *, phone: str, display_name: str, is_active: bool) -> Mitra | None:
    """Update a mitra; return None if the phone number belongs to another one."""
    return one(Mitra, await tx.fetchrow(SQL["update"], mitra_id, phone, display_name, is_active))


async def lock(tx: Tx, mitra_id: str) -> Mitra | None:
    """Lock and read a mitra. Every transaction that adds to the mitra's sessions takes this lock.

    The order of locks is in docs/architecture.md#lock-order.

    FOR NO KEY UPDATE: inserting an invitation takes a key-share lock on this row through its foreign key; with FOR
    UPDATE the two transactions could deadlock.
    """
    return await LOCK.first(tx, id=mitra_id)


async def set_push_token(tx: Tx, mitra_id: str, push_token: str | None) -> None:
    """Set the push token of a mitra's newest device; None if no device has one."""
    await SET_PUSH_TOKEN.execute(tx, id=mitra_id, push_token=push_token)


async def is_active(reader: Reader, mitra_id: str) -> bool:
    """Return whether a mitra exists and is not deactivated."""
    return bool(await IS_ACTIVE.value(reader, id=mitra_id))


async def presence(
    reader: Reader, mitra_id: str, *, now: dt.datetime, customer_id: str | None = None
) -> MitraPresence | None:
    """Read the state that decides whether a mitra is available: for a customer, or without one for any."""
    return one(MitraPresence, await reader.fetchrow(SQL["presence"], mitra_id, now, customer_id))


async def is_signed_in(reader: Reader, mitra_id: str, *, now: dt.datetime) -> bool:
    """Return whether a mitra has a living auth session."""
    return await reader.fetchval(SQL["is_signed_in"], mitra_id, now)


async def online_without_sign_in(reader: Reader, *, now: dt.datetime) -> list[str]:
    """Return the ids of the mitras who are online although all their auth sessions have ended."""
    return [row["mitra_id"] for row in await reader.fetch(SQL["online_without_sign_in"], now)]


async def any_free(
    reader: Reader, policy: AvailabilityPolicy, *, now: dt.datetime, customer_id: str | None = None
) -> bool:
    """Return whether a mitra can take a session of a customer now, or without one of any customer (see
    core/accounts/mitras/rules.py)."""
    args = (now, policy.require_ping, policy.stale_after_seconds, policy.capacity, customer_id)
    return await reader.fetchval(SQL["any_free"], *args)


async def count_free(reader: Reader, policy: AvailabilityPolicy, *, now: dt.datetime, mitra_ids: Sequence[str]) -> int:
    """Return how many of these mitras can take a session now."""
    args = (now, policy.require_ping, policy.stale_after_seconds, policy.capacity, mitra_ids)
    return await reader.fetchval(SQL["count_free"], *args)


async def go_online(tx: Tx, mitra_id: str) -> bool:
    """Set a mitra online and add the log row.

    Return False if the mitra was online; then this counts as a heartbeat only.
    """
    changed = await GO_ONLINE.execute(tx, mitra_id=mitra_id, now=tx.now)
    if changed:
        await LOG.execute(tx, id=ids.new_id(), mitra_id=mitra_id, status="online", timestamp=tx.now)
    else:
        await heartbeat(tx, mitra_id, HeartbeatChannel.ANY)
    return bool(changed)


async def go_offline(tx: Tx, mitra_ids: Sequence[str]) -> set[str]:
    """Set mitras offline and add their log rows; return the ids of those who were online.

    The caller must hold the locks of their rows.
    """
    rows = await tx.fetch(SQL["go_offline"], [ids.new_id() for _ in mitra_ids], mitra_ids, tx.now)
    return {row["mitra_id"] for row in rows}


@attrs.frozen(kw_only=True)
class Heard:
    """The result of a mitra's heartbeat.

    `is_answer`: it is the first one after a presence check, and in time. `is_prompted`: a check may have caused it, so
    it does not show that a human uses the phone; False for a heartbeat over a socket.
    """

    is_online: bool
    is_answer: bool
    is_prompted: bool = False


async def heartbeats(tx: Tx, mitra_ids: list[str], channel: HeartbeatChannel) -> dict[str, Heard]:
    """Store a heartbeat for each of these mitras who is online; return the results by mitra id.

    A mitra missing from the result has a locked row, or does not exist; call `heartbeat`, which waits for the lock.
    """
    rows = await tx.fetch(SQL["heartbeats"], mitra_ids, tx.now, channel)
    return {row["mitra_id"]: Heard(is_online=row["is_online"], is_answer=row["is_answer"]) for row in rows}


async def heartbeat(tx: Tx, mitra_id: str, channel: HeartbeatChannel) -> Heard:
    """Store a heartbeat of a mitra, unless they are offline."""
    row = await tx.fetchrow(SQL["heartbeat"], mitra_id, tx.now, channel)
    if row is None:
        return Heard(is_online=False, is_answer=False)
    return Heard(is_online=True, is_answer=row["is_answer"], is_prompted=row["is_prompted"])


async def lock_stale(
    tx: Tx,
    *,
    stale_after_seconds: float,
    now: dt.datetime,
    limit: int,
    besides: Iterable[str] = (),
    only: Sequence[str] | None = None,
) -> list[str]:
    """Lock up to `limit` online mitras who were silent for too long, and return their ids.

    Mitras whose rows are locked are skipped, and so are those in `besides`. `only` limits the mitras that are
    considered; None means all.
    """
    rows = await tx.fetch(SQL["lock_stale"], now, stale_after_seconds, limit, list(besides), only)
    return [row["mitra_id"] for row in rows]


async def check_mitra(tx: Tx, mitra_id: str, policy: AvailabilityPolicy, *, customer_id: str) -> None:
    """Check that a mitra can take a session of a customer now. Raises MitraOffline, MitraAtCapacity."""
    check_available(await presence(tx, mitra_id, now=tx.now, customer_id=customer_id), policy, now=tx.now)


async def check_any(tx: Tx, policy: AvailabilityPolicy, *, customer_id: str) -> None:
    """Check that a mitra can take a session of a customer now. Raises NoMitraAvailable."""
    if not await any_free(tx, policy, now=tx.now, customer_id=customer_id):
        raise NoMitraAvailable
