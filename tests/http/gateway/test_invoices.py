"""Invoices: exactly one exists before the answer, whatever the gateway does (docs/product.md#payment-requests)."""

import asyncio
import contextlib
import threading
from typing import Any

import pytest

from core.base.errors import GatewayUnavailable
from core.providers.gateway import Gateway, WantedInvoice
from core.providers.http_client import HttpClient
from tests.http.gateway.simulated_gateway import (
    AUTHORIZATION,
    CREATE,
    FIND,
    SECRET_KEY,
    VOID,
    NoReply,
    Reply,
    SimulatedGateway,
    error_reply,
)
from tests.sockets.plain_socket import end_early
from tests.stack import Stack, World, new_id, open_failure, refused
from tests.verdicts import check_books
from tools.driving.device import Device
from tools.driving.sesi_client import Refused

pytestmark = pytest.mark.anyio
PATH = "/api/client/payment/requests"
BODY = {"duration_minutes": 12}
METHODS = ["QRIS", "BCA", "BNI", "BRI", "MANDIRI", "PERMATA", "DANA", "OVO", "SHOPEEPAY", "LINKAJA"]


async def read_payment(customer: Device, payment: dict[str, Any]) -> dict[str, Any]:
    """Return the customer's view of the request."""
    return await customer.get(f"{PATH}/{payment['payment_request_id']}")


async def with_key(customer: Device, key: str) -> tuple[int, Any]:
    """Create a payment request under an idempotency key."""
    return await customer._once("POST", PATH, BODY, headers={"Idempotency-Key": key})


async def stored(world: World, customer: Device) -> list[tuple[str, str | None]]:
    """Return state and invoice id of the customer's requests, oldest first."""
    rows = await world.stack.sql(
        "SELECT status, gateway_invoice_id FROM payment_requests WHERE customer_id = $1::uuid ORDER BY created_at, id",
        customer.user["id"],
    )
    return [(row["status"], row["gateway_invoice_id"]) for row in rows]


async def voided(world: World, simulated: SimulatedGateway, invoice_id: str) -> None:
    """Wait until an invoice is voided."""
    await world.until(
        lambda: asyncio.sleep(0, simulated.made[invoice_id]["status"]), lambda status: status == "EXPIRED"
    )
    assert simulated.calls(VOID, invoice_id)


async def wait_for_call(event: threading.Event) -> None:
    """Wait until the gateway holds a call."""
    assert await asyncio.to_thread(event.wait, 15)


async def test_payment_request_has_its_invoice_before_the_answer(world: World, simulated: SimulatedGateway) -> None:
    customer = await world.customer()
    payment = await world.request(customer)
    (invoice,) = simulated.of(payment["payment_request_id"])
    assert payment["status"] == "pending"
    assert payment["gateway_invoice_url"] == invoice["invoice_url"]
    assert await stored(world, customer) == [("pending", invoice["id"])]
    assert (await read_payment(customer, payment))["gateway_invoice_url"] == invoice["invoice_url"]
    (call,) = simulated.calls(CREATE, payment["payment_request_id"])
    assert call.headers["Authorization"] == AUTHORIZATION
    duration = call.body.pop("invoice_duration")
    assert 1_430 <= duration <= 1_440  # 1,440 minutes of service time in real seconds
    assert call.body == {
        "external_id": payment["payment_request_id"],
        "amount": 12_000,
        "currency": "IDR",
        "description": "12 min chat",
        "metadata": {"app": "sesi"},
        "payment_methods": METHODS,
    }
    assert (await world.webhook(payment))[1]["processing_result"] == "confirmed"


async def test_development_payment_page_is_absent_with_a_gateway(world: World) -> None:
    customer = await world.customer()
    payment = await world.request(customer)
    url = f"{world.stack.addresses.public}/dev/pay/{payment['payment_request_id']}"
    for method in ("GET", "POST"):
        async with customer._http.request(method, url) as answer:
            assert answer.status == 404
    assert (await read_payment(customer, payment))["status"] == "pending"


