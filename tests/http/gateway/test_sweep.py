"""The sweep that asks the gateway before it expires a request (docs/product.md#how-a-payment-is-confirmed)."""

import asyncio
import contextlib
import json
import threading
import time
from typing import Any

import pytest

from tests.http.extensions.steps import chatting, create_extension_payment
from tests.http.gateway.simulated_gateway import FIND, READ, VOID, NoReply, Reply, SimulatedGateway, error_reply
from tests.http.pairing.steps import end_now
from tests.stack import Stack, World, new_id
from tools.driving.device import Device
from tools.driving.throwaway import free_port

pytestmark = pytest.mark.anyio
PATH = "/api/client/payment/requests"


async def overdue(world: World, *payments: dict[str, Any]) -> None:
    """Move the deadline of requests ten service minutes into the past, so that no payment is in time."""
    ids = [payment["payment_request_id"] for payment in payments]
    await world.stack.sql(
        """UPDATE payment_requests SET expires_at = expires_at - interval '24 hours 10 minutes', created_at = created_at - interval '25 hours'
           WHERE id = ANY($1::uuid[])""",
        ids,
    )


async def until_state(world: World, customer: Device, payment: dict[str, Any], *states: str) -> dict[str, Any]:
    """Wait until a request is in one of these states; return it."""
    return await world.until(
        lambda: customer.get(f"{PATH}/{payment['payment_request_id']}"), lambda found: found["status"] in states
    )


async def wait_for_two_polls(world: World, simulated: SimulatedGateway, kind: str, about: str) -> None:
    """Wait until the gateway was asked twice more."""
    before = len(simulated.calls(kind, about))
    await world.until(lambda: asyncio.sleep(0, len(simulated.calls(kind, about))), lambda count: count >= before + 2)


async def test_change_found_by_a_poll_is_reported_to_the_customer(world: World, simulated: SimulatedGateway) -> None:
    # By default the extension would be approved after a real second, while the test ends the session.
    async with world.setting(extension_timeout_seconds=3_600):
        customer, _, session_id = await chatting(world)
        phone = await customer.open("pairing")
        extension = await create_extension_payment(customer, session_id)
        simulated.pay(extension["payment_request_id"])
        await overdue(world, extension)
        frame = await phone.wait("payment_updated")
        view = frame["payment_request"]
        assert (view["payment_request_id"], view["status"]) == (extension["payment_request_id"], "confirmed")
        other = await world.customer()
        phone = await other.open("pairing")
        payment = await world.request(other)
        await overdue(world, payment)
        frame = await phone.wait("payment_updated")
        assert frame["payment_request"] == await other.get(f"{PATH}/{payment['payment_request_id']}")
        assert frame["payment_request"]["status"] == "expired"
        await end_now(world, customer, session_id)


async def test_unreported_payment_is_confirmed_by_the_sweep_and_pairs(
    world: World, simulated: SimulatedGateway
) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    payment = await world.request(customer)
    simulated.pay(payment["payment_request_id"])
    await overdue(world, payment)
    found = await world.until(
        lambda: customer.get(f"{PATH}/{payment['payment_request_id']}"), lambda seen: seen["session_id"] is not None
    )
    assert found["status"] == "confirmed"
    await world.until(
        lambda: mitra.get("/api/mitra/chat-requests"),
        lambda seen: any(item["session_id"] == found["session_id"] for item in seen["items"]),
    )
    assert (await mitra.post(f"/api/mitra/chat-requests/{found['session_id']}/accept"))["status"] == "active"
    assert (await world.webhook(payment))[1]["processing_result"] == "duplicate"
    assert simulated.calls(VOID, f"inv-{payment['payment_request_id']}") == []


async def test_unpaid_request_expires_and_its_invoice_is_voided(world: World, simulated: SimulatedGateway) -> None:
    customer = await world.customer()
    payment = await world.request(customer)
    await overdue(world, payment)
    await until_state(world, customer, payment, "expired")
    name = f"inv-{payment['payment_request_id']}"
    await world.until(lambda: asyncio.sleep(0, simulated.made[name]["status"]), lambda status: status == "EXPIRED")
    assert len(simulated.calls(VOID, name)) == 1


async def test_request_with_an_expired_or_unknown_invoice_expires(world: World, simulated: SimulatedGateway) -> None:
    first, second = await world.customer(), await world.customer()
    expired, unknown = await world.request(first), await world.request(second)
    simulated.made[f"inv-{expired['payment_request_id']}"]["status"] = "EXPIRED"
    del simulated.made[f"inv-{unknown['payment_request_id']}"]
    await overdue(world, expired, unknown)
    await until_state(world, first, expired, "expired")
    await until_state(world, second, unknown, "expired")
    assert simulated.calls(VOID, f"inv-{expired['payment_request_id']}") == []


