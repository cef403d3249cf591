"""If a webhook never arrives, the service polls the gateway about pending requests: on schedule, seldom, and with the
same effect.
"""

import asyncio
import contextlib
import datetime as dt
import itertools
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from core.base.id_ranges import first_id, moment_of
from core.payments.rules import POLL_AFTER
from tests.faults.together import Part, Together
from tests.http.gateway.conftest import let_requests_wait
from tests.http.gateway.simulated_gateway import READ, VOID, SimulatedGateway, error_reply
from tests.stack import Stack, World, within
from tools.driving.device import Device
from tools.driving.throwaway import free_port

pytestmark = pytest.mark.anyio
TOGETHER = Together()
Moments = dict[str, list[float]]  # when each invoice was read, by its id
PATH = "/api/client/payment/requests"
DAY = dt.timedelta(days=1)
MINUTE = 1.0  # one minute of service time, in real seconds
PAID = ("confirmed", "failed_pairing")  # the latter when no mitra was online


def invoice_of(payment: dict[str, Any]) -> str:
    """Return the id of a request's invoice."""
    return f"inv-{payment['payment_request_id']}"


async def stored(world: World, payment: dict[str, Any]) -> str:
    """Return the stored state of a request; reading it over REST would cause a poll."""
    (row,) = await world.stack.sql(
        "SELECT status FROM payment_requests WHERE id = $1::text::uuid", payment["payment_request_id"]
    )
    return row["status"]


async def until_paid(world: World, payment: dict[str, Any], *, timeout: float = 20) -> None:
    """Wait until a request is paid."""
    await world.until(lambda: stored(world, payment), lambda status: status in PAID, timeout=timeout)


async def requests(world: World, count: int) -> list[dict[str, Any]]:
    """Create pending requests, each of a different customer."""
    return [await world.request(await world.customer()) for _ in range(count)]


def record_poll_times(simulated: SimulatedGateway) -> Moments:
    """Record from now on when each invoice is read."""
    moments: Moments = {}

    def note(heard: Any) -> None:
        if heard.kind == READ:
            moments.setdefault(heard.about, []).append(time.monotonic())

    simulated.on_look = note
    return moments


async def until_polled_again(world: World, moments: list[float]) -> None:
    """Wait for the last poll of an invoice to begin; then the effect of each earlier one is committed."""
    await world.until(lambda: asyncio.sleep(0, len(moments)), lambda count: count >= len(POLL_AFTER))


async def chats(world: World, payments: list[dict[str, Any]]) -> list[int]:
    """Return how many sessions each request has."""
    rows = await world.stack.sql(
        """SELECT (SELECT count(*)::int FROM chat_sessions s WHERE s.payment_request_id = request_id) AS n
           FROM unnest($1::text[]::uuid[]) AS request_id""",
        [payment["payment_request_id"] for payment in payments],
    )
    return [row["n"] for row in rows]


@contextlib.asynccontextmanager
async def another(stack: Stack, kind: str, **ports: str) -> AsyncIterator[None]:
    """Run one more process of a kind; its probes answer on the last of its ports."""
    stack.start(kind, key=f"{kind}2", **ports)
    try:
        await asyncio.to_thread(stack.wait_ready, kind, port=int(list(ports.values())[-1]))
        yield
    finally:
        assert await asyncio.to_thread(stack.stop, f"{kind}2") == 0
        del stack.processes[f"{kind}2"]


@contextlib.asynccontextmanager
async def no_jobs(stack: Stack) -> AsyncIterator[None]:
    """Run no jobs process for a while."""
    assert await asyncio.to_thread(stack.stop, "jobs") == 0
    try:
        yield
    finally:
        stack.start("jobs")
        await asyncio.to_thread(stack.wait_ready, "jobs")


