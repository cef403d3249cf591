"""Requests in progress are bounded: a storm of refreshes delays neither the webhook nor other customers."""

import asyncio
import json
import socket
from collections import Counter

import aiohttp
import pytest
import uvloop

from api.edge.admission import (
    COME_BACK_PER_SECOND,
    COME_BACK_S,
    REFRESHES,
    REFRESHES_AT_ONCE,
    REFRESHES_PER_ADDRESS,
    REQUESTS,
    RequestAdmission,
)
from api.edge.protocol import REFRESHES_A_TURN, RefreshPacer
from api.server import acceptors, listen
from core.base import ids
from core.base.errors import Unavailable
from core.security import refresh
from core.security.keys import Keys
from tests.access.wire import Answer, ask
from tests.stack import World
from tools.driving.throwaway import free_port

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

REFRESH, JSON = "/api/shared/auth/refresh", {"Content-Type": "application/json"}
BEYOND = 40
BURST = 60  # uses of one token
# The refreshes that wait for one auth session. Polls for revoked ones and the push fallback wait for the table, too.
WAITING = """SELECT count(*) AS n FROM pg_stat_activity
             WHERE wait_event_type = 'Lock' AND query LIKE '%"auth_sessions"."id" = $1%'"""
LOCK = "LOCK TABLE auth_sessions IN ACCESS EXCLUSIVE MODE"  # no refresh can finish


