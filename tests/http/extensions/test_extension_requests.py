"""Requests for extensions: who may create them, and what they cost (docs/product.md#extensions)."""

from typing import Any

import pytest

from tests.http.extensions.steps import (
    answer_extension,
    ask_for_extension,
    chatting,
    create_extension_payment,
    request_extension,
    wait_for_status,
)
from tests.http.pairing.steps import (
    accepting,
    cancelling,
    confirm_silently,
    end_now,
    failed,
    now_in,
    read_payment,
    run_out,
    session_of,
    time_is_up,
    wait_for_invitation,
)
from tests.stack import World, at_once, new_id, refused

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("mode", "minutes", "price"), [("chat", 12, 12000), ("chat", 60, 48000), ("call", 30, 40000)])
async def test_extension_has_the_price_of_its_sessions_mode(world: World, mode: str, minutes: int, price: int) -> None:
    customer, mitra, session_id = await chatting(world, mode=mode)
    payment = await create_extension_payment(customer, session_id, duration_minutes=minutes)
    assert (payment["mode"], payment["amount"], payment["duration_minutes"]) == (mode, price, minutes)
    assert (payment["is_extension"], payment["is_first_session_discount"]) == (True, False)
    assert (payment["session_id"], payment["status"], payment["targeted_mitra_id"]) == (session_id, "pending", None)
    other = {"chat": "call", "call": "chat"}[mode]
    await customer.post(f"/api/client/payment/requests/{payment['payment_request_id']}/abandon")
    error = await refused(create_extension_payment(customer, session_id, mode=other), 422, "VALIDATION_ERROR")
    assert [field["field"] for field in error["details"]["fields"]] == ["mode"]
    assert (await create_extension_payment(customer, session_id, mode=mode))["mode"] == mode
    await refused(create_extension_payment(mitra, session_id), 403, "FORBIDDEN")


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        ({"first_session_discount": True}, "first_session_discount"),
        ({"targeted_mitra_id": new_id()}, "targeted_mitra_id"),
        ({"topics": ["cinta"]}, "topics"),
        ({"duration_minutes": None}, "duration_minutes"),
        ({"session_id": None}, "session_id"),
        ({"is_extension": False}, "session_id"),
        ({"is_extension": None}, "session_id"),
    ],
)
async def test_field_that_does_not_apply_to_extensions_is_422(world: World, wish: dict[str, Any], field: str) -> None:
    customer = await world.customer()
    error = await refused(create_extension_payment(customer, new_id(), **wish), 422, "VALIDATION_ERROR")
    assert [one["field"] for one in error["details"]["fields"]] == [field]


async def test_extension_without_matching_tier_is_tier_not_found(world: World) -> None:
    customer, _, session_id = await chatting(world)
    await refused(create_extension_payment(customer, session_id, duration_minutes=13), 409, "TIER_NOT_FOUND")


async def test_extension_of_foreign_or_unknown_session_is_404(world: World) -> None:
    _, _, session_id = await chatting(world)
    stranger = await world.customer("Eka")
    for place in (session_id, new_id()):
        await refused(create_extension_payment(stranger, place), 404, "NOT_FOUND")


