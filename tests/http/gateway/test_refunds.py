"""Refunds through the public interfaces: what the operator and the customer see (docs/product.md#refunds)."""

import datetime as dt
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

from tests.http.gateway.simulated_gateway import SimulatedGateway, error_reply
from tests.http.operators.steps import an_operator, at_once, audits
from tests.stack import Stack, World, new_id, refused
from tools.driving.device import Device

pytestmark = pytest.mark.anyio
FAILURES = "/internal/failed-pairings"


@pytest.fixture(scope="module")
def stack(simulated: SimulatedGateway) -> Iterator[Stack]:
    """Yield a service that refunds through the gateway."""
    made = Stack(scale=60, **simulated.environment, REFUNDS_ENABLED="true", ACCESS_TOKEN_SECONDS="86400")
    yield made
    made.close()


async def a_failure(world: World, customer: Device, **more: Any) -> dict[str, Any]:
    """Create a failed pairing: the customer pays and cancels."""
    payment = await world.request(customer)
    await world.webhook(payment, **{"payment_channel": "QRIS", **more})
    await customer.post("/api/client/chat/cancel", {"payment_request_id": payment["payment_request_id"]})
    rows = (await (await world.operator()).get(FAILURES, limit=200))["items"]
    return next(row for row in rows if row["payment_request_id"] == payment["payment_request_id"])


async def until_refund(world: World, failure: dict[str, Any], status: str) -> dict[str, Any]:
    """Wait until the refund of a failure has a status; return the failure."""
    operator = await world.operator()
    return await world.until(
        lambda: operator.get(f"{FAILURES}/{failure['id']}"),
        lambda seen: seen["refund"] is not None and seen["refund"]["status"] == status,
    )


async def test_bulk_refund_answers_for_each_failure_and_asks_once(world: World, simulated: SimulatedGateway) -> None:
    root = await world.operator()
    good = [await a_failure(world, await world.customer()) for _ in range(3)]
    acted, unknown = await a_failure(world, await world.customer()), new_id()
    await root.call("PATCH", f"{FAILURES}/{acted['id']}", {"operator_action": "credited"})
    ids = [good[0]["id"], acted["id"], good[1]["id"], unknown, good[2]["id"], good[0]["id"]]
    body = {"ids": ids, "reason": "a bad hour"}
    answers = [one[1] for one in await at_once(4, lambda _: root.post(f"{FAILURES}/refund", body))]
    for seen in answers:
        codes = {row["id"]: (row["requested"], row["code"]) for row in seen["items"]}
        assert [row["id"] for row in seen["items"]] == ids[:-1]
        assert codes == {
            **{failure["id"]: (True, None) for failure in good},
            acted["id"]: (False, "ALREADY_ACTIONED"),
            unknown: (False, "NOT_FOUND"),
        }
    for failure in good:
        await until_refund(world, failure, "pending")
        asked = [row["action"] for row in await audits(world, failure["id"])]
        assert asked.count("failed_pairing.refund_requested") == 1
    for wrong in ([], [new_id()] * 101, ["x"]):
        await refused(root.post(f"{FAILURES}/refund", {"ids": wrong}), 422, "VALIDATION_ERROR")
    reader = (await an_operator(world, {"failed_pairings": "read"})).client
    await refused(reader.post(f"{FAILURES}/refund", {"ids": [good[0]["id"]]}), 403, "FORBIDDEN")


