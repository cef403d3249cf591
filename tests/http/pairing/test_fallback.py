"""A customer whose targeted mitra did not accept falls back to a blast (docs/product.md#fallback-to-a-blast)."""

import asyncio
from typing import Any

import pytest

from tests.http.pairing.steps import (
    accepting,
    acting,
    cancelling,
    closed,
    confirm_silently,
    earned,
    end_now,
    failed,
    failures,
    falling_back,
    friends,
    open_request,
    read_payment,
    rejecting,
    responses,
    returning,
    search_is_over,
    session_of,
    wait_for_invitation,
)
from tests.stack import World, at_once, outcome, refused
from tests.tiers import rounds
from tests.verdicts import check_books
from tools.driving.device import Device

pytestmark = pytest.mark.anyio

CAUSES = ("targeted_mitra_rejected", "targeted_mitra_offline", "targeted_mitra_timeout")


async def a_failure(world: World, cause: str = CAUSES[0], **wish: Any) -> tuple[Device, Device, dict[str, Any]]:
    """Return a customer, the mitra, and the customer's failed targeted request."""
    customer, mitra = await friends(world)
    async with world.setting(returning_chat_confirmation_timeout_seconds=1 if cause == CAUSES[2] else 20):
        if cause == CAUSES[2]:  # within a second a busy machine may not see the invitation
            payment = await world.paid(customer, targeted_mitra_id=mitra.user["id"], **wish)
        else:
            payment = await returning(world, customer, mitra, **wish)
        if cause == CAUSES[0]:
            await rejecting(mitra, payment["session_id"])
        if cause == CAUSES[1]:
            await mitra.post("/api/mitra/status/offline")
        assert await failed(world, customer, payment) == cause
    return customer, mitra, await read_payment(customer, payment)


# -- while the search runs


async def test_fallback_during_a_targeted_search_invites_all_in_the_same_session(world: World) -> None:
    (customer, mitra), other = await friends(world), await world.mitra("Bima")
    desk, other_desk = await mitra.open("pairing"), await other.open("pairing")
    payment = await returning(world, customer, mitra, topics=["cinta"])
    session_id = payment["session_id"]
    before = await open_request(mitra, session_id)
    view = await falling_back(customer, payment)
    assert (view["status"], view["session_id"], view["targeted_mitra_id"]) == ("confirmed", session_id, None)
    assert view["failure"] is None
    assert await closed(desk, session_id) == "cancelled"
    frame = await other_desk.wait("chat_request", where=lambda f: f["request"]["session_id"] == session_id)
    assert (frame["request"]["kind"], frame["request"]["topics"]) == ("blast", ["cinta"])
    # The blast invites the targeted mitra too, with a new invitation that has its own answer time.
    again = await wait_for_invitation(world, mitra, session_id)
    assert again["kind"] == "blast"
    assert again["answer_by"] > before["answer_by"]
    assert (await responses(world, session_id))[mitra.user["id"]] == ["CANCELLED", None]
    await accepting(mitra, session_id)
    assert await responses(world, session_id) == {
        mitra.user["id"]: ["CANCELLED", "ACCEPTED"],
        other.user["id"]: ["MISSED"],
    }
    assert await failures(world, payment) == []


async def test_second_fallback_returns_not_targeted(world: World) -> None:
    customer, mitra = await friends(world)
    payment = await returning(world, customer, mitra)
    await falling_back(customer, payment)
    await refused(falling_back(customer, payment), 409, "NOT_TARGETED")
    assert (await session_of(customer, payment["session_id"]))["status"] == "searching"


async def test_fallback_of_a_paid_request_without_a_search_starts_a_blast(world: World) -> None:
    (customer, mitra), other = await friends(world), await world.mitra("Bima")
    payment = await world.request(customer, targeted_mitra_id=mitra.user["id"])
    await confirm_silently(world, payment)
    await falling_back(customer, payment)
    begun = await world.until(lambda: read_payment(customer, payment), lambda view: view["session_id"] is not None)
    assert (await wait_for_invitation(world, other, begun["session_id"]))["kind"] == "blast"
    assert (await accepting(other, begun["session_id"]))["mitra"]["id"] == other.user["id"]