async def test_only_active_and_expired_sessions_are_extendable(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    search = await world.paid(customer)
    session_id = search["session_id"]
    await refused(create_extension_payment(customer, session_id), 409, "SESSION_NOT_EXTENDABLE")  # searching
    await wait_for_invitation(world, mitra, session_id)
    await accepting(mitra, session_id)
    await run_out(world, customer, session_id)
    payment = await create_extension_payment(customer, session_id)  # expired: possible
    await customer.post(f"/api/shared/chat/sessions/{session_id}/end")
    assert (await read_payment(customer, payment))["status"] == "abandoned"
    await refused(create_extension_payment(customer, session_id), 409, "SESSION_NOT_EXTENDABLE")  # closing
    for party in (customer, mitra):
        await party.post(f"/api/shared/chat/sessions/{session_id}/closure", {"message": "sampai jumpa"})
    await refused(create_extension_payment(customer, session_id), 409, "SESSION_NOT_EXTENDABLE")  # completed
    other = await world.paid(customer)
    await cancelling(customer, other)
    await refused(create_extension_payment(customer, other["session_id"]), 409, "SESSION_NOT_EXTENDABLE")  # cancelled
    again = await world.paid(customer)
    await wait_for_invitation(world, mitra, again["session_id"])
    await mitra.post(f"/api/mitra/chat-requests/{again['session_id']}/reject")
    assert await failed(world, customer, again) == "all_mitras_rejected"
    await refused(create_extension_payment(customer, again["session_id"]), 409, "SESSION_NOT_EXTENDABLE")  # failed


async def test_extendability_follows_the_clock_without_the_jobs_process(world: World) -> None:
    customer, _, session_id = await chatting(world)
    await time_is_up(world, session_id)
    payment = await create_extension_payment(customer, session_id)
    await customer.post(f"/api/client/payment/requests/{payment['payment_request_id']}/abandon")
    over = f"({now_in(world)} - interval '301 seconds')"  # a second more than the grace period, because clocks differ
    await world.stack.sql(
        f"UPDATE chat_sessions SET paired_at = paired_at + ({over} - expires_at), expires_at = {over} WHERE id = $1",
        session_id,
    )
    await refused(create_extension_payment(customer, session_id), 409, "SESSION_NOT_EXTENDABLE")
    await world.until(lambda: session_of(customer, session_id), lambda view: view["status"] != "active")


async def test_second_extension_while_one_is_open_is_refused(world: World) -> None:
    customer, mitra, session_id = await chatting(world)
    pending = await create_extension_payment(customer, session_id)

    async def check_refused_as_pending(payment: dict[str, Any]) -> None:
        error = await refused(create_extension_payment(customer, session_id), 409, "EXTENSION_PENDING")
        assert error["details"] == {"payment_request_id": payment["payment_request_id"]}

    await check_refused_as_pending(pending)  # unpaid
    await customer.post(f"/api/client/payment/requests/{pending['payment_request_id']}/abandon")
    confirmed = await create_extension_payment(customer, session_id)
    await confirm_silently(world, confirmed)
    await check_refused_as_pending(confirmed)  # paid, the mitra not asked yet
    view = await request_extension(customer, session_id, confirmed)
    await check_refused_as_pending(confirmed)  # the mitra was asked
    await answer_extension(mitra, view, accept=True)
    _, second = await ask_for_extension(world, customer, session_id)
    await refused(create_extension_payment(customer, session_id), 409, "EXTENSION_PENDING")
    await answer_extension(mitra, second, accept=False)
    assert (await create_extension_payment(customer, session_id))["status"] == "pending"


async def test_extension_beyond_the_limit_of_approved_ones_is_refused(world: World) -> None:
    customer, mitra, session_id = await chatting(world)
    async with world.setting(max_extensions_per_session=2):
        for accept in (True, False, True):  # a rejected one does not count
            _, extension = await ask_for_extension(world, customer, session_id)
            await answer_extension(mitra, extension, accept=accept)
        await refused(create_extension_payment(customer, session_id), 409, "EXTENSION_LIMIT")
        other, _, another_session = await chatting(world)
        assert (await create_extension_payment(other, another_session))["status"] == "pending"
        await refused(create_extension_payment(other, another_session), 409, "EXTENSION_PENDING")
    async with world.setting(max_extensions_per_session=3):
        outcomes = await at_once(*(create_extension_payment(customer, session_id) for _ in range(5)))
        assert sorted(outcomes) == ["EXTENSION_PENDING"] * 4 + ["ok"]
    async with world.setting(max_extensions_per_session=1):
        await refused(create_extension_payment(customer, session_id), 409, "EXTENSION_PENDING")


async def test_auto_approved_extension_counts_towards_the_limit(world: World) -> None:
    customer, _, session_id = await chatting(world)
    async with world.setting(max_extensions_per_session=1, extension_timeout_seconds=1):
        payment, _ = await ask_for_extension(world, customer, session_id)
        await wait_for_status(world, payment, "auto_approved")
        await refused(create_extension_payment(customer, session_id), 409, "EXTENSION_LIMIT")


async def test_extension_and_ordinary_request_do_not_replace_each_other(world: World) -> None:
    customer, _, session_id = await chatting(world)
    payment = await create_extension_payment(customer, session_id)
    error = await refused(world.request(customer), 409, "SESSION_IN_PROGRESS")
    assert error["details"]["session_id"] == session_id
    assert (
        error["details"]["payment_request_id"] != payment["payment_request_id"]
    )  # the payment of the session, not of the extension
    assert (await read_payment(customer, payment))["status"] == "pending"
    await end_now(world, customer, session_id)
    ordinary = await world.request(customer)
    assert (ordinary["status"], ordinary["is_extension"]) == ("pending", False)


async def test_concurrent_requests_create_one_extension(world: World) -> None:
    customer, _, session_id = await chatting(world)
    outcomes = await at_once(*(create_extension_payment(customer, session_id) for _ in range(10)))
    assert sorted(outcomes) == ["EXTENSION_PENDING"] * 9 + ["ok"]


async def test_request_repeated_with_idempotency_key_returns_the_first_answer(world: World) -> None:
    customer, _, session_id = await chatting(world)
    body = {"duration_minutes": 12, "is_extension": True, "session_id": session_id}
    headers = {"Idempotency-Key": new_id()}
    first = await customer.call("POST", "/api/client/payment/requests", body, headers=headers)
    assert await customer.call("POST", "/api/client/payment/requests", body, headers=headers) == first