async def test_invoice_orders_payment_methods_by_the_qris_first_switch(
    world: World, simulated: SimulatedGateway
) -> None:
    async def listed() -> list[str]:
        payment = await world.request(await world.customer())
        (call,) = simulated.calls(CREATE, payment["payment_request_id"])
        return call.body["payment_methods"]

    assert await listed() == METHODS
    async with world.setting(payment_method_qris_first=False):
        assert await listed() == [*METHODS[1:], "QRIS"]
    assert await listed() == METHODS


async def test_invoice_with_refused_payment_methods_is_created_without_them(
    world: World, simulated: SimulatedGateway
) -> None:
    simulated.before_create = lambda nth: error_reply(400, "UNAVAILABLE_PAYMENT_METHOD_ERROR") if nth == 1 else None
    payment = await world.request(await world.customer())
    assert payment["gateway_invoice_url"] is not None
    calls = simulated.calls(CREATE, payment["payment_request_id"])
    assert ["payment_methods" in call.body for call in calls] == [True, False]
    simulated.before_create = lambda _: error_reply(400, "UNAVAILABLE_PAYMENT_METHOD_ERROR")
    await refused(world.request(await world.customer()), 502, "GATEWAY_UNAVAILABLE")


@pytest.mark.parametrize(
    "said",
    [
        error_reply(400, "API_VALIDATION_ERROR"),
        error_reply(401, "INVALID_API_KEY"),
        error_reply(403, "REQUEST_FORBIDDEN_ERROR"),
        Reply(status=404, body=b"<html>"),
        Reply(status=302, headers={"Location": "https://elsewhere.example.test/"}),
    ],
    ids=lambda said: str(said.status),
)
async def test_gateway_refusal_returns_502_without_retry_and_abandons_the_request(
    world: World, simulated: SimulatedGateway, said: Reply
) -> None:
    customer = await world.customer()
    simulated.before_create = lambda _: said
    await refused(world.request(customer), 502, "GATEWAY_UNAVAILABLE")
    assert await stored(world, customer) == [("abandoned", None)]
    simulated.answer_normally()
    assert (await world.request(customer))["status"] == "pending"


@pytest.mark.parametrize(
    "first",
    [
        error_reply(500, "SERVER_ERROR"),
        error_reply(503, "UNAVAILABLE"),
        error_reply(429, "RATE_LIMIT_EXCEEDED"),
        Reply(status=200, body=b"\x00garbage"),
        Reply(status=200, body={"id": 7}),
        Reply(status=200, body=[]),
        Reply(status=200, body=b"[" * 100_000 + b"]" * 100_000),
        Reply(status=200, body=b'{"id": "inv", "invoice_url": "https://x/", "more": "' + b"x" * 2**20 + b'"}'),
        Reply(status=200, body={"id": "in\0v", "invoice_url": "https://pay.example.test/"}),
        Reply(status=200, body={"id": "inv", "invoice_url": "javascript:alert(1)"}),
        Reply(status=200, body={"id": "inv", "invoice_url": "https://pay.example.test/", "status": "EXPIRED"}),
        Reply(status=200, body={"id": "inv", "invoice_url": "https://pay.example.test/", "external_id": "another"}),
        Reply(status=200, body={"id": "inv", "invoice_url": "https://pay.example.test/", "amount": 1}),
        Reply(status=200, body=b"{}", headers={"Content-Type": "application/json; charset=base64"}),
        None,
    ],
    ids=[
        *("500", "503", "429", "no json", "no invoice", "a list", "nested", "long", "nul", "no address", "expired"),
        *("another request", "another amount", "odd charset", "cut"),
    ],
)
@pytest.mark.parametrize(
    "made", [pytest.param(False, marks=pytest.mark.slow, id="not made"), pytest.param(True, id="made")]
)
async def test_unclear_gateway_answer_makes_the_service_look_the_invoice_up(
    world: World, simulated: SimulatedGateway, first: Reply | None, made: bool
) -> None:
    def once(nth: int, *_: Any) -> Reply | None:
        if nth == 1 and first is None:
            raise NoReply
        return first if nth == 1 else None

    if made:
        simulated.after_create = once
    else:
        simulated.before_create = once
    customer = await world.customer()
    payment = await world.request(customer)
    (invoice,) = simulated.of(payment["payment_request_id"])
    assert payment["gateway_invoice_url"] == invoice["invoice_url"]
    assert await stored(world, customer) == [("pending", invoice["id"])]
    external_id = payment["payment_request_id"]
    assert len(simulated.calls(CREATE, external_id)) == (1 if made else 2)
    assert len(simulated.calls(FIND, external_id)) == 1


