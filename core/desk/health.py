"""Whether each part of the service works now, for operators (docs/operating.md#health).

Processes are judged by their leases, which a frozen one loses within 3 s. Third parties are judged by asking them, at
most every 5 s while operators look, and by what happened to codes and webhook calls. So a fault shows within 15 s.
"""

import asyncio
import datetime as dt
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Literal, TypeVar

import attrs

from core.base import id_ranges
from core.base.errors import Unavailable
from core.base.languages import Language, Text
from core.cluster.outages.rules import ProcessKind
from core.runtime.container import Runtime
from core.storage import sql_files
from core.storage.reports import MOST_LAG_S

SQL = sql_files.load(__file__)
PartName = Literal[
    "api",
    "realtime",
    "jobs",
    "database",
    "replica",
    "redis",
    "gateway",
    "code_provider",
    "push_provider",
    "webhooks",
]
Status = Literal["ok", "degraded", "down", "off"]
LOST_FOR = dt.timedelta(minutes=10)  # of real time; then a process that died without a successor no longer counts
CODES_OF = dt.timedelta(minutes=10)
CALLS_OF = dt.timedelta(hours=1)
ASK_S = 3.0
T = TypeVar("T")


@attrs.frozen(kw_only=True)
class Part:
    """A part of the service. `since`: since when it has this status, as far as that is known. `message`: what is wrong.

    `off`: it is not used here. `degraded`: it works in part, or others do its work.
    """

    name: PartName
    status: Status
    since: dt.datetime | None
    message: str | None


@attrs.frozen(kw_only=True)
class Health:
    """The parts of the service, and the worst status among those that are used."""

    status: Literal["ok", "degraded", "down"]
    parts: list[Part]


@attrs.frozen
class PartState:
    """The status of one part."""

    status: Status
    text: Text | None = None
    since: dt.datetime | None = None


OK, OFF = PartState("ok"), PartState("off")
UNREAD = PartState(
    "degraded",
    Text(
        en="Unknown: the database does not answer in time.",
        id="Tidak diketahui: basis data tidak menjawab tepat waktu.",
    ),
)
READ_ONLY = Text(en="The database takes no writes.", id="Basis data tidak menerima penulisan.")
DATABASE_AWAY = Text(en="The database does not answer.", id="Basis data tidak menjawab.")
REPLICA_AWAY = Text(
    en="It is away; reports are read from the primary.", id="Replika tidak ada; laporan dibaca dari utama."
)
UNKNOWN = Text(
    en="Unknown: processes report to the database, which takes no writes.",
    id="Tidak diketahui: proses melapor ke basis data, yang tidak menerima penulisan.",
)
NO_PROCESS = Text(en="No process of this kind is alive.", id="Tidak ada proses jenis ini yang hidup.")
CODES_FAIL = Text(en="Codes were not delivered.", id="Kode tidak terkirim.")
FAULTS = {
    "connection": Text(en="It can't be reached.", id="Tidak dapat dihubungi."),
    "timeout": Text(en="It does not answer in time.", id="Tidak menjawab tepat waktu."),
    "server": Text(en="It answers with errors.", id="Menjawab dengan galat."),
}


async def health(runtime: Runtime, language: Language) -> Health:
    """Return the health of each part. It takes 5 s at most. A part that can't be judged fails no other."""
    async with asyncio.TaskGroup() as group:  # none of them raises
        processes = group.create_task(_processes(runtime))
        asked: dict[PartName, asyncio.Task[PartState]] = {}
        for name, judge in JUDGES.items():
            asked[name] = group.create_task(judge(runtime))
    others: dict[PartName, PartState] = {name: task.result() for name, task in asked.items()}
    is_writable = others["database"].status == "ok"
    unknown: dict[PartName, PartState] = {kind.value: PartState("degraded", UNKNOWN) for kind in ProcessKind}
    found = processes.result() if is_writable else unknown
    found.update(others)
    parts = [
        Part(
            name=name,
            status=one.status,
            since=one.since,
            message=None if one.text is None else one.text.said_in(language),
        )
        for name, one in found.items()
    ]
    statuses = {part.status for part in parts}
    return Health(status="down" if "down" in statuses else "degraded" if "degraded" in statuses else "ok", parts=parts)


