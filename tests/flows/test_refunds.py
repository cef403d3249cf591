"""Refunds in one process: what the gateway is asked, and what each of its answers means (docs/product.md#refunds)."""

import asyncio
import datetime as dt
import itertools
import pathlib
from typing import Any

import asyncpg
import attrs
import pytest

from core.accounts.customers import erasing
from core.base.actor import Actor
from core.base.errors import DomainError
from core.desk import failed_pairings, figures, operator_work
from core.desk.failed_pairings import FailedPairing
from core.desk.ledger.audit import audit
from core.erasures.rules import RequestedBy
from core.pairing import cancel as pairing_cancel
from core.pairing import fallback as pairing_fallback
from core.pairing import request as payment_request
from core.pairing import start as pairing_start
from core.payments import confirm as payment_confirm
from core.payments import erasing as payments_erasing
from core.payments.failures.rules import OperatorAction
from core.payments.reconciliation.store import known_refund
from core.payments.refunds import refund
from core.payments.refunds.rules import MAY_BE_REFUNDED, STUCK_AFTER
from core.payments.refunds.store import Refund
from core.privacy import erase as erasure
from core.privacy import erase_columns, erase_rest
from core.privacy.erase import Requester
from core.providers.refunds import gateway_of
from core.telemetry.cluster_series import FAILURES_OLDEST, FAILURES_OVERDUE
from tests.flows.conftest import ADDRESS, READER, WAITING, WISH, Harness
from tests.flows.test_waits import target_went_offline
from tests.http.gateway.simulated_gateway import NoReply, Reply, SimulatedGateway, error_reply
from tests.verdicts import check_books

NEXT = dt.timedelta(seconds=15)
ROOT = pathlib.Path(__file__).parents[2]


class Desk:
    """A failed pairing and the operator who acts on it."""

    def __init__(self, harness: Harness, simulated: SimulatedGateway) -> None:
        self.harness = harness
        self.simulated = simulated.refunds
        self.operator: Actor
        self.failure_id: str

    async def begin(self, **more: Any) -> None:
        """Create the failure and the operator."""
        self.operator, self.failure_id = await self.harness.operator(), await self.harness.failed(**more)

    async def click(self) -> None:
        """Ask for the refund."""
        await refund.request(self.harness.runtime, self.operator, failure_id=self.failure_id, reason="maaf")

    async def ask(self) -> int:
        """Ask the gateway about what is due, after all pauses are over."""
        await self.harness.runtime.db.fetch(
            "UPDATE refunds SET ask_at = requested_at WHERE status IN ('requested', 'pending')"
        )
        return await refund.ask_due(self.harness.runtime)

    async def act(self, action: OperatorAction = OperatorAction.CREDITED, note: str | None = None) -> None:
        """Record an action by hand."""
        await operator_work.act_on_failure(
            self.harness.runtime, self.operator, failure_id=self.failure_id, action=action, note=note
        )

    async def view(self) -> FailedPairing:
        """Return the failure."""
        return await failed_pairings.failed_pairing(self.harness.runtime, READER, self.failure_id)

    async def status(self) -> tuple[str | None, str | None]:
        """Return (status of the refund, operator's action), and check that the audit finds nothing."""
        found = await self.view()
        check_books(await audit(self.harness.runtime, overdue=False))
        return found.refund and found.refund.status.value, found.operator_action and found.operator_action.value

    async def refused(self, work: Any) -> str:
        """Return the code with which a call is refused."""
        with pytest.raises(DomainError) as caught:
            await work
        return caught.value.code


@pytest.fixture
def desk(refunding: Harness, simulated: SimulatedGateway) -> Desk:
    """Return a desk with a failure that was paid by QRIS."""
    made = Desk(refunding, simulated)
    refunding.run(made.begin())
    return made