async def test_operator_refunds_and_the_customer_follows_it(world: World, simulated: SimulatedGateway) -> None:
    root, customer = await world.operator(), await world.customer()
    socket = await customer.open("pairing")
    failure = await a_failure(world, customer)
    assert (failure["payment_channel"], failure["refundable"], failure["may_refund"]) == ("QRIS", True, True)
    path = f"{FAILURES}/{failure['id']}"
    asked = await root.post(f"{path}/refund", {"reason": "no mitra came"})
    assert (asked["operator_action"], asked["refund"]["reason"]) == (None, "no mitra came")
    assert asked["refund"]["requested_by"]["id"] == root.user["id"]
    assert not asked["may_refund"]
    await until_refund(world, failure, "pending")
    await refused(root.call("PATCH", path, {"operator_action": "credited"}), 409, "REFUND_PENDING")
    about = f"/api/client/payment/requests/{failure['payment_request_id']}"
    assert (await customer.get(about))["failure"]["refund_status"] == "pending"
    call = simulated.refunds.settle(failure["id"])
    assert await world.raw_webhook(call) == (200, {"received": True, "processing_result": "refund_succeeded"})
    seen = await root.get(path)
    assert (seen["operator_action"], seen["refund"]["status"]) == ("refunded", "succeeded")
    assert seen["actioned_by"]["id"] == root.user["id"]
    view = await customer.get(about)
    assert (view["failure"]["operator_action"], view["failure"]["refund_status"]) == ("refunded", "succeeded")

    async def told() -> list[str]:
        frames = [one for one in socket.frames if one["type"] == "payment_updated"]
        return [one["payment_request"]["failure"]["refund_status"] for one in frames]

    assert await world.until(told, lambda states: "succeeded" in states) == ["requested", "succeeded"]
    await socket.close()
    actions = {row["action"] for row in await audits(world, failure["id"])}  # each view of the reason is a reading
    assert actions == {"failed_pairing.refund_requested", "pairing_failure.read"}
    story = await root.get(f"/internal/payment-requests/{failure['payment_request_id']}/timeline")
    texts = [one["text"] for one in story["entries"]]
    assert texts[-3:] == [
        "Root asked the gateway to refund the payment: no mitra came",
        "The gateway called: refund.succeeded. Result: refund succeeded, 200.",
        "The gateway paid the money back.",
    ]


async def test_declined_refund_is_shown_and_recorded_by_hand_with_a_note(
    world: World, simulated: SimulatedGateway
) -> None:
    root = await world.operator()
    failure = await a_failure(world, await world.customer())
    simulated.refunds.before_refund = lambda _: error_reply(400, "REFUND_NOT_SUPPORTED")
    path = f"{FAILURES}/{failure['id']}"
    await root.post(f"{path}/refund", {})
    seen = await until_refund(world, failure, "failed")
    assert (seen["refund"]["failure_code"], seen["may_refund"]) == ("REFUND_NOT_SUPPORTED", True)
    done = await root.call("PATCH", path, {"operator_action": "refunded", "note": "  by bank transfer  "})
    assert (done["operator_action"], done["note"], done["may_refund"]) == ("refunded", "  by bank transfer  ", False)
    (row,) = [one for one in await audits(world, failure["id"]) if one["action"] == "failed_pairing.actioned"]
    assert row["after"] == {"operator_action": "refunded", "note": "  by bank transfer  "}
    story = await root.get(f"/internal/payment-requests/{failure['payment_request_id']}/timeline")
    texts = [one["text"] for one in story["entries"]]
    assert texts[-2:] == ["The refund failed: REFUND_NOT_SUPPORTED.", "Root refunded the payment:   by bank transfer  "]


async def test_open_refund_refuses_another_try(world: World, simulated: SimulatedGateway) -> None:
    root, customer, mitra = await world.operator(), await world.customer(), await world.mitra()
    async with world.setting(early_end_customer_enabled=True):
        first = await world.session(customer, mitra)
        await customer.post(f"/api/shared/chat/sessions/{first}/end")
    wish = {"mitra_id": mitra.user["id"], "mode": "chat", "duration_minutes": 12}
    # By default the mitra would have a third of a real second to answer.
    async with world.setting(returning_chat_confirmation_timeout_seconds=3_600, searching_timeout_minutes=60):
        payment = await customer.post("/api/client/chat/returning", wish)
        await world.webhook(payment)
        asked = await world.until(lambda: mitra.get("/api/mitra/chat-requests"), lambda seen: len(seen["items"]) == 1)
        await mitra.post(f"/api/mitra/chat-requests/{asked['items'][0]['session_id']}/reject")
    rows = (await root.get(FAILURES, limit=200))["items"]
    (failure,) = [row for row in rows if row["payment_request_id"] == payment["payment_request_id"]]
    assert (failure["payment_channel"], failure["refundable"]) == (None, None)
    await root.post(f"{FAILURES}/{failure['id']}/refund", {})
    again = {"payment_request_id": payment["payment_request_id"]}
    await refused(customer.post("/api/client/chat/fallback-to-blast", again), 409, "FAILURE_ACTIONED")
    another = {**again, "mitra_id": mitra.user["id"]}
    await refused(customer.post("/api/client/chat/retarget", another), 409, "FAILURE_ACTIONED")
    await until_refund(world, failure, "pending")
    await world.raw_webhook(simulated.refunds.settle(failure["id"], "FAILED"))
    await customer.post("/api/client/chat/fallback-to-blast", again)
    await refused(root.post(f"{FAILURES}/{failure['id']}/refund", {}), 409, "FAILURE_SUPERSEDED")
    assert (await world.raw_webhook(simulated.refunds.settle(failure["id"])))[1]["processing_result"] == "conflict"
    await customer.post("/api/client/chat/cancel", again)