@pytest.mark.slow
async def test_invoice_created_after_a_timeout_is_used(world: World, simulated: SimulatedGateway) -> None:
    go_on = threading.Event()

    def late(nth: int, _: Any) -> None:
        if nth == 1:
            go_on.wait(10)  # the service gives up after 5 s

    simulated.after_create = late
    payment = await world.request(await world.customer())
    go_on.set()
    (invoice,) = simulated.of(payment["payment_request_id"])
    assert payment["gateway_invoice_url"] == invoice["invoice_url"]
    assert len(simulated.calls(CREATE, payment["payment_request_id"])) == 1


@pytest.mark.parametrize("look", [error_reply(500, "SERVER_ERROR"), Reply(status=200, body={"not": "a list"}), None])
async def test_unknown_outcome_at_the_gateway_creates_no_second_invoice(
    world: World, simulated: SimulatedGateway, look: Reply | None
) -> None:
    def lost(_: int, __: Any) -> None:
        raise NoReply

    def look_up(_: Any) -> Reply | None:
        if look is None:
            raise NoReply
        return look

    simulated.after_create, simulated.on_look = lost, look_up
    customer = await world.customer()
    await refused(world.request(customer), 502, "GATEWAY_UNAVAILABLE")
    ((status, invoice_id),) = await stored(world, customer)
    assert (status, invoice_id) == ("abandoned", None)
    (row,) = await world.stack.sql(
        "SELECT id::text FROM payment_requests WHERE customer_id = $1::uuid", customer.user["id"]
    )
    assert len(simulated.of(row["id"])) == len(simulated.calls(CREATE, row["id"])) == 1
    # If it is paid all the same, the money is recorded.
    simulated.answer_normally()
    body = {"id": f"inv-{row['id']}", "external_id": row["id"], "status": "PAID", "amount": 12_000}
    assert (await world.raw_webhook(body))[1]["processing_result"] == "late_payment_recorded"


async def test_paid_invoice_counts_before_the_oldest_of_one_external_id(
    http_client: HttpClient, simulated: SimulatedGateway
) -> None:
    gateway = Gateway(http_client, base_url=simulated.url + "/", secret_key=SECRET_KEY)
    external_id = new_id()
    oldest, second = (simulated.make(external_id, 12_000) for _ in range(2))
    found = await gateway.find(external_id)
    assert found is not None
    assert found.id == oldest["id"]
    oldest["status"], second["status"] = ["PAID"], "SETTLED"  # the gateway's JSON may have any form
    found = await gateway.find(external_id)
    assert found is not None
    assert (found.id, found.status) == (second["id"], "SETTLED")
    wanted = WantedInvoice(external_id=external_id, amount=12_000, description="x", duration_s=60, app_tag="sesi")
    assert (await gateway.create(wanted, again=True)).id == second["id"]
    assert len(simulated.of(external_id)) == 2
    assert await gateway.find(new_id()) is None
    assert await gateway.get("inv-unknown") is None


async def test_adapter_without_a_reachable_gateway_raises_unavailable(
    http_client: HttpClient, simulated: SimulatedGateway
) -> None:
    nobody = Gateway(http_client, base_url="http://127.0.0.1:9", secret_key=SECRET_KEY)
    foreign = Gateway(http_client, base_url=simulated.url, secret_key="another key")
    wanted = WantedInvoice(external_id=new_id(), amount=12_000, description="x", duration_s=60, app_tag="sesi")
    for gateway in (nobody, foreign):
        for call in (gateway.create(wanted), gateway.find(wanted.external_id), gateway.get("inv-x")):
            with pytest.raises(GatewayUnavailable):
                await call
    assert not await foreign.void("inv-x")
    with pytest.raises(GatewayUnavailable):
        await nobody.void("inv-x")
    assert simulated.of(wanted.external_id) == []