async def test_lost_webhook_is_noticed_within_the_minute(world: World, simulated: SimulatedGateway) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    payment = await world.request(customer)
    began = time.monotonic()
    simulated.pay(payment["payment_request_id"])
    await until_paid(world, payment)
    assert time.monotonic() - began < within(2 * MINUTE)
    await world.until(
        lambda: mitra.get("/api/mitra/chat-requests"),
        lambda found: any(item["customer_display_name"] == "Dewi" for item in found["items"]),
    )
    assert len(simulated.calls(READ, invoice_of(payment))) == 1
    assert (await world.webhook(payment))[1]["processing_result"] == "duplicate"


async def test_lost_webhook_of_an_extension_is_noticed_within_the_minute(
    world: World, simulated: SimulatedGateway
) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    wish = {"duration_minutes": 12, "is_extension": True, "session_id": session_id}
    payment = await customer.post(PATH, wish)
    simulated.pay(payment["payment_request_id"])
    await until_paid(world, payment, timeout=within(2 * MINUTE))


@pytest.fixture(scope="module")
async def plays(stack: Stack, simulated: SimulatedGateway, request: pytest.FixtureRequest) -> AsyncIterator[None]:
    """Run the tests that wait for the last poll of a request at the same time."""
    moments = record_poll_times(simulated)

    async def run(part: Part) -> None:
        world = World(stack)
        await let_requests_wait(world)
        try:
            await part.body(world, simulated, moments)
        finally:
            await world.close()

    TOGETHER.start(run, request.session.items)
    yield
    await TOGETHER.stop()


@TOGETHER.test()
@pytest.mark.slow
async def test_two_jobs_processes_poll_each_request_once_at_each_moment(
    world: World, simulated: SimulatedGateway, moments: Moments
) -> None:
    async with another(world.stack, "jobs", JOBS_PORT=str(free_port())):
        payments, made = [], []
        for _ in range(8):
            before = time.monotonic()
            payments += await requests(world, 1)
            made.append((before, time.monotonic()))
        for payment in payments:
            await until_polled_again(world, moments.setdefault(invoice_of(payment), []))
        await asyncio.sleep(1.5 * MINUTE)  # a poll of the other process would come now
    for payment, (before, after) in zip(payments, made, strict=True):
        found = moments[invoice_of(payment)]
        assert len(found) == 3, found
        for moment, minutes in zip(found, (1, 3, 10), strict=True):
            # A third of a minute earlier, because the processes' clocks may differ.
            assert before + (minutes - 1 / 3) * MINUTE <= moment < after + (minutes + 1.9) * MINUTE, minutes
    assert {await stored(world, payment) for payment in payments} == {"pending"}


@TOGETHER.test()
@pytest.mark.slow
async def test_polled_payment_that_does_not_match_is_logged_once_and_changes_nothing(
    world: World, simulated: SimulatedGateway, moments: Moments
) -> None:
    payments, operator = await requests(world, 2), await world.operator()
    simulated.pay(payments[0]["payment_request_id"], amount=11_000, paid_amount=11_000)
    simulated.pay(payments[1]["payment_request_id"], currency="USD")

    async def logged(payment: dict[str, Any]) -> list[dict[str, Any]]:
        return (await operator.get("/internal/webhook-logs", q=payment["payment_request_id"]))["items"]

    for payment in payments:
        (row,) = await world.until(lambda payment=payment: logged(payment), bool)
        assert (row["source"], row["processing_result"]) == ("poll", "conflict")
        await until_polled_again(world, moments[invoice_of(payment)])
        assert await logged(payment) == [row]
        assert await stored(world, payment) == "pending"


