"""Read, lock and write mitras, their presence and its log."""

import datetime as dt

import attrs

from core.base import ids
from core.base.field_types import MitraId
from core.mitras.rules import AvailabilityPolicy, Channel, Presence
from core.storage import locks
from core.storage.database import Tx
from core.storage.locks import AdvisoryLock
from core.storage.reads import Reader
from core.storage.records import one

COLUMNS = "id, phone, display_name, is_active, created_at"


@attrs.frozen(kw_only=True)
class Mitra:
    """A row of mitras."""

    id: MitraId
    phone: str
    display_name: str
    is_active: bool
    created_at: dt.datetime


async def get(reader: Reader, mitra_id: str) -> Mitra | None:
    """Read a mitra."""
    return one(Mitra, await reader.fetchrow(f"SELECT {COLUMNS} FROM mitras WHERE id = $1", mitra_id))


async def by_phone(reader: Reader, phone: str) -> Mitra | None:
    """Read the mitra with this phone number."""
    return one(Mitra, await reader.fetchrow(f"SELECT {COLUMNS} FROM mitras WHERE phone = $1", phone))


async def create(tx: Tx, *, phone: str, display_name: str, is_active: bool) -> Mitra | None:
    """Insert a mitra and their presence; return None if the phone number is taken."""
    row = await tx.fetchrow(
        f"""INSERT INTO mitras (id, phone, display_name, is_active, created_at) VALUES ($1, $2, $3, $4, $5)
            ON CONFLICT (phone) DO NOTHING RETURNING {COLUMNS}""",
        ids.new_id(), phone, display_name, is_active, tx.now,
    )  # fmt: skip
    mitra = one(Mitra, row)
    if mitra is not None:
        await tx.execute(
            "INSERT INTO mitra_online_status (id, mitra_id, updated_at) VALUES ($1, $2, $3)",
            ids.new_id(), mitra.id, tx.now,
        )  # fmt: skip
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
    return one(
        Mitra,
        await tx.fetchrow(
            f"""UPDATE mitras SET phone = $2, display_name = $3, is_active = $4 WHERE id = $1
                AND NOT EXISTS (SELECT 1 FROM mitras o WHERE o.phone = $2 AND o.id <> $1) RETURNING {COLUMNS}""",
            mitra_id, phone, display_name, is_active,
        ),
    )  # fmt: skip


async def lock(tx: Tx, mitra_id: str) -> Mitra | None:
    """Lock and read a mitra. Every transaction that adds to the mitra's sessions takes this lock.

    The order of locks is in docs/architecture.md#lock-order.

    FOR NO KEY UPDATE: inserting an invitation takes a key-share lock on this row through its foreign key; with FOR
    UPDATE the two transactions could deadlock.
    """
    return one(Mitra, await tx.fetchrow(f"SELECT {COLUMNS} FROM mitras WHERE id = $1 FOR NO KEY UPDATE", mitra_id))


async def is_active(reader: Reader, mitra_id: str) -> bool:
    """Return whether a mitra exists and is not deactivated."""
    return bool(await reader.fetchval("SELECT is_active FROM mitras WHERE id = $1", mitra_id))


async def presence(reader: Reader, mitra_id: str, *, now: dt.datetime) -> Presence | None:
    """Read the state that decides whether a mitra is available."""
    row = await reader.fetchrow(
        """SELECT m.is_active, o.is_online, (SELECT silent_since FROM mitra_silences($2) s WHERE s.mitra_id = m.id) AS silent_since,
             (SELECT count(*)::int FROM chat_sessions s WHERE s.mitra_id = m.id AND s.status IN ('active', 'expired'))
               AS active_session_count
           FROM mitras m JOIN mitra_online_status o ON o.mitra_id = m.id WHERE m.id = $1""",
        mitra_id,
        now,
    )
    return one(Presence, row)


async def count_free(reader: Reader, policy: AvailabilityPolicy, *, now: dt.datetime) -> int:
    """Count the mitras who can take a session now (see core/mitras/rules.py)."""
    return await reader.fetchval(
        "SELECT count(*)::int FROM free_mitras($1, $2, $3, $4)",
        now, policy.require_ping, policy.stale_after_seconds, policy.capacity,
    )  # fmt: skip


