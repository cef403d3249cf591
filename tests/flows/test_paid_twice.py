"""Money that comes for a request after an operator has confirmed it by hand (docs/product.md#money-that-comes-late)."""

import asyncio
import datetime as dt
from typing import Any

import pytest

from core.base.actor import Actor
from core.desk import failed_pairings
from core.desk.ledger.audit import audit
from core.pairing import answer as pairing_answer
from core.pairing import cancel as pairing_cancel
from core.pairing import presence
from core.pairing import request as payment_request
from core.pairing import start as pairing_start
from core.payments import confirm as payment_confirm
from core.payments.refunds import refund
from core.payments.views import PaymentRequestView
from tests.flows.conftest import ADDRESS, READER, WISH, Harness
from tests.http.gateway.simulated_gateway import SimulatedGateway
from tests.verdicts import check_books

FAILURES = "SELECT id::text, payment_request_id::text AS request FROM pairing_failures WHERE customer_id = $1 ORDER BY created_at, id"


class Case:
    """A request that an operator has confirmed by hand, with its invoice."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.customer: Actor
        self.operator: Actor
        self.request: PaymentRequestView
        self.invoice: str

    async def begin(self, outcome: str) -> None:
        """Make the request, confirm it, and let it become what the test needs."""
        harness, runtime = self.harness, self.harness.runtime
        self.customer, self.operator = await harness.customer(), await harness.operator()
        self.request = await payment_request.request_payment(runtime, self.customer, WISH, address=ADDRESS)
        about = self.request.payment_request_id
        await payment_confirm.confirm(runtime, self.operator, payment_request_id=about)
        sql = "SELECT gateway_invoice_id FROM payment_requests WHERE id = $1"
        self.invoice = await runtime.db.fetchval(sql, about)
        if outcome == "consumed":
            mitra = await harness.mitra()
            await presence.go_online(runtime, mitra)
            await pairing_start.start(runtime, payment_request_id=about)
            await pairing_answer.accept(runtime, mitra, session_id=(await harness.session_of(about)).id)
        if outcome == "failed_pairing":
            await pairing_cancel.cancel(runtime, self.customer, payment_request_id=about)

    async def report(self, after: dt.timedelta, **more: Any) -> str:
        """Let the gateway report the invoice as paid this long after now."""
        paid_at = (self.harness.runtime.now() + after).isoformat()
        fields = {"invoice": self.invoice, "payment_channel": "QRIS", "paid_at": paid_at, **more}
        return await self.harness.report_paid(self.request.payment_request_id, self.request.amount, **fields)

    async def failures(self) -> list[Any]:
        """Return the failures of the customer, and check that the audit finds nothing."""
        check_books(await audit(self.harness.runtime, overdue=False))
        return await self.harness.runtime.db.fetch(FAILURES, self.customer.user_id)


@pytest.mark.parametrize("outcome", ["confirmed", "consumed", "failed_pairing"])
@pytest.mark.parametrize("over", [-1_000, 0, 500])
def test_payment_after_a_confirmation_by_hand_is_one_failure_of_its_own_that_can_be_refunded(
    refunding: Harness, simulated: SimulatedGateway, outcome: str, over: int
) -> None:
    case = Case(refunding)

    async def play() -> None:
        await case.begin(outcome)
        runtime, about, before = refunding.runtime, case.request.payment_request_id, await case.failures()
        paid = {"paid_amount": case.request.amount + over}
        seen = await asyncio.gather(*(case.report(dt.timedelta(minutes=2), **paid) for _ in range(4)))
        assert sorted(seen) == ["duplicate"] * 3 + ["late_payment_recorded"]
        assert await case.report(dt.timedelta(minutes=2), status="SETTLED", **paid) == "duplicate"
        status = "SELECT status FROM payment_requests WHERE id = $1"
        assert await runtime.db.fetchval(status, about) == outcome
        new = [one for one in await case.failures() if one["id"] not in {old["id"] for old in before}]
        assert len(new) == 1
        assert new[0]["request"] != about
        shown = await failed_pairings.failed_pairing(runtime, READER, new[0]["id"])
        assert (shown.amount, shown.cause_tag.value, shown.may_refund) == (
            case.request.amount + over, "payment_session_expired", True,
        )  # fmt: skip
        await refund.request(runtime, case.operator, failure_id=new[0]["id"], reason="paid twice")
        await refund.ask_due(runtime)
        assert [one["invoice_id"] for one in simulated.refunds.of(new[0]["id"])] == [case.invoice]
        await case.failures()

    refunding.run(play())


@pytest.mark.parametrize("more", [{"paid_at": None}, {}], ids=["without a time", "in the same minute"])
def test_report_of_the_money_that_the_operator_saw_changes_nothing(refunding: Harness, more: dict[str, Any]) -> None:
    case = Case(refunding)

    async def play() -> None:
        await case.begin("confirmed")
        assert await case.report(dt.timedelta(seconds=30), **more) == "duplicate"
        assert await case.failures() == []

    refunding.run(play())


def test_payment_in_another_currency_after_a_confirmation_by_hand_is_a_conflict(refunding: Harness) -> None:
    case = Case(refunding)

    async def play() -> None:
        await case.begin("confirmed")
        assert await case.report(dt.timedelta(minutes=2), currency="USD") == "conflict"
        assert await case.failures() == []

    refunding.run(play())
