"""Store webhook calls: before their token is compared, and what is missing afterwards (docs/protocol.md#webhook).

core/payments/webhooks/unproven.py limits what is stored of calls without a valid token.
"""

import asyncio
import datetime as dt
import hashlib
from collections.abc import Mapping

import attrs

from core.base import ids
from core.base.addresses import plain_of
from core.base.errors import Unavailable
from core.base.plain_json import plain_text
from core.bus.buckets import Limit
from core.bus.rate_limit import RateLimited
from core.payments.gateway_calls import NamedFields, ParsedCall
from core.payments.webhooks import calls
from core.payments.webhooks import store as webhooks
from core.payments.webhooks.flood_counts import FloodCounts
from core.payments.webhooks.store import MAX_BODY, Received
from core.payments.webhooks.unproven import KEPT, UnprovenCalls
from core.runtime.container import Runtime
from core.telemetry import logs

log = logs.get("webhook")
RECORD_S = 0.8  # real seconds, of the ANSWER_S in which the response must be sent
TURN_S = 0.1  # real seconds that a call waits for a connection before its token is compared
# Further real seconds for the row of a call without a valid token, and for its result: its answer is not urgent. Only
# calls that have one of the few connections wait for them, so a flood does not pile up.
SLOW_S = 3.0
# Lines for such calls in the fallback file, for all addresses together: at most 5 MiB a minute of disk space that
# genuine calls need.
UNPROVEN_LINES = Limit(name="webhook_unproven_lines", per_minute=60, burst=60)
TOKEN = "x-callback-token"  # noqa: S105 - the name of a header
HEADERS_KEPT = 40
HEADERS_SIZE = 8_192  # characters of all names and values
MOST_DIGITS = 15  # of an announced length


@attrs.frozen(kw_only=True)
class Incoming:
    """A webhook call as received."""

    body: bytes
    headers: dict[str, str]
    source_ip: str


@attrs.define(kw_only=True)
class First:
    """What happened to a call before its token was compared.

    It was `admitted` by the limits, and is `stored`. Or `storing` it takes longer, or it `failed`, or took too long. Or it
    must not be stored if its token is invalid, for `wait_s` seconds. Or the connections were busy.
    """

    call_id: str = attrs.field(factory=ids.new_id)
    received_at: dt.datetime
    storing: asyncio.Task[None] | None = None
    admitted: bool = False
    stored: bool = False
    failed: bool = False
    wait_s: int = 0
    parsed: ParsedCall | None = None


def _unproven(runtime: Runtime) -> UnprovenCalls:
    return UnprovenCalls(runtime.db, runtime.settings)


def _flood_counts(runtime: Runtime) -> FloodCounts:
    counts = FloodCounts(runtime.db)
    runtime.closing.append(counts.close)
    return counts


async def store_first(runtime: Runtime, incoming: Incoming) -> First:
    """Store a call before its token is compared, unless a limit refuses it or the log is slow. Never raises.

    A slow statement is not cancelled, because the server would still be busy with it when the next one starts. `settle`
    must follow.
    """
    first = First(received_at=runtime.now())
    try:
        async with asyncio.timeout(TURN_S):
            await runtime.part(_unproven).connections.acquire()
    except TimeoutError:
        return first
    first.storing = runtime.tasks.follow(_look_and_store(runtime, incoming, first))
    await asyncio.wait({first.storing}, timeout=RECORD_S)
    return first


async def settle(first: First, *, genuine: bool) -> None:
    """Give up a call's first row if it takes too long. Only a call without a valid token can wait for it."""
    if first.storing is not None and not first.storing.done() and not genuine:
        await asyncio.wait({first.storing}, timeout=SLOW_S)
    if first.storing is not None and not first.storing.done():
        log.warning("storing a webhook call failed", error="TimeoutError")
        first.failed = True


async def _look_and_store(runtime: Runtime, incoming: Incoming, first: First) -> None:
    """Store a call if the limits allow it, over a connection that the caller has taken."""
    unproven = runtime.part(_unproven)
    try:
        first.wait_s = await unproven.admit(incoming.source_ip, now=first.received_at)
        if first.wait_s:
            return
        first.admitted = True
        first.parsed = calls.parse(runtime, incoming.body)
        call = received(incoming, first.parsed.named, first, kept=KEPT, token_valid=False)
        await webhooks.record_first(runtime.db, call)
        first.stored = True
        if first.failed:  # it was answered without the row: a line of the fallback file or a count stands for it
            await webhooks.forget_late(runtime.db, first.call_id)
    except Exception as error:
        log.warning("storing a webhook call failed", error=type(error).__name__)
        first.failed = True
    finally:
        unproven.connections.release()
        if first.failed and first.admitted:
            unproven.done(incoming.source_ip)


