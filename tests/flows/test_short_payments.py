"""More money on an invoice that was paid short fits, or is a case for an operator: never lost, never silent
(docs/product.md#short-payments)."""

import asyncio
import datetime as dt
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from core.base.actor import Actor
from core.base.errors import DomainError
from core.desk import operator_work
from core.desk.ledger.audit import audit
from core.pairing import request as payment_request
from core.payments import confirm as payment_confirm
from core.payments.failures.rules import OperatorAction
from core.payments.gateway_calls import InvoiceCall
from core.payments.reconciliation.rules import InvoiceDifference, invoice_difference
from core.payments.reconciliation.store import known_requests
from core.payments.refunds import refund
from core.payments.views import PaymentRequestView
from tests.flows.conftest import ADDRESS, WISH, Harness
from tests.tiers import examples
from tests.verdicts import check_books

PRICE = 12_000
IN_TIME, LATE = dt.timedelta(0), dt.timedelta(minutes=30)
REQUEST = "SELECT status, amount, asked_amount, gateway_invoice_id FROM payment_requests WHERE id = $1"
# The live failures of a customer: those of the request ($2) first.
FAILURES = """SELECT id::text, cause_tag, sub_cause, amount, payment_request_id::text AS request, twin_id::text AS twin
  FROM pairing_failures WHERE customer_id = $1 AND superseded_at IS NULL
  ORDER BY payment_request_id <> $2, created_at, id"""
WEBHOOK_NOTES = "SELECT processing_error FROM webhook_logs WHERE external_id = $1 ORDER BY received_at DESC, id DESC"


class Case:
    """A request whose invoice is paid in parts."""

    def __init__(self, harness: Harness) -> None:
        self.harness, self.runtime = harness, harness.runtime
        self.customer: Actor
        self.operator: Actor
        self.request: PaymentRequestView

    async def begin(self) -> None:
        """Make the request."""
        self.customer, self.operator = await self.harness.customer(), await self.harness.operator()
        self.request = await payment_request.request_payment(self.runtime, self.customer, WISH, address=ADDRESS)
        assert self.request.amount == PRICE

    @property
    def id(self) -> str:
        return self.request.payment_request_id

    async def report(self, paid: int, *, after: dt.timedelta = IN_TIME, **more: Any) -> str:
        """Let the gateway report that this sum was paid so far, the last part this long after now."""
        paid_at = (self.runtime.now() + after).isoformat()
        return await self.harness.report_paid(self.id, PRICE, paid_amount=paid, paid_at=paid_at, **more)

    async def state(self) -> tuple[str, int, int | None]:
        """Return status, amount and asked amount of the request, and check that the audit finds nothing."""
        check_books(await audit(self.runtime, overdue=False))
        return tuple(await self.runtime.db.fetchrow(REQUEST, self.id))[:3]

    async def failures(self) -> list[Any]:
        """Return the customer's live failures, that of the request first."""
        return await self.runtime.db.fetch(FAILURES, self.customer.user_id, self.id)

    async def note(self) -> str | None:
        """Return what the log says about the last call."""
        return await self.runtime.db.fetchval(WEBHOOK_NOTES, self.id)

    async def decide(self, how: str, seen: Any = None) -> None:
        """Let the operator decide about the short payment, as `seen` before or now."""
        failure = seen or (await self.failures())[0]
        if how == "accepted":
            await payment_confirm.confirm(self.runtime, self.operator, payment_request_id=self.id)
        elif how == "refund asked":
            await refund.request(self.runtime, self.operator, failure_id=failure["id"], reason=None)
        else:
            action = OperatorAction(how)
            await operator_work.act_on_failure(
                self.runtime, self.operator, failure_id=failure["id"], action=action, note=None
            )


@pytest.fixture
def case(refunding: Harness) -> Case:
    """Return a request that waits for its money."""
    made = Case(refunding)
    refunding.run(made.begin())
    return made


def test_rest_in_time_completes_the_payment_and_its_search_begins(case: Case) -> None:
    async def play() -> None:
        assert await case.report(5_000) == "conflict"
        assert await case.state() == ("failed_pairing", 5_000, PRICE)
        assert await case.report(PRICE) == "confirmed"
        assert await case.state() == ("confirmed", PRICE, None)
        assert await case.failures() == []
        assert await case.report(PRICE) == "duplicate"

    case.harness.run(play())


def test_rest_in_several_parts_stays_on_the_worklist_with_the_whole_sum(case: Case) -> None:
    async def play() -> None:
        for paid in (5_000, 8_000, 11_999):
            assert await case.report(paid) == "conflict"
            assert await case.note() == f"paid {paid} of {PRICE}: too little"
            assert await case.state() == ("failed_pairing", paid, PRICE)
            (failure,) = await case.failures()
            assert (failure["cause_tag"], failure["sub_cause"], failure["amount"]) == ("payment_short", None, paid)
            assert await case.report(paid) == "duplicate"
        assert await case.report(8_000) == "conflict"  # the gateway says less than before
        assert await case.note() == "paid 8000, but 11999 before"
        assert await case.report(PRICE, currency="USD") == "conflict"
        assert await case.state() == ("failed_pairing", 11_999, PRICE)
        assert await case.report(PRICE + 500) == "confirmed"
        assert await case.note() == "overpaid by 500"
        assert await case.state() == ("confirmed", PRICE, None)

    case.harness.run(play())


def test_more_money_on_a_paid_invoice_is_a_duplicate_with_the_difference_in_the_log(case: Case) -> None:
    async def play() -> None:
        assert await case.report(PRICE) == "confirmed"
        assert await case.report(PRICE + 5_000) == "duplicate"
        assert await case.note() == "overpaid by 5000"
        assert await case.state() == ("confirmed", PRICE, None)

    case.harness.run(play())


