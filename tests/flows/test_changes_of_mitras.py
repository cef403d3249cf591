"""A change of a mitra takes its locks in the order of docs/architecture.md#lock-order."""

import asyncio
from collections.abc import Awaitable

import attrs
import pytest

from core.accounts.logins import codes, otp
from core.accounts.logins import erasing as login_erasing
from core.base import ids
from core.base.actor import Actor, UserType
from core.desk import operator_work
from core.desk.operator_work import MitraChange
from core.erasures.rules import RequestedBy
from core.pairing import end_by_operator, presence
from core.pairing import start as pairing_start
from core.privacy import erase
from core.privacy.erase import Requester
from core.sessions.extensions import ask as extension_ask
from core.sessions.extensions import request as extension_request
from core.sessions.extensions import store as extensions
from core.sessions.extensions.request import MoreMinutes
from tests.flows.chats import Chat, a_chat
from tests.flows.conftest import ADDRESS, WAITING, Harness

HOLD = "SELECT 1 FROM {} WHERE id = $1 FOR UPDATE"
HOLD_SESSION, HOLD_DELIVERY, HOLD_PAYMENT = map(HOLD.format, ("chat_sessions", "deliveries", "payment_requests"))
TAKE_SESSION = f"{HOLD_SESSION} NOWAIT"
NAMES = """SELECT id::text, recipient_id::text, payload::json ->> 'display_name' AS name FROM deliveries
  WHERE event = 'peer_renamed' ORDER BY id"""


async def change(harness: Harness, mitra: Actor, **values: object) -> None:
    """Change a mitra as an operator."""
    await operator_work.change_mitra(
        harness.runtime,
        await harness.operator(),
        mitra_id=mitra.user_id,
        change=MitraChange(**values),  # pyright: ignore[reportArgumentType]
        stepped_up=True,
    )


async def searching(harness: Harness) -> str:
    """Begin a search that asks all free mitras; return its session."""
    request_id = await harness.paid(await harness.customer())
    await pairing_start.start(harness.runtime, payment_request_id=request_id)
    return (await harness.session_of(request_id)).id


async def second_chat(harness: Harness, first: Chat) -> Chat:
    """Start another chat of the same mitra."""
    customer = await harness.customer()
    await presence.go_online(harness.runtime, first.mitra)
    return attrs.evolve(first, id=await harness.start_session(customer, first.mitra), customer=customer)


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("more", [{}, {"is_active": False}])
def test_new_name_waits_for_no_acknowledgement_of_the_last_one(
    clean_harness: Harness, place: int, more: dict[str, bool]
) -> None:
    async def play() -> None:
        runtime = clean_harness.runtime
        first = await a_chat(clean_harness)
        chats = [first, await second_chat(clean_harness, first)]
        await change(clean_harness, first.mitra, display_name="Ayu 1")
        before = await runtime.db.fetch(NAMES)
        assert [row["name"] for row in before] == ["Ayu 1"] * 2
        async with runtime.db.pool.acquire() as acknowledging, acknowledging.transaction():
            # One statement acknowledges the events of many users. It has locked one of them so far.
            await acknowledging.fetch(HOLD_DELIVERY, before[place]["id"])
            async with asyncio.timeout(10):
                await change(clean_harness, first.mitra, display_name="Ayu 2", **more)
            await acknowledging.fetch(HOLD_DELIVERY, before[1 - place]["id"])
            await acknowledging.execute("DELETE FROM deliveries WHERE id = $1", before[place]["id"])
        after = await runtime.db.fetch(NAMES)
        assert {row["recipient_id"]: row["name"] for row in after} == {one.customer.user_id: "Ayu 2" for one in chats}
        assert len(after) == len(chats)

    clean_harness.run(play())


