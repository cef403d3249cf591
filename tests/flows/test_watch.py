"""A socket is looked at when something is due for it, and then at once, although most looks are skipped."""

import asyncio
import contextlib
import datetime as dt
from collections.abc import AsyncIterator, Callable

import attrs
import pytest

from core.base.actor import Actor
from core.base.clock import monotonic
from core.sessions.messages import chats
from core.sessions.messages.rules import Marker, ReadMarkers
from realtime import watch
from realtime.connection import PING_S, Connection
from realtime.hub import Hub
from realtime.message_queue import MessageQueue
from realtime.revocation import Revocation
from tests.flows.chats import a_chat
from tests.flows.conftest import Harness
from tests.flows.sockets import connected

TICK_S = 0.05
SOON_S = 5.0  # many ticks, and far less than the time after which the socket would be looked at anyway


@pytest.fixture(autouse=True)
def short_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "TICK_S", TICK_S)


@contextlib.asynccontextmanager
async def watched(harness: Harness, *, expires_in_s: float = 7200) -> AsyncIterator[tuple[Hub, Connection]]:
    """Yield a socket that was looked at, for which nothing is due for seconds."""
    hub, actor = Hub(harness.runtime, MessageQueue()), await harness.customer()
    async with connected(hub, token_until(harness, actor, expires_in_s), "chat"):
        (connection,) = hub.connections
        ticking = asyncio.create_task(watch.SocketWatch(hub, Revocation(hub)).tick())
        try:
            await until(lambda: connection.next_look > 0)
            yield hub, connection
        finally:
            ticking.cancel()
            connection.end()
            await asyncio.sleep(0)


def token_until(harness: Harness, actor: Actor, seconds: float) -> Actor:
    return attrs.evolve(actor, expires_at=harness.runtime.now().timestamp() + seconds)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON_S):
        while not condition():  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0.005)


def test_idle_socket_is_looked_at_no_more_than_its_pings_need(harness: Harness) -> None:
    async def play() -> None:
        async with watched(harness) as (_, connection):
            planned = connection.next_look * TICK_S - monotonic()
            assert PING_S - SOON_S < planned < PING_S + TICK_S
            await asyncio.sleep(5 * TICK_S)
            assert connection.next_look * TICK_S - monotonic() < planned  # it was not planned again

    harness.run(play())


def test_new_token_that_expires_sooner_closes_an_open_socket(harness: Harness) -> None:
    async def play() -> None:
        async with watched(harness) as (hub, connection):
            assert connection.actor is not None
            connection.actor = token_until(harness, connection.actor, 0.1)
            hub.connections.register(connection)
            await until(lambda: connection.closing)

    harness.run(play())


def test_step_of_service_time_closes_sockets_whose_tokens_have_expired(harness: Harness) -> None:
    async def play() -> None:
        clock = harness.runtime.clock
        async with watched(harness, expires_in_s=7200) as (_, connection):
            try:
                clock.set_real(clock.real_now() + dt.timedelta(hours=3), at_monotonic=monotonic())
                await until(lambda: connection.closing)
            finally:
                clock.set_real(clock.real_now() - dt.timedelta(hours=3), at_monotonic=monotonic())

    harness.run(play())


def test_ended_auth_session_closes_its_sockets_without_a_signal(harness: Harness) -> None:
    async def play() -> None:
        async with watched(harness) as (_, connection):
            assert connection.actor is not None
            harness.runtime.caches.revoked.add([connection.actor.auth_session_id], now=monotonic())
            await until(lambda: connection.closing)

    harness.run(play())


def test_closed_socket_is_not_kept_until_its_next_look(harness: Harness) -> None:
    async def play() -> None:
        async with watched(harness) as (hub, connection):
            tick = connection.next_look
            hub.connections.unregister(connection)
            assert hub.connections.looks.take(tick, tick) == []

    harness.run(play())


def test_comparison_returns_exactly_the_chats_that_differ(clean_harness: Harness) -> None:
    async def play() -> None:
        runtime = clean_harness.runtime
        names = ("same", "message", "lost", *Marker, "completed")
        session_ids = [(await a_chat(clean_harness)).id for _ in names]
        await runtime.db.fetch(
            "UPDATE chat_sessions SET last_seq = 5, customer_delivered_seq = 3, customer_read_seq = 2,"
            " mitra_delivered_seq = 2, mitra_read_seq = 1 WHERE id = ANY($1::uuid[])", session_ids,
        )  # fmt: skip
        for status in ("closing", "completed"):
            await runtime.db.fetch("UPDATE chat_sessions SET status = $2 WHERE id = $1", session_ids[-1], status)
        stored = {str(progress.id): progress for progress in await chats.progress_of_sessions(runtime, session_ids)}
        assert len(stored) == len(names)
        last_seqs, markers = list[int](), list[ReadMarkers]()
        for name, session_id in zip(names, session_ids, strict=True):
            known = stored[session_id].read_markers
            if isinstance(name, Marker):
                setattr(known, name.field, known.of(name) - 1)
                other = next(one for one in Marker if one is not name)
                setattr(known, other.field, known.of(other) + 1)  # the sum of all is the same
            last_seqs.append(5 + {"message": -1, "lost": 1}.get(str(name), 0))
            markers.append(known)
        found = await chats.progress_since(runtime, session_ids, last_seqs, markers)
        assert {str(one.id): one for one in found} == {one: stored[one] for one in stored if one != session_ids[0]}

    clean_harness.run(play())
