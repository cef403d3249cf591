"""The header Idempotency-Key: a repeated request takes effect once, even if the process dies in between.

See docs/invariants.md.
"""

import asyncio
import contextlib
import datetime as dt
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import asyncpg
import pytest

from tests.access.routes import ROUTES, Route
from tests.access.wire import Answer, ask
from tests.stack import Stack, World, new_id
from tools.driving.device import Device

pytestmark = pytest.mark.anyio

PATH, ALIAS = "/api/client/payment/requests", "/api/client/payment/sessions"
BODY = {"mode": "chat", "duration_minutes": 12, "topics": ["work", "love"]}
MISMATCH, IN_FLIGHT = (409, "IDEMPOTENCY_MISMATCH"), (409, "IDEMPOTENCY_IN_FLIGHT")


@pytest.fixture
async def customer(world: World) -> Device:
    """Return a customer."""
    return await world.customer()


async def pay(
    http: aiohttp.ClientSession, customer: Device, key: str | None, body: Any = BODY, *, path: str = PATH
) -> Answer:
    """Create a payment request with a key. A body of bytes is sent unchanged."""
    headers = {"Content-Type": "application/json"} | ({} if key is None else {"Idempotency-Key": key})
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    url = customer.addresses.public + path
    return await ask(http, url, "POST", token=customer.access_token, headers=headers, data=data)


async def rows(stack: Stack, customer: Device) -> list[str]:
    """Return the statuses of the customer's payment requests, oldest first."""
    found = await stack.sql(
        "SELECT status FROM payment_requests WHERE customer_id = $1::uuid ORDER BY created_at, id", customer.user["id"]
    )
    return [row["status"] for row in found]


@contextlib.asynccontextmanager
async def held(stack: Stack, customer: Device, key: str) -> AsyncIterator[asyncpg.Connection]:
    """Hold the lock of the key, as the first request does while it runs."""
    async with stack.transaction() as holder:
        name = f"{customer.user['id']} {key}"
        await holder.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 4))", name)
        yield holder


async def test_repeated_request_returns_the_first_answer_byte_for_byte(
    world: World, http: aiohttp.ClientSession, customer: Device
) -> None:
    key = new_id()
    first = await pay(http, customer, key)
    assert first.status == 201
    for _ in range(3):
        again = await pay(http, customer, key)
        assert (again.status, again.raw) == (201, first.raw)
        assert again.headers["Content-Type"] == first.headers["Content-Type"]
        assert again.headers["X-Request-Id"] != first.headers["X-Request-Id"]
    assert await rows(world.stack, customer) == ["pending"]


async def test_repeated_request_returns_the_first_answer_after_later_changes(
    world: World, http: aiohttp.ClientSession, customer: Device
) -> None:
    key = new_id()
    first = await pay(http, customer, key)
    payment_id = first.body["payment_request_id"]
    await customer.post(f"{PATH}/{payment_id}/abandon")
    newer = await pay(http, customer, None)
    assert (await pay(http, customer, key)).raw == first.raw
    assert await rows(world.stack, customer) == ["abandoned", "pending"]
    assert (await customer.get(f"{PATH}/{newer.body['payment_request_id']}"))["status"] == "pending"


async def test_request_without_key_or_with_new_key_creates_a_new_object(
    world: World, http: aiohttp.ClientSession, customer: Device
) -> None:
    answers = [await pay(http, customer, key) for key in (None, None, new_id(), new_id())]
    assert {answer.status for answer in answers} == {201}
    assert len({answer.body["payment_request_id"] for answer in answers}) == 4
    assert await rows(world.stack, customer) == ["abandoned"] * 3 + ["pending"]


