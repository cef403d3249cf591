"""A refund survives clicks from everywhere and the death of every process: the gateway makes one for each failure."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.faults import people as app
from tests.faults.proxy import When
from tests.faults.service import Service
from tests.faults.test_kill_points import Action, Point, die_at
from tests.http.gateway.simulated_gateway import NoReply, Reply, SimulatedGateway, error_reply
from tests.http.operators.steps import an_operator, at_once, audits
from tests.stack import World
from tools.driving.device import Device

pytestmark = pytest.mark.anyio
FAILURES = "/internal/failed-pairings"
PAYMENTS = "/internal/payment-requests"
EARNED = "INSERT INTO customer_transactions .*refund"
BY_HAND = Point("money is given back by hand", EARNED)
BOOKED = Point("earned money has gone back", EARNED)
CLICK = Point("the refund is asked for", "INSERT INTO refunds")
CLAIM = Point("the refund is claimed", "UPDATE refunds AS r SET asks")
PEND = Point("the gateway has the refund", "UPDATE refunds SET status = 'pending'")
FAIL = Point("the gateway has declined", "UPDATE refunds SET status = 'failed'")
SUCCEED = Point("the refund has succeeded", "UPDATE refunds SET status = 'succeeded'")


@pytest.fixture(scope="module")
def simulated() -> Iterator[SimulatedGateway]:
    """Yield the gateway."""
    made = SimulatedGateway()
    yield made
    made.close()


@pytest.fixture(scope="module")
def stack(simulated: SimulatedGateway) -> Iterator[Service]:
    """Yield two api processes and a jobs process behind proxies, at twenty times real speed."""
    env = {**simulated.environment, "REFUNDS_ENABLED": "true", "ACCESS_TOKEN_SECONDS": "86400"}
    made = Service(scale=20, counts={"api": 2}, **env, OPERATOR_RATE_LIMIT_PER_MINUTE="1000000")
    yield made
    made.close()


@pytest.fixture
async def world(stack: Service, simulated: SimulatedGateway) -> AsyncIterator[World]:
    """Yield the users of the test."""
    made = World(stack)
    await made.scale_silence()
    await made.config("payment_session_timeout_minutes", 1_440)
    yield made
    simulated.answer_normally()
    await made.close()


async def a_failure(world: World) -> str:
    """Create a failed pairing: a customer pays and cancels. Return its id."""
    customer = await app.retry(world.customer)
    payment = await app.request(customer)
    await app.pay(world, payment, payment_channel="QRIS")
    cancel = {"payment_request_id": payment["payment_request_id"]}
    await app.retry(lambda: customer.post("/api/client/chat/cancel", cancel))
    sql = "SELECT id::text FROM pairing_failures WHERE payment_request_id = $1::uuid"
    return (await world.stack.sql(sql, payment["payment_request_id"]))[0]["id"]


def click(operator: Device, failure_id: str) -> Action:
    """Return the click on the button, repeated until there is an answer."""
    return lambda: app.retry(lambda: operator.post(f"{FAILURES}/{failure_id}/refund", {}))


async def becomes(world: World, failure_id: str, status: str) -> None:
    """Wait until the refund of a failure has a status."""
    sql = "SELECT status FROM refunds WHERE failure_id = $1::uuid"
    await world.until(
        lambda: world.stack.sql(sql, failure_id), lambda rows: bool(rows) and rows[0]["status"] == status, timeout=60
    )


async def settled_once(world: World, simulated: SimulatedGateway, failure_id: str) -> None:
    """Check that a succeeded refund was made once, and is the action of its failure."""
    await becomes(world, failure_id, "succeeded")
    assert len(simulated.refunds.of(failure_id)) == 1
    assert {one["key"] for one in simulated.refunds.asked if one["reference_id"] == failure_id} == {failure_id}
    rows = await world.stack.sql("SELECT operator_action FROM pairing_failures WHERE id = $1::uuid", failure_id)
    assert rows[0]["operator_action"] == "refunded"


async def test_five_hundred_clicks_at_two_processes_make_one_refund(
    world: World, stack: Service, simulated: SimulatedGateway
) -> None:
    failure_id = await a_failure(world)
    people = [await world.operator()] + [
        (await an_operator(world, {"failed_pairings": "write"})).client for _ in range(3)
    ]
    lost = iter(range(3))  # the gateway's first answers are lost

    def lose(_: dict[str, Any]) -> Reply | None:
        if next(lost, None) is not None:
            raise NoReply
        return None

    simulated.refunds.after_refund = lose
    bases = [stack.at(n).internal for n in range(2)]

    async def act(n: int) -> Any:
        return await people[n % 4].post(f"{bases[n // 4 % 2]}{FAILURES}/{failure_id}/refund", {})

    seen = await at_once(500, act)
    # A busy machine may refuse some of these calls with a retry; they have changed nothing.
    assert {one for one in seen if one[0] != 200} <= {(503, "UNAVAILABLE")}
    states = {one[1]["refund"]["status"] for one in seen if one[0] == 200}
    assert states <= {"requested", "pending"}
    await becomes(world, failure_id, "pending")
    assert len(simulated.refunds.of(failure_id)) == 1
    assert len([row for row in await audits(world, failure_id) if "refund" in row["action"]]) == 1
    call = simulated.refunds.settle(failure_id)
    results = await asyncio.gather(*(app.reported(lambda: world.raw_webhook(call)) for _ in range(20)))
    # The jobs process asks the gateway too, and may be first; then every call is a duplicate.
    assert set(results) <= {"duplicate", "refund_succeeded"}
    assert results.count("refund_succeeded") <= 1
    await settled_once(world, simulated, failure_id)


@pytest.mark.parametrize("when", list(When), ids=lambda when: when.value)
async def test_api_process_killed_at_a_click_or_a_call_loses_nothing(
    world: World, stack: Service, simulated: SimulatedGateway, when: When
) -> None:
    operator, failure_id = await world.operator(), await a_failure(world)
    await die_at(stack, "api", when, [(CLICK, click(operator, failure_id))])
    await becomes(world, failure_id, "pending")
    call = simulated.refunds.settle(failure_id)
    await die_at(stack, "api", when, [(SUCCEED, lambda: app.reported(lambda: world.raw_webhook(call)))])
    await settled_once(world, simulated, failure_id)


@pytest.mark.parametrize("when", list(When), ids=lambda when: when.value)
async def test_jobs_process_killed_at_each_statement_makes_one_refund(
    world: World, stack: Service, simulated: SimulatedGateway, when: When
) -> None:
    operator = await world.operator()
    for point in (CLAIM, PEND):
        failure_id = await a_failure(world)
        await die_at(stack, "jobs", when, [(point, click(operator, failure_id))])
        await becomes(world, failure_id, "pending")
        assert len(simulated.refunds.of(failure_id)) == 1

    async def decide() -> None:
        simulated.refunds.settle(failure_id)  # and its call is lost
        await stack.sql("UPDATE refunds SET ask_at = requested_at WHERE failure_id = $1::uuid", failure_id)

    await die_at(stack, "jobs", when, [(SUCCEED, decide)])
    await settled_once(world, simulated, failure_id)

    failure_id = await a_failure(world)
    simulated.refunds.before_refund = lambda _: error_reply(400, "REFUND_NOT_SUPPORTED")
    await die_at(stack, "jobs", when, [(FAIL, click(operator, failure_id))])
    await becomes(world, failure_id, "failed")
    assert simulated.refunds.of(failure_id) == []
    simulated.answer_normally()
    await click(operator, failure_id)()
    await becomes(world, failure_id, "pending")
    simulated.refunds.settle(failure_id)
    await stack.sql("UPDATE refunds SET ask_at = requested_at WHERE failure_id = $1::uuid", failure_id)
    await settled_once(world, simulated, failure_id)


async def an_earned_payment(world: World) -> str:
    """Create a chat that a customer paid for. Return the id of its payment request."""
    customer, mitra = await app.retry(world.customer), await app.retry(world.mitra)
    session_id = await world.session(customer, mitra)
    sql = "SELECT payment_request_id::text AS id FROM chat_sessions WHERE id = $1::uuid"
    return (await world.stack.sql(sql, session_id))[0]["id"]


async def goes_back(world: World, payment_id: str, *amounts: int) -> None:
    """Wait until the ledger has these refunds of a payment, and no other."""
    sql = """SELECT amount FROM customer_transactions
             WHERE payment_request_id = $1::uuid AND type = 'refund' ORDER BY created_at, id"""
    await world.until(
        lambda: world.stack.sql(sql, payment_id),
        lambda rows: [-row["amount"] for row in rows] == [*amounts],
        timeout=60,
    )


async def asked(world: World, payment_id: str) -> list[str]:
    """Return the refunds of a payment, oldest first."""
    sql = "SELECT id::text FROM refunds WHERE payment_request_id = $1::uuid ORDER BY id"
    return [row["id"] for row in await world.stack.sql(sql, payment_id)]


async def test_five_hundred_parallel_refunds_give_at_most_what_was_paid(
    world: World, stack: Service, simulated: SimulatedGateway
) -> None:
    payment_id = await an_earned_payment(world)
    people = [await world.operator()] + [(await an_operator(world, {"payments": "write"})).client for _ in range(3)]
    bases = [stack.at(n).internal for n in range(2)]

    async def act(n: int) -> Any:
        body: dict[str, Any] = {"amount": 5_000, "reason": f"maaf {n}"}
        if n % 2:
            body |= {"by_hand": True, "reference": f"TRF-{n}"}
        return await people[n % 4].post(f"{bases[n // 4 % 2]}{PAYMENTS}/{payment_id}/refund", body)

    seen = await at_once(500, act)
    done = [one for one in seen if one[0] == 200]
    assert len(done) == 2
    assert {one for one in seen if one[0] != 200} <= {(409, "REFUND_EXCEEDS_PAID"), (503, "UNAVAILABLE")}
    for _, made in done:
        if not made["by_hand"]:
            await world.until(
                lambda made=made: _made(simulated, made["id"]), lambda refunds: len(refunds) == 1, timeout=60
            )
            await world.raw_webhook(simulated.refunds.settle(made["id"]))
    await goes_back(world, payment_id, 5_000, 5_000)


async def _made(simulated: SimulatedGateway, refund_id: str) -> list[dict[str, Any]]:
    return simulated.refunds.of(refund_id)


@pytest.mark.parametrize("when", list(When), ids=lambda when: when.value)
async def test_process_killed_while_earned_money_goes_back_loses_nothing(
    world: World, stack: Service, simulated: SimulatedGateway, when: When
) -> None:
    operator, payment_id = await world.operator(), await an_earned_payment(world)

    def give(amount: int, **more: Any) -> Action:
        body = {"amount": amount, "reason": "maaf", **more}
        return lambda: app.retry(lambda: operator.post(f"{PAYMENTS}/{payment_id}/refund", body))

    await die_at(stack, "api", when, [(BY_HAND, give(2_000, by_hand=True, reference="TRF-1"))])
    await goes_back(world, payment_id, 2_000)
    await die_at(stack, "jobs", when, [(PEND, give(4_000))])
    _, refund_id = await asked(world, payment_id)
    await world.until(lambda: _made(simulated, refund_id), lambda refunds: len(refunds) == 1, timeout=60)

    async def decide() -> None:
        simulated.refunds.settle(refund_id)  # and its call is lost
        await stack.sql("UPDATE refunds SET ask_at = requested_at WHERE id = $1::uuid", refund_id)

    await die_at(stack, "jobs", when, [(BOOKED, decide)])
    await goes_back(world, payment_id, 2_000, 4_000)
    assert len(simulated.refunds.of(refund_id)) == 1