@pytest.mark.parametrize(
    "said",
    [
        error_reply(500, "SERVER_ERROR"),
        error_reply(401, "INVALID_API_KEY"),
        Reply(status=404, body=b"nothing here"),
        None,
    ],
)
async def test_request_waits_for_the_next_sweep_without_an_answer_of_the_gateway(
    world: World, simulated: SimulatedGateway, said: Reply | None
) -> None:
    def down(_: Any) -> Reply:
        if said is None:
            raise NoReply
        return said

    customer = await world.customer()
    payment = await world.request(customer)
    simulated.on_look = down
    await overdue(world, payment)
    await wait_for_two_polls(world, simulated, READ, f"inv-{payment['payment_request_id']}")
    assert (await customer.get(f"{PATH}/{payment['payment_request_id']}"))["status"] == "pending"
    simulated.pay(payment["payment_request_id"])
    simulated.answer_normally()
    await until_state(world, customer, payment, "confirmed", "failed_pairing")


async def test_request_whose_invoice_was_lost_with_its_process_is_looked_up(
    world: World, simulated: SimulatedGateway
) -> None:
    customers = [await world.customer() for _ in range(3)]
    paid, open_, none = [await world.request(customer) for customer in customers]
    ids = [payment["payment_request_id"] for payment in (paid, open_, none)]
    await world.stack.sql("UPDATE payment_requests SET gateway_invoice_id = NULL WHERE id = ANY($1::uuid[])", ids)
    simulated.make(paid["payment_request_id"], 12_000)  # two invoices at the gateway, of which the newer one is paid
    second = simulated.pay(paid["payment_request_id"])
    del simulated.made[f"inv-{none['payment_request_id']}"]
    await overdue(world, paid, open_, none)
    await until_state(world, customers[0], paid, "confirmed", "failed_pairing")
    await until_state(world, customers[1], open_, "expired")
    await until_state(world, customers[2], none, "expired")
    assert all(simulated.calls(FIND, external_id) for external_id in ids)
    (row,) = await world.stack.sql("SELECT gateway_invoice_id FROM payment_requests WHERE id = $1::uuid", ids[0])
    assert row["gateway_invoice_id"] == second["id"]
    name = f"inv-{open_['payment_request_id']}"
    await world.until(lambda: asyncio.sleep(0, simulated.made[name]["status"]), lambda status: status == "EXPIRED")


async def test_paid_invoice_below_the_amount_waits_for_an_operator(world: World, simulated: SimulatedGateway) -> None:
    customers = [await world.customer() for _ in range(4)]
    payments = [await world.request(customer) for customer in customers]
    wrong: list[dict[str, Any]] = [
        {"amount": 11_999, "paid_amount": 11_999}, {"currency": "USD"}, {"external_id": new_id()}, {"metadata": {"app": "another"}},
    ]  # fmt: skip
    for payment, more in zip(payments, wrong, strict=True):
        simulated.pay(payment["payment_request_id"], **more)
    await overdue(world, *payments)
    async with asyncio.TaskGroup() as group:
        for payment in payments:
            group.create_task(wait_for_two_polls(world, simulated, READ, f"inv-{payment['payment_request_id']}"))
    operator = await world.operator()
    for customer, payment in zip(customers, payments, strict=True):
        request_id = payment["payment_request_id"]
        assert (await customer.get(f"{PATH}/{request_id}"))["status"] == "pending"
        # It is polled repeatedly, but the operator sees one entry.
        (row,) = (await operator.get("/internal/webhook-logs", q=request_id))["items"]
        assert (row["source"], row["processing_result"], row["http_status"]) == ("poll", "conflict", 409)
        assert (row["external_id"], row["gateway_invoice_id"]) == (request_id, f"inv-{request_id}")
        assert row["processing_error"]
        assert json.loads(row["raw_body"]) == simulated.made[f"inv-{request_id}"]
        await world.stack.sql("UPDATE payment_requests SET status = 'abandoned' WHERE id = $1::uuid", request_id)


async def test_polled_conflict_can_be_replayed_once_it_matches(world: World, simulated: SimulatedGateway) -> None:
    customer, operator = await world.customer(), await world.operator()
    payment = await world.request(customer)
    request_id = payment["payment_request_id"]
    simulated.pay(request_id, amount=11_999, paid_amount=11_999)
    await overdue(world, payment)

    async def logged() -> list[dict[str, Any]]:
        return (await operator.get("/internal/webhook-logs", q=request_id))["items"]

    (row,) = await world.until(logged, bool)
    again = await operator.post(f"/internal/webhook-logs/{row['id']}/replay")
    assert (again["source"], again["replay_of"], again["processing_result"]) == ("poll", row["id"], "conflict")
    timeline = await operator.get(f"/internal/payment-requests/{request_id}/timeline")
    said = [entry["text"] for entry in timeline["entries"] if entry["kind"] == "webhook"]
    assert [text.startswith("The gateway was polled and answered: PAID") for text in said] == [True, True]
    simulated.made[f"inv-{request_id}"].update({"amount": 12_000, "paid_amount": 12_000})
    await until_state(world, customer, payment, "confirmed", "failed_pairing")
    assert len(await logged()) == 2