async def test_refund_needs_the_area_and_a_valid_body(world: World) -> None:
    failure = await a_failure(world, await world.customer())
    path = f"{FAILURES}/{failure['id']}/refund"
    reader = await an_operator(world, {"failed_pairings": "read"})
    await refused(reader.client.post(path, {}), 403, "FORBIDDEN")
    root = await world.operator()
    await refused(root.post(f"{FAILURES}/{new_id()}/refund", {}), 404, "NOT_FOUND")
    await refused(root.post(path, {"reason": "x" * 501}), 422, "VALIDATION_ERROR")
    await refused(root.post(path, {"amount": 1}), 422, "VALIDATION_ERROR")


async def test_age_and_due_time_of_a_failure(world: World) -> None:
    root = await world.operator()
    failure = await a_failure(world, await world.customer())
    for hours in (24, 2):
        await world.config("failure_due_hours", hours)
        seen = await world.until(
            lambda: root.get(f"{FAILURES}/{failure['id']}"),
            lambda seen, hours=hours: _hours(seen) == hours,
        )
        assert seen["age_seconds"] >= failure["age_seconds"] >= 0


def _hours(failure: dict[str, Any]) -> float:
    due, made = (dt.datetime.fromisoformat(failure[name]) for name in ("due_at", "created_at"))
    return (due - made).total_seconds() / 3600


async def test_earned_money_goes_back_while_the_chat_runs(
    world: World, simulated: SimulatedGateway, http: aiohttp.ClientSession
) -> None:
    root, customer, mitra = await world.operator(), await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    socket = await customer.open("pairing")
    payment_id = (await root.get(f"/internal/sessions/{session_id}"))["payment_request_id"]
    path = f"/internal/payment-requests/{payment_id}"

    async def post(body: dict[str, Any], **more: str) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {root.access_token}", **more}
        async with http.post(f"{root.addresses.internal}{path}/refund", json=body, headers=headers) as answer:
            return answer.status, await answer.json()

    for amount in (0, -5_000, 12_001, 10**30):
        status, refusal = await post({"amount": amount, "reason": "no"})
        assert (status, refusal["error"]["code"]) == (409, "REFUND_EXCEEDS_PAID")
        assert refusal["error"]["details"] == {"refundable": 12_000}
    ask = {"amount": 5_000, "reason": "the mitra was silent"}
    status, made = await post(ask, **{"Idempotency-Key": "first try"})
    assert (status, made["status"], made["by_hand"], made["reference"]) == (202, "requested", False, made["id"])
    assert (await post(ask, **{"Idempotency-Key": "first try"}))[1]["id"] == made["id"]
    assert (await post(ask))[1]["id"] == made["id"]  # it is under way
    status, refusal = await post({**ask, "amount": 1}, **{"Idempotency-Key": "first try"})
    assert (status, refusal["error"]["code"]) == (409, "IDEMPOTENCY_MISMATCH")
    await world.until(lambda: _of(simulated, made["id"]), lambda found: len(found) == 1)
    await world.raw_webhook(simulated.refunds.settle(made["id"]))
    by_hand = {"amount": 7_000, "reason": "the rest", "by_hand": True, "reference": "TRF-1"}
    status, first = await post(by_hand)
    assert (status, first["status"], first["reference"]) == (201, "succeeded", "TRF-1")
    assert await post({**by_hand, "amount": 1}) == (201, first)
    await refused(root.post(f"{path}/refund", {"amount": 1, "reason": "more"}), 409, "REFUND_EXCEEDS_PAID")
    seen = await root.get(path)
    assert (seen["status"], seen["refundable_amount"], seen["refund"]["refunded"]) == ("consumed", 0, 12_000)
    listed = (await root.get(f"{path}/refunds"))["items"]
    assert [(one["amount"], one["reason"]) for one in listed] == [(7_000, "the rest"), (5_000, "the mitra was silent")]
    own = (await customer.get("/api/client/transactions"))["items"]
    assert [(one["type"], one["amount"]) for one in own] == [
        ("refund", -7_000),
        ("refund", -5_000),
        ("session", 12_000),
    ]

    async def told() -> list[tuple[int, str, int]]:
        frames = [one["payment_request"]["refund"] for one in socket.frames if one["type"] == "payment_updated"]
        return [(one["amount"], one["status"], one["refunded"]) for one in frames]

    assert await world.until(told, lambda states: len(states) == 3) == [
        (5_000, "requested", 0), (5_000, "succeeded", 5_000), (7_000, "succeeded", 12_000),
    ]  # fmt: skip
    await socket.close()
    actions = [row["action"] for row in await audits(world, payment_id)]
    assert actions == ["payment.refund_requested", "payment.refunded_by_hand", "payment_request.read"]