async def test_payment_of_another_invoice_is_a_conflict_and_of_the_issued_one_confirms(
    world: World, simulated: SimulatedGateway
) -> None:
    customer = await world.customer()
    payment = await world.request(customer)
    other = simulated.make(payment["payment_request_id"], 12_000)
    status, answer = await world.webhook(payment, id=other["id"])
    assert (status, answer["processing_result"]) == (409, "conflict")
    assert (await read_payment(customer, payment))["status"] == "pending"
    invoice = simulated.pay(simulated.of(payment["payment_request_id"])[0]["external_id"])
    assert invoice is other  # the newest one
    status, answer = await world.webhook(payment, id=f"inv-{payment['payment_request_id']}")
    assert (status, answer["processing_result"]) == (200, "confirmed")
    status, answer = await world.webhook(payment, id=f"inv-{payment['payment_request_id']}")
    assert (status, answer["processing_result"]) == (200, "duplicate")


async def test_expiry_of_an_extra_invoice_does_not_change_the_request(
    world: World, simulated: SimulatedGateway
) -> None:
    customer = await world.customer()
    payment = await world.request(customer)
    other = simulated.make(payment["payment_request_id"], 12_000)
    status, answer = await world.webhook(payment, id=other["id"], status="EXPIRED")
    assert (status, answer["processing_result"]) == (200, "ignored_status")
    assert (await read_payment(customer, payment))["status"] == "pending"
    status, answer = await world.webhook(payment, id=f"inv-{payment['payment_request_id']}", status="EXPIRED")
    assert (status, answer["processing_result"]) == (200, "expired")


async def test_unreported_payment_is_found_when_its_invoice_is_voided(
    world: World, simulated: SimulatedGateway
) -> None:
    customer = await world.customer()
    payment = await world.request(customer)
    simulated.pay(payment["payment_request_id"])
    await customer.post(f"{PATH}/{payment['payment_request_id']}/abandon")
    view = await world.until(lambda: read_payment(customer, payment), lambda one: one["status"] == "failed_pairing")
    assert view["failure"] == open_failure("payment_session_expired", "given_up")
    assert view["confirmed_at"] is not None


async def test_invoice_is_voided_after_a_short_gateway_outage(world: World, simulated: SimulatedGateway) -> None:
    customer = await world.customer()
    payment = await world.request(customer)
    answers: list[Reply | None] = [error_reply(503, "UNAVAILABLE"), error_reply(429, "RATE_LIMIT_EXCEEDED")]
    simulated.on_look = lambda _: answers.pop() if answers else None
    await customer.post(f"{PATH}/{payment['payment_request_id']}/abandon")
    await voided(world, simulated, f"inv-{payment['payment_request_id']}")


async def test_invoice_of_a_request_confirmed_by_hand_is_voided(world: World, simulated: SimulatedGateway) -> None:
    operator, customer = await world.operator(), await world.customer()
    for paid_before in (False, True):
        payment = await world.request(customer if paid_before else await world.customer())
        one = payment["payment_request_id"]
        if paid_before:
            simulated.pay(one)
        await operator.post(f"/internal/payment-requests/{one}/confirm")
        if not paid_before:
            await voided(world, simulated, f"inv-{one}")
    await world.until(lambda: asyncio.sleep(0, simulated.calls(VOID, f"inv-{one}")), bool)
    assert (await world.webhook(payment))[1]["processing_result"] == "duplicate"
    assert (await read_payment(customer, payment))["failure"] is None


