"""The comparison with the gateway's refunds: what it has and we do not, the other way round, and other amounts."""

import datetime as dt
from typing import Any

import pytest

from core.base import ids
from core.base.clock import as_text
from core.base.errors import GatewayUnavailable
from core.desk import operator_work
from core.payments.failures.rules import OperatorAction
from core.payments.reconciliation.compare import Reconciliation, reconcile
from core.payments.reconciliation.rules import RefundDifference as D
from core.payments.refunds import refund
from tests.flows.conftest import Harness
from tests.http.gateway.simulated_gateway import SimulatedGateway, error_reply

LONG_AGO = dt.timedelta(hours=1)


class Books:
    """Refunds at the gateway and here."""

    def __init__(self, harness: Harness, simulated: SimulatedGateway) -> None:
        self.harness = harness
        self.simulated = simulated.refunds
        self._invoices = simulated

    async def failure(self) -> tuple[str, str]:
        """Create a failed pairing, paid with an invoice that the gateway has; return (failure, invoice)."""
        failure_id = await self.harness.failed()
        sql = """SELECT p.id::text AS request_id, p.gateway_invoice_id, p.amount
                 FROM pairing_failures AS f JOIN payment_requests AS p ON p.id = f.payment_request_id WHERE f.id = $1"""
        row = await self.harness.runtime.db.fetchrow(sql, failure_id)
        assert row is not None
        at = self.long_ago()
        paid = {"status": "PAID", "paid_at": at, "created": at, "updated": at}
        self._invoices.of(row["request_id"])[0].update(paid)
        return failure_id, row["gateway_invoice_id"]

    async def refunded(self, status: str | None = "SUCCEEDED") -> str:
        """Create a failed pairing whose refund the gateway decided an hour ago; None: not decided. Return its id."""
        failure_id, _ = await self.failure()
        await refund.request(self.harness.runtime, await self.harness.operator(), failure_id=failure_id, reason=None)
        await refund.ask_due(self.harness.runtime)
        if status is not None:
            await self.harness.call(self.simulated.settle(failure_id, status))
        self.of(failure_id).update({"created": self.long_ago(), "updated": self.long_ago()})
        return failure_id

    def of(self, failure_id: str) -> dict[str, Any]:
        """Return the gateway's refund of a failure."""
        (found,) = self.simulated.of(failure_id)
        return found

    def add(self, reference: str, invoice_id: str | None, **more: Any) -> dict[str, Any]:
        """Make a refund at the gateway."""
        at = self.long_ago()
        made = {"id": f"rfd-{ids.new_id()}", "reference_id": reference, "invoice_id": invoice_id, "amount": 12_000,
                "currency": "IDR", "status": "SUCCEEDED", "created": at, "updated": at, **more}  # fmt: skip
        self.simulated.made[made["id"]] = made
        return made

    def long_ago(self, times: int = 1) -> str:
        """Return a time of the gateway."""
        return as_text(self.harness.runtime.now() - times * LONG_AGO)

    async def compare(self) -> Reconciliation:
        """Compare the last two hours."""
        return await reconcile(self.harness.runtime, since=self.harness.runtime.now() - 2 * LONG_AGO)

    async def said(self) -> set[tuple[D, str]]:
        """Compare, and return the differences with their failures."""
        found = await self.compare()
        assert not found.findings
        return {(one.difference, one.reference) for one in found.refund_findings}


@pytest.fixture
def books(refunding: Harness, simulated: SimulatedGateway) -> Books:
    """Return the refunds of an empty service."""
    return Books(refunding, simulated)


def test_refunds_that_agree_are_counted(books: Books) -> None:
    async def play() -> None:
        for status in ("SUCCEEDED", "FAILED", None):
            await books.refunded(status)
        found = await books.compare()
        assert (found.refunds, found.requests, found.differs) == (3, 3, False)

    books.harness.run(play())


def test_refund_of_another_amount_is_found(books: Books) -> None:
    async def play() -> None:
        failure_id = await books.refunded()
        books.of(failure_id)["amount"] = 11_999
        (one,) = (await books.compare()).refund_findings
        assert (one.difference, one.reference, one.status, one.amount, one.gateway_status, one.gateway_amount) == (
            D.REFUND_AMOUNT_DIFFERS, failure_id, "succeeded", 12_000, "SUCCEEDED", 11_999,
        )  # fmt: skip

    books.harness.run(play())


