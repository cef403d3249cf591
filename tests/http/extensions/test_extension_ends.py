"""An extension and the end of its session (docs/product.md#extensions, docs/product.md#grace-period).

A pending extension holds the session back, ending the session trips it, or its payment comes too late.
"""

import datetime as dt
from typing import Any

import pytest

from tests.http.extensions.steps import (
    answer_extension,
    ask_for_extension,
    chatting,
    check_safeguard_tripped,
    count,
    create_extension_payment,
    extension_of,
    request_extension,
    wait_for_event,
)
from tests.http.pairing.steps import (
    confirm_silently,
    count_deliveries,
    earned,
    expire_silently,
    failures,
    now_in,
    read_payment,
    run_out,
    session_of,
)
from tests.stack import World, open_failure, refused, within
from tools.driving.device import Device

pytestmark = pytest.mark.anyio


async def grace_is_over(world: World, *session_ids: str) -> None:
    """Let the grace period of expired sessions be over."""
    await world.stack.sql(
        f"""UPDATE chat_sessions SET paired_at = paired_at + ({now_in(world)} - interval '5 minutes' - expires_at),
              created_at = created_at - interval '1 hour',
              expires_at = {now_in(world)} - interval '5 minutes', grace_ends_at = {now_in(world)}
            WHERE id = ANY($1::uuid[]) AND status = 'expired'""",
        list(session_ids),
    )


async def held(world: World) -> tuple[Device, Device, dict[str, Any], dict[str, Any]]:
    """Create an expired session that only its pending extension holds.

    Return the customer, the mitra, the payment and the extension.
    """
    customer, mitra, session_id = await chatting(world)
    other, _, control = await chatting(world)
    for party, place in ((customer, session_id), (other, control)):
        await run_out(world, party, place)
    payment, extension = await ask_for_extension(world, customer, session_id)
    await grace_is_over(world, session_id, control)
    # The control session's grace period ended at the same time. When that session has completed, this one would have,
    # too.
    over = await world.until(lambda: session_of(other, control), lambda view: view["status"] == "completed")
    assert over["ended_by"] == "timer"
    assert (await session_of(customer, session_id))["status"] == "expired"
    return customer, mitra, payment, extension


# -- a pending extension holds the session back


async def test_pending_extension_holds_the_session_until_approval(world: World) -> None:
    customer, mitra, payment, extension = await held(world)
    await answer_extension(mitra, extension, accept=True)
    view = await session_of(customer, extension["session_id"])
    assert (view["status"], view["extended_minutes"]) == ("active", 12)
    left = dt.datetime.fromisoformat(view["expires_at"]) - (await extension_of(world, payment))["answer_by"]
    assert left > dt.timedelta(minutes=10)  # twelve minutes from the answer, which came within a minute
    assert (await read_payment(customer, payment))["status"] == "consumed"


async def test_pending_extension_holds_the_session_until_rejection(world: World) -> None:
    customer, mitra, payment, extension = await held(world)
    phone = await customer.open("chat")
    await answer_extension(mitra, extension, accept=False)
    done = await wait_for_event(phone, "session_completed", extension["session_id"], timeout=within(3))
    assert (done["session"]["status"], done["session"]["ended_by"]) == ("completed", "timer")
    assert (await read_payment(customer, payment))["failure"] == open_failure("extension_rejected", "rejected")


async def test_pending_extension_holds_the_session_until_its_timeout(world: World) -> None:
    async with world.setting(extension_default_action_on_timeout="reject"):
        customer, _, payment, extension = await held(world)
        await world.stack.sql(
            f"UPDATE session_extensions SET answer_by = {now_in(world)} WHERE id = $1", extension["id"]
        )
        await world.until(
            lambda: session_of(customer, extension["session_id"]), lambda view: view["status"] == "completed"
        )
    assert (await read_payment(customer, payment))["failure"] == open_failure("extension_rejected", "not_answered")


async def test_unpaid_extension_does_not_hold_the_session_and_is_abandoned(world: World) -> None:
    customer, _, session_id = await chatting(world)
    await run_out(world, customer, session_id)
    payment = await create_extension_payment(customer, session_id)
    await grace_is_over(world, session_id)
    await world.until(lambda: session_of(customer, session_id), lambda view: view["status"] == "completed")
    assert (await read_payment(customer, payment))["status"] == "abandoned"
    assert (await world.webhook(payment))[1]["processing_result"] == "late_payment_recorded"
    assert await failures(world, payment) == [("extension_safeguard_tripped", False)]
    assert await extension_of(world, payment) is None