def test_refund_is_made_once_and_settled_by_the_webhook(desk: Desk) -> None:
    async def play() -> None:
        await desk.click()
        await desk.click()  # changes nothing
        assert await desk.status() == ("requested", None)
        assert await desk.refused(desk.act()) == "REFUND_PENDING"
        assert await desk.ask() == 1
        assert await desk.status() == ("pending", None)
        assert await desk.refused(desk.act()) == "REFUND_PENDING"
        ((wanted,), (made,)) = desk.simulated.asked, desk.simulated.of(desk.failure_id)
        assert wanted == {
            "reference_id": desk.failure_id, "invoice_id": made["invoice_id"], "amount": 12000, "currency": "IDR",
            "reason": "CANCELLATION", "metadata": {"app": "sesi"}, "key": desk.failure_id,
        }  # fmt: skip
        call = desk.simulated.settle(desk.failure_id)
        assert await desk.harness.call(call) == "refund_succeeded"
        assert await desk.harness.call(call) == "duplicate"
        assert await desk.status() == ("succeeded", "refunded")
        assert await desk.refused(desk.click()) == "ALREADY_ACTIONED"
        assert await desk.refused(desk.act()) == "ALREADY_ACTIONED"
        assert await desk.harness.call(desk.simulated.settle(desk.failure_id, "FAILED")) == "conflict"
        assert await desk.status() == ("succeeded", "refunded")

    desk.harness.run(play())


def test_lost_webhook_is_made_up_for_by_asking(desk: Desk) -> None:
    async def play() -> None:
        await desk.click()
        await desk.ask()
        desk.simulated.settle(desk.failure_id)
        assert await desk.ask() == 1
        assert await desk.status() == ("succeeded", "refunded")
        assert await desk.ask() == 0

    desk.harness.run(play())


def test_webhook_before_the_answer_to_our_call_settles_the_refund(desk: Desk) -> None:
    async def play() -> None:
        await desk.click()
        desk.simulated.after_refund = lambda _: error_reply(503, "SERVER_ERROR")
        await desk.ask()
        assert await desk.status() == ("requested", None)
        call = desk.simulated.settle(desk.failure_id)
        assert await desk.harness.call({**call, "data": call}) == "refund_succeeded"  # nested once more
        assert await desk.status() == ("succeeded", "refunded")

    desk.harness.run(play())


@pytest.mark.parametrize("lost", ["before", "after", "503", "409", "403", "unreadable", "another"])
def test_unknown_outcome_is_asked_after_and_made_at_most_once(desk: Desk, lost: str) -> None:
    answers: dict[str, Reply] = {
        "503": error_reply(503, "SERVER_ERROR"),
        "409": error_reply(409, "DUPLICATE_ERROR"),
        "403": error_reply(403, "REQUEST_FORBIDDEN_ERROR"),
        "unreadable": Reply(status=200, body=b"<html>"),
        "another": Reply(status=200, body={"id": "rfd-x", "reference_id": "another", "status": "SUCCEEDED"}),
    }

    def lose(_: dict[str, Any]) -> Reply | None:
        if lost in answers:
            return answers[lost]
        raise NoReply

    async def play() -> None:
        await desk.click()
        setattr(desk.simulated, "before_refund" if lost == "before" else "after_refund", lose)
        for _ in range(3):
            await desk.ask()
            assert (await desk.status())[0] in ("requested", "pending")
        desk.simulated.answer_normally()
        await desk.ask()
        assert await desk.status() == ("pending", None)
        assert len(desk.simulated.of(desk.failure_id)) == 1
        assert {one["key"] for one in desk.simulated.asked} == {desk.failure_id}
        assert len(desk.simulated.asked) == (4 if lost == "before" else 1)

    desk.harness.run(play())


def test_declined_refund_may_be_asked_for_again(desk: Desk) -> None:
    async def play() -> None:
        await desk.click()
        desk.simulated.before_refund = lambda _: error_reply(400, "REFUND_NOT_SUPPORTED")
        await desk.ask()
        found = await desk.view()
        assert await desk.status() == ("failed", None)
        assert found.refund is not None
        assert (found.refund.failure_code, found.may_refund) == ("REFUND_NOT_SUPPORTED", True)
        await desk.click()
        assert await desk.status() == ("requested", None)
        desk.simulated.answer_normally()
        await desk.ask()
        assert await desk.status() == ("pending", None)
        await desk.harness.call(desk.simulated.settle(desk.failure_id))
        assert await desk.status() == ("succeeded", "refunded")

    desk.harness.run(play())


