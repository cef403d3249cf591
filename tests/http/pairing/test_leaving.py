"""The customer cancels at each moment (docs/product.md#cancelling); and the legacy routes to pay and to start."""

import asyncio

import pytest

from tests.http.pairing.steps import (
    accepting,
    cancelling,
    closed,
    confirm_silently,
    end_now,
    expire_silently,
    failures,
    falling_back,
    friends,
    read_payment,
    rejecting,
    responses,
    returning,
    session_of,
    starting,
    wait_for_invitation,
)
from tests.stack import World, new_id, open_failure, refused

pytestmark = pytest.mark.anyio


async def test_cancel_of_an_unpaid_request_abandons_it(world: World) -> None:
    customer = await world.customer()
    payment = await world.request(customer)
    for _ in range(2):
        assert (await cancelling(customer, payment))["status"] == "abandoned"
    assert await failures(world, payment) == []


async def test_cancel_of_an_expired_request_changes_nothing(world: World) -> None:
    customer = await world.customer()
    payment = await world.request(customer)
    await expire_silently(world, payment)
    assert (await cancelling(customer, payment))["status"] == "expired"


async def test_cancel_of_a_paid_request_without_a_search_fails_it(world: World) -> None:
    customer = await world.customer()
    payment = await world.request(customer)
    search = await customer.open("pairing")
    await confirm_silently(world, payment)
    left = await cancelling(customer, payment)
    assert (left["status"], left["failure"]) == ("failed_pairing", open_failure("customer_cancelled"))
    told = await search.wait("pairing_status", where=lambda f: f["status"] == "cancelled")
    assert told["cause_tag"] == "customer_cancelled"
    assert await cancelling(customer, payment) == left
    assert await failures(world, payment) == [("customer_cancelled", False)]


async def test_cancel_of_a_blast_closes_all_invitations(world: World) -> None:
    customer, mitra, other = await world.customer(), await world.mitra(), await world.mitra("Bima")
    payment = await world.paid(customer)
    session_id = payment["session_id"]
    for one in (mitra, other):
        await wait_for_invitation(world, one, session_id)
    desk = await mitra.open("pairing")
    left = await cancelling(customer, payment)
    assert left["failure"] == open_failure("customer_cancelled")
    assert await closed(desk, session_id) == "cancelled"
    assert (await session_of(customer, session_id))["status"] == "cancelled"
    answers = await responses(world, session_id)
    assert (answers[mitra.user["id"]], answers[other.user["id"]]) == (["CANCELLED"], ["CANCELLED"])
    await refused(accepting(mitra, session_id), 409, "REQUEST_CLOSED")
    await refused(rejecting(mitra, session_id), 409, "REQUEST_CLOSED")


async def test_cancel_of_a_targeted_request_closes_its_invitation(world: World) -> None:
    customer, mitra = await friends(world)
    payment = await returning(world, customer, mitra)
    desk = await mitra.open("pairing")
    left = await cancelling(customer, payment)
    assert (left["status"], left["failure"]) == ("failed_pairing", open_failure("customer_cancelled"))
    assert await closed(desk, payment["session_id"]) == "cancelled"
    assert await responses(world, payment["session_id"]) == {mitra.user["id"]: ["CANCELLED"]}
    # the customer cancelled, so it is not a failed targeted request
    await refused(falling_back(customer, payment), 409, "NOT_TARGETED")