def test_refund_that_was_not_paid_after_all_is_found(books: Books) -> None:
    async def play() -> None:
        failure_id = await books.refunded()
        books.of(failure_id)["status"] = "FAILED"
        assert await books.said() == {(D.REFUND_NOT_PAID, failure_id)}
        assert await books.harness.call(books.simulated.call(books.of(failure_id))) == "conflict"
        found = await books.compare()  # the log of webhook calls has it now
        assert (found.recorded, found.differs) == (1, False)

    books.harness.run(play())


def test_refund_that_the_gateway_does_not_know_is_found(books: Books) -> None:
    async def play() -> None:
        paid, pending = await books.refunded(), await books.refunded(None)
        books.simulated.made.clear()
        assert await books.said() == {(D.UNKNOWN_REFUND, paid), (D.UNKNOWN_REFUND, pending)}

    books.harness.run(play())


def test_success_after_a_failure_whose_call_was_lost_is_found(books: Books) -> None:
    async def play() -> None:
        failure_id = await books.refunded("FAILED")
        books.of(failure_id)["status"] = "SUCCEEDED"
        assert await books.said() == {(D.REFUND_NOT_RECORDED, failure_id)}
        assert await books.harness.call(books.simulated.call(books.of(failure_id))) == "refund_succeeded"
        assert await books.said() == set()

    books.harness.run(play())


def test_refund_that_a_restore_has_lost_is_found_until_an_operator_records_it(books: Books) -> None:
    async def play() -> None:
        failure_id, invoice_id = await books.failure()
        books.add(failure_id, invoice_id, metadata={"app": "sesi"})
        lost = books.add(ids.new_id(), "inv-lost", metadata={"app": "sesi"})["reference_id"]
        assert await books.said() == {(D.REFUND_NOT_RECORDED, failure_id), (D.REFUND_NOT_RECORDED, lost)}
        await operator_work.act_on_failure(
            books.harness.runtime, await books.harness.operator(), failure_id=failure_id,
            action=OperatorAction.REFUNDED, note=None,
        )  # fmt: skip
        assert await books.said() == {(D.REFUND_NOT_RECORDED, lost)}

    books.harness.run(play())


def test_refund_by_hand_at_the_gateway_is_found_while_its_failure_waits_for_an_operator(books: Books) -> None:
    async def play() -> None:
        failure_id, invoice_id = await books.failure()
        books.add("made in the dashboard", invoice_id)
        assert await books.said() == {(D.REFUND_NOT_RECORDED, failure_id)}
        await operator_work.act_on_failure(
            books.harness.runtime, await books.harness.operator(), failure_id=failure_id,
            action=OperatorAction.REFUNDED, note="in the dashboard",
        )  # fmt: skip
        found = await books.compare()
        assert (found.refunds, found.differs) == (0, False)

    books.harness.run(play())


def test_refunds_of_other_systems_are_not_compared(books: Books) -> None:
    async def play() -> None:
        _, invoice_id = await books.failure()
        books.add(ids.new_id(), invoice_id, metadata={"app": "another"})
        books.add(ids.new_id(), "inv-of-another")
        books.add("17", "inv-of-another")
        books.add("18", None)
        found = await books.compare()
        assert (found.refunds, found.differs) == (0, False)

    books.harness.run(play())


def test_refund_that_is_too_new_or_too_old_is_no_difference(books: Books) -> None:
    async def play() -> None:
        await books.failure()
        books.add(ids.new_id(), "inv-1", metadata={"app": "sesi"}, updated=as_text(books.harness.runtime.now()))
        books.add(ids.new_id(), "inv-2", metadata={"app": "sesi"}, created=books.long_ago(3))
        found = await books.compare()
        assert (found.refunds, found.under_way, found.differs) == (1, 1, False)

    books.harness.run(play())


@pytest.mark.parametrize("newest_first", [True, False])
def test_list_of_refunds_in_short_pages_is_read_as_far_as_needed(books: Books, newest_first: bool) -> None:
    async def play() -> None:
        failure_id, invoice_id = await books.failure()
        books.add(failure_id, invoice_id)
        for hours in range(3, 12):
            books.add(str(hours), "inv-of-another", created=books.long_ago(hours))
        books.simulated.most_listed, books.simulated.newest_first = 2, newest_first
        assert await books.said() == {(D.REFUND_NOT_RECORDED, failure_id)}
        assert books.simulated.looks == (2 if newest_first else 7)  # pages, the empty last one, the second look

    books.harness.run(play())


def test_gateway_that_does_not_list_refunds_is_no_success(books: Books) -> None:
    async def play() -> None:
        await books.refunded()
        books.simulated.on_refund_look = lambda _: error_reply(403, "REQUEST_FORBIDDEN_ERROR")
        with pytest.raises(GatewayUnavailable):
            await books.compare()

    books.harness.run(play())
