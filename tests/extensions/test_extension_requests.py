"""Who may ask to pay for more minutes, and what it costs (specification, Core rules 5; contract 4 and 6)."""

from typing import Any

import pytest

from tests.extensions.steps import answering, asking, became, chatting, put_to_her, wanting
from tests.pairing.steps import (
    accepting,
    asked,
    cancelling,
    confirm_silently,
    end_now,
    failed,
    now_in,
    run_out,
    seen,
    session_of,
    time_is_up,
)
from tests.stack import World, at_once, new_id, refused

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("mode", "minutes", "price"), [("chat", 12, 12000), ("chat", 60, 48000), ("call", 30, 40000)])
async def test_an_extension_has_the_prices_of_its_sessions_mode(
    world: World, mode: str, minutes: int, price: int
) -> None:
    customer, mitra, session_id = await chatting(world, mode=mode)
    payment = await wanting(customer, session_id, duration_minutes=minutes)
    assert (payment["mode"], payment["amount"], payment["duration_minutes"]) == (mode, price, minutes)
    assert (payment["is_extension"], payment["is_first_session_discount"]) == (True, False)
    assert (payment["session_id"], payment["status"], payment["targeted_mitra_id"]) == (session_id, "pending", None)
    other = {"chat": "call", "call": "chat"}[mode]
    await customer.post(f"/api/client/payment/requests/{payment['payment_request_id']}/abandon")
    error = await refused(wanting(customer, session_id, mode=other), 422, "VALIDATION_ERROR")
    assert [field["field"] for field in error["details"]["fields"]] == ["mode"]
    assert (await wanting(customer, session_id, mode=mode))["mode"] == mode
    await refused(wanting(mitra, session_id), 403, "FORBIDDEN")


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
async def test_what_fits_no_extension_is_refused(world: World, wish: dict[str, Any], field: str) -> None:
    customer = await world.customer()
    error = await refused(wanting(customer, new_id(), **wish), 422, "VALIDATION_ERROR")
    assert [one["field"] for one in error["details"]["fields"]] == [field]


async def test_minutes_without_a_price_are_refused(world: World) -> None:
    customer, _, session_id = await chatting(world)
    await refused(wanting(customer, session_id, duration_minutes=13), 409, "TIER_NOT_FOUND")


async def test_somebody_elses_session_is_not_there(world: World) -> None:
    _, _, session_id = await chatting(world)
    stranger = await world.customer("Eka")
    for place in (session_id, new_id()):
        await refused(wanting(stranger, place), 404, "NOT_FOUND")