@pytest.mark.slow
async def test_two_jobs_processes_resolve_each_request_once(
    world: World, simulated: SimulatedGateway, stack: Stack
) -> None:
    customers = [await world.customer() for _ in range(20)]
    payments = [await world.request(customer) for customer in customers]
    for payment in payments[:10]:
        simulated.pay(payment["payment_request_id"])
    port = free_port()
    stack.start("jobs", key="jobs2", JOBS_PORT=str(port))
    try:
        await asyncio.to_thread(stack.wait_ready, "jobs", port=port)
        both = {f"inv-{payment['payment_request_id']}": threading.Barrier(2) for payment in payments}

        def together(heard: Any) -> None:
            """Let both processes have the gateway's answer before either of them acts."""
            if heard.kind == READ and heard.about in both:
                with contextlib.suppress(threading.BrokenBarrierError):
                    both[heard.about].wait(2)

        simulated.on_look = together
        await overdue(world, *payments)
        for customer, payment in zip(customers[:10], payments[:10], strict=True):
            await until_state(world, customer, payment, "confirmed", "failed_pairing")
        for customer, payment in zip(customers[10:], payments[10:], strict=True):
            await until_state(world, customer, payment, "expired")
    finally:
        assert await asyncio.to_thread(stack.stop, "jobs2") == 0
        del stack.processes["jobs2"]
    ids = [payment["payment_request_id"] for payment in payments]
    assert max(len(simulated.calls(READ, f"inv-{external_id}")) for external_id in ids) >= 2

    async def chats() -> dict[str, int]:
        rows = await world.stack.sql(
            "SELECT payment_request_id::text AS id, count(*)::int AS n FROM chat_sessions WHERE payment_request_id = ANY($1::uuid[]) GROUP BY 1",
            ids,
        )
        return {row["id"]: row["n"] for row in rows}

    found = await world.until(chats, lambda seen: len(seen) == 10)
    assert found == dict.fromkeys(ids[:10], 1)


async def test_silent_gateway_delays_no_deadline(world: World, simulated: SimulatedGateway) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    waiting = [await world.customer() for _ in range(3)]
    payments = [await world.request(other) for other in waiting]
    go_on, asked = threading.Event(), threading.Event()

    def frozen(heard: Any) -> None:
        if heard.kind == READ:
            asked.set()
            go_on.wait(6)

    session_id = await world.session(customer, mitra)
    phone = await customer.open("chat")
    simulated.on_look = frozen
    await overdue(world, *payments)
    assert await asyncio.to_thread(asked.wait, 10)
    (row,) = await world.stack.sql(
        """UPDATE chat_sessions SET expires_at = created_at, paired_at = paired_at + (created_at - expires_at), warn_at = NULL
           WHERE id = $1::uuid RETURNING id""",
        session_id,
    )
    assert row
    at = time.monotonic()
    await phone.wait("session_expired", timeout=3)
    assert time.monotonic() - at < 3
    go_on.set()
    simulated.on_look = lambda _: None
    for other, payment in zip(waiting, payments, strict=True):
        await until_state(world, other, payment, "expired")


async def test_unresolvable_requests_do_not_keep_later_ones_from_the_sweep(
    world: World, simulated: SimulatedGateway
) -> None:
    customer = await world.customer()
    payment = await world.request(customer)
    simulated.on_look = lambda heard: error_reply(503, "SERVER_ERROR") if heard.about.startswith("stuck-") else None
    await world.stack.sql(  # as many as the sweep reads at once, all of them overdue for longer
        """WITH who AS (INSERT INTO customers (id, display_name) SELECT gen_random_uuid(), 'Stuck' FROM generate_series(1, 500) RETURNING id)
           INSERT INTO payment_requests (id, customer_id, amount, duration_minutes, status, created_at, expires_at, gateway_invoice_id)
           SELECT gen_random_uuid(), id, 12000, 12, 'pending', now() - interval '9 days', now() - interval '8 days', 'stuck-' || id FROM who"""
    )
    try:
        await overdue(world, payment)
        await until_state(world, customer, payment, "expired")
    finally:
        await world.stack.sql(
            "UPDATE payment_requests SET status = 'abandoned' WHERE gateway_invoice_id LIKE 'stuck-%' AND status = 'pending'"
        )
