"""The checks of the clocks: of this machine against the database, Redis and time servers."""

import asyncio
import ctypes
import datetime as dt

from core.base.clock import monotonic
from core.bus.bus import DEADLINE_S, Bus
from core.bus.server import LOST
from core.settings.settings import Settings
from tools.doctor import database
from tools.doctor.findings import Finding, failure, ok, warning

MOST_S = 5.0  # between the clocks of two machines
NOT_SYNCHRONIZED = 5  # TIME_ERROR of adjtimex(2)


async def check(settings: Settings, *, database_answers: bool) -> list[Finding]:
    """Check the clocks of this machine, of the database if it answers, and of Redis if it answers."""
    found = synchronized(_kernel_state())
    if database_answers:
        found.append(judged("the database", await _database_offset(settings)))
    return found + [judged("Redis", offset) for offset in await _redis_offsets(settings)]


def judged(whose: str, offset_s: float) -> Finding:
    """Return the finding about a clock that is `offset_s` seconds ahead of this machine's."""
    text = f"{-offset_s:+.3f} s from the clock of {whose}"
    if abs(offset_s) >= MOST_S:
        return failure("clock", f"{text}: run NTP on both machines")
    return ok("clock", text)


async def _database_offset(settings: Settings) -> float:
    connection = await database.connect(settings)
    try:
        before, began = monotonic(), dt.datetime.now(dt.UTC)
        at = await connection.fetchval("SELECT clock_timestamp()")
        return (at - began).total_seconds() - (monotonic() - before) / 2
    finally:
        await connection.close()


async def _redis_offsets(settings: Settings) -> list[float]:
    bus = Bus(settings.redis_url)
    offsets: list[float] = []
    try:
        await bus.find()
        for server in bus.present():
            before, began = monotonic(), dt.datetime.now(dt.UTC)
            async with asyncio.timeout(DEADLINE_S):
                seconds, microseconds = await server.client.time()
            took = monotonic() - before
            offsets.append(int(seconds) + int(microseconds) / 1e6 - began.timestamp() - took / 2)
    except LOST:
        return offsets  # the check of Redis reports it
    finally:
        await bus.close()
    return offsets


def _kernel_state() -> int | None:
    """Return what adjtimex(2) says about the clock; None if the kernel does not say."""
    try:
        call = ctypes.CDLL(None).adjtimex
    except (OSError, AttributeError):
        return None
    state = int(call(ctypes.create_string_buffer(512)))  # larger than struct timex; zeros ask and change nothing
    return None if state < 0 else state


def synchronized(state: int | None) -> list[Finding]:
    """Return the finding about the state of the kernel's clock."""
    if state is None:
        return []
    if state == NOT_SYNCHRONIZED:
        return [warning("NTP", "the clock of this machine is not synchronized: run chrony or systemd-timesyncd")]
    return [ok("NTP", "the clock of this machine is synchronized")]