class RefreshingPhones:
    """RefreshingPhones that send refresh tokens of unknown auth sessions, which only the database can refuse."""

    def __init__(self, world: World, http: aiohttp.ClientSession) -> None:
        self._http = http
        self._url = world.stack.addresses.public + REFRESH
        self._port = world.stack.ports["PUBLIC"]
        self._key = Keys([world.stack.env["JWT_SECRETS"].partition(":")[2].encode()]).refresh[0]

    def token(self) -> str:
        """Return a token that passes every check before the database."""
        return refresh.make(key=self._key, auth_session_id=ids.new_id(), generation=0, secret=ids.new_secret())

    async def present(self, address: str, token: str | None = None, **headers: str) -> Answer:
        """Refresh with a token from an address; return the answer."""
        data = json.dumps({"refresh_token": token or self.token()})
        sent = {**JSON, "X-Forwarded-For": address, **headers}
        return await ask(self._http, self._url, "POST", data=data, headers=sent)

    def storm(self, count: int, address: str) -> list[asyncio.Task[Answer]]:
        """Start `count` concurrent refreshes."""
        return [asyncio.create_task(self.present(address)) for _ in range(count)]

    def raw(self, address: str, *lines: str) -> bytes:
        """Return the bytes of a refresh request."""
        body = json.dumps({"refresh_token": self.token()}).encode()
        head = [f"POST {REFRESH} HTTP/1.1", "Host: x", f"X-Forwarded-For: {address}", "Content-Type: application/json"]
        head += [f"Content-Length: {len(body)}", *lines]
        return "\r\n".join(head).encode() + b"\r\n\r\n" + body

    async def say(self, *parts: bytes, until: int) -> bytes:
        """Send parts over a connection, each in its own packet; return what was received up to answer number `until`."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            for part in parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0.05)
            got = b""
            async with asyncio.timeout(20):
                while got.count(b'{"error":') < until:
                    got += await reader.read(65_536)
            return got
        finally:
            writer.close()


@pytest.fixture
def phones(world: World, http: aiohttp.ClientSession) -> RefreshingPhones:
    """Return phones."""
    return RefreshingPhones(world, http)


async def first(count: int, tasks: list[asyncio.Task[Answer]]) -> list[Answer]:
    """Wait until `count` tasks are done; return their answers."""
    done: set[asyncio.Task[Answer]] = set()
    while len(done) < count:
        more, _ = await asyncio.wait(set(tasks) - done, return_when=asyncio.FIRST_COMPLETED)
        done |= more
    return [task.result() for task in done]


def check_busy(answer: Answer) -> None:
    """Check the 503 of a refresh that must be retried."""
    assert answer.said == (503, "UNAVAILABLE")
    assert 1 <= int(answer.headers["Retry-After"]) <= 10


async def test_waiting_refreshes_leave_database_to_webhooks_and_excess_is_503(
    world: World, http: aiohttp.ClientSession, phones: RefreshingPhones
) -> None:
    url = world.stack.addresses.public
    payment = await world.request(await world.customer())
    async with world.stack.transaction() as holder:
        await holder.execute(LOCK)
        storm = [
            task
            for number in range(REFRESHES // REFRESHES_PER_ADDRESS)
            for task in phones.storm(REFRESHES_PER_ADDRESS, f"198.51.100.{number}")
        ]
        more = phones.storm(BEYOND, "198.51.100.99")
        refused = await first(BEYOND, [*storm, *more])
        (row,) = await world.until(lambda: world.stack.sql(WAITING), lambda rows: rows[0]["n"])
        assert row["n"] <= REFRESHES_AT_ONCE
        assert (await world.webhook(payment))[0] == 200
        assert (await ask(http, url + "/healthz")).status == 200
    for answer in refused:
        check_busy(answer)
    answers = await asyncio.gather(*storm, *more)
    assert sum(answer.said == (401, "REFRESH_INVALID") for answer in answers) >= REFRESHES - REFRESHES_AT_ONCE
    async with http.get(f"{world.stack.addresses.internal}/metrics") as figures:
        assert 'sesi_limited_total{limit="refreshes_at_once"}' in await figures.text()


async def test_refreshes_of_one_address_leave_slots_to_another(
    world: World, http: aiohttp.ClientSession, phones: RefreshingPhones
) -> None:
    async with world.stack.transaction() as holder:
        await holder.execute(LOCK)
        storm = phones.storm(REFRESHES_PER_ADDRESS + BEYOND, "198.51.100.1")
        for answer in await first(BEYOND, storm):
            check_busy(answer)
        other = asyncio.create_task(phones.present("198.51.100.2"))
        same = await phones.present("198.51.100.1")
        assert not other.done()
    check_busy(same)
    assert (await other).said == (401, "REFRESH_INVALID")
    answers = await asyncio.gather(*storm)
    judged = sum(answer.said == (401, "REFRESH_INVALID") for answer in answers)
    # On a busy machine the test holds the lock for longer than the few refreshes at the database wait for it.
    assert REFRESHES_PER_ADDRESS - REFRESHES_AT_ONCE <= judged <= REFRESHES_PER_ADDRESS
    async with http.get(f"{world.stack.addresses.internal}/metrics") as figures:
        assert 'sesi_limited_total{limit="refreshes_at_once_per_address"}' in await figures.text()


async def test_refresh_without_a_slot_does_not_count_against_the_rate_limit(
    world: World, phones: RefreshingPhones
) -> None:
    async with world.stack.transaction() as holder:
        await holder.execute(LOCK)
        storm = phones.storm(REFRESHES_PER_ADDRESS + BEYOND, "198.51.100.3")
        await first(BEYOND, storm)
        token = phones.token()
        for _ in range(BURST + 5):
            check_busy(await phones.present("198.51.100.3", token))
    await asyncio.gather(*storm)
    assert (await phones.present("198.51.100.3", token)).said == (401, "REFRESH_INVALID")


async def test_refresh_without_a_slot_is_503_with_request_id_and_honours_close(
    world: World, phones: RefreshingPhones
) -> None:
    async with world.stack.transaction() as holder:
        await holder.execute(LOCK)
        storm = phones.storm(REFRESHES_PER_ADDRESS + BEYOND, "198.51.100.4")
        await first(BEYOND, storm)
        named = await phones.present("198.51.100.4", **{"X-Request-Id": "mine"})
        whole = phones.raw("198.51.100.4")
        one_by_one = await phones.say(whole[:30], whole[30:-10], whole[-10:], until=1)
        together = await phones.say(whole + whole + whole[:-10], whole[-10:], until=3)
        last = await phones.say(phones.raw("198.51.100.4", "Connection: close"), until=1)
    assert named.headers["X-Request-Id"] == "mine"
    assert one_by_one.count(b"HTTP/1.1 503 ") == 1
    assert together.count(b"HTTP/1.1 503 ") == 3
    assert b"connection: close" in last
    await asyncio.gather(*storm)


async def test_garbage_refresh_tokens_occupy_no_slots(world: World, phones: RefreshingPhones) -> None:
    async with world.stack.transaction() as holder:
        await holder.execute(LOCK)
        garbage = [await phones.present("198.51.100.5", "x" * 91) for _ in range(REFRESHES_PER_ADDRESS + BEYOND)]
        genuine = asyncio.create_task(phones.present("198.51.100.5"))
    assert {answer.said for answer in garbage} == {(401, "REFRESH_INVALID")}
    assert (await genuine).said == (401, "REFRESH_INVALID")


async def test_turns_admit_a_few_refreshes_in_each_turn_of_the_event_loop() -> None:
    pacer, read = RefreshPacer(asyncio.get_running_loop()), list[int]()
    count = 3 * REFRESHES_A_TURN + 1
    for number in range(count):
        if pacer.take():
            read.append(number)
        else:
            pacer.wait(lambda number=number: read.append(number))
    sizes = [len(read)]
    while len(read) < count:
        await asyncio.sleep(0)
        sizes.append(len(read))
    assert max(after - before for before, after in zip([0, *sizes], sizes, strict=False)) == REFRESHES_A_TURN
    assert read == list(range(count))
    await asyncio.sleep(0)
    assert pacer.take()  # a later one need not wait


async def test_requests_above_the_bound_are_refused_until_others_end() -> None:
    refusals: list[None] = []
    admission = RequestAdmission(overloaded=lambda: refusals.append(None))
    held = [admission.request() for _ in range(REQUESTS)]
    for one in held:
        one.__enter__()
    with pytest.raises(Unavailable) as caught, admission.request():
        pass
    assert caught.value.retry_after_seconds == 1
    assert refusals == [None]
    held[0].__exit__(None, None, None)
    with admission.request():
        pass


async def test_retry_after_spreads_refused_clients_within_a_bound() -> None:
    admission = RequestAdmission(overloaded=lambda: None)
    held = [admission.request() for _ in range(REQUESTS)]
    for one in held:
        one.__enter__()

    def come_back() -> int:
        with pytest.raises(Unavailable) as caught, admission.request():
            pass
        assert caught.value.retry_after_seconds is not None
        return caught.value.retry_after_seconds

    waits = [come_back() for _ in range(COME_BACK_PER_SECOND * COME_BACK_S * 2)]
    of_each_second = Counter(waits)
    assert set(of_each_second) == set(range(1, COME_BACK_S + 1))
    # The clock advances during the test, so a second may receive some more; the last second receives all later ones.
    assert max(of_each_second[wait] for wait in range(1, COME_BACK_S)) <= COME_BACK_PER_SECOND * 2


def test_listener_accepts_several_connections_per_turn_of_the_event_loop() -> None:
    """Check it, because with one accept in each turn a webhook would wait as many turns as clients are ahead of it."""
    assert uvloop.run(_turns_to_accept(40)) <= 20


async def _turns_to_accept(clients: int) -> int:
    loop, port = asyncio.get_running_loop(), free_port()
    made: list[asyncio.BaseTransport] = []

    class Accepted(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            made.append(transport)

    servers = [await loop.create_server(Accepted, sock=sock) for sock in acceptors(listen("127.0.0.1", port, "PORT"))]
    waiting = [socket.create_connection(("127.0.0.1", port)) for _ in range(clients)]
    turns = 0
    while len(made) < clients:
        await asyncio.sleep(0)
        turns += 1
    for one in [*waiting, *made, *servers]:
        one.close()
    return turns


async def test_slot_released_twice_is_free_once() -> None:
    refusals: list[None] = []
    admission = RequestAdmission(overloaded=lambda: refusals.append(None))
    places = [admission.refresh("198.51.100.1") for _ in range(REFRESHES_PER_ADDRESS)]
    places[0].leave()
    places[0].leave()
    admission.refresh("198.51.100.1")
    with pytest.raises(Unavailable):
        admission.refresh("198.51.100.1")
    assert refusals == [None]
