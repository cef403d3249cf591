"""A customer whose targeted mitra did not accept asks another one (docs/product.md#another-mitra)."""

from collections.abc import Awaitable
from typing import Any

import pytest

from tests.http.pairing.steps import (
    accepting,
    acting,
    cancelling,
    closed,
    earned,
    end_now,
    failed,
    failures,
    falling_back,
    friends,
    read_payment,
    rejecting,
    responses,
    returning,
    session_of,
    wait_for_invitation,
)
from tests.stack import World, at_once, refused
from tests.tiers import rounds
from tests.verdicts import check_books
from tools.driving.device import Device

pytestmark = pytest.mark.anyio
PATH = "/api/client/chat/retarget"


def asking(customer: Device, payment: dict[str, Any], mitra: Device, **more: Any) -> Awaitable[Any]:
    """Ask another mitra with the same request."""
    body = {"payment_request_id": payment["payment_request_id"], "mitra_id": mitra.user["id"]}
    return customer.call("POST", PATH, body, **more)


async def three_friends(world: World) -> tuple[Device, Device, Device]:
    """Return a customer, and two mitras of earlier sessions."""
    customer, mitra = await friends(world)
    other = await world.mitra("Bima")
    await end_now(world, customer, await world.session(customer, other))
    return customer, mitra, other


async def a_rejection(world: World, **wish: Any) -> tuple[Device, Device, Device, dict[str, Any]]:
    """Return a customer, the mitra who has rejected their request, another mitra, and the failed request."""
    customer, mitra, other = await three_friends(world)
    payment = await returning(world, customer, mitra, **wish)
    await rejecting(mitra, payment["session_id"])
    return customer, mitra, other, await read_payment(customer, payment)


async def check_one_search(world: World, customer: Device, payment: dict[str, Any], *, superseded: int) -> Any:
    """Check that a request is confirmed, has one running search, and `superseded` earlier failures. Return it."""
    view = await read_payment(customer, payment)
    assert (view["status"], view["failure"]) == ("confirmed", None)
    assert [gone for _, gone in await failures(world, payment)] == [True] * superseded
    rows = await world.stack.sql(
        "SELECT status FROM chat_sessions WHERE payment_request_id = $1 AND is_live(status)",
        payment["payment_request_id"],
    )
    assert [row["status"] for row in rows] == ["searching"]
    return view


async def test_retarget_asks_the_other_mitra_with_the_same_money(world: World) -> None:
    customer, mitra, other, payment = await a_rejection(world, topics=["cinta"])
    desk, search = await other.open("pairing"), await customer.open("pairing")
    view = await asking(customer, payment, other)
    session_id = view["session_id"]
    assert (view["status"], view["failure"], view["targeted_mitra_id"]) == ("confirmed", None, other.user["id"])
    assert session_id != payment["session_id"]
    assert (view["payment_request_id"], view["amount"]) == (payment["payment_request_id"], payment["amount"])
    frame = await desk.wait("chat_request", where=lambda f: f["request"]["session_id"] == session_id)
    assert (frame["request"]["kind"], frame["request"]["topics"]) == ("targeted", ["cinta"])
    told = await search.wait("pairing_status", where=lambda f: f["session_id"] == session_id)
    assert told["status"] == "searching"
    assert await failures(world, payment) == [("targeted_mitra_rejected", True)]
    await refused(accepting(mitra, session_id), 404, "NOT_FOUND")
    assert (await accepting(other, session_id))["mitra"]["id"] == other.user["id"]
    assert await responses(world, session_id) == {other.user["id"]: ["ACCEPTED"]}
    view = await read_payment(customer, payment)
    assert (view["status"], view["session_id"]) == ("consumed", session_id)
    assert await earned(world, session_id) == [("session", payment["amount"])]
    check_books(await world.audit())


async def test_retarget_that_fails_again_can_go_on_to_a_third_mitra_or_to_all(world: World) -> None:
    customer, mitra, other, payment = await a_rejection(world)
    view = await asking(customer, payment, other)
    await wait_for_invitation(world, other, view["session_id"])
    await rejecting(other, view["session_id"])
    assert await failed(world, customer, payment) == "targeted_mitra_rejected"
    view = await asking(customer, payment, mitra)
    await wait_for_invitation(world, mitra, view["session_id"])
    await mitra.post("/api/mitra/status/offline")
    assert await failed(world, customer, payment) == "targeted_mitra_offline"
    causes = ["targeted_mitra_rejected", "targeted_mitra_rejected", "targeted_mitra_offline"]
    assert await failures(world, payment) == [(cause, n < 2) for n, cause in enumerate(causes)]
    view = await falling_back(customer, payment)
    await wait_for_invitation(world, other, view["session_id"])
    await cancelling(customer, payment)
    check_books(await world.audit())