@pytest.mark.parametrize("why", ["late", "given up", "another request"])
def test_whole_sum_that_can_not_lead_to_a_chat_is_a_failed_pairing_of_the_price(case: Case, why: str) -> None:
    async def play() -> None:
        if why == "given up":
            await payment_request.abandon(case.runtime, case.customer, payment_request_id=case.id)
        assert await case.report(5_000) == "conflict"
        if why == "another request":
            await case.harness.paid(case.customer)
        result = await case.report(PRICE, after=LATE if why == "late" else IN_TIME)
        assert result == ("late_payment_recorded" if why == "late" else "paid_not_pairable")
        assert await case.state() == ("failed_pairing", PRICE, None)
        failure, *_ = await case.failures()
        sub = {"late": "late", "given up": "given_up", "another request": "double"}[why]
        assert tuple(failure)[1:4] == ("payment_session_expired", sub, PRICE)
        assert await case.report(PRICE, after=LATE) == "duplicate"

    case.harness.run(play())


@pytest.mark.parametrize("how", ["accepted", "refunded", "credited", "no_action", "refund asked"])
def test_rest_of_a_decided_short_payment_is_a_failed_request_for_an_operator(case: Case, how: str) -> None:
    async def play() -> None:
        await case.report(5_000)
        await case.decide(how)
        before = await case.state()
        assert await case.report(5_000) == "duplicate"
        assert sorted(await asyncio.gather(*(case.report(PRICE) for _ in range(4)))) == ["conflict"] + ["duplicate"] * 3
        assert await case.state() == before
        assert await case.report(PRICE + 100) == "conflict"
        found = [one for one in await case.failures() if one["request"] != case.id]
        assert sorted(one["amount"] for one in found) == [100, 7_000]
        assert {(one["cause_tag"], one["sub_cause"], one["twin"]) for one in found} == {
            ("payment_session_expired", "double", case.id)
        }
        assert await case.state() == before
        row = await case.runtime.db.fetchrow(REQUEST, case.id)
        assert row["gateway_invoice_id"] is not None  # a refund that is under way needs it

    case.harness.run(play())


def test_rest_and_the_operator_at_once_lose_no_money(case: Case) -> None:
    async def play(how: str) -> None:
        await case.begin()
        await case.report(5_000)
        (failure,) = await case.failures()
        got = await asyncio.gather(case.report(PRICE), case.decide(how, failure), return_exceptions=True)
        assert got[0] in ("confirmed", "conflict")
        assert got[1] is None or isinstance(got[1], DomainError)
        status, amount, _ = await case.state()
        rest = sum(one["amount"] for one in await case.failures() if one["request"] != case.id)
        assert amount + rest == PRICE
        assert (got[0] == "confirmed") == (rest == 0)
        assert status == ("failed_pairing" if rest and how != "accepted" else "confirmed")

    for how in ("accepted", "refunded", "refund asked") * 3:
        case.harness.run(play(how))


def test_comparison_with_the_gateway_reports_a_rest_that_was_not_recorded(case: Case) -> None:
    async def differs(paid: int) -> InvoiceDifference | None:
        row = await case.runtime.db.fetchrow(REQUEST, case.id)
        call = InvoiceCall(
            invoice_id=row["gateway_invoice_id"],
            external_id=case.id,
            status="PAID",
            amount=PRICE,
            paid_amount=paid,
            currency="IDR",
            paid_at=case.runtime.now(),
            app_tag=None,
        )
        known = (await known_requests(case.runtime.db, [case.id]))[case.id]
        return invoice_difference(call, known, now=case.runtime.now())

    async def play() -> None:
        await case.report(5_000)
        assert await differs(5_000) is None
        assert await differs(PRICE) is InvoiceDifference.PAID_NOT_CONFIRMED
        await case.decide("credited")
        assert await differs(PRICE) is InvoiceDifference.PAID_NOT_FITTING
        await case.report(PRICE)
        (rest,) = [one["request"] for one in await case.failures() if one["request"] != case.id]
        known = (await known_requests(case.runtime.db, [rest]))[rest]
        assert (known.by_hand, known.issued.invoice_id) == (True, None)  # no invoice of it is looked for

    case.harness.run(play())


PARTS = st.lists(st.tuples(st.integers(1, 6_000), st.sampled_from([IN_TIME, LATE])), min_size=1, max_size=5)
DECISIONS = st.sampled_from(["accepted", "refunded", "credited", "refund asked", None])


@settings(
    max_examples=examples(25),
    deadline=None,
    database=None,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)
@given(parts=PARTS, decision=DECISIONS, at=st.integers(0, 4), repeats=st.booleans())
def test_all_money_of_an_invoice_is_in_the_books_whatever_comes_when(
    case: Case, parts: list[tuple[int, dt.timedelta]], decision: str | None, at: int, repeats: bool
) -> None:
    async def play() -> None:
        await case.begin()
        total = 0
        for n, (part, when) in enumerate(parts):
            total += part
            result = await case.report(total, after=when)
            assert result != "duplicate" or await case.note() is not None
            if repeats:
                assert await case.report(total, after=when) == "duplicate"
            if n == at and decision is not None and (await case.state())[2] is not None:
                await case.decide(decision)
            _, amount, _ = await case.state()
            rest = sum(one["amount"] for one in await case.failures() if one["twin"] == case.id)
            # More than the price of an undecided request counts as overpaid, and the log has the difference.
            assert amount + rest == total or (rest == 0 and amount == PRICE < total)

    case.harness.run(play())