# -- after its failure


@pytest.mark.parametrize("cause", CAUSES)
async def test_fallback_after_a_failure_starts_a_new_search_with_the_same_payment(world: World, cause: str) -> None:
    customer, mitra, payment = await a_failure(world, cause, topics=["cinta"])
    other = await world.mitra("Bima")
    search = await customer.open("pairing")
    view = await falling_back(customer, payment)
    session_id = view["session_id"]
    assert (view["status"], view["failure"], view["targeted_mitra_id"]) == ("confirmed", None, None)
    assert session_id != payment["session_id"]
    told = await search.wait("pairing_status", where=lambda f: f["session_id"] == session_id)
    assert told["status"] == "searching"
    assert await failures(world, payment) == [(cause, True)]
    # A new session: the mitra may be invited again even after a rejection in the first one.
    expected = [None] if cause != "targeted_mitra_offline" else None
    assert (await responses(world, session_id)).get(mitra.user["id"]) == expected
    assert (await wait_for_invitation(world, other, session_id))["topics"] == ["cinta"]
    await accepting(other, session_id)
    view = await read_payment(customer, payment)
    assert (view["status"], view["session_id"]) == ("consumed", session_id)
    assert view["consumed_at"] is not None
    assert await earned(world, session_id) == [("session", payment["amount"])]
    assert (await session_of(customer, payment["session_id"]))["status"] == "failed"
    check_books(await world.audit())


async def test_failed_fallback_has_one_current_failure(world: World) -> None:
    customer, mitra, payment = await a_failure(world)
    view = await falling_back(customer, payment)
    await wait_for_invitation(world, mitra, view["session_id"])
    await rejecting(mitra, view["session_id"])
    assert await failed(world, customer, payment) == "all_mitras_rejected"
    assert await failures(world, payment) == [("targeted_mitra_rejected", True), ("all_mitras_rejected", False)]
    await refused(falling_back(customer, payment), 409, "NOT_TARGETED")
    operator = await world.operator()
    listed = await operator.get("/internal/failed-pairings", superseded="true", limit=200)
    ours = [one for one in listed["items"] if one["payment_request_id"] == payment["payment_request_id"]]
    assert [(one["cause_tag"], one["targeted_mitra_id"]) for one in ours] == [
        ("targeted_mitra_rejected", mitra.user["id"])
    ]


async def test_fallback_without_available_mitras_fails(world: World) -> None:
    customer, _, payment = await a_failure(world, "targeted_mitra_offline")
    view = await falling_back(customer, payment)
    await search_is_over(world, view["session_id"])
    assert await failed(world, customer, payment) == "no_mitra_available"