async def test_fallback_while_the_other_mitra_is_asked_asks_all(world: World) -> None:
    customer, mitra, other, payment = await a_rejection(world)
    desk = await other.open("pairing")
    view = await asking(customer, payment, other)
    await wait_for_invitation(world, other, view["session_id"])
    assert (await falling_back(customer, payment))["session_id"] == view["session_id"]
    assert await closed(desk, view["session_id"]) == "cancelled"
    await wait_for_invitation(world, mitra, view["session_id"])
    await cancelling(customer, payment)


async def test_retarget_to_a_mitra_who_can_not_be_asked_changes_nothing(world: World) -> None:
    customer, mitra, other, payment = await a_rejection(world)
    pending = await world.request(customer)
    stranger = await world.mitra("Citra")
    await refused(asking(customer, payment, stranger), 403, "NOT_PREVIOUS_MITRA")
    error = await refused(asking(customer, payment, mitra), 422, "VALIDATION_ERROR")
    assert [fault["field"] for fault in error["details"]["fields"]] == ["mitra_id"]
    await world.session(await world.customer("Eka"), other)
    async with world.setting(max_customers_per_mitra=1):
        await refused(asking(customer, payment, other), 409, "MITRA_AT_CAPACITY")
    await other.post("/api/mitra/status/offline")
    await refused(asking(customer, payment, other), 409, "MITRA_OFFLINE")
    assert await failures(world, payment) == [("targeted_mitra_rejected", False)]
    assert await read_payment(customer, payment) == payment
    assert (await read_payment(customer, pending))["status"] == "pending"
    await other.post("/api/mitra/status/online")
    assert (await asking(customer, payment, other))["status"] == "confirmed"
    assert (await read_payment(customer, pending))["status"] == "abandoned"


async def test_retarget_of_a_request_that_has_not_failed_for_its_mitra_is_refused(world: World) -> None:
    customer, mitra, other = await three_friends(world)
    payment = await world.request(customer, targeted_mitra_id=mitra.user["id"])
    await refused(asking(customer, payment, other), 409, "NOT_TARGETED")  # not paid
    await cancelling(customer, payment)
    await refused(asking(customer, payment, other), 409, "NOT_TARGETED")  # abandoned
    payment = await returning(world, customer, mitra)
    error = await refused(asking(customer, payment, other), 409, "SESSION_IN_PROGRESS")  # the first search runs
    assert error["details"] == {name: payment[name] for name in ("session_id", "payment_request_id")}
    await cancelling(customer, payment)
    await refused(asking(customer, payment, other), 409, "NOT_TARGETED")  # customer_cancelled
    payment = await returning(world, customer, mitra)
    await accepting(mitra, payment["session_id"])
    await refused(asking(customer, payment, other), 409, "SESSION_IN_PROGRESS")
    await end_now(world, customer, payment["session_id"])
    await refused(asking(customer, payment, other), 409, "NOT_TARGETED")  # it had its session
    await refused(asking(await world.customer("Eka"), payment, other), 404, "NOT_FOUND")


async def test_retarget_with_another_live_session_is_refused(world: World) -> None:
    customer, _, other, payment = await a_rejection(world)
    running = await world.paid(customer)
    error = await refused(asking(customer, payment, other), 409, "SESSION_IN_PROGRESS")
    assert error["details"] == {name: running[name] for name in ("session_id", "payment_request_id")}
    await cancelling(customer, running)
    await asking(customer, payment, other)
    await refused(acting(world, payment), 409, "FAILURE_SUPERSEDED")


async def test_retarget_after_an_operators_action_is_refused(world: World) -> None:
    customer, _, other, payment = await a_rejection(world)
    await acting(world, payment)
    await refused(asking(customer, payment, other), 409, "FAILURE_ACTIONED")
    assert await failures(world, payment) == [("targeted_mitra_rejected", False)]