@pytest.mark.parametrize("how", ["webhook", "poll", "already refunded"])
def test_refund_that_may_have_happened_is_not_tried_again_but_recorded_by_hand(desk: Desk, how: str) -> None:
    async def play() -> None:
        await desk.click()
        if how == "already refunded":
            desk.simulated.before_refund = lambda _: error_reply(400, "MAXIMUM_REFUND_AMOUNT_REACHED")
            await desk.ask()
        else:
            await desk.ask()
            call = desk.simulated.settle(desk.failure_id, "FAILED", failure_code="REFUND_FAILED")
            if how == "webhook":
                assert await desk.harness.call(call) == "refund_failed"
                assert await desk.harness.call(call) == "duplicate"
            else:
                await desk.ask()
        assert await desk.status() == ("failed", None)
        assert not (await desk.view()).may_refund
        assert await desk.refused(desk.click()) == "NOT_REFUNDABLE"
        await desk.act(OperatorAction.REFUNDED)
        assert await desk.status() == ("failed", "refunded")

    desk.harness.run(play())


def test_refund_that_failed_for_want_of_balance_is_made_anew_by_another_reference(desk: Desk) -> None:
    async def play() -> None:
        references = []
        for _ in range(2):
            await desk.click()
            await desk.ask()
            reference = desk.simulated.asked[-1]["reference_id"]
            references.append(reference)
            call = desk.simulated.settle(reference, "FAILED", failure_code="INSUFFICIENT_BALANCE")
            assert await desk.harness.call(call) == "refund_failed"
            view = await desk.view()
            assert (view.may_refund, view.refundable) == (True, True)
        await desk.click()
        await desk.click()  # changes nothing
        await desk.ask()
        assert await desk.harness.call(desk.simulated.settle(references[0], "FAILED")) == "duplicate"
        assert await desk.harness.call(desk.simulated.settle(references[0])) == "conflict"
        assert await desk.status() == ("pending", None)
        last = desk.simulated.asked[-1]
        assert last["key"] == last["reference_id"] not in references
        assert references[0] == desk.failure_id
        assert await desk.harness.call(desk.simulated.settle(last["reference_id"])) == "refund_succeeded"
        assert await desk.status() == ("succeeded", "refunded")
        assert (await desk.view()).refundable is False

    desk.harness.run(play())


@pytest.mark.parametrize("attempts", [2, 3, *(pytest.param(n, marks=pytest.mark.slow) for n in (4, 5))])
def test_call_about_any_attempt_finds_its_refund_in_every_order(desk: Desk, attempts: int) -> None:
    """The gateway has each attempt by another reference; its calls come late, and in any order."""
    make = desk.simulated.call
    refunds: list[dict[str, Any]] = []

    async def fail() -> None:
        """Ask for the refund, which fails at the gateway for want of balance."""
        await desk.click()
        sql = "SELECT coalesce(reference, failure_id)::text FROM refunds WHERE failure_id = $1"
        reference = await desk.harness.runtime.db.fetchval(sql, desk.failure_id)
        refunds.append({"id": f"rfd-{reference}", "reference_id": reference, "amount": 12000, "currency": "IDR"})
        code = {"status": "FAILED", "failure_code": "INSUFFICIENT_BALANCE"}
        assert await desk.harness.call(make({**refunds[-1], **code})) == "refund_failed"

    async def play(order: tuple[int, ...], status: str) -> None:
        refunds.clear()
        await desk.begin()
        for _ in range(attempts - 1):
            await fail()
        await desk.click()
        last = await desk.harness.runtime.db.fetchval(
            "SELECT reference::text FROM refunds WHERE failure_id = $1", desk.failure_id
        )
        refunds.append({**refunds[0], "id": f"rfd-{last}", "reference_id": last})
        is_paid = False
        for n in order:
            result = await desk.harness.call(make({**refunds[n], "status": status}))
            if n == attempts - 1:
                assert result == ("refund_succeeded" if status == "SUCCEEDED" else "refund_failed")
                is_paid = status == "SUCCEEDED"
            else:
                assert result == ("conflict" if status == "SUCCEEDED" else "duplicate")
            found = await desk.view()
            assert found.refund is not None
            assert (found.refund.status.value == "succeeded", found.operator_action == "refunded") == (is_paid, is_paid)
        reader = desk.harness.runtime.db
        known = [await known_refund(reader, one["reference_id"]) for one in refunds]
        assert [one and one.amount for one in known] == [12000] * attempts
        customer = await reader.fetchval("SELECT customer_id FROM pairing_failures WHERE id = $1", desk.failure_id)
        names, _ = await payments_erasing.external_ids(reader, [customer])
        assert {one["reference_id"] for one in refunds} <= set(names)

    for order in itertools.permutations(range(attempts)):
        for status in ("SUCCEEDED", "FAILED") if attempts < 4 else ("SUCCEEDED",):
            desk.harness.run(play(order, status))
    check_books(desk.harness.run(audit(desk.harness.runtime, overdue=False)))


