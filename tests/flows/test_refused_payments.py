"""A payment request while no mitra is available: refused if the row is on, unless the customer accepts to wait."""

import asyncio
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from core.accounts.mitras.rules import MitraOffline, NoMitraAvailable
from core.base.actor import Actor
from core.base.pages import Page
from core.pairing import presence
from core.pairing import request as payment_request
from core.pairing import start as pairing_start
from core.payments.states import PaymentStatus
from core.payments.views import PaymentRequestView
from core.sessions import own_lists
from core.sessions.extensions import request as extension_request
from core.sessions.extensions.request import MoreMinutes
from core.sessions.states import SessionStatus
from tests.flows.conftest import ADDRESS, WAITING, WISH, Harness, rows

LOCKS = {
    "account": "SELECT 1 FROM customers WHERE id = $1 FOR UPDATE",
    "earlier request": "SELECT 1 FROM payment_requests WHERE customer_id = $1 FOR UPDATE",
}
SET_ONLINE = "UPDATE mitra_online_status SET is_online = $2, last_heartbeat_at = $3 WHERE mitra_id = $1"
FREE = "UPDATE pricing_tiers SET price_idr = $1 WHERE mode = 'chat' AND minutes = 12"


@pytest.fixture
def refusing(clean_harness: Harness) -> Iterator[Harness]:
    """Yield a service that refuses payment requests while no mitra is available."""
    with rows(clean_harness.runtime, refuse_unservable_payments=True):
        yield clean_harness


async def ask(harness: Harness, customer: Actor, **changes: Any) -> PaymentRequestView:
    wish = attrs.evolve(WISH, **changes)
    return await payment_request.request_payment(harness.runtime, customer, wish, address=ADDRESS)


async def online(harness: Harness) -> Actor:
    mitra = await harness.mitra()
    await presence.go_online(harness.runtime, mitra)
    return mitra


async def statuses(harness: Harness, customer: Actor) -> list[PaymentStatus]:
    return [one.status for one in (await own_lists.payment_requests(harness.runtime, customer, Page())).items]


def test_request_without_an_available_mitra_is_accepted_by_default(clean_harness: Harness) -> None:
    customer = clean_harness.run(clean_harness.customer())
    assert clean_harness.run(ask(clean_harness, customer)).status is PaymentStatus.PENDING


def test_request_without_an_available_mitra_is_refused_unless_the_customer_accepts_to_wait(refusing: Harness) -> None:
    async def play() -> None:
        customer = await refusing.customer()
        await ask(refusing, customer, accept_wait=True)
        with pytest.raises(NoMitraAvailable):
            await ask(refusing, customer)
        assert await statuses(refusing, customer) == [PaymentStatus.PENDING]  # the earlier request is not abandoned
        mitra = await online(refusing)
        await ask(refusing, customer)
        with rows(refusing.runtime, max_customers_per_mitra=1):
            await refusing.start_session(await refusing.customer(), mitra)
            with pytest.raises(NoMitraAvailable):
                await ask(refusing, customer)  # the mitra is full

    refusing.run(play())


def test_free_request_is_refused_as_well(refusing: Harness) -> None:
    async def play() -> None:
        customer = await refusing.customer()
        await refusing.runtime.db.fetch(
            "UPDATE customers SET is_anonymous = false, phone = '+628155501234' WHERE id = $1", customer.user_id
        )
        async with refusing.runtime.transaction() as tx:
            await tx.fetch("SET LOCAL session_replication_role = replica")
            await tx.fetch(FREE, 0)
        try:
            with pytest.raises(NoMitraAvailable):
                await ask(refusing, customer)
            view = await ask(refusing, customer, accept_wait=True)
            assert (view.amount, view.status) == (0, PaymentStatus.CONFIRMED)
        finally:
            async with refusing.runtime.transaction() as tx:
                await tx.fetch("SET LOCAL session_replication_role = replica")
                await tx.fetch(FREE, 12_000)

    refusing.run(play())


def test_chosen_mitra_and_extension_keep_their_rules(refusing: Harness) -> None:
    async def play() -> None:
        customer, mitra = await refusing.customer(), await online(refusing)
        session_id = await refusing.start_session(customer, mitra)
        with rows(refusing.runtime, refuse_unservable_payments=True, max_customers_per_mitra=1):
            view = await extension_request.request_extension(
                refusing.runtime, customer, MoreMinutes(session_id=session_id, duration_minutes=12), address=ADDRESS
            )
            assert (view.is_extension, view.promised) == (True, None)
        await presence.go_offline(refusing.runtime, mitra_id=mitra.user_id)
        await refusing.runtime.db.fetch("UPDATE chat_sessions SET status = 'closing' WHERE id = $1", session_id)
        for accept_wait in (False, True):
            with pytest.raises(MitraOffline):
                await ask(refusing, customer, targeted_mitra_id=mitra.user_id, accept_wait=accept_wait)

    refusing.run(play())


@pytest.mark.parametrize("lock", LOCKS)
@pytest.mark.parametrize("comes", [True, False])
def test_mitra_who_changes_while_the_request_waits_for_a_lock_decides(
    refusing: Harness, comes: bool, lock: str
) -> None:
    async def play() -> None:
        runtime, customer, mitra = refusing.runtime, await refusing.customer(), await online(refusing)
        await ask(refusing, customer, accept_wait=True)
        if comes:
            await presence.go_offline(runtime, mitra_id=mitra.user_id)
        async with runtime.db.pool.acquire() as holder, holder.transaction():
            await holder.fetch(LOCKS[lock], customer.user_id)
            asking = asyncio.create_task(ask(refusing, customer))
            await refusing.until(WAITING, 1)
            await runtime.db.fetch(SET_ONLINE, mitra.user_id, comes, runtime.now())
        if comes:
            assert (await asking).status is PaymentStatus.PENDING
        else:
            with pytest.raises(NoMitraAvailable):
                await asking
            assert await statuses(refusing, customer) == [PaymentStatus.PENDING]

    refusing.run(play())


def test_mitra_who_leaves_after_the_request_is_waited_for(refusing: Harness) -> None:
    async def play() -> None:
        customer, mitra = await refusing.customer(), await online(refusing)
        request = await ask(refusing, customer)
        await presence.go_offline(refusing.runtime, mitra_id=mitra.user_id)
        assert await refusing.report_paid(request.payment_request_id, request.amount) == "confirmed"
        await pairing_start.start(refusing.runtime, payment_request_id=request.payment_request_id)
        assert (await refusing.session_of(request.payment_request_id)).status is SessionStatus.SEARCHING

    refusing.run(play())