@pytest.mark.parametrize(
    "other",
    [
        {"duration_minutes": 30, "mode": "chat", "topics": ["work", "love"]},
        {"duration_minutes": 12, "mode": "call", "topics": ["work", "love"]},
        {"duration_minutes": 12, "mode": "chat", "topics": ["love", "work"]},
        {"duration_minutes": 12, "mode": "chat", "topics": []},
        {"duration_minutes": 12, "mode": "chat"},
        {**BODY, "first_session_discount": True},
        {**BODY, "targeted_mitra_id": new_id()},
    ],
)
async def test_same_key_with_another_body_is_refused(
    world: World, http: aiohttp.ClientSession, customer: Device, other: dict[str, Any]
) -> None:
    key = new_id()
    first = await pay(http, customer, key)
    assert (await pay(http, customer, key, other)).said == MISMATCH
    assert (await pay(http, customer, key)).raw == first.raw
    assert await rows(world.stack, customer) == ["pending"]


async def test_same_body_in_another_spelling_is_a_repeat(
    world: World, http: aiohttp.ClientSession, customer: Device
) -> None:
    key = new_id()
    first = await pay(http, customer, key)
    spellings = [
        b'{"topics":["work","love"],"duration_minutes":12,"mode":"chat"}',
        b'\r\n{ "duration_minutes" : 12,\n\t"topics" : [ "work" , "love" ] }  ',  # `mode` has its default
        b'{"topics":["\\u0077ork","love"],"duration_minutes":12,"mode":"chat","targeted_mitra_id":null}',
    ]
    for spelling in spellings:
        assert (await pay(http, customer, key, spelling)).raw == first.raw
    assert await rows(world.stack, customer) == ["pending"]


async def test_legacy_path_shares_keys_with_the_current_path(
    world: World, http: aiohttp.ClientSession, customer: Device
) -> None:
    key = new_id()
    first = await pay(http, customer, key)
    assert (await pay(http, customer, key, path=ALIAS)).raw == first.raw
    assert (await pay(http, customer, key, {"duration_minutes": 30}, path=ALIAS)).said == MISMATCH
    assert await rows(world.stack, customer) == ["pending"]


async def test_same_key_of_another_user_is_independent(world: World, http: aiohttp.ClientSession) -> None:
    key, customers = new_id(), [await world.customer() for _ in range(3)]
    bodies = [BODY, BODY, {"duration_minutes": 30}]
    answers = [await pay(http, *pair) for pair in zip(customers, [key] * 3, bodies, strict=True)]
    assert {answer.status for answer in answers} == {201}
    assert len({answer.body["payment_request_id"] for answer in answers}) == 3


async def test_refused_request_releases_its_key(world: World, http: aiohttp.ClientSession, customer: Device) -> None:
    key = new_id()
    paid = await world.paid(customer)
    assert (await pay(http, customer, key)).said == (409, "SESSION_IN_PROGRESS")
    assert (await pay(http, customer, key, {"duration_minutes": 7})).said == (409, "SESSION_IN_PROGRESS")
    await customer.post("/api/client/chat/cancel", {"payment_request_id": paid["payment_request_id"]})
    assert (await pay(http, customer, key, {"duration_minutes": 7})).said == (409, "TIER_NOT_FOUND")
    assert (await pay(http, customer, key, {"duration_minutes": "12"})).said == (422, "VALIDATION_ERROR")
    assert (await pay(http, customer, key, b"{")).said == (422, "VALIDATION_ERROR")
    first = await pay(http, customer, key)
    assert first.status == 201
    assert (await pay(http, customer, key)).raw == first.raw


async def age(stack: Stack, customer: Device, by: dt.timedelta) -> None:
    """Make the customer's keys older by `by`."""
    await stack.sql(
        "UPDATE idempotency_keys SET created_at = created_at - $2::interval WHERE user_id = $1::uuid",
        customer.user["id"],
        by,
    )


async def test_key_is_free_again_after_24_hours(world: World, http: aiohttp.ClientSession, customer: Device) -> None:
    key, day = new_id(), dt.timedelta(hours=24)
    first = await pay(http, customer, key)
    await age(world.stack, customer, day - dt.timedelta(minutes=2))
    assert (await pay(http, customer, key)).raw == first.raw
    await age(world.stack, customer, dt.timedelta(minutes=2))
    second = await pay(http, customer, key, {"duration_minutes": 30})  # and may have another body
    assert (second.status, second.body["duration_minutes"]) == (201, 30)
    assert (await pay(http, customer, key, {"duration_minutes": 30})).raw == second.raw
    assert (await pay(http, customer, key)).said == MISMATCH
    assert await rows(world.stack, customer) == ["abandoned", "pending"]