async def _of(simulated: SimulatedGateway, reference: str) -> list[dict[str, Any]]:
    return simulated.refunds.of(reference)


async def test_making_good_refuses_what_it_can_not_do(world: World) -> None:
    root = await world.operator()
    failure = await a_failure(world, await world.customer())
    path = f"/internal/payment-requests/{failure['payment_request_id']}/refund"
    whole = {"amount": 1, "reason": "maaf"}
    await refused(root.post(path, whole), 409, "PAYMENT_NOT_CONSUMED")
    await refused(root.post(f"/internal/payment-requests/{new_id()}/refund", whole), 404, "NOT_FOUND")
    for amount in (1.5, "1", True, None):
        await refused(root.post(path, {**whole, "amount": amount}), 422, "VALIDATION_ERROR")
    for body in ({"reason": ""}, {"by_hand": True}, {"reference": "TRF-1"}):
        await refused(root.post(path, {**whole, **body}), 422, "VALIDATION_ERROR")
    for reference in ("\u0007", "to Dewi", "0812-3456-7890", "x" * 65):
        by_hand = {**whole, "by_hand": True, "reference": reference}
        await refused(root.post(path, by_hand), 422, "VALIDATION_ERROR")
    reader = (await an_operator(world, {"payments": "read"})).client
    await refused(reader.post(path, whole), 403, "FORBIDDEN")


async def test_payment_says_how_its_money_goes_back_and_is_found_by_it(
    world: World, simulated: SimulatedGateway
) -> None:
    root = await world.operator()
    failure = await a_failure(world, await world.customer())
    payment_id = failure["payment_request_id"]

    async def ways() -> list[str]:
        words = ("to_refund", "refunding", "refunded", "failed")
        return [word for word in words if await _is_listed(root, payment_id, word)]

    assert await ways() == ["to_refund"]
    simulated.refunds.before_refund = lambda _: error_reply(400, "REFUND_NOT_SUPPORTED")
    await root.post(f"{FAILURES}/{failure['id']}/refund", {})
    await until_refund(world, failure, "failed")
    assert await ways() == ["to_refund", "failed"]
    simulated.refunds.answer_normally()
    await root.post(f"{FAILURES}/{failure['id']}/refund", {})
    await until_refund(world, failure, "pending")
    assert await ways() == ["refunding"]
    await world.raw_webhook(simulated.refunds.settle(failure["id"]))
    assert await ways() == ["refunded"]
    seen = await root.get(f"/internal/payment-requests/{payment_id}")
    assert (seen["failure_id"], seen["refund_reference"]) == (failure["id"], failure["id"])
    assert seen["gateway_refund_id"] == simulated.refunds.of(failure["id"])[0]["id"]
    assert (seen["refund"]["status"], seen["refund"]["amount"]) == ("succeeded", seen["amount"])
    await refused(root.get("/internal/payment-requests", refund="all"), 422, "VALIDATION_ERROR")


async def _is_listed(operator: Device, payment_id: str, refund: str) -> bool:
    items = (await operator.get("/internal/payment-requests", refund=refund, limit=200))["items"]
    return payment_id in [one["payment_request_id"] for one in items]