async def _processes(runtime: Runtime) -> dict[PartName, PartState]:
    now = runtime.now()
    rows = await _in_time(runtime.db.fetch(SQL["processes"], now, now - LOST_FOR * runtime.clock.scale))
    seen = {row["kind"]: row for row in rows or ()}

    def judged(kind: ProcessKind) -> PartState:
        row = seen.get(kind)
        if row is None or not row["alive"]:
            return PartState("down", NO_PROCESS, row and row["lost_at"])
        if not row["lost"]:
            return OK
        lost, alive = row["lost"], row["alive"]
        text = Text(
            en=f"{lost} of {lost + alive} processes do not report.",
            id=f"{lost} dari {lost + alive} proses tidak melapor.",
        )
        return PartState("degraded", text)

    return {kind.value: UNREAD if rows is None else judged(kind) for kind in ProcessKind}


async def _in_time(asked: Awaitable[T]) -> T | None:
    """Return the answer; None if there is none within ASK_S."""
    try:
        async with asyncio.timeout(ASK_S):
            return await asked
    except (Unavailable, TimeoutError):
        return None


async def _database(runtime: Runtime) -> PartState:
    writable = await _in_time(runtime.db.is_writable())
    if writable is None:
        return PartState("down", DATABASE_AWAY)
    return OK if writable else PartState("down", READ_ONLY)


async def _replica(runtime: Runtime) -> PartState:
    if not runtime.settings.database_read_url:
        return OFF
    lag_s = runtime.reports.lag_s
    if lag_s is None:
        return PartState("down", REPLICA_AWAY)
    if lag_s <= MOST_LAG_S:
        return OK
    return PartState("degraded", Text(en=f"It is {lag_s:.0f} s behind.", id=f"Tertinggal {lag_s:.0f} dtk."))


async def _redis(runtime: Runtime) -> PartState:
    if await _in_time(runtime.bus.ping()):
        return OK
    return PartState(
        "down",
        Text(
            en="Not all servers answer: events and messages arrive late, and rate limits are per process.",
            id="Tidak semua server menjawab: peristiwa dan pesan datang terlambat, dan batas berlaku per proses.",
        ),
    )


async def _provider(runtime: Runtime, url: str) -> PartState:
    fault = await runtime.http.fault_of(url)
    if fault is None:
        return OK
    since = runtime.now() - dt.timedelta(seconds=fault.seconds * runtime.clock.scale)
    return PartState("down", FAULTS[fault.reason], since)


async def _gateway(runtime: Runtime) -> PartState:
    settings = runtime.settings
    return await _provider(runtime, settings.gateway_base_url) if settings.gateway_enabled else OFF


async def _push_provider(runtime: Runtime) -> PartState:
    settings = runtime.settings
    return await _provider(runtime, settings.fcm_base_url) if settings.push_sender == "fcm" else OFF


async def _code_provider(runtime: Runtime) -> PartState:
    settings = runtime.settings
    urls = {"http": settings.otp_http_url, "twilio_verify": settings.twilio_verify_base_url}
    if settings.otp_sender not in urls:
        return OFF
    answers = await _provider(runtime, urls[settings.otp_sender])
    return await _delivered(runtime) if answers is OK else answers


async def _delivered(runtime: Runtime) -> PartState:
    """Judge a code provider that answers by the codes that it was given."""
    rows = await _in_time(runtime.db.fetch(SQL["codes"], runtime.now() - CODES_OF * runtime.clock.scale))
    if rows is None:
        return UNREAD
    if not any(row["delivery_failed"] for row in rows):
        return OK
    if not rows[0]["delivery_failed"]:
        return PartState("degraded", CODES_FAIL)
    since = None
    for row in rows:
        if not row["delivery_failed"]:
            break
        since = row["created_at"]
    return PartState("down", CODES_FAIL, since)


async def _webhooks(runtime: Runtime) -> PartState:
    if not runtime.settings.gateway_enabled:
        return OFF
    since = runtime.now() - CALLS_OF
    bound = id_ranges.since(since, scale=runtime.clock.scale)
    row = await _in_time(runtime.db.fetchrow(SQL["webhooks"], bound, since))
    if row is None:
        return UNREAD
    refused, polled = row["refused"], row["polled"]
    if not refused and not polled:
        return OK
    text = Text(
        en=f"In the last hour {refused} calls failed, and {polled} payments were found only by asking the gateway.",
        id=f"Dalam satu jam terakhir {refused} panggilan gagal, dan {polled} pembayaran hanya ditemukan dengan tanya.",
    )
    return PartState("degraded", text)


JUDGES: dict[PartName, Callable[[Runtime], Coroutine[Any, Any, PartState]]] = {
    "database": _database,
    "replica": _replica,
    "redis": _redis,
    "gateway": _gateway,
    "code_provider": _code_provider,
    "push_provider": _push_provider,
    "webhooks": _webhooks,
}