async def test_cancel_after_an_accept_is_refused(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    payment = await world.paid(customer)
    session_id = payment["session_id"]
    await wait_for_invitation(world, mitra, session_id)
    await accepting(mitra, session_id)
    details = {"session_id": session_id}
    assert (await refused(cancelling(customer, payment), 409, "SESSION_NOT_SEARCHING"))["details"] == details
    await end_now(world, customer, session_id)
    assert (await refused(cancelling(customer, payment), 409, "SESSION_NOT_SEARCHING"))["details"] == details
    assert (await read_payment(customer, payment))["status"] == "consumed"


async def test_cancel_of_a_failed_search_changes_nothing(world: World) -> None:
    customer, mitra = await friends(world)
    payment = await returning(world, customer, mitra)
    await rejecting(mitra, payment["session_id"])
    left = await cancelling(customer, payment)
    assert (left["status"], left["failure"]) == ("failed_pairing", open_failure("targeted_mitra_rejected"))
    assert await failures(world, payment) == [("targeted_mitra_rejected", False)]


async def test_cancel_of_an_extension_request_is_refused(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    payment = await world.request(customer, session_id=session_id, is_extension=True)
    error = await refused(cancelling(customer, payment), 409, "SESSION_NOT_SEARCHING")
    assert error["details"] == {"session_id": session_id}
    assert (await read_payment(customer, payment))["status"] == "pending"


async def test_cancel_by_another_customer_is_refused(world: World) -> None:
    customer, stranger = await world.customer(), await world.customer("Eka")
    payment = await world.paid(customer)
    for call in (cancelling, falling_back, starting):
        await refused(call(stranger, payment), 404, "NOT_FOUND")
        await refused(call(customer, {"payment_request_id": new_id()}), 404, "NOT_FOUND")
    assert (await read_payment(customer, payment))["status"] == "confirmed"


# -- the legacy routes


async def test_legacy_start_begins_a_confirmed_request_once(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    payment = await world.request(customer)
    await refused(starting(customer, payment), 409, "PAYMENT_NOT_CONFIRMED")
    await confirm_silently(world, payment)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(starting(customer, payment)) for _ in range(6)]
    [session_id] = {task.result()["id"] for task in tasks}
    assert {task.result()["status"] for task in tasks} == {"searching"}
    await wait_for_invitation(world, mitra, session_id)
    assert (await read_payment(customer, payment))["session_id"] == session_id
    await accepting(mitra, session_id)
    assert (await starting(customer, payment))["status"] == "active"
    await end_now(world, customer, session_id)
    view = await starting(customer, payment)
    assert (view["id"], view["status"]) == (session_id, "closing")


async def test_legacy_start_invites_only_the_targeted_mitra(world: World) -> None:
    (customer, mitra), other = await friends(world), await world.mitra("Bima")
    payment = await world.request(customer, targeted_mitra_id=mitra.user["id"])
    await confirm_silently(world, payment)
    session = await starting(customer, payment)
    assert (await wait_for_invitation(world, mitra, session["id"]))["kind"] == "targeted"
    await refused(accepting(other, session["id"]), 404, "NOT_FOUND")
    await rejecting(mitra, session["id"])
    await refused(starting(customer, payment), 409, "PAYMENT_NOT_CONFIRMED")  # it has failed


@pytest.mark.parametrize("paid", [False, True])
async def test_legacy_start_of_an_extension_is_refused(world: World, paid: bool) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    payment = await world.request(customer, session_id=session_id, is_extension=True)
    if paid:
        await confirm_silently(world, payment)
    await refused(starting(customer, payment), 409, "PAYMENT_NOT_CONFIRMED")


async def test_legacy_payment_routes_show_the_same_requests(world: World) -> None:
    customer = await world.customer()
    old, new = "/api/client/payment/sessions", "/api/client/payment/requests"
    made = await customer.post(old, {"duration_minutes": 12})
    place = made["payment_request_id"]
    assert await customer.get(f"{old}/{place}") == await customer.get(f"{new}/{place}") == made
    left = await customer.post(f"{old}/{place}/abandon")
    assert left["status"] == "abandoned"
    assert await customer.post(f"{new}/{place}/abandon") == left
    other = await customer.post(new, {"duration_minutes": 12})
    newer = await customer.post(old, {"duration_minutes": 30})
    assert (await read_payment(customer, other))["status"] == "abandoned"
    assert (await world.webhook(newer))[1]["processing_result"] == "confirmed"
    await refused(customer.post(old, {"duration_minutes": 12}), 409, "SESSION_IN_PROGRESS")