async def test_sweep_deletes_only_keys_older_than_a_day(world: World, http: aiohttp.ClientSession) -> None:
    stack = world.stack
    old, young = await world.customer(), await world.customer()
    for customer in (old, young):
        assert (await pay(http, customer, "the key")).status == 201
    await age(stack, old, dt.timedelta(hours=25))

    async def kept(customer: Device) -> int:
        sql = "SELECT count(*) FROM idempotency_keys WHERE user_id = $1::uuid"
        return (await stack.sql(sql, customer.user["id"]))[0][0]

    assert await kept(young) == 1
    stack.restart("jobs")  # the jobs process sweeps at its start
    await world.until(lambda: kept(old), lambda count: count == 0, timeout=90)
    assert await kept(young) == 1


async def test_fifty_concurrent_repeats_create_one_request(
    world: World, http: aiohttp.ClientSession, customer: Device
) -> None:
    key = new_id()
    async with asyncio.TaskGroup() as group:
        paths = [PATH, ALIAS] * 25
        tasks = [group.create_task(pay(http, customer, key, path=path)) for path in paths]
    answers = [task.result() for task in tasks]
    assert {answer.status for answer in answers} == {201}
    assert len({answer.raw for answer in answers}) == 1
    assert await rows(world.stack, customer) == ["pending"]


async def test_two_concurrent_bodies_under_one_key_create_one_request(
    world: World, http: aiohttp.ClientSession, customer: Device
) -> None:
    key, bodies = new_id(), [{"duration_minutes": 12}, {"duration_minutes": 30}] * 10
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(pay(http, customer, key, body)) for body in bodies]
    answers = [task.result() for task in tasks]
    good = [answer.raw for answer in answers if answer.status == 201]
    assert (len(good), len(set(good))) == (10, 1)
    assert [answer.said for answer in answers if answer.status != 201] == [MISMATCH] * 10
    assert await rows(world.stack, customer) == ["pending"]


@pytest.mark.slow
async def test_repeat_waits_five_seconds_for_a_running_request(
    world: World, http: aiohttp.ClientSession, customer: Device
) -> None:
    key = new_id()
    async with held(world.stack, customer, key), asyncio.TaskGroup() as group:
        waiting = [group.create_task(pay(http, customer, key)) for _ in range(3)]
        free = await pay(http, customer, new_id())  # another key does not wait
        assert (free.status, free.seconds < 3) == (201, True)
        await asyncio.wait(waiting)
    for task in waiting:
        assert task.result().said == IN_FLIGHT
        assert 4.5 < task.result().seconds < 9
    assert await rows(world.stack, customer) == ["pending"]  # the request with the other key
    assert (await pay(http, customer, key)).status == 201


async def test_repeat_is_answered_as_soon_as_the_running_request_ends(
    world: World, http: aiohttp.ClientSession, customer: Device
) -> None:
    key = new_id()
    async with asyncio.TaskGroup() as group, held(world.stack, customer, key):
        waiting = group.create_task(pay(http, customer, key))
        done, _ = await asyncio.wait([waiting], timeout=1)
        assert not done
    answer = waiting.result()
    assert answer.status == 201
    assert answer.seconds < 4.5
    assert await rows(world.stack, customer) == ["pending"]


async def test_waiting_repeats_do_not_block_other_requests(world: World, http: aiohttp.ClientSession) -> None:
    customer, other = await world.customer(), await world.customer()
    key = new_id()
    async with asyncio.TaskGroup() as group, held(world.stack, customer, key):
        waiting = [group.create_task(pay(http, customer, key)) for _ in range(60)]
        for _ in range(5):
            answer = await pay(http, other, None)
            assert (answer.status, answer.seconds < 3) == (201, True), answer
    assert {(task.result().status, task.result().raw) for task in waiting} == {(201, waiting[0].result().raw)}
    assert await rows(world.stack, customer) == ["pending"]