@TOGETHER.test()
@pytest.mark.slow
async def test_polled_conflict_of_an_earlier_day_is_not_logged_again(
    world: World, simulated: SimulatedGateway, moments: Moments
) -> None:
    (payment,) = await requests(world, 1)
    simulated.pay(payment["payment_request_id"], amount=11_000, paid_amount=11_000)

    async def logged() -> list[str]:
        rows = await world.stack.sql(
            "SELECT id::text FROM webhook_logs WHERE gateway_invoice_id = $1", invoice_of(payment)
        )
        return [row["id"] for row in rows]

    (log_id,) = await world.until(logged, bool)
    older = first_id(moment_of(log_id) - DAY)[:13] + log_id[13:]
    await world.stack.sql("UPDATE webhook_logs SET id = $1::text::uuid WHERE id = $2::text::uuid", older, log_id)
    await until_polled_again(world, moments[invoice_of(payment)])
    assert await logged() == [older]


@pytest.mark.slow
async def test_polls_survive_a_kill_and_missed_ones_are_replaced_by_one(
    world: World, simulated: SimulatedGateway, stack: Stack
) -> None:
    moments = record_poll_times(simulated)
    (payment,) = await requests(world, 1)
    await asyncio.to_thread(stack.kill, "jobs")
    await asyncio.sleep(3.1 * MINUTE)
    # includes the first poll if the process made it before it was killed
    known = len(moments.get(invoice_of(payment), []))
    stack.start("jobs")
    await asyncio.to_thread(stack.wait_ready, "jobs")
    await world.until(lambda: asyncio.sleep(0, moments.get(invoice_of(payment), [])), lambda m: len(m) > known)
    await world.until(lambda: asyncio.sleep(0, moments[invoice_of(payment)]), lambda m: len(m) > known + 1)
    # The next poll is ten minutes after the invoice, of which the start of the process may have taken most.
    assert moments[invoice_of(payment)][known + 1] - moments[invoice_of(payment)][known] > 0.5 * MINUTE


@pytest.mark.slow
async def test_polls_stop_while_the_gateway_is_down_and_resume_when_it_is_back(
    world: World, simulated: SimulatedGateway
) -> None:
    asked = itertools.count()

    def down(heard: Any) -> Any:
        if heard.kind == READ:
            next(asked)
        return error_reply(503, "SERVER_ERROR")

    simulated.on_look = down  # before the requests: on a busy machine their first polls begin while they are made
    payments = await requests(world, 24)
    for payment in payments:
        simulated.pay(payment["payment_request_id"])
    await asyncio.sleep(4 * MINUTE)
    # Eight at once, and then one try every two seconds, where 48 polls were due.
    assert 1 <= next(asked) <= 20
    assert {await stored(world, payment) for payment in payments} == {"pending"}
    paying = await world.request(await world.customer())  # customers still get their invoices
    assert paying["gateway_invoice_url"] is not None
    simulated.answer_normally()
    for payment in payments:
        await until_paid(world, payment)


async def test_concurrent_poll_and_webhook_confirm_once(world: World, simulated: SimulatedGateway) -> None:
    payments = await requests(world, 8)
    waiting = {invoice_of(payment): threading.Event() for payment in payments}
    arrived = {name: threading.Event() for name in waiting}

    def hold(heard: Any) -> None:
        if heard.kind == READ and heard.about in waiting:
            arrived[heard.about].set()
            waiting[heard.about].wait(5)

    simulated.on_look = hold
    for payment in payments:
        simulated.pay(payment["payment_request_id"])

    async def both(payment: dict[str, Any]) -> str:
        name = invoice_of(payment)
        assert await asyncio.to_thread(arrived[name].wait, 10)
        call = asyncio.create_task(world.webhook(payment))
        waiting[name].set()
        return (await call)[1]["processing_result"]

    results = await asyncio.gather(*(both(payment) for payment in payments))
    assert set(results) <= {"confirmed", "duplicate"}
    for payment in payments:
        await until_paid(world, payment)
    await world.until(lambda: chats(world, payments), lambda found: found == [1] * 8)
    logs = await world.stack.sql(
        "SELECT count(*)::int AS n FROM webhook_logs WHERE source = 'poll' AND external_id = ANY($1::text[])",
        [payment["payment_request_id"] for payment in payments],
    )
    assert logs[0]["n"] == 0


