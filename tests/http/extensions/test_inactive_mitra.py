"""An extension that the mitra cannot answer is never charged (docs/product.md#deactivation).

Operators may deactivate a mitra at any moment.
"""

import asyncio
from typing import Any

import pytest

from tests.http.extensions.steps import (
    answer_extension,
    ask_for_extension,
    chatting,
    check_safeguard_tripped,
    create_extension_payment,
    deactivating,
    extension_of,
    request_extension,
    wait_for_event,
    wait_for_status,
)
from tests.http.pairing.steps import confirm_silently, earned, failures, now_in, read_payment, run_out, session_of
from tests.stack import World, outcome, refused
from tests.verdicts import check_books
from tools.driving.device import Device

pytestmark = pytest.mark.anyio

ROUNDS = 8
SIGNED_OUT = ("TOKEN_REVOKED", "REFRESH_INVALID")
TRIPPED = [("extension_safeguard_tripped", False)]


async def status_of(customer: Device, payment: dict[str, Any]) -> str:
    """Return the status of a payment request."""
    return (await read_payment(customer, payment))["status"]


async def test_request_for_a_session_of_an_inactive_mitra_is_refused(world: World) -> None:
    customer, mitra, session_id = await chatting(world)
    await deactivating(world, mitra)
    await refused(create_extension_payment(customer, session_id), 409, "SESSION_NOT_EXTENDABLE")
    assert (await session_of(customer, session_id))["status"] == "active"
    operator = await world.operator()
    await operator.call("PATCH", f"/internal/mitras/{mitra.user['id']}", {"is_active": True})
    assert (await create_extension_payment(customer, session_id))["status"] == "pending"


async def test_deactivation_trips_a_pending_extension_and_informs_the_customer(world: World) -> None:
    customer, mitra, session_id = await chatting(world)
    phone = await customer.open("chat")
    payment, extension = await ask_for_extension(world, customer, session_id)
    await deactivating(world, mitra)
    await check_safeguard_tripped(world, customer, payment, "mitra_inactive")
    frame = await wait_for_event(phone, "extension_resolved", session_id)
    assert (frame["extension"]["id"], frame["extension"]["status"]) == (extension["id"], "safeguard_tripped")
    assert await failures(world, payment) == TRIPPED
    assert await earned(world, session_id) == [("session", 12000)]
    view = await session_of(customer, session_id)
    assert (view["status"], view["extended_minutes"]) == ("active", 0)
    await world.until(lambda: outcome(answer_extension(mitra, extension, accept=True)), lambda said: said in SIGNED_OUT)


async def test_deactivation_lets_a_session_held_by_its_extension_end(world: World) -> None:
    customer, mitra, session_id = await chatting(world)
    await run_out(world, customer, session_id)
    payment, _ = await ask_for_extension(world, customer, session_id)
    await deactivating(world, mitra)
    await check_safeguard_tripped(world, customer, payment, "mitra_inactive")
    await world.stack.sql(
        f"""UPDATE chat_sessions SET created_at = created_at - interval '1 hour', grace_ends_at = {now_in(world)}
            WHERE id = $1 AND status = 'expired'""",
        session_id,
    )
    await world.until(lambda: session_of(customer, session_id), lambda view: view["status"] == "completed")


async def test_deactivation_abandons_an_unpaid_extension_and_late_money_is_recorded(world: World) -> None:
    customer, mitra, session_id = await chatting(world)
    payment = await create_extension_payment(customer, session_id)
    await deactivating(world, mitra)
    assert await status_of(customer, payment) == "abandoned"
    assert (await world.webhook(payment))[1]["processing_result"] == "late_payment_recorded"
    assert (await status_of(customer, payment), await failures(world, payment)) == ("failed_pairing", TRIPPED)
    assert await earned(world, session_id) == [("session", 12000)]


@pytest.mark.parametrize("way", ["asked explicitly", "found by the sweep"])
async def test_paid_extension_not_offered_before_deactivation_is_tripped(
    world: World, fast_world: World, way: str
) -> None:
    here = fast_world if way == "found by the sweep" else world
    customer, mitra, session_id = await chatting(here)
    payment = await create_extension_payment(customer, session_id)
    await here.stack.sql("UPDATE mitras SET is_active = false WHERE id = $1::text::uuid", mitra.user["id"])
    await confirm_silently(here, payment)
    if way == "asked explicitly":
        assert (await request_extension(customer, session_id, payment))["status"] == "safeguard_tripped"
    await check_safeguard_tripped(here, customer, payment, "mitra_inactive")
    assert await failures(here, payment) == TRIPPED
    assert await earned(here, session_id) == [("session", 12000)]