# -- closing trips a pending extension


@pytest.mark.parametrize("side", ["customer", "mitra"])
@pytest.mark.parametrize("how", ["end", "closure", "early end"])
async def test_ending_the_session_trips_a_pending_extension(world: World, side: str, how: str) -> None:
    customer, mitra, session_id = await chatting(world)
    party = {"customer": customer, "mitra": mitra}[side]
    if how != "early end":
        await run_out(world, customer, session_id)
    desk, phone = await mitra.open("chat"), await customer.open("chat")
    payment, extension = await ask_for_extension(world, customer, session_id)
    path = f"/api/shared/chat/sessions/{session_id}"
    if how == "early end":
        async with world.setting(**{f"early_end_{side}_enabled": True}):
            await party.post(f"{path}/end")
    elif how == "end":
        await party.post(f"{path}/end")
    else:
        await party.post(f"{path}/closure", {"message": "sampai jumpa"})
    # Both happen in the same transaction, so a reader who sees one sees the other.
    assert (await extension_of(world, payment))["status"] == "safeguard_tripped"
    view = await session_of(customer, session_id)
    assert (view["status"], view["ended_by"], view["extended_minutes"]) == ("closing", side, 0)
    view = await read_payment(customer, payment)
    assert (view["status"], view["failure"]) == (
        "failed_pairing",
        open_failure("extension_safeguard_tripped", "session_ended"),
    )
    for socket in (desk, phone):
        resolved = await wait_for_event(socket, "extension_resolved", session_id)
        assert (resolved["extension"]["id"], resolved["extension"]["status"]) == (extension["id"], "safeguard_tripped")
        assert (await wait_for_event(socket, "session_closing", session_id))["session"]["status"] == "closing"
        assert count(socket, "session_resumed") == 0
    await refused(answer_extension(mitra, extension, accept=True), 409, "EXTENSION_RESOLVED")
    assert await earned(world, session_id) == [("session", 12000)]


async def test_ending_the_session_abandons_an_unpaid_extension(world: World) -> None:
    customer, mitra, session_id = await chatting(world)
    await run_out(world, customer, session_id)
    payment = await create_extension_payment(customer, session_id)
    await mitra.post(f"/api/shared/chat/sessions/{session_id}/end")
    view = await read_payment(customer, payment)
    assert (view["status"], view["failure"]) == ("abandoned", None)
    # If its money still comes, an operator refunds it, and no mitra is asked.
    assert (await world.webhook(payment))[1]["processing_result"] == "late_payment_recorded"
    view = await read_payment(customer, payment)
    assert (view["status"], view["failure"]) == (
        "failed_pairing",
        open_failure("extension_safeguard_tripped", "session_ended"),
    )
    assert await extension_of(world, payment) is None
    assert await count_deliveries(world, session_id, "extension_requested") == {}


# -- payments that come too late


async def end_session(world: World, customer: Device, mitra: Device, session_id: str) -> None:
    """End the session, with both goodbyes."""
    await run_out(world, customer, session_id)
    for party in (customer, mitra):
        await party.post(f"/api/shared/chat/sessions/{session_id}/closure", {"message": "sampai jumpa"})
    assert (await session_of(customer, session_id))["status"] == "completed"


async def test_extension_paid_in_time_and_reported_after_the_session_fails(world: World) -> None:
    customer, mitra, session_id = await chatting(world)
    desk, phone = await mitra.open("chat"), await customer.open("chat")
    payment = await create_extension_payment(customer, session_id)
    await expire_silently(world, payment)
    await end_session(world, customer, mitra, session_id)
    status, answer = await world.webhook(payment, paid_at=payment["created_at"])
    assert (status, answer["processing_result"]) == (200, "confirmed")
    await check_safeguard_tripped(world, customer, payment)
    resolved = await wait_for_event(phone, "extension_resolved", session_id)
    assert resolved["extension"]["status"] == "safeguard_tripped"
    await wait_for_event(desk, "session_completed", session_id)
    # The mitra receives nothing.
    assert (count(desk, "extension_requested"), count(desk, "extension_resolved")) == (0, 0)
    assert await failures(world, payment) == [("extension_safeguard_tripped", False)]