@pytest.mark.parametrize("code", sorted(MAY_BE_REFUNDED))
def test_refund_that_may_have_happened_refuses_the_fallback_to_a_blast(
    desk: Desk, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        runtime, (customer, request) = desk.harness.runtime, await target_went_offline(desk.harness)
        await pairing_start.start(runtime, payment_request_id=request)
        sql = "SELECT id::text FROM pairing_failures WHERE payment_request_id = $1"
        desk.failure_id = await runtime.db.fetchval(sql, request)
        await desk.click()
        if code == "AMOUNT_DIFFERS":
            await desk.ask()
            desk.simulated.settle(desk.failure_id, amount=11000)
        else:
            desk.simulated.before_refund = lambda _: error_reply(400, code)
        await desk.ask()
        found = await desk.view()
        assert found.refund is not None
        assert found.refund.failure_code == code
        again = pairing_fallback.fall_back(runtime, customer, payment_request_id=request)
        assert await desk.refused(again) == "FAILURE_ACTIONED"
        monkeypatch.setattr(Refund, "bars_another_try", False)  # the database refuses it as well
        with pytest.raises(asyncpg.CheckViolationError):
            await pairing_fallback.fall_back(runtime, customer, payment_request_id=request)
        assert await desk.status() == ("failed", None)

    desk.harness.run(play())


def test_success_after_a_failure_counts_unless_an_operator_has_acted(desk: Desk) -> None:
    async def play(acted: bool) -> None:
        await desk.begin()
        await desk.click()
        await desk.ask()
        await desk.harness.call(desk.simulated.settle(desk.failure_id, "FAILED"))
        if acted:
            await desk.act()
        result = await desk.harness.call(desk.simulated.settle(desk.failure_id))
        assert result == ("conflict" if acted else "refund_succeeded")
        assert await desk.status() == (("failed", "credited") if acted else ("succeeded", "refunded"))

    desk.harness.run(play(False))
    desk.harness.run(play(True))


def test_call_with_another_amount_or_refund_is_a_conflict_and_the_gateway_is_asked(desk: Desk) -> None:
    async def play() -> None:
        await desk.click()
        await desk.ask()
        (made,) = desk.simulated.of(desk.failure_id)
        won = {**made, "status": "SUCCEEDED"}
        for wrong in ({"amount": 11999}, {"amount": "12000"}, {"currency": "PHP"}, {"id": "rfd-other"}):
            assert await desk.harness.call(desk.simulated.call({**won, **wrong})) == "conflict"
        assert await desk.status() == ("pending", None)
        assert await refund.ask_due(desk.harness.runtime) == 1  # due at once, because of the conflict
        assert await desk.status() == ("pending", None)

    desk.harness.run(play())


def test_refund_of_another_amount_at_the_gateway_ends_as_failed_and_is_logged(desk: Desk) -> None:
    async def play() -> None:
        await desk.click()
        await desk.ask()
        desk.simulated.settle(desk.failure_id, amount=11000)
        await desk.ask()
        found = await desk.view()
        assert found.refund is not None
        assert (found.refund.status.value, found.refund.failure_code) == ("failed", "AMOUNT_DIFFERS")
        assert not found.may_refund
        sql = "SELECT source, processing_result FROM webhook_logs WHERE external_id = $1"
        rows = await desk.harness.runtime.db.fetch(sql, desk.failure_id)
        assert [tuple(row) for row in rows] == [("poll", "conflict")]
        await desk.act(OperatorAction.REFUNDED)
        assert await desk.status() == ("failed", "refunded")

    desk.harness.run(play())


def test_calls_about_other_refunds_are_recorded_and_change_nothing(desk: Desk) -> None:
    async def play() -> None:
        make = desk.simulated.call
        other = {"id": "rfd-1", "status": "SUCCEEDED", "amount": 12000, "currency": "IDR"}
        assert await desk.harness.call(make({**other, "reference_id": desk.failure_id})) == "unknown_external_id"
        assert await desk.harness.call(make({**other, "reference_id": desk.operator.user_id})) == "unknown_external_id"
        assert await desk.harness.call(make({**other, "reference_id": "by hand"})) == "ignored_non_uuid_external_id"
        assert await desk.harness.call(make({**other, "reference_id": None})) == "ignored_non_uuid_external_id"
        foreign = {"reference_id": desk.failure_id, "metadata": {"app": "other"}}
        assert await desk.harness.call(make({**other, **foreign})) == "ignored_foreign_app"
        nothing = make({**other, "reference_id": desk.failure_id, "id": None})
        assert await desk.harness.call(nothing) == "invalid_payload"
        assert await desk.harness.call({"event": "refund.succeeded"}) == "ignored_non_uuid_external_id"
        assert await desk.status() == (None, None)

    desk.harness.run(play())


@pytest.mark.parametrize(
    ("channel", "refundability", "refundable"),
    [
        ("QRIS", "some_issuers", True), ("ID_DANA", "refunds", True), ("SHOPEEPAY", "refunds", True),
        ("BCA", "no_refunds", False), ("OVO", "no_refunds", False), ("NEWPAY", "unknown", None), (None, "unknown", None),
    ],
)  # fmt: skip
def test_channel_says_whether_the_gateway_refunds(
    desk: Desk, channel: str | None, refundability: str, refundable: bool | None
) -> None:
    async def play() -> None:
        await desk.begin(channel=channel)
        found = await desk.view()
        assert (found.refundability.value, found.refundable) == (refundability, refundable)
        assert found.payment_channel == (channel and channel.removeprefix("ID_"))
        assert found.may_refund == (refundable is not False)
        if refundable is False:
            assert await desk.refused(desk.click()) == "NOT_REFUNDABLE"
            assert await desk.status() == (None, None)
        else:
            await desk.click()

    desk.harness.run(play())


def test_payment_confirmed_by_hand_is_refundable_once_the_gateway_reports_it(desk: Desk) -> None:
    async def play() -> None:
        runtime, customer = desk.harness.runtime, await desk.harness.customer()
        request = await payment_request.request_payment(runtime, customer, WISH, address=ADDRESS)
        about = request.payment_request_id
        await payment_confirm.confirm(runtime, desk.operator, payment_request_id=about)
        invoice = await runtime.db.fetchval("SELECT gateway_invoice_id FROM payment_requests WHERE id = $1", about)
        await pairing_cancel.cancel(runtime, customer, payment_request_id=about)
        sql = "SELECT id::text FROM pairing_failures WHERE payment_request_id = $1"
        desk.failure_id = await runtime.db.fetchval(sql, about)
        assert await desk.refused(desk.click()) == "NOT_REFUNDABLE"
        report = {"invoice": invoice, "payment_channel": "QRIS"}
        assert await desk.harness.report_paid(about, request.amount - 1, **report) == "duplicate"
        assert (await desk.view()).payment_channel is None
        assert await desk.harness.report_paid(about, request.amount, **report) == "duplicate"
        assert (await desk.view()).payment_channel == "QRIS"
        await desk.click()
        assert await desk.status() == ("requested", None)

    desk.harness.run(play())


def test_refund_that_ends_after_an_erasure_writes_nothing_personal(desk: Desk) -> None:
    async def play() -> None:
        runtime = desk.harness.runtime
        await desk.click()
        await desk.ask()
        other = await desk.harness.failed()
        async with runtime.transaction() as tx:
            customers = [row["id"] for row in await tx.fetch("SELECT id::text FROM customers")]
            await erase_columns.blank_identity(tx, customers)
            await erasing.mark_erased(tx, customers)
        await runtime.db.fetch("DELETE FROM deliveries")
        await desk.harness.call(desk.simulated.settle(desk.failure_id))
        assert await desk.status() == ("succeeded", "refunded")
        desk.failure_id = other
        await desk.click()
        desk.simulated.before_refund = lambda _: error_reply(400, "REFUND_NOT_SUPPORTED")
        await desk.ask()
        await desk.act(note="transferred to Dewi")
        assert await desk.status() == ("failed", "credited")
        assert await runtime.db.fetchval("SELECT count(*) FROM deliveries") == 0
        texts = "SELECT f.note, r.reason FROM refunds r JOIN pairing_failures f ON f.id = r.failure_id WHERE f.id = $1"
        assert tuple(await runtime.db.fetchrow(texts, other)) == (None, None)
        log = "SELECT count(*) FROM operator_audit_log WHERE object_id = $1 AND after::text ~ 'Dewi|maaf'"
        assert await runtime.db.fetchval(log, other) == 0

    desk.harness.run(play())


@pytest.mark.parametrize("by_hand", [True, False])
def test_words_about_a_failure_that_are_stored_during_an_erasure_are_erased_at_its_end(
    desk: Desk, by_hand: bool
) -> None:
    async def play() -> None:
        runtime = desk.harness.runtime
        customer_id = await runtime.db.fetchval(
            "SELECT customer_id FROM pairing_failures WHERE id = $1", desk.failure_id
        )
        async with runtime.db.pool.acquire() as holder, holder.transaction():  # the operator's row is referenced
            await holder.fetch("SELECT 1 FROM control_center_users WHERE id = $1 FOR UPDATE", desk.operator.user_id)
            writing = asyncio.create_task(desk.act(note="maaf") if by_hand else desk.click())
            await desk.harness.until(WAITING, 1)
            await erasure.erase_customer(runtime, str(customer_id), Requester(by=RequestedBy.COMMAND_LINE))
        await writing
        log = "SELECT count(*) FROM operator_audit_log WHERE object_id = $1 AND after::text ~ 'maaf'"
        assert await runtime.db.fetchval(log, desk.failure_id) == 1
        await runtime.db.fetch("UPDATE erasures SET began_at = began_at - interval '2 minutes'")
        await erase_rest.go_on(runtime)
        assert await runtime.db.fetchval("SELECT count(*) FROM erasures WHERE completed_at IS NULL") == 0
        assert await runtime.db.fetchval(log, desk.failure_id) == 0
        texts = (
            "SELECT f.note, r.reason FROM pairing_failures f LEFT JOIN refunds r ON r.failure_id = f.id WHERE f.id = $1"
        )
        assert tuple(await runtime.db.fetchrow(texts, desk.failure_id)) == (None, None)

    desk.harness.run(play())


def test_window_of_the_channel_ends(desk: Desk) -> None:
    async def play() -> None:
        found = await desk.view()
        assert found.refundable_until is not None
        age = found.refundable_until - found.created_at
        assert dt.timedelta(days=29, hours=23) < age <= dt.timedelta(days=30)
        await desk.harness.runtime.db.fetch(
            "UPDATE payment_requests SET confirmed_at = confirmed_at - '30 days'::interval"
        )
        assert (await desk.view()).refundability.value == "too_late"
        assert await desk.refused(desk.click()) == "NOT_REFUNDABLE"

    desk.harness.run(play())


def test_refunds_are_off_by_default_and_nothing_is_asked(desk: Desk) -> None:
    async def play() -> None:
        runtime = desk.harness.runtime
        runtime.settings = attrs.evolve(runtime.settings, refunds_enabled=False)
        assert await desk.refused(desk.click()) == "REFUNDS_DISABLED"
        assert not (await desk.view()).may_refund
        assert await desk.ask() == 0
        assert desk.simulated.looks == 0

    desk.harness.run(play())


def test_silent_gateway_opens_the_circuit_and_refunds_stay_due(desk: Desk) -> None:
    async def play() -> None:
        runtime = desk.harness.runtime
        desk.simulated.on_refund_look = lambda _: error_reply(503, "SERVER_ERROR")
        for _ in range(7):
            await desk.begin()
            await desk.click()
        await desk.ask()
        gateway = gateway_of(runtime.settings, runtime.gateway)
        assert gateway is not None
        assert gateway.wait_s() > 0
        looks = desk.simulated.looks
        assert await refund.ask_due(runtime) == 0  # waits for the circuit breaker
        assert desk.simulated.looks == looks
        desk.simulated.answer_normally()
        await desk.ask()
        await desk.ask()
        states = await runtime.db.fetch("SELECT DISTINCT status FROM refunds")
        assert [row["status"] for row in states] == ["pending"]

    desk.harness.run(play())


def test_failure_that_is_put_aside_is_not_late_until_the_moment_has_come(desk: Desk) -> None:
    async def late() -> tuple[int, float]:
        """Return how many failures are late, and the age of the oldest one, as the metrics and the overview say it."""
        runtime = desk.harness.runtime
        seen = await figures.cluster_figures(runtime)
        age, shown = seen[FAILURES_OLDEST][()], (await figures.overview(runtime)).failures_oldest_at
        assert (age > 0) == (shown is not None)
        return int(seen[FAILURES_OVERDUE][()]), age

    async def play() -> None:
        runtime = desk.harness.runtime
        await runtime.db.fetch("UPDATE pairing_failures SET created_at = created_at - '2 days'::interval")
        assert (await late())[0] == 1
        until = runtime.now() + dt.timedelta(hours=1)
        plan = operator_work.plan_failure
        await plan(runtime, desk.operator, failure_id=desk.failure_id, change={"snoozed_until": until}, note=None)
        assert await late() == (0, 0)
        await runtime.db.fetch("UPDATE pairing_failures SET snoozed_until = snoozed_until - '1 hour'::interval")
        count, age = await late()
        assert (count, age > 86_400) == (1, True)

    desk.harness.run(play())


def test_refund_that_is_not_decided_for_two_hours_is_stuck_until_it_is(desk: Desk) -> None:
    async def seen(ago: dt.timedelta) -> tuple[bool, float]:
        """Return whether it is stuck and its age in the metrics, if it was asked for that long ago."""
        runtime = desk.harness.runtime
        asked = runtime.now() - ago
        await runtime.db.fetch("UPDATE refunds SET requested_at = $1", asked)
        found = (await desk.view()).refund
        assert found is not None
        owed = await figures.refunds(runtime.db, now=asked + ago, due=NEXT)
        return found.is_stuck, owed.oldest_seconds

    async def play() -> None:
        await desk.click()
        for _ in ("requested", "pending"):
            assert await seen(dt.timedelta(minutes=119)) == (False, 7_140)
            assert await seen(dt.timedelta(minutes=121)) == (True, 7_260)
            await desk.ask()
        assert await desk.status() == ("pending", None)
        await desk.harness.call(desk.simulated.settle(desk.failure_id))
        assert await seen(dt.timedelta(minutes=121)) == (False, 0)

    desk.harness.run(play())


def test_alert_of_a_stuck_refund_has_the_time_of_the_work_list() -> None:
    alerts = (ROOT / "deploy/prometheus/rules/money.yml").read_text(encoding="utf-8")
    assert f"max(sesi_refunds_oldest_seconds) > {STUCK_AFTER.total_seconds():.0f}\n" in alerts


def test_late_refusal_of_an_earlier_attempt_changes_nothing(desk: Desk) -> None:
    async def play() -> None:
        runtime = desk.harness.runtime
        await desk.click()
        desk.simulated.before_refund = lambda _: error_reply(400, "REFUND_NOT_SUPPORTED")
        await desk.ask()
        await desk.click()
        async with runtime.transaction() as tx:  # a process that was frozen since the first attempt
            await refund.apply.decline(tx, name_there=desk.failure_id, attempt=1, code="REFUND_NOT_SUPPORTED")
        assert await desk.status() == ("requested", None)

    desk.harness.run(play())