async def test_repeat_of_a_retarget_with_its_key_gets_the_first_answer(world: World) -> None:
    customer, mitra, other, payment = await a_rejection(world)
    first = await asking(customer, payment, other, headers={"Idempotency-Key": "one"})
    assert await asking(customer, payment, other, headers={"Idempotency-Key": "one"}) == first
    await refused(asking(customer, payment, mitra, headers={"Idempotency-Key": "one"}), 409, "IDEMPOTENCY_MISMATCH")
    await refused(asking(customer, payment, other, headers={"Idempotency-Key": "two"}), 409, "SESSION_IN_PROGRESS")
    assert (await session_of(customer, first["session_id"]))["status"] == "searching"


# -- races


async def test_concurrent_retargets_start_one_search(world: World) -> None:
    customer, mitra, other = await three_friends(world)
    third = await world.mitra("Citra")
    await end_now(world, customer, await world.session(customer, third))
    for _ in range(rounds(4)):
        payment = await returning(world, customer, mitra)
        await rejecting(mitra, payment["session_id"])
        outcomes = await at_once(*(asking(customer, payment, (other, third)[n % 2]) for n in range(6)))
        assert sorted(outcomes) == ["SESSION_IN_PROGRESS"] * 5 + ["ok"]
        await check_one_search(world, customer, payment, superseded=1)
        await cancelling(customer, payment)
    check_books(await world.audit())


async def test_retarget_racing_a_fallback_starts_one_search(world: World) -> None:
    customer, mitra, other = await three_friends(world)
    for n in range(rounds(6)):
        payment = await returning(world, customer, mitra)
        await rejecting(mitra, payment["session_id"])
        calls = [asking(customer, payment, other), falling_back(customer, payment)]
        outcomes = await at_once(*(calls if n % 2 else reversed(calls)))
        asked, fell = outcomes if n % 2 else reversed(outcomes)
        # A fallback that comes second turns the new targeted search into a blast.
        assert (asked, fell) in {("ok", "ok"), ("SESSION_IN_PROGRESS", "ok")}
        view = await check_one_search(world, customer, payment, superseded=1)
        assert view["targeted_mitra_id"] is None
        await cancelling(customer, payment)
    check_books(await world.audit())


async def test_retarget_racing_an_operators_refund_has_one_outcome(world: World) -> None:
    customer, mitra, other = await three_friends(world)
    await world.operator()
    for n in range(rounds(10)):
        payment = await returning(world, customer, mitra)
        await rejecting(mitra, payment["session_id"])
        calls = [asking(customer, payment, other), acting(world, payment)]
        outcomes = await at_once(*(calls if n % 2 else reversed(calls)))
        asked, acted = outcomes if n % 2 else reversed(outcomes)
        if asked == "ok":
            assert acted == "FAILURE_SUPERSEDED"
            await check_one_search(world, customer, payment, superseded=1)
            await cancelling(customer, payment)
        else:
            assert (asked, acted) == ("FAILURE_ACTIONED", "ok")
            assert await failures(world, payment) == [("targeted_mitra_rejected", False)]
    check_books(await world.audit())


async def test_retarget_racing_its_mitra_who_goes_offline_has_one_outcome(world: World) -> None:
    customer, mitra, other = await three_friends(world)
    for n in range(rounds(6)):
        payment = await returning(world, customer, mitra)
        await rejecting(mitra, payment["session_id"])
        calls = [asking(customer, payment, other), other.post("/api/mitra/status/offline")]
        outcomes = await at_once(*(calls if n % 2 else reversed(calls)))
        asked = outcomes[0] if n % 2 else outcomes[1]
        assert asked in {"ok", "MITRA_OFFLINE"}
        cause = "targeted_mitra_offline" if asked == "ok" else "targeted_mitra_rejected"
        assert await failed(world, customer, payment) == cause
        await other.post("/api/mitra/status/online")
    check_books(await world.audit())


async def test_blocked_account_and_blocked_pair_keep_their_money_and_ask_nobody(world: World) -> None:
    customer, _, other, payment = await a_rejection(world)
    block = f"/internal/customers/{customer.user['id']}"
    root = await world.operator()
    await root.post(f"{block}/block", {"reason": "insults"})
    await refused(asking(customer, payment, other), 403, "ACCOUNT_BLOCKED")
    await root.post(f"{block}/unblock")
    (met,) = await world.stack.sql(
        "SELECT id::text FROM chat_sessions WHERE customer_id = $1 AND mitra_id = $2",
        customer.user["id"],
        other.user["id"],
    )
    await other.post(f"/api/shared/chat/sessions/{met['id']}/block")
    await refused(asking(customer, payment, other), 409, "MITRA_OFFLINE")
    assert (await read_payment(customer, payment))["status"] == "failed_pairing"
    check_books(await world.audit())