@pytest.mark.parametrize(
    "values",
    [{"is_active": False}, {"phone": "+628990001234"}, {"is_active": False, "phone": "+628990001234"}],
    ids="-".join,
)
def test_change_locks_all_sessions_in_the_order_of_their_ids(clean_harness: Harness, values: dict[str, object]) -> None:
    async def play() -> None:
        runtime = clean_harness.runtime
        closing = await a_chat(clean_harness)
        operator = await clean_harness.operator()
        await end_by_operator.end(runtime, operator, session_id=closing.id, reason="ended")
        await presence.go_online(runtime, closing.mitra)
        asking = await searching(clean_harness)
        assert closing.id < asking
        async with runtime.db.pool.acquire() as batch:
            async with batch.transaction():
                await batch.fetch(HOLD_SESSION, closing.id)
                work = change(clean_harness, closing.mitra, display_name="Ayu", **values)
                task = asyncio.create_task(work)
                await clean_harness.until(WAITING, 1)
                assert await batch.fetch(TAKE_SESSION, asking)  # still free
            await task
        names = [row["name"] for row in await runtime.db.fetch(NAMES)]
        assert names == ["Ayu"]

    clean_harness.run(play())


def test_deactivation_locks_no_session_after_a_payment(clean_harness: Harness) -> None:
    async def play() -> None:
        runtime, chat = clean_harness.runtime, await a_chat(clean_harness)
        await presence.go_online(runtime, chat.mitra)
        wish = MoreMinutes(session_id=chat.id, duration_minutes=12)
        made = await extension_request.request_extension(runtime, chat.customer, wish, address=ADDRESS)
        await clean_harness.report_paid(made.payment_request_id, made.amount)
        await extension_ask.ask(runtime, payment_request_id=made.payment_request_id)
        async with runtime.db.pool.acquire() as search, search.transaction():
            async with runtime.db.pool.acquire() as paying, paying.transaction():
                await paying.fetch(HOLD_PAYMENT, made.payment_request_id)
                task = asyncio.create_task(change(clean_harness, chat.mitra, is_active=False))
                await clean_harness.until(WAITING, 1)
                # The mitra goes offline with the commit, so a search still asks them.
                await search.fetch(HOLD_SESSION, await searching(clean_harness))
            async with asyncio.timeout(10):
                await task
        assert await extensions.pending_of(runtime.db, chat.id) is None
        await presence.close_orphaned_invitations(runtime)
        left = "SELECT count(*)::int FROM chat_request_notifications WHERE mitra_id = $1 AND response IS NULL"
        assert await runtime.db.fetchval(left, chat.mitra.user_id) == 0

    clean_harness.run(play())


@pytest.mark.parametrize("then", ["another number", "erasure"])
def test_number_that_changed_during_the_wait_keeps_no_code(clean_harness: Harness, then: str) -> None:
    runtime, second = clean_harness.runtime, "+628990001235"

    def follow(mitra: Actor) -> Awaitable[object]:
        if then == "erasure":
            return erase.erase_mitra(runtime, mitra.user_id, Requester(by=RequestedBy.COMMAND_LINE))
        return change(clean_harness, mitra, phone="+628990001236")

    async def play() -> None:
        mitra = await clean_harness.mitra()
        await change(clean_harness, mitra, is_active=False)
        first = await runtime.db.fetchval("SELECT phone FROM mitras WHERE id = $1", mitra.user_id)
        async with runtime.transaction() as asking:
            async with runtime.transaction() as holding:
                await login_erasing.lock_codes(holding, first)
                changing = asyncio.create_task(change(clean_harness, mitra, phone=second))
                await clean_harness.until(WAITING, 1)
                following = asyncio.ensure_future(follow(mitra))
                await clean_harness.until(WAITING, 2)
                await codes.hold_phone(asking, second)
                await codes.create(
                    asking, otp_request_id=ids.new_id(), phone=second, ip_address="192.0.2.1", channel="sms",
                    user_type=UserType.MITRA, code_hash=None, stranger=None, send_later=False,
                    expires_at=asking.now + otp.LIFETIME,
                )  # fmt: skip
            await changing
            waiting = asyncio.create_task(clean_harness.until(WAITING, 1))
            await asyncio.wait({waiting, following}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
        await following
        kept = "SELECT count(*)::int FROM otp_requests WHERE phone = $1"
        assert await runtime.db.fetchval(kept, second) == 0
        await runtime.db.fetch("DELETE FROM otp_requests")

    clean_harness.run(play())