async def test_payment_reported_before_the_gateways_answer_counts(world: World, simulated: SimulatedGateway) -> None:
    made, go_on = threading.Event(), threading.Event()

    def hold(_: int, __: Any) -> None:
        made.set()
        go_on.wait(4)

    simulated.after_create = hold
    customer = await world.customer()
    asking = asyncio.create_task(world.request(customer))
    await wait_for_call(made)
    (row,) = await world.stack.sql(
        "SELECT id::text FROM payment_requests WHERE customer_id = $1::uuid", customer.user["id"]
    )
    told = {"payment_request_id": row["id"], "amount": 12_000}
    status, answer = await world.webhook(told)
    assert (status, answer["processing_result"]) == (200, "confirmed")
    go_on.set()
    payment = await asking
    assert payment["payment_request_id"] == row["id"]
    assert payment["gateway_invoice_url"] == f"https://pay.example.test/inv-{row['id']}"
    assert payment["status"] in ("confirmed", "failed_pairing")
    assert len(simulated.of(row["id"])) == 1
    assert (await world.webhook(told))[1]["processing_result"] == "duplicate"
    assert simulated.calls(VOID, f"inv-{row['id']}") == []


async def test_newer_request_and_abandonment_void_the_earlier_invoice(
    world: World, simulated: SimulatedGateway
) -> None:
    customer = await world.customer()
    first = await world.request(customer)
    second = await world.request(customer, duration_minutes=30)
    await voided(world, simulated, f"inv-{first['payment_request_id']}")
    assert [status for status, _ in await stored(world, customer)] == ["abandoned", "pending"]
    await customer.post(f"{PATH}/{second['payment_request_id']}/abandon")
    await voided(world, simulated, f"inv-{second['payment_request_id']}")
    # An invoice that can't be voided stays on the abandoned request; its money would be recorded.
    third = await world.request(customer)
    simulated.on_look = lambda heard: error_reply(503, "UNAVAILABLE") if heard.kind == VOID else None
    await customer.post(f"{PATH}/{third['payment_request_id']}/abandon")
    await world.until(lambda: asyncio.sleep(0, simulated.calls(VOID, f"inv-{third['payment_request_id']}")), bool)
    assert (await world.webhook(third))[1]["processing_result"] == "late_payment_recorded"


async def test_request_replaced_while_its_invoice_is_created_leaves_no_open_invoice(
    world: World, simulated: SimulatedGateway
) -> None:
    made, go_on = threading.Event(), threading.Event()

    def hold_first(nth: int, _: Any) -> None:
        if nth == 1:
            made.set()
            go_on.wait(4)

    simulated.after_create = hold_first
    customer = await world.customer()
    asking = asyncio.create_task(world.request(customer))
    await wait_for_call(made)
    newer = await world.request(customer)
    go_on.set()
    older = await asking
    assert (older["status"], newer["status"]) == ("abandoned", "pending")
    await voided(world, simulated, f"inv-{older['payment_request_id']}")
    assert simulated.of(newer["payment_request_id"])[0]["status"] == "PENDING"


async def test_invoice_of_an_unpaid_extension_is_voided_when_the_session_closes(
    world: World, simulated: SimulatedGateway
) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra, duration_minutes=60)
    assert await world.request(customer, is_extension=True, session_id=session_id)
    (payment,) = await world.stack.sql(
        "SELECT id::text, gateway_invoice_id FROM payment_requests WHERE extends_session_id = $1::uuid", session_id
    )
    assert payment["gateway_invoice_id"] == f"inv-{payment['id']}"
    await end_early(world, mitra, session_id)
    await voided(world, simulated, payment["gateway_invoice_id"])
    assert (await read_payment(customer, {"payment_request_id": payment["id"]}))["status"] == "abandoned"


async def block(world: World, customer: Device) -> None:
    """Let an operator block the customer's account."""
    await (await world.operator()).post(f"/internal/customers/{customer.user['id']}/block", {"reason": "Rude"})


async def on_the_worklist(world: World, payment_id: str) -> tuple[str, str, int]:
    """Wait until a request is a failed pairing that waits for an operator; return its cause, sub-cause and amount."""
    operator = await world.operator()

    async def listed() -> list[dict[str, Any]]:
        found = await operator.get("/internal/failed-pairings", operator_action="none", q=payment_id)
        return found["items"]

    (row,) = await world.until(listed, bool)
    return row["cause_tag"], row["sub_cause"], row["amount"]


