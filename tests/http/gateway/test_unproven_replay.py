"""Replay of a call that came without a valid token: only the gateway's answer counts (docs/protocol.md#webhook)."""

import json
from typing import Any

import pytest

from tests.http.gateway.simulated_gateway import SimulatedGateway
from tests.stack import World, new_id, payment_call, refused
from tools.driving.device import Device

pytestmark = pytest.mark.anyio
CALLS = "/internal/webhook-logs"


async def forged(world: World, operator: Device, payment: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Send a call that reports the payment, without a valid token; return its row."""
    call = payment_call(payment, id=f"inv-{payment['payment_request_id']}", **more)
    assert (await world.raw_webhook(call, token="wrong"))[0] == 401
    rows = (await operator.get(CALLS, q=payment["payment_request_id"]))["items"]
    return next(row for row in rows if row["processing_result"] == "unauthorized")


async def test_replay_without_valid_token_has_the_effect_of_the_gateways_answer(
    world: World, simulated: SimulatedGateway
) -> None:
    customer, operator = await world.customer(), await world.operator()
    payment = await world.request(customer)
    request_id = payment["payment_request_id"]
    row = await forged(world, operator, payment)
    path = f"/api/client/payment/requests/{request_id}"

    first = await operator.post(f"{CALLS}/{row['id']}/replay")  # the gateway says: not paid
    assert (first["processing_result"], first["source"], first["replay_of"]) == ("ignored_status", "poll", row["id"])
    assert json.loads(first["raw_body"]) == simulated.made[f"inv-{request_id}"]
    assert (await customer.get(path))["status"] == "pending"

    simulated.pay(request_id)
    second = await operator.post(f"{CALLS}/{row['id']}/replay")
    assert (second["processing_result"], second["status"]) in {("confirmed", "PAID"), ("duplicate", "PAID")}
    assert (await customer.get(path))["status"] in {"confirmed", "failed_pairing"}
    again = await operator.post(f"{CALLS}/{second['id']}/replay")
    assert (again["processing_result"], again["replay_of"]) == ("duplicate", row["id"])
    audits = (await operator.get("/internal/audit-log", object_id=row["id"]))["items"]
    assert [one["action"] for one in audits].count("webhook.replayed") == 2
    assert (await world.audit())["violations"] == []


async def test_replay_of_a_call_about_an_unknown_invoice_changes_nothing(
    world: World, simulated: SimulatedGateway
) -> None:
    customer, operator = await world.customer(), await world.operator()
    payment = await world.request(customer)
    call = payment_call(payment, id="inv-of-a-stranger")
    await world.raw_webhook(call, token=None)
    (row,) = (await operator.get(CALLS, q="inv-of-a-stranger"))["items"]
    again = await operator.post(f"{CALLS}/{row['id']}/replay")
    assert (again["processing_result"], again["raw_body"]) == ("unknown_external_id", "")
    assert (await customer.get(f"/api/client/payment/requests/{payment['payment_request_id']}"))["status"] == "pending"


async def test_replay_of_a_call_that_names_no_invoice_is_refused(world: World, simulated: SimulatedGateway) -> None:
    operator = await world.operator()
    await world.raw_webhook({"external_id": "nothing-here"}, token=None)
    (row,) = (await operator.get(CALLS, q="nothing-here"))["items"]
    await refused(operator.post(f"{CALLS}/{row['id']}/replay"), 409, "NOT_REPLAYABLE")


@pytest.mark.parametrize(
    ("invoice", "result"),
    [
        ({"status": "EXPIRED"}, "unknown_external_id"),
        ({"status": "EXPIRED", "metadata": {"app": "another"}}, "ignored_foreign_app"),
        ({"status": "PAID", "paid_amount": 5_000, "metadata": {"app": "another"}}, "ignored_foreign_app"),
        ({"status": "PAID", "paid_amount": 5_000, "external_id": "order-17"}, "ignored_non_uuid_external_id"),
        ({"status": "EXPIRED", "external_id": "order-18"}, "ignored_non_uuid_external_id"),
        ({"status": "PENDING", "external_id": "order-19"}, "ignored_non_uuid_external_id"),
        ({"status": "PAID", "paid_amount": 5_000}, "conflict"),  # money for an unknown request
    ],
)
async def test_replay_about_an_invoice_of_no_request_is_judged_as_a_call_is(
    world: World, simulated: SimulatedGateway, invoice: dict[str, Any], result: str
) -> None:
    operator = await world.operator()
    made = simulated.make(**{"external_id": new_id(), "amount": 5_000, **invoice})
    await world.raw_webhook({"id": made["id"], "external_id": "any"}, token="wrong")
    (row,) = (await operator.get(CALLS, q=made["id"]))["items"]
    again = await operator.post(f"{CALLS}/{row['id']}/replay")
    assert again["processing_result"] == result
    rows = (await operator.get(CALLS, q=made["id"]))["items"]
    conflicts = [one for one in rows if one["processing_result"] == "conflict"]
    assert len(conflicts) == (2 if result == "conflict" else 0)  # the answer, and the money that was found
    assert (await world.audit())["violations"] == []


async def test_replay_of_a_refund_event_is_refused(world: World, simulated: SimulatedGateway) -> None:
    """The gateway has no invoice with the id of a refund. A body over 4 KiB is cut, so it is not JSON."""
    operator = await world.operator()
    for n, filler in enumerate(("", "x" * 5_000)):
        refund = {"id": f"rfd-forged-{n}", "reference_id": new_id(), "status": "SUCCEEDED", "amount": 5_000}
        await world.raw_webhook({"filler": filler, "event": "refund.succeeded", "data": refund}, token="wrong")
        (row,) = (await operator.get(CALLS, q=refund["id"]))["items"]
        await refused(operator.post(f"{CALLS}/{row['id']}/replay"), 409, "NOT_REPLAYABLE")
        assert not simulated.calls("read", refund["id"])