async def go_online(tx: Tx, mitra_id: str) -> bool:
    """Set a mitra online and add the log row.

    Return False if the mitra was online; then this counts as a heartbeat only.
    """
    changed = await tx.execute(
        """UPDATE mitra_online_status SET is_online = true, last_online_at = $2, last_heartbeat_at = $2, heartbeat_channel = 'any',
             updated_at = $2 WHERE mitra_id = $1 AND NOT is_online""",
        mitra_id, tx.now,
    )  # fmt: skip
    if changed:
        await _log(tx, [mitra_id], "online")
    else:
        await heartbeat(tx, mitra_id, Channel.ANY)
    return bool(changed)


async def go_offline(tx: Tx, mitra_id: str) -> bool:
    """Set a mitra offline and add the log row; return False if the mitra was offline."""
    changed = await tx.execute(
        "UPDATE mitra_online_status SET is_online = false, last_offline_at = $2, updated_at = $2 WHERE mitra_id = $1 AND is_online",
        mitra_id, tx.now,
    )  # fmt: skip
    if changed:
        await _log(tx, [mitra_id], "offline")
    return bool(changed)


async def heartbeats(tx: Tx, mitra_ids: list[str], channel: Channel) -> dict[str, bool]:
    """Store a heartbeat for each of these mitras who is online; return mitra id -> whether they are online.

    A mitra missing from the result has a locked row, or does not exist; call `heartbeat`, which waits for the lock.
    """
    rows = await tx.fetch(
        """WITH found AS MATERIALIZED (SELECT mitra_id, is_online FROM mitra_online_status WHERE mitra_id = ANY($1::uuid[])
             FOR NO KEY UPDATE SKIP LOCKED),
           heard AS (UPDATE mitra_online_status o SET last_heartbeat_at = greatest(o.last_heartbeat_at, $2), heartbeat_channel = $3, updated_at = $2
             FROM found f WHERE o.mitra_id = f.mitra_id AND f.is_online)
           SELECT mitra_id::text, is_online FROM found""",
        mitra_ids,
        tx.now,
        channel,
    )
    return {row["mitra_id"]: row["is_online"] for row in rows}


async def heartbeat(tx: Tx, mitra_id: str, channel: Channel) -> bool:
    """Store a heartbeat of an online mitra; return False if the mitra is offline."""
    return bool(
        await tx.execute(
            """UPDATE mitra_online_status SET last_heartbeat_at = greatest(last_heartbeat_at, $2), heartbeat_channel = $3, updated_at = $2
               WHERE mitra_id = $1 AND is_online""",
            mitra_id,
            tx.now,
            channel,
        )
    )


async def stale(reader: Reader, *, stale_after_seconds: float, now: dt.datetime) -> list[str]:
    """Return the ids of up to 500 online mitras who were silent for too long.

    The index on the last heartbeat finds the candidates.
    """
    rows = await reader.fetch(
        """SELECT mitra_id FROM mitra_silences($1), LATERAL (SELECT $1::timestamptz - make_interval(secs => $2) AS oldest) o
           WHERE last_heartbeat_at <= o.oldest AND silent_since <= o.oldest LIMIT 500""",
        now, stale_after_seconds,
    )  # fmt: skip
    return [str(row["mitra_id"]) for row in rows]


async def take_stale_offline(tx: Tx, mitra_id: str, *, stale_after_seconds: float) -> bool:
    """Lock a mitra who is still silent.

    Return False after a heartbeat, or if another transaction has locked the mitra.
    """
    free = await tx.fetchval("SELECT 1 FROM mitras WHERE id = $1 FOR NO KEY UPDATE SKIP LOCKED", mitra_id)
    if not free:
        return False
    return bool(
        await tx.fetchval(
            """SELECT 1 FROM mitra_online_status o WHERE o.mitra_id = $1 AND o.is_online AND EXISTS
                 (SELECT 1 FROM mitra_silences($2) s WHERE s.mitra_id = o.mitra_id AND s.silent_since <= $2::timestamptz - make_interval(secs => $3))
               FOR UPDATE OF o SKIP LOCKED""",
            mitra_id,
            tx.now,
            stale_after_seconds,
        )
    )


async def _log(tx: Tx, mitra_ids: list[str], status: str) -> None:
    for mitra_id in mitra_ids:
        await tx.execute(
            """INSERT INTO mitra_online_logs (id, mitra_id, status, "timestamp") VALUES ($1, $2, $3, $4)""",
            ids.new_id(), mitra_id, status, tx.now,
        )  # fmt: skip