@pytest.mark.parametrize("action", ["auto_approve", "reject"])
async def test_timeout_with_an_inactive_mitra_trips_the_extension(world: World, action: str) -> None:
    customer, mitra, session_id = await chatting(world)
    async with world.setting(extension_default_action_on_timeout=action):
        payment, extension = await ask_for_extension(world, customer, session_id)
        # Not by the route, which would trip the extension. Rows of mitras that an older version deactivated look like this.
        await world.stack.sql("UPDATE mitras SET is_active = false WHERE id = $1::text::uuid", mitra.user["id"])
        await world.stack.sql(
            f"UPDATE session_extensions SET answer_by = {now_in(world)} WHERE id = $1", extension["id"]
        )
        await check_safeguard_tripped(world, customer, payment, "mitra_inactive")
    assert await earned(world, session_id) == [("session", 12000)]


# -- races


async def check_final_payment(world: World, customer: Device, session_id: str, payment: dict[str, Any]) -> str:
    """Wait until the payment is final, check that the money is counted exactly once, and return the payment's status."""
    ended = ("consumed", "failed_pairing", "abandoned")
    view = await world.until(lambda: read_payment(customer, payment), lambda found: found["status"] in ended)
    extended = (await session_of(customer, session_id))["extended_minutes"]
    if view["status"] == "consumed":
        assert (extended, await failures(world, payment)) == (12, [])
        assert await earned(world, session_id) == [("session", 12000), ("extension", 12000)]
    else:
        assert (extended, await earned(world, session_id)) == (0, [("session", 12000)])
        assert await failures(world, payment) == ([] if view["status"] == "abandoned" else TRIPPED)
    return view["status"]


@pytest.mark.slow
async def test_deactivation_racing_with_the_timeout_charges_or_trips_once(world: World) -> None:
    rounds = []
    for _ in range(ROUNDS):
        customer, mitra, session_id = await chatting(world)
        payment, extension = await ask_for_extension(world, customer, session_id)
        rounds.append((customer, mitra, session_id, payment, extension))
    await world.stack.sql(  # all are due at once; the jobs process handles them in turn
        f"UPDATE session_extensions SET answer_by = {now_in(world)} WHERE id = ANY($1::uuid[])",
        [extension["id"] for *_, extension in rounds],
    )
    first = rounds[0][3]
    await world.until(lambda: extension_of(world, first), lambda found: found["status"] != "pending")
    await asyncio.gather(*(deactivating(world, mitra) for _, mitra, *_ in rounds))
    for customer, _, session_id, payment, _ in rounds:
        assert await check_final_payment(world, customer, session_id, payment) in ("consumed", "failed_pairing")
    check_books(await world.audit())


@pytest.mark.slow
async def test_deactivation_racing_with_the_payment_takes_no_money(world: World) -> None:
    results = set()
    for n in range(ROUNDS):
        customer, mitra, session_id = await chatting(world)
        payment = await create_extension_payment(customer, session_id)
        calls = [world.webhook(payment), deactivating(world, mitra)]
        said = await asyncio.gather(*(calls if n % 2 else reversed(calls)))
        results.add((said[0] if n % 2 else said[1])[1]["processing_result"])
        assert await check_final_payment(world, customer, session_id, payment) == "failed_pairing"
    assert results <= {"confirmed", "late_payment_recorded"}
    check_books(await world.audit())


@pytest.mark.slow
async def test_deactivation_racing_with_the_answer_charges_or_trips_once(world: World) -> None:
    for n in range(ROUNDS):
        customer, mitra, session_id = await chatting(world)
        payment, extension = await ask_for_extension(world, customer, session_id)
        calls = [outcome(answer_extension(mitra, extension, accept=True)), deactivating(world, mitra)]
        said = await asyncio.gather(*(calls if n % 2 else reversed(calls)))
        yes = said[0] if n % 2 else said[1]
        assert yes in ("ok", "EXTENSION_RESOLVED", *SIGNED_OUT)
        assert await check_final_payment(world, customer, session_id, payment) == (
            "consumed" if yes == "ok" else "failed_pairing"
        )
        await wait_for_status(world, payment, "approved" if yes == "ok" else "safeguard_tripped")
    check_books(await world.audit())


@pytest.mark.slow
async def test_deactivation_racing_with_a_request_leaves_nothing_to_pay(world: World) -> None:
    for n in range(ROUNDS):
        customer, mitra, session_id = await chatting(world)
        calls = [outcome(create_extension_payment(customer, session_id)), deactivating(world, mitra)]
        said = await asyncio.gather(*(calls if n % 2 else reversed(calls)))
        wanted = said[0] if n % 2 else said[1]
        assert wanted in ("ok", "SESSION_NOT_EXTENDABLE")
        rows = await world.stack.sql("SELECT status FROM payment_requests WHERE extends_session_id = $1", session_id)
        assert [row["status"] for row in rows] == (["abandoned"] if wanted == "ok" else [])