@pytest.mark.parametrize("key", ["", "k" * 256, "k" * 4_000])
async def test_empty_or_overlong_key_is_422(
    world: World, http: aiohttp.ClientSession, customer: Device, key: str
) -> None:
    answer = await pay(http, customer, key)
    assert answer.said == (422, "VALIDATION_ERROR")
    assert [field["field"] for field in answer.body["error"]["details"]["fields"]] == ["Idempotency-Key"]
    assert await rows(world.stack, customer) == []


@pytest.mark.parametrize("key", ["k", "k" * 255, "a key, with: 'odd' \"words\" %_\\", "\u00e9\u00ff"])
async def test_key_may_be_any_text_of_up_to_255_characters(
    world: World, http: aiohttp.ClientSession, customer: Device, key: str
) -> None:
    first = await pay(http, customer, key)
    assert first.status == 201
    assert (await pay(http, customer, key)).raw == first.raw
    assert (await pay(http, customer, key[:-1] + "K")).raw != first.raw


def takes_keys(route: Route) -> bool:
    """Return whether a route declares that it honours keys."""
    return bool(route.handler.opt.get("idempotent"))


async def test_key_on_other_routes_is_ignored(world: World, http: aiohttp.ClientSession, customer: Device) -> None:
    honoured = {route.path for route in ROUTES if takes_keys(route)}
    assert {PATH, ALIAS} <= honoured
    assert {route.method for route in ROUTES if takes_keys(route)} == {"POST"}
    key = new_id()
    headers = {"Idempotency-Key": key}
    base = customer.addresses.public
    for name in ("Dewi", "Rina"):
        answer = await ask(
            http, base + "/api/client/auth/profile", "PATCH", token=customer.access_token, headers=headers,
            body={"display_name": name},
        )  # fmt: skip
        assert (answer.status, answer.body["display_name"]) == (200, name)
    ids = {
        (await ask(http, base + "/api/shared/auth/anonymous", "POST", headers=headers)).body["customer"]["id"]
        for _ in range(2)
    }
    assert len(ids) == 2
    payment = await pay(http, customer, key)
    path = f"{PATH}/{payment.body['payment_request_id']}"
    for long_key in ("", "k" * 256):
        answer = await ask(
            http, base + path, token=customer.access_token, headers={"Idempotency-Key": long_key}
        )  # fmt: skip
        assert answer.status == 200
    assert await world.stack.sql("SELECT 1 FROM idempotency_keys WHERE user_id = $1::uuid", customer.user["id"])


# -- a process that dies


@pytest.mark.slow
async def test_repeat_after_killed_process_returns_at_most_one_request(world: World) -> None:
    stack = world.stack
    assert stack.undocumented_answers() == []  # these would be lost with the process
    for delay_ms in (0, 10):
        customers = [await world.customer() for _ in range(8)]
        key = new_id()
        seen: list[list[bytes]] = [[] for _ in customers]

        async def insist(n: int, customer: Device, seen: list[list[bytes]], key: str) -> None:
            async with aiohttp.ClientSession() as http:
                while True:
                    with contextlib.suppress(aiohttp.ClientError, OSError):
                        answer = await pay(http, customer, key)
                        assert answer.status in {201, 503}, answer
                        if answer.status == 201:
                            seen[n].append(answer.raw)
                            return
                    await asyncio.sleep(0.05)

        async with asyncio.TaskGroup() as group:
            for which, customer in enumerate(customers):
                for _ in range(4):
                    group.create_task(insist(which, customer, seen, key))
            await asyncio.sleep(delay_ms / 1000)  # so that it dies at different moments
            stack.processes["api"].kill()
            await asyncio.to_thread(stack.restart, "api")
        for customer, answers in zip(customers, seen, strict=True):
            assert len(answers) == 4
            assert len(set(answers)) == 1
            assert await rows(stack, customer) == ["pending"]