async def test_block_voids_the_invoices_of_pending_requests_and_late_money_is_on_the_worklist(
    world: World, simulated: SimulatedGateway
) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra, duration_minutes=60)
    extension = await world.request(customer, is_extension=True, session_id=session_id)
    await block(world, customer)
    await voided(world, simulated, f"inv-{extension['payment_request_id']}")
    assert (await read_payment(customer, extension))["status"] == "abandoned"
    other = await world.customer()
    pending = await world.request(other)
    await block(world, other)
    await voided(world, simulated, f"inv-{pending['payment_request_id']}")
    assert await stored(world, other) == [("abandoned", f"inv-{pending['payment_request_id']}")]
    # The customer was faster than the gateway's answer.
    for payment in (extension, pending):
        simulated.pay(payment["payment_request_id"])
        status, answer = await world.webhook(payment, id=f"inv-{payment['payment_request_id']}")
        assert (status, answer["processing_result"]) == (200, "late_payment_recorded")
    late = await on_the_worklist(world, pending["payment_request_id"])
    assert late == ("payment_session_expired", "given_up", pending["amount"])
    late = await on_the_worklist(world, extension["payment_request_id"])
    assert late == ("extension_safeguard_tripped", "given_up", extension["amount"])
    check_books(await world.audit())


async def test_money_that_came_before_a_block_could_void_the_invoice_is_on_the_worklist(
    world: World, simulated: SimulatedGateway
) -> None:
    customer = await world.customer()
    payment = await world.request(customer)
    simulated.pay(payment["payment_request_id"])  # and its call is lost
    await block(world, customer)
    late = await on_the_worklist(world, payment["payment_request_id"])
    assert late == ("payment_session_expired", "given_up", payment["amount"])
    assert simulated.calls(VOID, f"inv-{payment['payment_request_id']}")
    await refused(world.request(customer), 403, "ACCOUNT_BLOCKED")


async def test_block_while_the_invoice_is_made_voids_it(world: World, simulated: SimulatedGateway) -> None:
    customer, made, go_on = await world.customer(), threading.Event(), threading.Event()

    def hold(_: int, __: Any) -> None:
        made.set()
        go_on.wait(15)

    simulated.after_create = hold
    asking = asyncio.create_task(world.request(customer))
    await wait_for_call(made)
    await block(world, customer)
    go_on.set()
    payment = await asking
    assert payment["status"] == "abandoned"
    await voided(world, simulated, f"inv-{payment['payment_request_id']}")


async def test_repeat_while_the_first_waits_for_the_gateway_gets_the_same_answer(
    world: World, simulated: SimulatedGateway
) -> None:
    made, go_on = threading.Event(), threading.Event()

    def hold(_: int, __: Any) -> None:
        made.set()
        go_on.wait(4)

    simulated.after_create = hold
    customer, key = await world.customer(), new_id()
    asking = asyncio.create_task(with_key(customer, key))
    await wait_for_call(made)
    repeats = [asyncio.create_task(with_key(customer, key)) for _ in range(3)]
    done, _ = await asyncio.wait(repeats, timeout=0.3)
    assert done == set()
    go_on.set()
    first = await asking
    assert first[0] == 201
    for repeat in repeats:
        assert await repeat == first
    assert await with_key(customer, key) == first
    assert len(await stored(world, customer)) == len(simulated.of(first[1]["payment_request_id"])) == 1


@pytest.mark.slow
async def test_repeat_after_waiting_5_s_gets_in_flight(world: World, simulated: SimulatedGateway) -> None:
    made, go_on = threading.Event(), threading.Event()

    def lost(_: int, __: Any) -> None:
        made.set()
        go_on.wait(4.5)
        raise NoReply

    simulated.after_create = lost
    simulated.on_look = lambda heard: go_on.wait(4.5) and None
    customer, key = await world.customer(), new_id()
    asking = asyncio.create_task(with_key(customer, key))
    await wait_for_call(made)
    status, answer = await with_key(customer, key)
    assert (status, answer["error"]["code"]) == (409, "IDEMPOTENCY_IN_FLIGHT")
    assert not asking.done()
    go_on.set()
    first = await asking
    assert first[0] == 201
    assert await with_key(customer, key) == first
    assert len(simulated.of(first[1]["payment_request_id"])) == 1


