"""The loads of `sesi bench` in a small form, on a service and on its peers: they count what happened."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import attrs
import pytest

from tests.stack import Stack
from tools.bench import chat, people, rates, sockets
from tools.bench.chat_loads import Load
from tools.bench.chat_wire import ChatWire
from tools.bench.peers.colocated import ColocatedPeer, check_installed
from tools.bench.running import BenchFailed
from tools.bench.target import of_service

pytestmark = pytest.mark.anyio

SECONDS = 0.2
BRIEF_S = 0.05  # at full speed, so that a socket stays within its burst of 200 frames
FEW = Load(name="few", words="", pairs=3, in_flight=1, both=False, paced=50, goals=())


class PausingWire(ChatWire):
    """A party that pauses before each message at full speed, so that its socket stays within its burst in a second."""

    def fire(self, count: int) -> None:
        """Send `count` messages, at full speed after a pause."""
        if not self.running:
            super().fire(count)
            return
        asyncio.get_running_loop().call_later(0.01, self._go_on, count)

    def _go_on(self, count: int) -> None:
        if self.running:
            super().fire(count)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the times in which a load settles."""
    monkeypatch.setattr(chat, "WARM_S", BRIEF_S)
    monkeypatch.setattr(rates, "ONE_WAY", FEW)
    monkeypatch.setattr(rates, "SETTLE_S", 0.05)
    monkeypatch.setattr(sockets, "REST_S", 0.1)
    monkeypatch.setattr(sockets, "PING_S", 0.1)
    monkeypatch.setattr(sockets, "WARM_SOCKETS", 2)


@pytest.fixture(params=["ws", "socketio"])
async def peer(stack: Stack, request: pytest.FixtureRequest) -> AsyncIterator[ColocatedPeer]:
    """Run a chat peer on the service's servers. Its table is dropped: other tests compare the tables with ours."""
    try:
        check_installed()
    except BenchFailed as error:
        pytest.skip(str(error))
    made = ColocatedPeer(request.param, stack)
    yield made
    made.close()
    await stack.sql("DROP TABLE peer_messages")


async def test_chat_load_counts_messages_and_proves_that_they_are_stored_in_order(stack: Stack) -> None:
    # Within a second something is stored on a busy machine too.
    found = await chat.run(FEW, attrs.evolve(of_service(stack), wire=PausingWire), 1.0)
    assert found["stored/s"] > 0
    assert found["delivered p99 ms at 50/s"] >= found["delivered p50 ms at 50/s"] > 0
    assert (found["out of order"], found["acknowledged and not stored"]) == (0, 0)


async def test_chats_of_a_load_end_exactly_after_their_paid_time(stack: Stack) -> None:
    connection = await asyncpg.connect(stack.database_url)
    try:
        made = [pair.session_id for pair in await people.pairs(connection, stack, 200)]
        wrong = await connection.fetch(
            "SELECT id FROM chat_sessions WHERE id = ANY($1::uuid[]) AND expires_at <> paired_at + interval '120 minutes'",
            made,
        )
    finally:
        await connection.close()
    assert wrong == []


async def test_acknowledged_messages_that_are_not_stored_are_counted(stack: Stack) -> None:
    forgetful = attrs.evolve(of_service(stack), stored="SELECT 0 FROM (SELECT $1::uuid[]) x")
    assert (await chat.full_speed(FEW, forgetful, BRIEF_S))["acknowledged and not stored"] > 0


@pytest.mark.parametrize(("enough", "points"), [(0.0, 6), (1.5, 0)])
async def test_curve_ends_before_the_first_rate_that_was_not_kept_up(
    stack: Stack, enough: float, points: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rates, "OFFERED", (20, 40))
    monkeypatch.setattr(chat, "KEPT_UP", enough)
    found = await rates.curve(of_service(stack), SECONDS)
    assert len(found) == points
    assert all(figure.endswith((" at 20/s", " at 40/s")) for figure in found)


async def test_idle_sockets_are_measured_at_each_count(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "COUNTS", (5, 10))
    monkeypatch.setattr(sockets, "MEASURED", 10)
    found = await sockets.idle(of_service(stack), SECONDS)
    assert found["connects/s"] > 0
    assert {figure for figure in found if figure.endswith(" sockets")} == {
        f"{figure}, {count} sockets" for figure in ("KiB a socket", "hub CPU ms/s") for count in (5, 10)
    }


async def test_chat_peer_stores_acknowledges_and_delivers_in_order(peer: ColocatedPeer) -> None:
    found = await chat.full_speed(FEW, peer.target(), SECONDS)
    assert found["stored/s"] > 0
    assert found["delivered p50 ms"] > 0
    assert (found["out of order"], found["acknowledged and not stored"]) == (0, 0)
