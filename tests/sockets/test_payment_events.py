"""`payment_updated`: the payer learns of each change of a payment request that no other event reports."""

from typing import Any

import pytest

from tests.http.extensions.steps import ask_for_extension, chatting, create_extension_payment
from tests.http.pairing.steps import acting, cancelling, end_now, expire_silently, now_in, pay_late, read_payment
from tests.http.sign_in.people import anonymous, by_phone, device, new_number, store_tokens
from tests.stack import World
from tools.driving.device import Device, RecordedSocket

pytestmark = pytest.mark.anyio
ABANDON = "/api/client/payment/requests/{}/abandon"


async def update(phone: RecordedSocket, payment: dict[str, Any], status: str) -> dict[str, Any]:
    """Wait until a phone learns that a request has a state; return the request."""

    def ours(frame: dict[str, Any]) -> bool:
        view = frame["payment_request"]
        return (view["payment_request_id"], view["status"]) == (payment["payment_request_id"], status)

    return (await phone.wait("payment_updated", where=ours))["payment_request"]


def updates(phone: RecordedSocket) -> list[tuple[str, str]]:
    """Return the changes that a phone received, as (request, state)."""
    views = [frame["payment_request"] for frame in phone.frames if frame["type"] == "payment_updated"]
    return [(view["payment_request_id"], view["status"]) for view in views]


async def two_phones(world: World) -> tuple[Device, Device]:
    """Return a customer's two phones."""
    number = new_number()
    first = await anonymous(world)
    store_tokens(first, await by_phone(world, first, number))
    second = device(world)
    store_tokens(second, await by_phone(world, second, number))
    return first, second


async def overdue(world: World, payment: dict[str, Any]) -> None:
    """Move the deadline of a request into the past, so that the sweep finds it."""
    await world.stack.sql(
        f"UPDATE payment_requests SET expires_at = {now_in(world)} WHERE id = $1", payment["payment_request_id"]
    )


async def test_paid_extension_is_reported_and_paid_session_is_reported_by_its_search_alone(fast_world: World) -> None:
    customer, _, session_id = await chatting(fast_world)
    phone = await customer.open("pairing")
    payment, _ = await ask_for_extension(fast_world, customer, session_id)
    view = await update(phone, payment, "confirmed")
    assert (view["is_extension"], view["session_id"], view["failure"]) == (True, session_id, None)
    assert view["confirmed_at"] is not None
    await end_now(fast_world, customer, session_id)
    other = await fast_world.customer()
    phone = await other.open("pairing")
    payment = await fast_world.paid(other)
    await phone.wait("pairing_status", where=lambda frame: frame["status"] == "searching")
    await cancelling(other, payment)
    await phone.wait("pairing_status", where=lambda frame: frame["status"] == "cancelled")
    assert updates(phone) == []


async def test_request_that_expires_is_reported_by_sweep_and_webhook(fast_world: World) -> None:
    customer = await fast_world.customer()
    phone = await customer.open("pairing")
    by_sweep = await fast_world.request(customer)
    await overdue(fast_world, by_sweep)
    assert await update(phone, by_sweep, "expired") == await read_payment(customer, by_sweep)
    by_webhook = await fast_world.request(customer)
    assert (await fast_world.webhook(by_webhook, status="EXPIRED"))[1]["processing_result"] == "expired"
    await update(phone, by_webhook, "expired")
    assert (await fast_world.webhook(by_webhook, status="EXPIRED"))[1]["processing_result"] == "ignored_status"
    await fast_world.request(customer)
    assert len(updates(phone)) == 2


async def test_late_money_and_its_refund_are_reported(fast_world: World) -> None:
    customer = await fast_world.customer()
    phone = await customer.open("pairing")
    payment = await fast_world.request(customer)
    await expire_silently(fast_world, payment)
    await pay_late(fast_world, payment)
    view = await update(phone, payment, "failed_pairing")
    assert view["failure"] == {
        "cause_tag": "payment_session_expired", "sub_cause": "late", "operator_action": None, "actioned_at": None, "refund_status": None,
    }  # fmt: skip
    await acting(fast_world, payment, "credited")
    view = await update(phone, payment, "failed_pairing")
    assert view["failure"]["operator_action"] == "credited"
    assert view == await read_payment(customer, payment)


async def test_payment_that_cannot_become_a_session_is_reported(fast_world: World) -> None:
    customer = await fast_world.customer()
    phone = await customer.open("pairing")
    first = await fast_world.request(customer)
    await fast_world.webhook(first, status="EXPIRED")
    second = await fast_world.paid(customer)
    assert (await fast_world.webhook(first))[1]["processing_result"] == "paid_not_pairable"
    view = await update(phone, first, "failed_pairing")
    assert view["failure"]["cause_tag"] == "payment_session_expired"
    await cancelling(customer, second)


async def test_unpaid_extension_is_reported_as_abandoned_when_its_session_ends(fast_world: World) -> None:
    customer, _, session_id = await chatting(fast_world)
    phone = await customer.open("pairing")
    payment = await create_extension_payment(customer, session_id)
    await end_now(fast_world, customer, session_id)
    await update(phone, payment, "abandoned")


async def test_request_that_one_phone_abandons_is_reported_to_the_other(fast_world: World) -> None:
    first, second = await two_phones(fast_world)
    phone = await second.open("pairing")
    by_newer = await fast_world.request(first)
    by_hand = await fast_world.request(first)
    await update(phone, by_newer, "abandoned")
    await first.post(ABANDON.format(by_hand["payment_request_id"]))
    await update(phone, by_hand, "abandoned")
    by_cancel = await fast_world.request(first)
    await cancelling(first, by_cancel)
    await update(phone, by_cancel, "abandoned")
    assert len(updates(phone)) == 3


async def test_only_phone_gets_no_event_of_its_own_abandonment(fast_world: World) -> None:
    customer = await fast_world.customer()
    for _ in range(3):
        payment = await fast_world.request(customer)
    await customer.post(ABANDON.format(payment["payment_request_id"]))
    sql = "SELECT count(*)::int AS n FROM deliveries WHERE recipient_id = $1::uuid"
    assert (await fast_world.stack.sql(sql, customer.user["id"]))[0]["n"] == 0


async def test_unacknowledged_event_is_sent_again_also_after_a_join(fast_world: World) -> None:
    number = new_number()
    account = await anonymous(fast_world)
    store_tokens(account, await by_phone(fast_world, account, number))
    newcomer = await anonymous(fast_world)
    payment = await fast_world.request(newcomer)
    await overdue(fast_world, payment)
    await fast_world.until(lambda: read_payment(newcomer, payment), lambda view: view["status"] == "expired")
    store_tokens(newcomer, await by_phone(fast_world, newcomer, number))
    phone = await account.open("pairing", ack=False)
    await update(phone, payment, "expired")
    again = await newcomer.open("pairing")
    await update(again, payment, "expired")
    await pay_late(fast_world, payment)
    for socket in (phone, again):
        await update(socket, payment, "failed_pairing")
