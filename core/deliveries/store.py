"""Read and write deliveries: one row for each recipient of an event, until it is acknowledged or given up."""

import datetime as dt
from collections.abc import AsyncIterator, Callable, Sequence

import attrs

from core.base.id_ranges import EPOCH
from core.deliveries.stages import MOST, TrailStage
from core.events.notices import Notice
from core.storage import sql_files
from core.storage.database import Database
from core.storage.records import many
from core.storage.transaction import Reader, Tx
from core.telemetry import metrics

NO_ID = "00000000-0000-0000-0000-000000000000"
AT_ONCE = 5000  # rows per statement
Place = tuple[dt.datetime, str]  # the real time at which a delivery was stored, and its id
FIRST: Place = (EPOCH, NO_ID)
SQL = sql_files.load(__file__)


async def add(tx: Tx, notices: list[Notice], *, as_sent: list[Notice] | None = None) -> None:
    """Store notices in the transaction of the change that they report, and send them after its commit.

    `as_sent` are the same notices with the texts that are sent but not stored; None: the notices have none.
    """
    if not notices:
        return
    columns = ("event_id", "recipient_id", "recipient_type", "event", "session_id", "payload")
    await tx.execute(SQL["add"], *([getattr(notice, name) for notice in notices] for name in columns))
    tx.outgoing.notices.extend(notices if as_sent is None else as_sent)


async def forget(tx: Tx, recipient_ids: Sequence[str], event: str, *, session_ids: Sequence[str] | None = None) -> None:
    """Delete the recipients' pending deliveries of an event: a newer one replaces them.

    With sessions only theirs, and none that another transaction has locked: it is acknowledged or pushed just now.
    """
    given_up = await tx.fetchval(SQL["forget"], recipient_ids, event, tx.now, session_ids)
    tx.count(metrics.DELIVERY_TRAIL_ROWS.labels(TrailStage.GIVEN_UP), given_up)


@attrs.frozen(kw_only=True)
class EventAck:
    """An acknowledgement of an event by one of its recipient's devices, which has `shown` it or not."""

    event_id: str
    recipient_id: str
    device_id: str
    shown: bool


@attrs.frozen(kw_only=True)
class Acknowledged:
    """An event that was pending, for `seconds` of real time; None if a device had acknowledged it without showing it."""

    event_id: str
    event: str
    seconds: float | None


async def acknowledge(db: Database, acks: list[EventAck], *, at: dt.datetime) -> tuple[list[Acknowledged], int]:
    """Delete deliveries, and note in the trail which devices acknowledged them at `at` (service time).

    A delivery that no device has shown stays, with these devices. Returns the events that were pending, and the number
    of new rows of the trail.
    """
    rows = await db.fetch(
        SQL["acknowledge"],
        [ack.event_id for ack in acks],
        [ack.recipient_id for ack in acks],
        [ack.device_id for ack in acks],
        at,
        MOST,
        [ack.shown for ack in acks],
    )
    done = [Acknowledged(event_id=row["id"], event=row["event"], seconds=row["seconds"]) for row in rows if row["id"]]
    return done, rows[0]["noted"]


async def waiting(
    reader: Reader, *, since: dt.datetime, older_than_s: float, wanted: Callable[[str, str], bool]
) -> AsyncIterator[list[Notice]]:
    """Yield the wanted deliveries created since `since` (real time) and unacknowledged for `older_than_s` real seconds.

    `wanted` is called with an event id and a recipient id; only wanted deliveries are read in full. A list has at most
    AT_ONCE deliveries.
    """
    place = (since, NO_ID)
    while True:
        rows = await reader.fetch(SQL["waiting"], since, older_than_s, *place)
        mine = [row["event_id"] for row in rows if wanted(row["event_id"], row["recipient_id"])]
        if mine:
            yield [Notice(**dict(row)) for row in await reader.fetch(SQL["events"], mine)]
        if len(rows) < AT_ONCE:
            return
        place = (rows[-1]["created_at"], rows[-1]["event_id"])


async def unacknowledged(reader: Reader, recipient_ids: Sequence[str], *, within_s: float) -> dict[str, list[Notice]]:
    """Return recipient -> their unacknowledged deliveries of the last `within_s` real seconds, oldest first.

    Each recipient gets the newest 200 at most.
    """
    rows = await reader.fetch(SQL["unacknowledged"], recipient_ids, within_s)
    found: dict[str, list[Notice]] = {}
    for row in reversed(rows):
        found.setdefault(row["recipient_id"], []).append(Notice(**dict(row)))
    return found


@attrs.frozen(kw_only=True)
class Work:
    """What pushes there are to plan, for new and for late deliveries (`unpushed`, `claim_unacknowledged`), and whether
    planned ones are due.
    """

    is_new: bool
    is_late: bool
    is_due: bool


async def work(reader: Reader, *, late_after_s: float) -> Work:
    """Look for work, in one statement without a transaction. A delivery is late after `late_after_s` real seconds."""
    (found,) = many(Work, await reader.fetch(SQL["work"], late_after_s))
    return found


async def claim_unacknowledged(tx: Tx, *, older_than_s: float, limit: int) -> list[Notice]:
    """Claim up to `limit` deliveries that are unacknowledged for `older_than_s` real seconds, each delivery once.

    The caller sends a push for them to each of the recipient's devices.
    """
    rows = await tx.fetch(SQL["claim_unacknowledged"], older_than_s, limit)
    return [Notice(**dict(row)) for row in rows]


@attrs.frozen(kw_only=True)
class Unpushed:
    """An event without a push, its recipient, and the real time at which it was stored."""

    event_id: str
    recipient_id: str
    created_at: dt.datetime

    @property
    def place(self) -> Place:
        """The place behind which `unpushed` goes on."""
        return self.created_at, self.event_id


async def unpushed(reader: Reader, *, within_s: float, after: Place, limit: int) -> list[Unpushed]:
    """Return unacknowledged deliveries of the last `within_s` real seconds without a push, the oldest first."""
    return many(Unpushed, await reader.fetch(SQL["unpushed"], within_s, limit, *after))


async def claim_events(tx: Tx, event_ids: list[str]) -> list[Notice]:
    """Claim those of these events that are still unacknowledged and without a push, as `claim_unacknowledged` does."""
    return [Notice(**dict(row)) for row in await tx.fetch(SQL["claim_events"], event_ids)]


async def purge(tx: Tx, *, older_than_s: float) -> int:
    """Delete up to AT_ONCE old deliveries and return how many: a client that comes back later gets a snapshot."""
    given_up: int = await tx.fetchval(SQL["purge"], older_than_s, tx.now)
    tx.count(metrics.DELIVERY_TRAIL_ROWS.labels(TrailStage.GIVEN_UP), given_up)
    return given_up


async def forget_sessions(tx: Tx, session_ids: Sequence[str]) -> None:
    """Delete the pending deliveries about sessions, because they name an erased customer."""
    if not session_ids:
        return
    await tx.execute(SQL["forget_sessions"], session_ids)