async def test_poll_that_finds_an_expired_invoice_expires_the_request(
    world: World, simulated: SimulatedGateway
) -> None:
    (payment,) = await requests(world, 1)
    simulated.made[invoice_of(payment)]["status"] = "EXPIRED"
    await world.until(lambda: stored(world, payment), lambda status: status == "expired")


async def test_polled_payment_of_an_abandoned_invoice_that_does_not_match_is_logged(
    world: World, simulated: SimulatedGateway
) -> None:
    customer, operator = await world.customer(), await world.operator()
    payment = await world.request(customer)
    simulated.pay(payment["payment_request_id"], amount=11_000, paid_amount=11_000)
    await customer.post(f"{PATH}/{payment['payment_request_id']}/abandon")

    async def logged() -> list[dict[str, Any]]:
        return (await operator.get("/internal/webhook-logs", q=invoice_of(payment)))["items"]

    (row,) = await world.until(logged, bool)
    assert (row["source"], row["processing_result"], row["status"]) == ("poll", "conflict", "PAID")
    assert simulated.calls(VOID, invoice_of(payment))
    assert await stored(world, payment) == "abandoned"


# -- after a read


async def test_read_polls_the_gateway_in_the_background(
    world: World, simulated: SimulatedGateway, stack: Stack
) -> None:
    customer = await world.customer()
    async with no_jobs(stack):
        payment = await world.request(customer)
        simulated.pay(payment["payment_request_id"])
        go_on = threading.Event()
        simulated.on_look = lambda heard: go_on.wait(5) and None if heard.kind == READ else None
        began = time.monotonic()
        assert (await customer.get(f"{PATH}/{payment['payment_request_id']}"))["status"] == "pending"
        assert time.monotonic() - began < 3  # the answer did not wait for the gateway
        go_on.set()
        await until_paid(world, payment)


@pytest.mark.slow
async def test_reads_through_two_processes_poll_the_gateway_once_in_ten_seconds(
    world: World, simulated: SimulatedGateway, stack: Stack
) -> None:
    customer = await world.customer()
    public, internal = str(free_port()), str(free_port())
    async with no_jobs(stack), another(stack, "api", PUBLIC_PORT=public, INTERNAL_PORT=internal):
        payment = await world.request(customer)
        path = f"{PATH}/{payment['payment_request_id']}"

        async def read(port: str | None) -> None:
            await _get(customer, path, port)

        began = time.monotonic()
        await asyncio.gather(*(read(port) for port in (None, public) * 10))
        name = invoice_of(payment)
        await world.until(lambda: asyncio.sleep(0, simulated.calls(READ, name)), bool)
        asked = len(simulated.calls(READ, name))
        took = time.monotonic() - began + 0.05  # clocks of two processes may differ
        assert 1 <= asked <= 1 + took * 60 / 10  # sixty seconds of service time pass in one real second
        await asyncio.sleep(0.5)
        await read(None)
        await world.until(lambda: asyncio.sleep(0, len(simulated.calls(READ, name))), lambda n: n > asked)


async def _get(customer: Device, path: str, port: str | None) -> None:
    base = customer.addresses.public if port is None else f"http://127.0.0.1:{port}"
    headers = {"Authorization": f"Bearer {customer.access_token}"}
    async with customer._http.get(base + path, headers=headers) as answer:
        assert answer.status == 200


async def test_read_of_a_request_that_is_not_pending_does_not_poll(world: World, simulated: SimulatedGateway) -> None:
    customer = await world.customer()
    payment = await world.paid(customer)
    before = len(simulated.calls(READ, invoice_of(payment)))
    for _ in range(5):
        await customer.get(f"{PATH}/{payment['payment_request_id']}")
        await asyncio.sleep(0.2)
    assert len(simulated.calls(READ, invoice_of(payment))) == before