async def store_genuine(runtime: Runtime, call: Received, body: bytes, first: First) -> bool:
    """Store what is missing of a call with a valid token. Return whether the log has it; else the file may have it."""
    if first.admitted and not first.failed:
        runtime.part(_unproven).done(call.source_ip)
    if first.failed:
        await calls.to_file(runtime, call)
        return False
    if not first.stored:
        return await _record(runtime, call)
    if len(body) > KEPT:
        try:
            async with asyncio.timeout(RECORD_S):
                await runtime.part(_unproven).complete(call.id, body, most=MAX_BODY)
        except Exception as error:
            log.warning("storing the whole body of a webhook call failed", error=type(error).__name__)
            await calls.to_file(runtime, call)
    return True


async def count(runtime: Runtime, incoming: Incoming, first: First) -> None:
    """Count a call instead of storing it."""
    await runtime.part(_flood_counts).add(host=incoming.source_ip, body=incoming.body, received_at=first.received_at)


async def keep_unproven(runtime: Runtime, incoming: Incoming, call: Received, first: First) -> None:
    """Store a call without a valid token: in the log, else in the fallback file, else as a count.

    A slow statement is not cancelled, because the server would still be busy with it when the next one starts.
    """
    unproven, host = runtime.part(_unproven), incoming.source_ip
    admitted = first.admitted and not first.failed
    try:
        if first.failed:
            raise Unavailable
        async with asyncio.timeout(RECORD_S):
            await unproven.connections.acquire()
        try:
            if not first.stored:
                if await unproven.admit(host, now=runtime.now()):
                    await count(runtime, incoming, first)
                    return
                admitted = True
                await webhooks.record_first(runtime.db, call)
            await unproven.refuse(call.id, incoming.body, host, most=MAX_BODY, now=call.received_at)
        finally:
            unproven.connections.release()
    except Exception as error:
        log.warning("storing a webhook call without a valid token failed", error=type(error).__name__)
    else:
        return
    finally:
        if admitted:
            unproven.done(host)
    if not await _unproven_to_file(runtime, call):
        await count(runtime, incoming, first)


async def _unproven_to_file(runtime: Runtime, call: Received) -> bool:
    try:
        await runtime.rate_limit.take(UNPROVEN_LINES, "all", now_us=int(call.received_at.timestamp() * 1_000_000))
    except RateLimited:
        return False
    return await calls.to_file(runtime, call)


def _kept(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers to store: no secrets, at most HEADERS_KEPT of them with HEADERS_SIZE characters."""
    kept: dict[str, str] = {}
    room = HEADERS_SIZE
    for name, value in headers.items():
        if name in (TOKEN, "authorization", "cookie"):
            continue
        text = plain_text(value, 1000) or ""
        room -= len(name) + len(text)
        if room < 0 or len(kept) == HEADERS_KEPT:
            break
        kept[name] = text
    return kept


def received(incoming: Incoming, named: NamedFields, first: First, *, kept: int, token_valid: bool) -> Received:
    """Return a call with the first `kept` bytes of its body."""
    cut = not token_valid and len(incoming.body) > kept
    return Received(
        id=first.call_id,
        received_at=first.received_at,
        source_ip=plain_of(incoming.source_ip)[:45],
        headers=_kept(incoming.headers),
        token_valid=token_valid,
        raw_body=incoming.body[:kept],
        truncated=len(incoming.body) > kept,
        bytes=_length(incoming) if cut else None,
        body_sha256=hashlib.sha256(incoming.body).hexdigest() if cut else None,
        **attrs.asdict(named),
    )


def _length(incoming: Incoming) -> int:
    """Return the length of a body. Of one over the limit the rest is not read; then the caller's word counts."""
    size, announced = len(incoming.body), incoming.headers.get("content-length", "")
    if size > MAX_BODY and len(announced) <= MOST_DIGITS and announced.isascii() and announced.isdigit():
        return max(size, int(announced))
    return size


async def _record(runtime: Runtime, call: Received) -> bool:
    """Store a call in the log, or in the fallback file if the database fails. Return whether the log has it."""
    try:
        async with asyncio.timeout(RECORD_S), runtime.transaction() as tx:
            await webhooks.record(tx, call)
    except Exception as error:
        log.warning("storing a webhook call failed", error=type(error).__name__)
        await calls.to_file(runtime, call)
        return False
    return True