async def test_what_is_not_running_and_has_not_just_run_out_is_not_extendable(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    search = await world.paid(customer)
    session_id = search["session_id"]
    await refused(wanting(customer, session_id), 409, "SESSION_NOT_EXTENDABLE")  # searching
    await asked(world, mitra, session_id)
    await accepting(mitra, session_id)
    await run_out(world, customer, session_id)
    payment = await wanting(customer, session_id)  # expired: possible
    await customer.post(f"/api/shared/chat/sessions/{session_id}/end")
    assert (await seen(customer, payment))["status"] == "abandoned"
    await refused(wanting(customer, session_id), 409, "SESSION_NOT_EXTENDABLE")  # closing
    for party in (customer, mitra):
        await party.post(f"/api/shared/chat/sessions/{session_id}/closure", {"message": "sampai jumpa"})
    await refused(wanting(customer, session_id), 409, "SESSION_NOT_EXTENDABLE")  # completed
    other = await world.paid(customer)
    await cancelling(customer, other)
    await refused(wanting(customer, other["session_id"]), 409, "SESSION_NOT_EXTENDABLE")  # cancelled
    again = await world.paid(customer)
    await asked(world, mitra, again["session_id"])
    await mitra.post(f"/api/mitra/chat-requests/{again['session_id']}/reject")
    assert await failed(world, customer, again) == "all_mitras_rejected"
    await refused(wanting(customer, again["session_id"]), 409, "SESSION_NOT_EXTENDABLE")  # failed


async def test_the_end_of_paid_time_and_of_its_grace_need_nobody_to_notice_them(world: World) -> None:
    customer, _, session_id = await chatting(world)
    await time_is_up(world, session_id)
    payment = await wanting(customer, session_id)
    await customer.post(f"/api/client/payment/requests/{payment['payment_request_id']}/abandon")
    await world.stack.sql(
        f"""UPDATE chat_sessions SET paired_at = paired_at + ({now_in(world)} - interval '5 minutes' - expires_at),
              expires_at = {now_in(world)} - interval '5 minutes' WHERE id = $1""",
        session_id,
    )
    await refused(wanting(customer, session_id), 409, "SESSION_NOT_EXTENDABLE")
    await world.until(lambda: session_of(customer, session_id), lambda view: view["status"] != "active")


async def test_there_is_one_extension_at_a_time(world: World) -> None:
    customer, mitra, session_id = await chatting(world)
    pending = await wanting(customer, session_id)

    async def stands_in_the_way(payment: dict[str, Any]) -> None:
        error = await refused(wanting(customer, session_id), 409, "EXTENSION_PENDING")
        assert error["details"] == {"payment_request_id": payment["payment_request_id"]}

    await stands_in_the_way(pending)  # being paid
    await customer.post(f"/api/client/payment/requests/{pending['payment_request_id']}/abandon")
    confirmed = await wanting(customer, session_id)
    await confirm_silently(world, confirmed)
    await stands_in_the_way(confirmed)  # paid, not asked yet
    view = await asking(customer, session_id, confirmed)
    await stands_in_the_way(confirmed)  # asked
    await answering(mitra, view, accept=True)
    _, second = await put_to_her(world, customer, session_id)
    await refused(wanting(customer, session_id), 409, "EXTENSION_PENDING")
    await answering(mitra, second, accept=False)
    assert (await wanting(customer, session_id))["status"] == "pending"


async def test_request_at_the_limit_of_approved_extensions_is_refused(world: World) -> None:
    customer, mitra, session_id = await chatting(world)
    async with world.setting(max_extensions_per_session=2):
        for accept in (True, False, True):  # a rejected one does not count
            _, extension = await put_to_her(world, customer, session_id)
            await answering(mitra, extension, accept=accept)
        await refused(wanting(customer, session_id), 409, "EXTENSION_LIMIT")
        other, _, another_session = await chatting(world)
        assert (await wanting(other, another_session))["status"] == "pending"
        await refused(wanting(other, another_session), 409, "EXTENSION_PENDING")
    async with world.setting(max_extensions_per_session=3):
        outcomes = await at_once(*(wanting(customer, session_id) for _ in range(5)))
        assert sorted(outcomes) == ["EXTENSION_PENDING"] * 4 + ["ok"]
    async with world.setting(max_extensions_per_session=1):
        await refused(wanting(customer, session_id), 409, "EXTENSION_PENDING")


async def test_extension_approved_by_silence_counts_towards_the_limit(world: World) -> None:
    customer, _, session_id = await chatting(world)
    async with world.setting(max_extensions_per_session=1, extension_timeout_seconds=1):
        payment, _ = await put_to_her(world, customer, session_id)
        await became(world, payment, "auto_approved")
        await refused(wanting(customer, session_id), 409, "EXTENSION_LIMIT")


async def test_an_extension_neither_replaces_nor_needs_an_ordinary_request(world: World) -> None:
    customer, _, session_id = await chatting(world)
    payment = await wanting(customer, session_id)
    error = await refused(world.request(customer), 409, "SESSION_IN_PROGRESS")
    assert error["details"]["session_id"] == session_id
    assert (
        error["details"]["payment_request_id"] != payment["payment_request_id"]
    )  # the session's own, not the extension's
    assert (await seen(customer, payment))["status"] == "pending"
    await end_now(world, customer, session_id)
    ordinary = await world.request(customer)
    assert (ordinary["status"], ordinary["is_extension"]) == ("pending", False)


async def test_wishes_at_once_are_one_extension(world: World) -> None:
    customer, _, session_id = await chatting(world)
    outcomes = await at_once(*(wanting(customer, session_id) for _ in range(10)))
    assert sorted(outcomes) == ["EXTENSION_PENDING"] * 9 + ["ok"]


async def test_a_wish_with_a_key_is_one_wish(world: World) -> None:
    customer, _, session_id = await chatting(world)
    body = {"duration_minutes": 12, "is_extension": True, "session_id": session_id}
    headers = {"Idempotency-Key": new_id()}
    first = await customer.call("POST", "/api/client/payment/requests", body, headers=headers)
    assert await customer.call("POST", "/api/client/payment/requests", body, headers=headers) == first
