"""Names and invoices across an account's customers: what began before the sign-in belongs to the account
(docs/product.md#the-callers-ids).
"""

import attrs
import pytest

from core.accounts.customers import edit as customer_edit
from core.base.actor import Actor
from core.base.pages import Page
from core.desk import support
from core.desk.failed_pairings import FailureFilter, failed_pairings
from core.desk.support import LookUp
from core.pairing import advance as pairing_advance
from core.pairing import cancel as pairing_cancel
from core.pairing import presence, views
from core.pairing import request as payment_request
from core.pairing import start as pairing_start
from core.payments import store as payments
from core.payments.pricing.rules import Past, Promotion, eligible
from core.sessions.messages import chats
from tests.flows.conftest import ADDRESS, READER, WISH, Harness

BY_HAND = "UPDATE payment_requests SET status = 'confirmed', confirmed_at = now() WHERE id = $1"


async def _a_chat_before_the_account(harness: Harness, *, name: str) -> tuple[Actor, Actor, Actor, str]:
    """Create an account with that name, a customer who will join it, and their session with an online mitra."""
    account, before, mitra = await harness.customer(), await harness.customer(), await harness.mitra()
    await customer_edit.set_display_name(harness.runtime, account, display_name=name)
    await presence.go_online(harness.runtime, mitra)
    return account, before, mitra, await harness.start_session(before, mitra)


def test_session_begun_before_the_account_shows_the_account_name(clean_harness: Harness) -> None:
    async def play() -> None:
        runtime = clean_harness.runtime
        account, _, mitra, session_id = await _a_chat_before_the_account(clean_harness, name="Sari")
        await presence.go_offline(runtime, mitra_id=mitra.user_id)
        left = await payment_request.request_payment(runtime, await clean_harness.customer(), WISH, address=ADDRESS)
        await clean_harness.report_paid(left.payment_request_id, left.amount)
        await pairing_start.start(runtime, payment_request_id=left.payment_request_id)
        await runtime.db.fetch("UPDATE customers SET account_belongs_to = $1 WHERE id <> $1", account.user_id)
        await presence.go_online(runtime, mitra)
        await pairing_advance.invite_available(runtime)
        (request,) = await views.chat_requests(runtime, mitra)
        assert request.customer_display_name == "Sari"
        view = await chats.session(runtime, mitra, session_id)
        assert view.customer.display_name == "Sari"
        (paid, *_) = (await support.payments(runtime, READER, Page(), LookUp(q=left.payment_request_id))).items
        assert paid.customer.display_name == "Sari"
        joined = attrs.evolve(account, ids=(account.user_id, paid.customer.id))
        await pairing_cancel.cancel(runtime, joined, payment_request_id=left.payment_request_id)
        (failure,) = (await failed_pairings(runtime, READER, Page(), FailureFilter())).items
        assert failure.customer.display_name == "Sari"

    clean_harness.run(play())


def test_support_search_by_account_finds_sessions_from_before_the_sign_in(
    clean_harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        runtime = clean_harness.runtime
        account, before, _, session_id = await _a_chat_before_the_account(clean_harness, name="Kencana")
        everything, nothing = [session_id], list[str]()
        for joined, expected in ((False, nothing), (True, everything)):
            if joined:
                joining = "UPDATE customers SET account_belongs_to = $1 WHERE id = $2"
                await runtime.db.fetch(joining, account.user_id, before.user_id)
            for few in (support.AT_MOST, 0):  # looked up one by one, or with too many matches for that
                monkeypatch.setattr(support, "AT_MOST", few)
                for q in (account.user_id, "kenc"):
                    which = LookUp(q=q)
                    chats_found = (await support.sessions(runtime, READER, Page(), which)).items
                    paid_for = (await support.payments(runtime, READER, Page(), which)).items
                    assert [one.id for one in chats_found] == expected, (q, few)
                    assert [one.session_id for one in paid_for] == expected, (q, few)

    clean_harness.run(play())


def test_request_confirmed_by_hand_keeps_the_first_paid_invoice(clean_harness: Harness) -> None:
    async def play() -> None:
        runtime, customer = clean_harness.runtime, await clean_harness.customer()
        request = await payment_request.request_payment(runtime, customer, WISH, address=ADDRESS)
        await runtime.db.fetch(BY_HAND, request.payment_request_id)
        told = [
            await clean_harness.report_paid(request.payment_request_id, request.amount, invoice=one)
            for one in ("inv-1", "inv-1", "inv-2")
        ]
        assert told == ["duplicate", "duplicate", "conflict"]
        kept = await payments.get(runtime.db, request.payment_request_id)
        assert kept is not None
        assert kept.gateway_invoice_id == "inv-1"

    clean_harness.run(play())


def test_promotion_without_modes_makes_no_customer_eligible() -> None:
    past = Past(ever_paired=False, other_discounted_request=False, anonymous=True)
    offered = Promotion(enabled=True, price_idr=2000, gimmick_price_idr=12000, duration_minutes=12, modes=["chat"])
    assert eligible(offered, past, requires_identity=False)
    assert not eligible(attrs.evolve(offered, modes=[]), past, requires_identity=False)