async def test_fallback_of_a_request_that_is_not_targeted_is_refused(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    payment = await world.request(customer)
    await refused(falling_back(customer, payment), 409, "NOT_TARGETED")  # pending
    await world.webhook(payment)
    payment = await world.until(lambda: read_payment(customer, payment), lambda view: view["session_id"] is not None)
    await refused(falling_back(customer, payment), 409, "NOT_TARGETED")  # a blast already
    await wait_for_invitation(world, mitra, payment["session_id"])
    await accepting(mitra, payment["session_id"])
    await refused(falling_back(customer, payment), 409, "NOT_TARGETED")  # it has its session
    extension = await world.request(customer, session_id=payment["session_id"], is_extension=True)
    await refused(falling_back(customer, extension), 409, "NOT_TARGETED")
    await end_now(world, customer, payment["session_id"])
    await refused(falling_back(customer, extension), 409, "NOT_TARGETED")  # abandoned
    targeted = await world.request(customer, targeted_mitra_id=mitra.user["id"])
    await refused(falling_back(customer, targeted), 409, "NOT_TARGETED")  # not paid
    await cancelling(customer, targeted)
    await refused(falling_back(customer, targeted), 409, "NOT_TARGETED")


async def test_fallback_after_an_operators_action_is_refused(world: World) -> None:
    customer, _, payment = await a_failure(world)
    await acting(world, payment)
    await refused(falling_back(customer, payment), 409, "FAILURE_ACTIONED")
    assert await failures(world, payment) == [("targeted_mitra_rejected", False)]
    assert (await read_payment(customer, payment))["status"] == "failed_pairing"


async def test_operator_action_after_a_fallback_returns_superseded(world: World) -> None:
    customer, _, payment = await a_failure(world)
    await falling_back(customer, payment)
    await refused(acting(world, payment), 409, "FAILURE_SUPERSEDED")


async def test_fallback_with_another_live_session_is_refused(world: World) -> None:
    customer, mitra, payment = await a_failure(world)
    other = await world.paid(customer)
    error = await refused(falling_back(customer, payment), 409, "SESSION_IN_PROGRESS")
    assert error["details"] == {name: other[name] for name in ("session_id", "payment_request_id")}
    await wait_for_invitation(world, mitra, other["session_id"])
    await accepting(mitra, other["session_id"])
    error = await refused(falling_back(customer, payment), 409, "SESSION_IN_PROGRESS")
    await end_now(world, customer, other["session_id"])
    view = await falling_back(customer, payment)
    assert view["status"] == "confirmed"


async def test_fallback_abandons_a_pending_request(world: World) -> None:
    customer, _, payment = await a_failure(world)
    pending = await world.request(customer)
    await falling_back(customer, payment)
    assert (await read_payment(customer, pending))["status"] == "abandoned"
    status, answer = await world.webhook(pending)
    assert (status, answer["processing_result"]) == (200, "late_payment_recorded")
    assert await failures(world, pending) == [("payment_session_expired", False)]


async def test_fallback_with_a_discount_used_elsewhere_is_refused(world: World) -> None:
    customer, _, payment = await a_failure(world)
    # A returning customer was paired before, so a targeted request has no discount; an earlier version could give one.
    await world.stack.sql(
        "UPDATE payment_requests SET is_first_session_discount = true WHERE id = $1", payment["payment_request_id"]
    )
    await refused(falling_back(customer, payment), 409, "DISCOUNT_NOT_ELIGIBLE")
    assert await failures(world, payment) == [("targeted_mitra_rejected", False)]


# -- races


async def settled(world: World, customer: Device, payment: dict[str, Any], *, superseded: int) -> dict[str, Any]:
    """Check that the request is confirmed with one running search and `superseded` earlier failures."""
    view = await read_payment(customer, payment)
    assert (view["status"], view["failure"]) == ("confirmed", None)
    assert [gone for _, gone in await failures(world, payment)] == [True] * superseded
    assert (await session_of(customer, view["session_id"]))["status"] == "searching"
    rows = await world.stack.sql(
        "SELECT count(*) FROM chat_sessions WHERE payment_request_id = $1 AND status NOT IN ('failed', 'cancelled')",
        payment["payment_request_id"],
    )
    assert rows[0][0] == 1
    return view


@pytest.mark.slow
async def test_fallback_racing_an_accept_has_one_outcome(world: World) -> None:
    customer, mitra = await friends(world)
    found = set()
    for n in range(rounds(10)):
        payment = await returning(world, customer, mitra)
        session_id = payment["session_id"]
        calls = [falling_back(customer, payment), accepting(mitra, session_id)]
        outcomes = await at_once(*(calls if n % 2 else reversed(calls)))
        fell, yes = outcomes if n % 2 else reversed(outcomes)
        found.add((fell, yes))
        if yes == "ok":  # before the fallback, or to the blast that followed it
            assert fell in {"ok", "NOT_TARGETED"}
            assert (await read_payment(customer, payment))["status"] == "consumed"
            assert await earned(world, session_id) == [("session", payment["amount"])]
            await end_now(world, customer, session_id)
        else:
            assert (fell, yes) == ("ok", "REQUEST_CLOSED")
            await settled(world, customer, payment, superseded=0)
            await cancelling(customer, payment)
    assert ("NOT_TARGETED", "ok") in found or ("ok", "ok") in found
    check_books(await world.audit())


async def test_fallback_racing_a_rejection_has_one_outcome(world: World) -> None:
    customer, mitra = await friends(world)
    other = await world.mitra("Bima")
    for n in range(rounds(10)):
        payment = await returning(world, customer, mitra)
        session_id = payment["session_id"]
        calls = [falling_back(customer, payment), rejecting(mitra, session_id)]
        outcomes = await at_once(*(calls if n % 2 else reversed(calls)))
        fell, no = outcomes if n % 2 else reversed(outcomes)
        assert (fell, no) == ("ok", "ok")  # the mitra rejects the targeted request or the blast
        first = (await session_of(customer, session_id))["status"]
        view = await settled(world, customer, payment, superseded=1 if first == "failed" else 0)
        assert (view["session_id"] != session_id) == (first == "failed")
        await wait_for_invitation(world, other, view["session_id"])
        await cancelling(customer, payment)
    check_books(await world.audit())


@pytest.mark.slow
async def test_fallback_racing_the_timeout_has_one_outcome(fast_world: World) -> None:
    world = fast_world
    customer, mitra = await friends(world)
    other = await world.mitra("Bima")
    async with world.setting(returning_chat_confirmation_timeout_seconds=6):  # a tenth of a real second
        for n in range(10):
            payment = await world.request(customer, targeted_mitra_id=mitra.user["id"])
            await world.webhook(payment)

            async def fall(payment: dict[str, Any] = payment, later: float = n * 0.012) -> str:
                await asyncio.sleep(later)
                return await outcome(falling_back(customer, payment))

            assert await fall() == "ok"
            rows = await world.stack.sql(
                "SELECT status FROM chat_sessions WHERE payment_request_id = $1", payment["payment_request_id"]
            )
            begun = await world.until(
                lambda p=payment: read_payment(customer, p), lambda view: view["session_id"] is not None
            )
            await wait_for_invitation(world, other, begun["session_id"])
            failed_ones = sum(row["status"] == "failed" for row in rows)
            assert len(await failures(world, payment)) == failed_ones <= 1
            await settled(world, customer, payment, superseded=failed_ones)
            await cancelling(customer, payment)
    check_books(await world.audit())


async def test_fallback_racing_an_operators_action_has_one_outcome(world: World) -> None:
    customer, mitra = await friends(world)
    await world.operator()
    for n in range(rounds(10)):
        payment = await returning(world, customer, mitra)
        await rejecting(mitra, payment["session_id"])
        calls = [falling_back(customer, payment), acting(world, payment)]
        outcomes = await at_once(*(calls if n % 2 else reversed(calls)))
        fell, acted = outcomes if n % 2 else reversed(outcomes)
        if fell == "ok":
            assert acted == "FAILURE_SUPERSEDED"
            await settled(world, customer, payment, superseded=1)
            await cancelling(customer, payment)
        else:
            assert (fell, acted) == ("FAILURE_ACTIONED", "ok")
            assert await failures(world, payment) == [("targeted_mitra_rejected", False)]
    check_books(await world.audit())


async def test_concurrent_fallbacks_start_one_search(world: World) -> None:
    customer, mitra = await friends(world)
    for _ in range(rounds(4)):
        payment = await returning(world, customer, mitra)
        await rejecting(mitra, payment["session_id"])
        outcomes = await at_once(*(falling_back(customer, payment) for _ in range(6)))
        assert sorted(outcomes) == ["NOT_TARGETED"] * 5 + ["ok"]
        await settled(world, customer, payment, superseded=1)
        await cancelling(customer, payment)


async def test_fallback_racing_a_cancel_has_one_outcome(world: World) -> None:
    customer, mitra = await friends(world)
    for n in range(rounds(12)):
        payment = await returning(world, customer, mitra)
        if n % 4 > 1:
            await rejecting(mitra, payment["session_id"])
        calls = [falling_back(customer, payment), cancelling(customer, payment)]
        outcomes = await at_once(*(calls if n % 2 else reversed(calls)))
        fell, left = outcomes if n % 2 else reversed(outcomes)
        assert left == "ok"
        assert fell in {"ok", "NOT_TARGETED"}
        live = [cause for cause, superseded in await failures(world, payment) if not superseded]
        view = await read_payment(customer, payment)
        # the search had failed, the cancel changed nothing, and the fallback came last
        if view["status"] == "confirmed":
            assert (n % 4 > 1, fell, live) == (True, "ok", [])
            await cancelling(customer, payment)
        else:
            assert live == ["customer_cancelled"]
    check_books(await world.audit())