@pytest.mark.parametrize("way", ["explicit", "sweep"])
async def test_confirmed_extension_after_the_session_ended_fails(world: World, fast_world: World, way: str) -> None:
    """Simulate a process that died between confirming the payment and asking the mitra; the session ended in between."""
    here = fast_world if way == "sweep" else world  # the sweep runs every minute
    customer, mitra, session_id = await chatting(here)
    payment = await create_extension_payment(customer, session_id)
    await run_out(here, customer, session_id)
    if way == "explicit":
        await confirm_silently(here, payment)
        await mitra.post(f"/api/shared/chat/sessions/{session_id}/end")
        view = await request_extension(customer, session_id, payment)
        assert view["status"] == "safeguard_tripped"
        assert await request_extension(customer, session_id, payment) == view
    else:
        await confirm_silently(here, payment)
        await mitra.post(f"/api/shared/chat/sessions/{session_id}/end")
    await check_safeguard_tripped(here, customer, payment)
    assert await count_deliveries(here, session_id, "extension_requested") == {}


async def test_extension_paid_too_late_is_recorded_and_not_offered(world: World) -> None:
    customer, _, session_id = await chatting(world)
    payment = await create_extension_payment(customer, session_id)
    await customer.post(f"/api/client/payment/requests/{payment['payment_request_id']}/abandon")
    status, answer = await world.webhook(payment)
    assert (status, answer["processing_result"]) == (200, "late_payment_recorded")
    view = await read_payment(customer, payment)
    assert (view["status"], view["failure"]) == (
        "failed_pairing",
        open_failure("extension_safeguard_tripped", "given_up"),
    )
    assert await extension_of(world, payment) is None
    await refused(request_extension(customer, session_id, payment), 409, "PAYMENT_NOT_CONFIRMED")
    assert (await create_extension_payment(customer, session_id))[
        "status"
    ] == "pending"  # and it does not block a new request


async def test_extension_paid_in_time_and_reported_late_is_offered_to_the_mitra(world: World) -> None:
    customer, mitra, session_id = await chatting(world)
    payment = await create_extension_payment(customer, session_id)
    await expire_silently(world, payment)
    assert (await world.webhook(payment, paid_at=payment["created_at"]))[1]["processing_result"] == "confirmed"
    extension = await world.until(lambda: extension_of(world, payment), lambda found: found is not None)
    assert (await answer_extension(mitra, extension, accept=True))["status"] == "approved"


@pytest.mark.parametrize("other_is", ["pending", "confirmed", "asked"])
async def test_extension_reported_late_while_another_is_open_goes_to_an_operator(world: World, other_is: str) -> None:
    customer, mitra, session_id = await chatting(world)
    late = await create_extension_payment(customer, session_id)
    await expire_silently(world, late)
    if other_is == "asked":
        payment, extension = await ask_for_extension(world, customer, session_id)
    else:
        payment = await create_extension_payment(customer, session_id)
        if other_is == "confirmed":
            await confirm_silently(world, payment)
    status, answer = await world.webhook(late, paid_at=late["created_at"])
    assert (status, answer["processing_result"]) == (200, "paid_not_pairable")
    assert (await read_payment(customer, late))["failure"] == open_failure("extension_safeguard_tripped", "double")
    assert await failures(world, late) == [("extension_safeguard_tripped", False)]
    if other_is == "pending":
        assert (await world.webhook(payment))[1]["processing_result"] == "confirmed"
        extension = await world.until(lambda: extension_of(world, payment), lambda found: found is not None)
    if other_is == "confirmed":
        extension = await request_extension(customer, session_id, payment)
    assert (await answer_extension(mitra, extension, accept=True))["status"] == "approved"


async def test_extension_can_be_requested_again_after_its_payment_expired(world: World) -> None:
    customer, _, session_id = await chatting(world)
    payment = await create_extension_payment(customer, session_id)
    status, answer = await world.webhook(payment, status="EXPIRED")
    assert (status, answer["processing_result"]) == (200, "expired")
    assert (await create_extension_payment(customer, session_id))["status"] == "pending"
