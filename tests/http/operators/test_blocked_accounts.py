"""An operator blocks a customer's account (docs/product.md#blocked-accounts)."""

import datetime as dt
from typing import Any

import pytest

from core.base import ids
from tests.http.extensions.steps import create_extension_payment
from tests.http.operators.steps import an_operator
from tests.http.operators.test_operators_desk import audit_rows
from tests.http.pairing.steps import (
    accepting,
    failed,
    falling_back,
    friends,
    read_payment,
    rejecting,
    returning,
    wait_for_invitation,
)
from tests.stack import World, at_once, refused
from tests.verdicts import check_books
from tools.driving.device import Device

pytestmark = pytest.mark.anyio


async def blocking(world: World, customer: Device, **body: Any) -> dict[str, Any]:
    operator, wish = await world.operator(), {"reason": "Insulted three mitras", **body}
    return await operator.post(f"/internal/customers/{customer.user['id']}/block", wish)


async def unblocking(world: World, customer: Device) -> dict[str, Any]:
    return await (await world.operator()).post(f"/internal/customers/{customer.user['id']}/unblock")


async def later(world: World, **length: float) -> str:
    return (await world.service_time() + dt.timedelta(**length)).isoformat()


async def test_blocked_account_asks_for_nothing_and_reads_everything(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    until = await later(world, hours=1)
    view = await blocking(world, customer, until=until)
    assert (view["block"]["reason"], view["id"]) == ("Insulted three mitras", customer.user["id"])
    error = await refused(create_extension_payment(customer, session_id), 403, "ACCOUNT_BLOCKED")
    assert dt.datetime.fromisoformat(error["details"]["until"]) == dt.datetime.fromisoformat(until)
    wish = {"mitra_id": mitra.user["id"], "mode": "chat", "duration_minutes": 12}
    await refused(customer.post("/api/client/chat/returning", wish), 403, "ACCOUNT_BLOCKED")
    await refused(world.request(customer), 403, "ACCOUNT_BLOCKED")
    body = {"client_message_id": ids.new_id(), "content": "halo"}
    assert (await customer.post(f"/api/shared/chat/sessions/{session_id}/messages", body))["seq"] == 1
    for path in ("chat/history", "payment/requests", "chat/sessions", "auth/me"):
        await customer.get(f"/api/client/{path}")
    assert (await unblocking(world, customer))["block"] is None
    assert (await create_extension_payment(customer, session_id))["status"] == "pending"


async def test_block_abandons_pending_requests_and_late_money_goes_to_the_worklist(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    extension = await create_extension_payment(customer, session_id)
    await blocking(world, customer)
    assert (await read_payment(customer, extension))["status"] == "abandoned"
    assert (await world.webhook(extension))[1]["processing_result"] == "late_payment_recorded"
    assert await failed(world, customer, extension) == "extension_safeguard_tripped"
    other = await world.customer()
    pending = await world.request(other)
    device = await other.open("pairing", ack=False)
    await blocking(world, other)
    updated = await device.wait("payment_updated")
    assert updated["payment_request"]["status"] == "abandoned"
    await world.webhook(pending)
    assert await failed(world, other, pending) == "payment_session_expired"
    check_books(await world.audit())


async def test_paid_search_of_a_blocked_account_goes_on(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    payment = await world.paid(customer)
    await wait_for_invitation(world, mitra, payment["session_id"])
    await blocking(world, customer)
    assert (await accepting(mitra, payment["session_id"]))["status"] == "active"


async def test_failed_request_of_a_blocked_account_does_not_fall_back(world: World) -> None:
    customer, mitra = await friends(world)
    payment = await returning(world, customer, mitra)
    await rejecting(mitra, payment["session_id"])
    assert await failed(world, customer, payment) == "targeted_mitra_rejected"
    await blocking(world, customer)
    await refused(falling_back(customer, payment), 403, "ACCOUNT_BLOCKED")


async def test_block_ends_by_its_time(fast_world: World) -> None:
    customer = await fast_world.customer()
    await blocking(fast_world, customer, until=await later(fast_world, seconds=120))
    await refused(fast_world.request(customer), 403, "ACCOUNT_BLOCKED")

    async def view() -> dict[str, Any]:
        return await (await fast_world.operator()).get(f"/internal/customers/{customer.user['id']}")

    await fast_world.until(view, lambda found: found["block"] is None)
    assert (await fast_world.request(customer))["status"] == "pending"


async def test_repeated_block_replaces_the_first_with_an_audit_row_for_each(world: World) -> None:
    customer = await world.customer()
    await blocking(world, customer, until=await later(world, hours=1))
    again = await blocking(world, customer, reason="For good")
    assert (again["block"]["until"], again["block"]["reason"]) == (None, "For good")
    assert (await refused(world.request(customer), 403, "ACCOUNT_BLOCKED"))["details"] == {"until": None}
    await unblocking(world, customer)
    await unblocking(world, customer)  # changes nothing
    rows = await audit_rows(world, customer.user["id"])
    assert [row["action"] for row in rows if row["action"] != "customer.read"] == [
        "customer.blocked", "customer.blocked", "customer.unblocked",
    ]  # fmt: skip


async def test_block_refuses_bad_fields_unknown_customers_and_other_rights(world: World) -> None:
    customer, root = await world.customer(), await world.operator()
    path = f"/internal/customers/{customer.user['id']}/block"
    for bad in ({}, {"reason": ""}, {"reason": "x" * 501}, {"reason": "x", "until": "tomorrow"}):
        await refused(root.post(path, bad), 422, "VALIDATION_ERROR")
    past = await later(world, seconds=-1)
    await refused(root.post(path, {"reason": "x", "until": past}), 422, "VALIDATION_ERROR")
    await refused(root.post(f"/internal/customers/{ids.new_id()}/block", {"reason": "x"}), 404, "NOT_FOUND")
    await refused(root.post(f"/internal/customers/{ids.new_id()}/unblock"), 404, "NOT_FOUND")
    await blocking(world, customer, reason="Called a mitra names")
    reader = (await an_operator(world, {"customers": "read"})).client
    await refused(reader.post(path, {"reason": "x"}), 403, "FORBIDDEN")
    seen = await reader.get(f"/internal/customers/{customer.user['id']}")
    assert seen["block"]["reason"] == "4 words, hidden"


async def test_block_and_requests_at_once_leave_no_pending_request(world: World) -> None:
    for _ in range(4):
        customer = await world.customer()
        await at_once(*[world.request(customer) for _ in range(4)], blocking(world, customer))
        left = await world.stack.sql(
            "SELECT 1 FROM payment_requests WHERE customer_id = $1 AND status = 'pending'", customer.user["id"]
        )
        assert left == []