async def test_gateway_failure_releases_the_idempotency_key(world: World, simulated: SimulatedGateway) -> None:
    customer, key = await world.customer(), new_id()
    simulated.before_create = lambda _: error_reply(400, "API_VALIDATION_ERROR")
    for _ in range(2):
        status, answer = await with_key(customer, key)
        assert (status, answer["error"]["code"]) == (502, "GATEWAY_UNAVAILABLE")
    simulated.answer_normally()
    status, answer = await with_key(customer, key)
    assert (status, answer["status"]) == (201, "pending")
    assert [status for status, _ in await stored(world, customer)] == ["abandoned", "abandoned", "pending"]


@pytest.mark.slow
@pytest.mark.parametrize("made", [True, False], ids=["made", "not made"])
async def test_repeat_after_a_kill_between_invoice_and_answer_gets_the_same_request(
    world: World, simulated: SimulatedGateway, stack: Stack, made: bool
) -> None:
    held, go_on = threading.Event(), threading.Event()

    def hold(nth: int, *_: Any) -> None:
        if nth == 1:
            held.set()
            go_on.wait(10)
            raise NoReply

    if made:
        simulated.after_create = hold
    else:
        simulated.before_create = hold
    customer, key = await world.customer(), new_id()
    asking = asyncio.create_task(with_key(customer, key))
    await wait_for_call(held)
    await asyncio.to_thread(stack.kill, "api")
    with contextlib.suppress(OSError, Refused):
        await asking
    await asyncio.to_thread(stack.start, "api")
    go_on.set()
    (before,) = await stack.sql(
        """UPDATE idempotency_keys SET claimed_real_at = claimed_real_at - interval '25 seconds'
           WHERE key = $1 RETURNING resource_id::text AS id, answer""",
        key,
    )
    assert before["answer"] is None
    async with asyncio.TaskGroup() as group:  # many repeats at the same time
        tasks = [group.create_task(with_key(customer, key)) for _ in range(4)]
    answers = [task.result() for task in tasks]
    assert all(answer == answers[0] for answer in answers)
    status, payment = answers[0]
    assert (status, payment["payment_request_id"]) == (201, before["id"])
    (invoice,) = simulated.of(before["id"])
    assert payment["gateway_invoice_url"] == invoice["invoice_url"]
    assert await stored(world, customer) == [("pending", invoice["id"])]


async def test_process_suspended_too_long_leaves_the_request_to_the_one_that_took_over(
    world: World, simulated: SimulatedGateway, stack: Stack
) -> None:
    held, go_on = threading.Event(), threading.Event()

    def hold(nth: int) -> Reply | None:
        if nth > 1:
            return None
        held.set()
        go_on.wait(10)
        return error_reply(400, "API_VALIDATION_ERROR")

    simulated.before_create = hold
    customer, key = await world.customer(), new_id()
    asking = asyncio.create_task(with_key(customer, key))
    await wait_for_call(held)
    await stack.sql(
        "UPDATE idempotency_keys SET claimed_real_at = claimed_real_at - interval '25 seconds' WHERE key = $1", key
    )
    taken_up = await with_key(customer, key)
    go_on.set()
    status, answer = await asking
    assert (status, answer["error"]["code"]) == (502, "GATEWAY_UNAVAILABLE")
    assert taken_up[0] == 201
    assert await with_key(customer, key) == taken_up
    (invoice,) = simulated.of(taken_up[1]["payment_request_id"])
    assert await stored(world, customer) == [("pending", invoice["id"])]
    paid = await world.webhook(
        {"payment_request_id": invoice["external_id"], "amount": invoice["amount"]}, id=invoice["id"]
    )
    assert (paid[0], paid[1]["processing_result"]) == (200, "confirmed")
