"""Payments and sessions under any order of events: random walks over the flows, with a clock that the test moves.

Before each step a simple model computes, from the documented rules alone, the state of every payment request after it.
After each step the rows must agree with the model, and the audit must find no violation.
"""

import datetime as dt
import json
from collections.abc import Coroutine
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from core.base import ids
from core.base.actor import Actor, UserType
from core.base.errors import DomainError
from core.base.field_types import MitraId
from core.desk import business_figures, operator_work
from core.desk.business_figures import FIGURES, By
from core.desk.ledger.audit import audit
from core.desk.operator_work import MitraChange
from core.pairing import advance as pairing_advance
from core.pairing import answer as pairing_answer
from core.pairing import cancel as pairing_cancel
from core.pairing import fallback as pairing_fallback
from core.pairing import presence
from core.pairing import request as payment_request
from core.pairing import retarget as pairing_retarget
from core.pairing import start as pairing_start
from core.pairing.request import PaymentWish
from core.payments import confirm as payment_confirm
from core.payments import sweeps as payment_sweeps
from core.payments.failures.rules import OperatorAction
from core.payments.refunds import make_good
from core.payments.webhooks import receive as webhook_receive
from core.payments.webhooks.receive import Incoming
from core.sessions import end as end_session
from core.sessions import set_sensitivity
from core.sessions import timers as session_timers
from core.sessions.extensions import answer as extension_answer
from core.sessions.extensions import ask as extension_ask
from core.sessions.extensions import request as extension_request
from core.sessions.extensions.request import MoreMinutes
from core.sessions.sensitivity import Sensitivity
from tests.clock import HandClock
from tests.flows.conftest import ADDRESS, CALLBACK_TOKEN, Harness
from tests.tiers import parts
from tests.verdicts import check_books

CAPACITY = 1  # so that two customers are enough to fill a mitra
LIVE = {"searching", "active", "expired"}
HELD = {"active", "expired"}
GRACE = dt.timedelta(minutes=5)
# Typed in from docs/product.md#states-of-a-payment-request and the tables of sessions and invitations.
PAYMENT_EDGES = {
    ("pending", "confirmed"), ("pending", "abandoned"), ("pending", "expired"), ("pending", "failed_pairing"),
    ("confirmed", "consumed"), ("confirmed", "failed_pairing"),
    ("expired", "confirmed"), ("expired", "failed_pairing"), ("abandoned", "failed_pairing"),
    ("failed_pairing", "confirmed"),
}  # fmt: skip
SESSION_EDGES = {
    ("searching", "active"), ("searching", "cancelled"), ("searching", "failed"), ("active", "expired"),
    ("active", "closing"), ("expired", "active"), ("expired", "closing"), ("expired", "completed"), ("closing", "completed"),
}  # fmt: skip


@attrs.define(kw_only=True)
class Seen:
    """Everything that the model reads from the database."""

    payments: dict[str, Any]
    sessions: dict[str, Any]
    requests: list[Any]  # invitations of mitras, oldest first
    extensions: dict[str, Any]
    failures: dict[str, Any]  # payment request -> its current failure
    refunds: list[Any]  # of earned money, oldest first
    marks: int  # number of rows in the log of topic flags
    online: set[str]
    inactive: set[str]

    def session_of(self, payment_id: str) -> Any:
        """Return the newest session of a payment request."""
        found = [s for s in self.sessions.values() if s["payment_request_id"] == payment_id]
        return max(found, key=lambda s: s["id"], default=None)

    def blocked(self, customer_id: str, *, but: str | None) -> bool:
        """Return whether the customer has a live session or a confirmed request other than `but`."""
        return any(
            s["customer_id"] == customer_id and s["status"] in LIVE and s["payment_request_id"] != but
            for s in self.sessions.values()
        ) or any(
            p["customer_id"] == customer_id and p["status"] == "confirmed" and p["id"] != but and not p["is_extension"]
            for p in self.payments.values()
        )

    def discount_used(self, customer_id: str, *, but: str | None, states: set[str]) -> bool:
        """Return whether the first-session discount is used up."""
        return any(
            s["customer_id"] == customer_id and s["mitra_id"] is not None for s in self.sessions.values()
        ) or any(
            p["customer_id"] == customer_id
            and p["is_first_session_discount"]
            and p["status"] in states
            and p["id"] != but
            for p in self.payments.values()
        )

    def unpaid_extensions(self, session_id: str) -> list[str]:
        """Return the unpaid extension requests of a session."""
        return [
            p["id"]
            for p in self.payments.values()
            if p["extends_session_id"] == session_id and p["status"] == "pending"
        ]

    def pending_extension(self, session_id: str) -> Any:
        """Return the extension of a session that waits for its mitra's answer."""
        found = [e for e in self.extensions.values() if (e["session_id"], e["status"]) == (session_id, "pending")]
        return found[0] if found else None

    def extending(self, session_id: str, *, but: str | None) -> bool:
        """Return whether an extension other than that of request `but` is being paid or waits for an answer."""
        return any(
            p["extends_session_id"] == session_id and p["status"] in ("pending", "confirmed") and p["id"] != but
            for p in self.payments.values()
        )

    def extension_of(self, payment_id: str) -> Any:
        """Return the extension that a payment has requested."""
        found = [e for e in self.extensions.values() if e["payment_request_id"] == payment_id]
        return found[0] if found else None

    def left_of(self, payment: Any) -> int:
        """Return how much of an earned payment can still go back."""
        gone = sum(one["amount"] for one in self.refunds if one["payment_request_id"] == payment["id"])
        return payment["amount"] - gone

    def load(self, mitra_id: str) -> int:
        """Return how much of a mitra's capacity is in use."""
        return sum(s["mitra_id"] == mitra_id and s["status"] in HELD for s in self.sessions.values())

    def reason_unavailable(self, mitra_id: str) -> str | None:
        """Return why a mitra can't take a session, or None."""
        if mitra_id not in self.online:
            return "MITRA_OFFLINE"
        return "MITRA_AT_CAPACITY" if self.load(mitra_id) >= CAPACITY else None

    def responses(self, session_id: str, mitra_id: str) -> list[str | None]:
        """Return a mitra's responses to a session's invitations, oldest first."""
        return [r["response"] for r in self.requests if (r["session_id"], r["mitra_id"]) == (session_id, mitra_id)]

    def can_be_invited(self, session_id: str) -> bool:
        """Return whether a mitra is available for a session, has not rejected it and has no open invitation to it."""
        return any(
            self.reason_unavailable(mitra_id) is None
            and not {"REJECTED", None} & set(self.responses(session_id, mitra_id))
            for mitra_id in self.online
        )

    def all_said_no(self, session_id: str) -> bool:
        """Return whether every invited mitra has rejected."""
        asked = {r["mitra_id"] for r in self.requests if r["session_id"] == session_id}
        return bool(asked) and all("REJECTED" in self.responses(session_id, mitra_id) for mitra_id in asked)


# Every price change has a history row.
MADE_FREE = """WITH priced AS (SELECT * FROM pricing_tiers WHERE mode = 'call' AND minutes = 12),
    free AS (UPDATE pricing_tiers SET price_idr = 0, updated_at = clock_timestamp()
      WHERE mode = 'call' AND minutes = 12 RETURNING *)
  INSERT INTO pricing_tiers_history (id, pricing_tier_id, change_kind, changed_at, before, after)
  SELECT gen_random_uuid(), id, 'updated', clock_timestamp(), to_jsonb(priced), to_jsonb(free) FROM free JOIN priced USING (id)"""


class MoneyMachine(RuleBasedStateMachine):
    """Two customers, two mitras, a gateway, and time."""

    harness: Harness

    # -- setup

    @initialize()
    def begin(self) -> None:
        self.clock = self.harness.runtime.clock
        assert isinstance(self.clock, HandClock)
        self.run(self._clear())
        self.customers = [self.run(self.harness.customer()) for _ in range(2)]
        self.mitras = [self.run(self.harness.mitra()) for _ in range(2)]
        self.seen = self.run(self._look())
        self.goes_online(mitra=0)

    async def _clear(self) -> None:
        db, role_id, operator_id = self.harness.runtime.db, ids.new_id(), ids.new_id()
        await self.harness.clear()
        await db.fetch("INSERT INTO roles (id, name, created_at) VALUES ($1::uuid, $1::uuid::text, now())", role_id)
        await db.fetch(
            """INSERT INTO control_center_users (id, email, display_name, role_id, created_at)
               VALUES ($1::uuid, $1::uuid::text, 'Root', $2, now())""",
            operator_id,
            role_id,
        )
        self.operator = Actor(
            user_type=UserType.OPERATOR,
            user_id=operator_id,
            auth_session_id=ids.new_id(),
            expires_at=2**40,
            ids=(operator_id,),
        )

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.harness.run(work)

    def _check_figures(self) -> None:
        """Check that the figures of the business have the money of all rows, whatever they are counted by."""
        first = self.clock.now().date() - dt.timedelta(days=business_figures.MOST - 1)
        for by in By:
            found = self.run(business_figures.figures(self.harness.runtime, first=first, last=None, by=by))
            assert {name: sum(getattr(row, name) for row in found.items) for name in FIGURES} == self._figures(), by

    def _figures(self) -> dict[str, int]:
        """Return the figures of all payments, by the rules alone."""
        seen, failures = self.seen, self.seen.failures.values()
        paid = [p for p in seen.payments.values() if p["confirmed_at"] is not None]
        earned = sum(p["amount"] for p in paid if p["status"] == "consumed")
        failed = sum(f["amount"] for f in failures)
        assert sum(p["amount"] for p in paid) == earned + failed + sum(
            p["amount"] for p in paid if p["status"] == "confirmed"
        )
        by_failure = sum(f["amount"] for f in failures if f["operator_action"] == "refunded")
        return {
            "paid": sum(p["amount"] for p in paid),
            "earned": earned,
            "refunded": by_failure + sum(one["amount"] for one in seen.refunds if one["status"] == "succeeded"),
            "failed": failed,
            "open": sum(f["amount"] for f in failures if f["operator_action"] is None),
            "chats": sum(s["paired_at"] is not None for s in seen.sessions.values()),
            "unserved": sum(s["status"] == "failed" and s["targeted_mitra_id"] is None for s in seen.sessions.values()),
        }

    async def _look(self) -> Seen:
        async def rows(sql: str) -> list[dict[str, Any]]:
            found = await self.harness.runtime.db.fetch(sql)
            return [
                {name: str(value) if name.endswith("id") and value else value for name, value in row.items()}
                for row in found
            ]

        payments = await rows("SELECT * FROM payment_requests ORDER BY id")
        sessions = await rows("SELECT * FROM chat_sessions ORDER BY id")
        online = await rows("SELECT mitra_id FROM mitra_online_status WHERE is_online")
        extensions = await rows("SELECT * FROM session_extensions ORDER BY id")
        failures = await rows("SELECT * FROM pairing_failures WHERE superseded_at IS NULL")
        marks = await rows("SELECT id FROM session_sensitivity_log")
        inactive = await rows("SELECT id FROM mitras WHERE NOT is_active")
        return Seen(
            payments={row["id"]: row for row in payments},
            sessions={row["id"]: row for row in sessions},
            requests=await rows("SELECT * FROM chat_request_notifications ORDER BY round_number, notified_at, id"),
            extensions={row["id"]: row for row in extensions},
            failures={row["payment_request_id"]: row for row in failures},
            refunds=await rows("SELECT * FROM refunds WHERE failure_id IS NULL ORDER BY id"),
            marks=len(marks),
            online={row["mitra_id"] for row in online},
            inactive={row["id"] for row in inactive},
        )

    def act(
        self,
        work: Coroutine[Any, Any, Any],
        *,
        become: dict[str, str],
        error: str | None = None,
        new: int = 0,
        free: bool = False,
    ) -> Any:
        """Take a step. The requests in `become` get that state, `new` ones are pending (`free`: confirmed), all others
        stay.

        `error` is the code of the expected refusal; a refused step changes nothing.
        """
        before, refused, result = self.seen, None, None
        try:
            result = self.run(work)
        except DomainError as refusal:
            refused = refusal.code
        assert refused == error
        self.seen = after = self.run(self._look())
        expected = {payment_id: row["status"] for payment_id, row in before.payments.items()}
        assert {(expected[payment_id], state) for payment_id, state in become.items()} <= PAYMENT_EDGES
        expected |= become
        made = {payment_id: row["status"] for payment_id, row in after.payments.items() if payment_id not in expected}
        assert list(made.values()) == ["confirmed" if free else "pending"] * new
        assert {payment_id: row["status"] for payment_id, row in after.payments.items()} == expected | made
        self._check_sessions(before, after)
        found = self.run(audit(self.harness.runtime, overdue=False))  # timers fire only as steps of the walk
        check_books(found)
        assert (found.payments, found.sessions) == (len(after.payments), len(after.sessions))
        return result

    def _check_sessions(self, before: Seen, after: Seen) -> None:
        for session_id, old in before.sessions.items():
            new = after.sessions[session_id]
            assert new["status"] == old["status"] or (old["status"], new["status"]) in SESSION_EDGES
            assert old["mitra_id"] in (None, new["mitra_id"])
        assert all(after.load(mitra.user_id) <= CAPACITY for mitra in self.mitras)

    def _payment(self, n: int) -> str:
        known = sorted(self.seen.payments)
        return known[-1 - n % len(known)]

    def _session(self, n: int) -> str:
        known = sorted(self.seen.sessions)
        return known[-1 - n % len(known)]

    def _extension(self, n: int) -> Any:
        known = sorted(self.seen.extensions)
        return self.seen.extensions[known[-1 - n % len(known)]]

    def _owner(self, customer_id: str) -> Actor:
        return next(actor for actor in self.customers if actor.user_id == customer_id)

    def some_payment(self) -> bool:
        return bool(self.seen.payments)

    def some_session(self) -> bool:
        return bool(self.seen.sessions)

    def some_extension(self) -> bool:
        return bool(self.seen.extensions)

    def some_failure(self) -> bool:
        return bool(self.seen.failures)

    # -- the customer pays

    @rule(
        who=st.integers(0, 1),
        discount=st.booleans(),
        to=st.sampled_from([None, None, None, 0, 1]),
        free=st.sampled_from([False, False, True]),
    )
    def create_payment_request(self, who: int, discount: bool, to: int | None, free: bool = False) -> None:
        discount = discount and not free
        actor, seen = self.customers[who], self.seen
        error = None
        if seen.blocked(actor.user_id, but=None):
            error = "SESSION_IN_PROGRESS"
        elif to is not None and not any(
            (s["customer_id"], s["mitra_id"]) == (actor.user_id, self.mitras[to].user_id)
            for s in seen.sessions.values()
        ):
            error = "NOT_PREVIOUS_MITRA"
        elif to is not None and seen.reason_unavailable(self.mitras[to].user_id):
            error = seen.reason_unavailable(self.mitras[to].user_id)
        elif discount and seen.discount_used(actor.user_id, but=None, states={"confirmed", "consumed"}):
            error = "DISCOUNT_NOT_ELIGIBLE"
        elif free and self._free_is_open(actor.user_id, None):
            error = "FREE_REQUEST_OPEN"
        wish = PaymentWish(
            mode="call" if free else "chat",
            duration_minutes=12,
            first_session_discount=discount,
            targeted_mitra_id=None if to is None else self.mitras[to].user_id,
            topics=None,
        )
        replaced = {} if error else self._pending_of(actor.user_id)
        work = payment_request.request_payment(self.harness.runtime, actor, wish, address=ADDRESS)
        made = self.act(work, become=replaced, error=error, new=0 if error else 1, free=free)
        if made is not None:
            assert made.amount == (0 if free else 2000 if discount else 12000)

    def _free_is_open(self, customer_id: str, extends_session_id: str | None) -> bool:
        """Return whether a free request of the customer failed and waits for an operator."""
        return any(
            (p["customer_id"], p["amount"], p["extends_session_id"]) == (customer_id, 0, extends_session_id)
            and p["status"] == "failed_pairing"
            and self.seen.failures[p["id"]]["operator_action"] is None
            for p in self.seen.payments.values()
        )

    def _pending_of(self, customer_id: str) -> dict[str, str]:
        return {
            p["id"]: "abandoned"
            for p in self.seen.payments.values()
            if (p["customer_id"], p["status"], p["is_extension"]) == (customer_id, "pending", False)
        }

    async def _call(self, payment_id: str, **more: Any) -> str:
        body = {
            "id": f"inv-{payment_id}",
            "external_id": payment_id,
            "status": "PAID",
            "amount": self.seen.payments[payment_id]["amount"],
            **more,
        }
        headers = {"x-callback-token": CALLBACK_TOKEN}
        incoming = Incoming(body=json.dumps(body).encode(), headers=headers, source_ip="127.0.0.1")
        return (await webhook_receive.receive(self.harness.runtime, incoming)).processing_result

    def _paid_now(self, payment: Any, *, paid_at: dt.datetime) -> tuple[str, str | None]:
        """Return the expected processing result of a correct call, and the request's new state."""
        if payment["confirmed_at"] is not None:
            return "duplicate", None
        in_time = paid_at <= payment["expires_at"] + dt.timedelta(seconds=60)
        if payment["status"] == "abandoned" or (payment["status"] == "expired" and not in_time):
            return "late_payment_recorded", "failed_pairing"
        if payment["is_extension"]:
            if self.seen.extending(payment["extends_session_id"], but=payment["id"]):
                return "paid_not_pairable", "failed_pairing"
            return "confirmed", "confirmed"
        customer_id = payment["customer_id"]
        states = {"pending", "confirmed", "consumed"}
        if self.seen.blocked(customer_id, but=payment["id"]) or (
            payment["is_first_session_discount"]
            and self.seen.discount_used(customer_id, but=payment["id"], states=states)
        ):
            return "paid_not_pairable", "failed_pairing"
        return "confirmed", "confirmed"

    @precondition(some_payment)
    @rule(n=st.integers(0, 3), times=st.integers(1, 3), told_late=st.booleans())
    def gateway_says_paid(self, n: int, times: int, told_late: bool) -> None:
        payment = self.seen.payments[self._payment(n)]
        paid_at = payment["created_at"] if told_late else self.clock.now()
        more = {"paid_at": paid_at.isoformat()} if told_late else {}
        result, state = self._paid_now(payment, paid_at=paid_at)
        work = self._call(payment["id"], **more)
        assert self.act(work, become={payment["id"]: state} if state else {}) == result
        for _ in range(times - 1):
            assert self.act(self._call(payment["id"], **more), become={}) == "duplicate"

    @precondition(some_payment)
    @rule(n=st.integers(0, 3), wrong=st.sampled_from(["amount", "paid_amount", "currency", "id"]))
    def gateway_says_something_wrong(self, n: int, wrong: str) -> None:
        payment = self.seen.payments[self._payment(n)]
        if payment["amount"] == 0:  # it has no invoice, so the gateway never calls about it
            return
        paid = payment["confirmed_at"] is not None
        less = payment["amount"] - 1
        if wrong == "id":
            if paid:
                assert self.act(self._call(payment["id"], id="inv-other"), become={}) == "conflict"
            return
        more = {wrong: "USD" if wrong == "currency" else less}
        # The gateway can't have less of a short payment than before.
        expected = "duplicate" if paid and payment["asked_amount"] is None else "conflict"
        # Less than the invoice asked for is recorded, for an operator.
        become = {payment["id"]: "failed_pairing"} if wrong == "paid_amount" and not paid else {}
        assert self.act(self._call(payment["id"], **more), become=become) == expected

    @precondition(some_payment)
    @rule(n=st.integers(0, 3))
    def gateway_says_the_rest_of_a_short_payment(self, n: int) -> None:
        payment, now = self.seen.payments[self._payment(n)], self.clock.now()
        failure = self.seen.failures.get(payment["id"])
        if failure is None or failure["cause_tag"] != "payment_short" or failure["operator_action"] is not None:
            return
        as_new = {**payment, "confirmed_at": None, "status": "expired"}
        result, state = self._paid_now(as_new, paid_at=now)
        if failure["sub_cause"] == "given_up" and result == "confirmed":
            result, state = "paid_not_pairable", "failed_pairing"
        work = self._call(payment["id"], amount=payment["asked_amount"], paid_at=now.isoformat())
        assert self.act(work, become={payment["id"]: "confirmed"} if state == "confirmed" else {}) == result

    @precondition(some_payment)
    @rule(n=st.integers(0, 3))
    def operator_accepts_a_short_payment(self, n: int) -> None:
        payment = self.seen.payments[self._payment(n)]
        if payment["status"] == "pending":
            return
        failure, error = self.seen.failures.get(payment["id"]), None
        as_new = {**payment, "confirmed_at": None, "status": "pending"}
        if failure is None or failure["cause_tag"] != "payment_short":
            error = "PAYMENT_NOT_PENDING"
        elif failure["operator_action"] is not None:
            error = "FAILURE_ACTIONED"
        elif not payment["is_extension"] and self.seen.blocked(payment["customer_id"], but=payment["id"]):
            error = "SESSION_IN_PROGRESS"
        elif self._paid_now(as_new, paid_at=payment["created_at"])[1] == "failed_pairing":
            error = "PAYMENT_NOT_PENDING"
        work = payment_confirm.confirm(self.harness.runtime, self.operator, payment_request_id=payment["id"])
        self.act(work, become={} if error else {payment["id"]: "confirmed"}, error=error)

    @precondition(some_payment)
    @rule(n=st.integers(0, 3))
    def gateway_says_expired(self, n: int) -> None:
        payment = self.seen.payments[self._payment(n)]
        pending = payment["status"] == "pending"
        result = self.act(
            self._call(payment["id"], status="EXPIRED"), become={payment["id"]: "expired"} if pending else {}
        )
        assert result == ("expired" if pending else "ignored_status")

    @precondition(some_payment)
    @rule(n=st.integers(0, 3))
    def customer_abandons(self, n: int) -> None:
        payment = self.seen.payments[self._payment(n)]
        error = None if payment["status"] in ("pending", "abandoned") else "PAYMENT_NOT_PENDING"
        work = payment_request.abandon(
            self.harness.runtime, self._owner(payment["customer_id"]), payment_request_id=payment["id"]
        )
        become = {payment["id"]: "abandoned"} if payment["status"] == "pending" else {}
        self.act(work, become=become, error=error)

    @rule()
    def stale_payments_are_swept(self) -> None:
        due = {
            p["id"]: "expired"
            for p in self.seen.payments.values()
            if p["status"] == "pending" and p["expires_at"] <= self.clock.now()
        }
        self.act(payment_sweeps.expire_stale(self.harness.runtime), become=due)

    # -- the search

    @precondition(some_payment)
    @rule(n=st.integers(0, 1))
    def search_starts(self, n: int) -> None:
        payment = self.seen.payments[self._payment(n)]
        target = payment["targeted_mitra_id"]
        begins = (
            payment["status"] == "confirmed"
            and not payment["is_extension"]
            and self.seen.session_of(payment["id"]) is None
        )
        gone = begins and target is not None and self.seen.reason_unavailable(target) is not None
        work = pairing_start.start(self.harness.runtime, payment_request_id=payment["id"])
        free = {m for m in self.seen.online if self.seen.reason_unavailable(m) is None and target in (None, m)}
        self.act(work, become={payment["id"]: "failed_pairing"} if gone else {})
        if begins:
            session = self.seen.session_of(payment["id"])
            assert session["status"] == ("failed" if gone else "searching")
            assert {r["mitra_id"] for r in self.seen.requests if r["session_id"] == session["id"]} == free

    def _answer_error(self, session: Any, mitra_id: str) -> str | None:
        responses = self.seen.responses(session["id"], mitra_id)
        if not responses:
            return "NOT_FOUND"
        if session["mitra_id"] is not None:
            return "REQUEST_TAKEN"
        return "REQUEST_CLOSED" if session["status"] != "searching" else None

    @precondition(some_session)
    @rule(n=st.integers(0, 1), mitra=st.integers(0, 1))
    def mitra_accepts(self, n: int, mitra: int) -> None:
        session, actor = self.seen.sessions[self._session(n)], self.mitras[mitra]
        error = self._answer_error(session, actor.user_id)
        won = session["mitra_id"] == actor.user_id
        if won:
            error = None
        elif error is None:
            last = self.seen.responses(session["id"], actor.user_id)[-1]
            until = session["round_ends_at"] if session["targeted_mitra_id"] else session["search_ends_at"]
            if last not in (None, "IGNORED") or self.clock.now() >= until:
                error = "REQUEST_CLOSED"
            else:
                error = self.seen.reason_unavailable(actor.user_id) or ("REQUEST_CLOSED" if last else None)
        taken = error is None and not won
        become = {session["payment_request_id"]: "consumed"} if taken else {}
        work = pairing_answer.accept(self.harness.runtime, actor, session_id=session["id"])
        self.act(work, become=become, error=error)
        if taken:
            assert self.seen.sessions[session["id"]]["expires_at"] == self.clock.now() + dt.timedelta(minutes=12)

    @precondition(some_session)
    @rule(n=st.integers(0, 1), mitra=st.integers(0, 1))
    def mitra_rejects(self, n: int, mitra: int) -> None:
        session, actor = self.seen.sessions[self._session(n)], self.mitras[mitra]
        responses = self.seen.responses(session["id"], actor.user_id)
        error = self._answer_error(session, actor.user_id)
        become = {}
        if responses and responses[-1] == "REJECTED":
            error = None
        elif error is None and responses[-1] is not None:
            error = "REQUEST_CLOSED"
        elif error is None:
            row = next(
                r
                for r in self.seen.requests
                if (r["session_id"], r["mitra_id"], r["response"]) == (session["id"], actor.user_id, None)
            )
            row["response"] = "REJECTED"  # in the model's copy, to compute what follows
            hopeless = self.seen.all_said_no(session["id"]) and not self.seen.can_be_invited(session["id"])
            if session["targeted_mitra_id"] or hopeless:
                become = {session["payment_request_id"]: "failed_pairing"}
        work = pairing_answer.reject(self.harness.runtime, actor, session_id=session["id"])
        self.act(work, become=become, error=error)

    @precondition(some_payment)
    @rule(n=st.integers(0, 3))
    def customer_cancels(self, n: int) -> None:
        payment = self.seen.payments[self._payment(n)]
        become = {"pending": "abandoned", "confirmed": "failed_pairing"}.get(payment["status"])
        if payment["is_extension"]:
            become = None
        work = pairing_cancel.cancel(
            self.harness.runtime, self._owner(payment["customer_id"]), payment_request_id=payment["id"]
        )
        error = "SESSION_NOT_SEARCHING" if payment["status"] == "consumed" or payment["is_extension"] else None
        self.act(work, become={payment["id"]: become} if become else {}, error=error)
        session = self.seen.session_of(payment["id"])
        if become == "failed_pairing" and session is not None:
            assert session["status"] == "cancelled"

    @precondition(some_payment)
    @rule(n=st.integers(0, 3))
    def customer_falls_back(self, n: int) -> None:
        payment, error, become = self.seen.payments[self._payment(n)], "NOT_TARGETED", {}
        old, failure = self.seen.session_of(payment["id"]), self.seen.failures.get(payment["id"])
        owner = self._owner(payment["customer_id"])
        if payment["status"] == "confirmed" and payment["targeted_mitra_id"]:
            error = None
        elif failure is not None and failure["cause_tag"].startswith("targeted_"):
            error = "FAILURE_ACTIONED" if failure["operator_action"] else None
            if error is None and self.seen.blocked(owner.user_id, but=payment["id"]):
                error = "SESSION_IN_PROGRESS"
            if error is None:
                become = {payment["id"]: "confirmed", **self._pending_of(owner.user_id)}
        work = pairing_fallback.fall_back(self.harness.runtime, owner, payment_request_id=payment["id"])
        self.act(work, become=become, error=error)
        if error is not None:
            return
        session = self.seen.session_of(payment["id"])
        assert self.seen.payments[payment["id"]]["targeted_mitra_id"] is None
        assert payment["id"] not in self.seen.failures
        if become or old is not None:
            assert (session["status"], session["targeted_mitra_id"]) == ("searching", None)
            assert (session["id"] == old["id"]) == (not become)
            for mitra_id in self.seen.online:
                asked = None in self.seen.responses(session["id"], mitra_id)
                assert asked == (self.seen.reason_unavailable(mitra_id) is None)

    def _reason_not_asked(self, payment: dict[str, Any], mitra_id: str) -> str | None:
        """Return why a payment's customer can't ask another mitra with it, or None."""
        customer_id, failure = payment["customer_id"], self.seen.failures.get(payment["id"])
        if self.seen.blocked(customer_id, but=None):
            return "SESSION_IN_PROGRESS"
        if failure is None or not failure["cause_tag"].startswith("targeted_"):
            return "NOT_TARGETED"
        if failure["operator_action"]:
            return "FAILURE_ACTIONED"
        if payment["targeted_mitra_id"] == mitra_id:
            return "VALIDATION_ERROR"
        pairs = {(session["customer_id"], session["mitra_id"]) for session in self.seen.sessions.values()}
        return self.seen.reason_unavailable(mitra_id) if (customer_id, mitra_id) in pairs else "NOT_PREVIOUS_MITRA"

    @precondition(some_payment)
    @rule(n=st.integers(0, 3), mitra=st.integers(0, 1))
    def customer_asks_another(self, n: int, mitra: int) -> None:
        payment, mitra_id = self.seen.payments[self._payment(n)], self.mitras[mitra].user_id
        owner, error = self._owner(payment["customer_id"]), self._reason_not_asked(payment, mitra_id)
        become = {} if error else {payment["id"]: "confirmed", **self._pending_of(owner.user_id)}
        work = pairing_retarget.retarget(
            self.harness.runtime, owner, payment_request_id=payment["id"], mitra_id=MitraId(mitra_id)
        )
        self.act(work, become=become, error=error)
        if error is not None:
            return
        session = self.seen.session_of(payment["id"])
        assert (session["status"], session["targeted_mitra_id"]) == ("searching", mitra_id)
        assert self.seen.payments[payment["id"]]["targeted_mitra_id"] == mitra_id
        assert payment["id"] not in self.seen.failures
        assert [self.seen.responses(session["id"], one.user_id) for one in self.mitras] == [
            [None] if one.user_id == mitra_id else [] for one in self.mitras
        ]

    @precondition(some_failure)
    @rule(n=st.integers(0, 3))
    def operator_acts(self, n: int) -> None:
        known = sorted(self.seen.failures.values(), key=lambda failure: failure["id"])
        failure = known[-1 - n % len(known)]
        error = "ALREADY_ACTIONED" if failure["operator_action"] else None
        work = operator_work.act_on_failure(
            self.harness.runtime, self.operator, failure_id=failure["id"], action=OperatorAction.REFUNDED, note=None
        )
        self.act(work, become={}, error=error)

    @rule(mitra=st.integers(0, 1))
    def goes_online(self, mitra: int) -> None:
        actor = self.mitras[mitra]
        error = "MITRA_OFFLINE" if actor.user_id in self.seen.inactive else None
        self.act(presence.go_online(self.harness.runtime, actor), become={}, error=error)
        self.act(pairing_advance.invite_available(self.harness.runtime, mitra_ids=[actor.user_id]), become={})
        for session in self.seen.sessions.values():
            running = session["status"] == "searching" and self.clock.now() < session["round_ends_at"]
            if running and session["targeted_mitra_id"] is None and self.seen.reason_unavailable(actor.user_id) is None:
                assert {None, "REJECTED"} & set(self.seen.responses(session["id"], actor.user_id))

    @rule(mitra=st.integers(0, 1))
    def goes_offline(self, mitra: int) -> None:
        mitra_id = self.mitras[mitra].user_id
        self.act(presence.go_offline(self.harness.runtime, mitra_id=mitra_id), become=self._lost_without(mitra_id))
        assert not any(r["mitra_id"] == mitra_id and r["response"] is None for r in self.seen.requests)

    def _lost_without(self, mitra_id: str) -> dict[str, str]:
        """Return the payments whose search ends when a mitra goes offline."""
        return {
            s["payment_request_id"]: "failed_pairing"
            for s in self.seen.sessions.values()
            if s["status"] == "searching"
            and s["targeted_mitra_id"] == mitra_id
            and None in self.seen.responses(s["id"], mitra_id)
        }

    @rule(mitra=st.integers(0, 1), active=st.booleans())
    def operator_changes_a_mitra(self, mitra: int, active: bool) -> None:
        mitra_id, become, tripped = self.mitras[mitra].user_id, {}, []
        if not active:
            become = self._lost_without(mitra_id)
            for session in self.seen.sessions.values():
                if session["mitra_id"] == mitra_id and session["status"] in HELD:
                    become |= dict.fromkeys(self.seen.unpaid_extensions(session["id"]), "abandoned")
                    if pending := self.seen.pending_extension(session["id"]):
                        tripped.append(pending["payment_request_id"])
        become |= dict.fromkeys(tripped, "failed_pairing")
        change = MitraChange(is_active=active)
        work = operator_work.change_mitra(
            self.harness.runtime, self.operator, mitra_id=mitra_id, change=change, stepped_up=True
        )
        self.act(work, become=become)
        assert (mitra_id in self.seen.inactive) == (not active)
        assert active or mitra_id not in self.seen.online
        if active:  # a deactivation has signed them out
            again = attrs.evolve(self.mitras[mitra], auth_session_id=ids.new_id())
            self.mitras[mitra] = self.harness.run(self.harness.sign_in(again))
        for payment_id in tripped:
            assert self.seen.failures[payment_id]["cause_tag"] == "extension_safeguard_tripped"

    @precondition(some_payment)
    @rule(n=st.integers(0, 3), amount=st.sampled_from([1, 5_000, 11_999, 12_000]), transfer=st.integers(0, 2))
    def operator_makes_good(self, n: int, amount: int, transfer: int) -> None:
        payment, reference = self.seen.payments[self._payment(n)], f"TRF-{transfer}"
        known = [
            one["id"]
            for one in self.seen.refunds
            if (one["payment_request_id"], one["hand_reference"]) == (payment["id"], reference)
        ]
        error = None
        if payment["status"] != "consumed":
            error = "PAYMENT_NOT_CONSUMED"
        elif not known and amount > self.seen.left_of(payment):
            error = "REFUND_EXCEEDS_PAID"
        work = make_good.record(
            self.harness.runtime,
            self.operator,
            payment_request_id=payment["id"],
            amount=amount,
            reason="maaf",
            reference=reference,
        )
        before = len(self.seen.refunds)
        made = self.act(work, become={}, error=error)
        assert len(self.seen.refunds) == before + (error is None and not known)
        assert made in known or not known

    @rule()
    def rounds_end(self) -> None:
        now, become = self.clock.now(), {}
        for session in self.seen.sessions.values():
            if session["status"] == "searching" and session["round_ends_at"] <= now:
                hopeless = self.seen.all_said_no(session["id"]) and not self.seen.can_be_invited(session["id"])
                if session["targeted_mitra_id"] or session["search_ends_at"] <= now or hopeless:
                    become[session["payment_request_id"]] = "failed_pairing"
        self.act(pairing_advance.end_rounds(self.harness.runtime), become=become)
        for session in self.seen.sessions.values():
            assert session["status"] != "searching" or session["round_ends_at"] > now

    # -- time, and the end of sessions

    @rule(seconds=st.sampled_from([1, 20, 60, 61, 300, 720, 1200, 1261]))
    def time_passes(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @rule()
    def sessions_expire(self) -> None:
        self.act(session_timers.warn(self.harness.runtime), become={})
        self.act(session_timers.expire(self.harness.runtime), become={})
        for session in self.seen.sessions.values():
            assert session["status"] != "active" or session["expires_at"] > self.clock.now()

    def _held(self, session: Any) -> bool:
        return session["status"] == "expired" and self.seen.pending_extension(session["id"]) is not None

    @rule()
    def grace_ends(self) -> None:
        unpaid = {
            payment_id: "abandoned"
            for session in self.seen.sessions.values()
            if session["status"] in ("expired", "closing") and session["grace_ends_at"] <= self.clock.now()
            if not self._held(session)
            for payment_id in self.seen.unpaid_extensions(session["id"])
        }
        self.act(session_timers.complete(self.harness.runtime), become=unpaid)
        for session in self.seen.sessions.values():
            over = session["status"] in ("expired", "closing") and session["grace_ends_at"] <= self.clock.now()
            assert not over or self._held(session)

    # -- extensions

    def _extendable(self, session: Any) -> bool:
        in_time = session["status"] in HELD and self.clock.now() < session["expires_at"] + GRACE
        return in_time and session["mitra_id"] not in self.seen.inactive

    @precondition(some_session)
    @rule(n=st.integers(0, 1))
    def buy_more_time(self, n: int) -> None:
        session = self.seen.sessions[self._session(n)]
        error = None if self._extendable(session) else "SESSION_NOT_EXTENDABLE"
        if error is None and self.seen.extending(session["id"], but=None):
            error = "EXTENSION_PENDING"
        free = session["mode"] == "call"
        if error is None and free and self._free_is_open(session["customer_id"], session["id"]):
            error = "FREE_REQUEST_OPEN"
        work = extension_request.request_extension(
            self.harness.runtime,
            self._owner(session["customer_id"]),
            MoreMinutes(session_id=session["id"], duration_minutes=12),
            address=ADDRESS,
        )
        made = self.act(work, become={}, error=error, new=0 if error else 1, free=free)
        if made is not None:
            amount = 0 if free else 12000
            assert (made.amount, made.session_id, made.is_first_session_discount) == (amount, session["id"], False)

    @precondition(some_payment)
    @rule(n=st.integers(0, 3))
    def extension_is_asked(self, n: int) -> None:
        payment = self.seen.payments[self._payment(n)]
        new = payment["is_extension"] and payment["status"] == "confirmed"
        new = new and self.seen.extension_of(payment["id"]) is None
        possible = new and self._extendable(self.seen.sessions[payment["extends_session_id"]])
        work = extension_ask.ask(self.harness.runtime, payment_request_id=payment["id"])
        self.act(work, become={payment["id"]: "failed_pairing"} if new and not possible else {})
        if new:
            found = self.seen.extension_of(payment["id"])
            assert found["status"] == ("pending" if possible else "safeguard_tripped")
            assert (payment["id"] in self.seen.failures) == (not possible)

    def _prolonged(self, before: Any) -> None:
        after = self.seen.sessions[before["id"]]
        start = max(before["expires_at"], self.clock.now())
        assert (after["status"], after["expires_at"]) == ("active", start + dt.timedelta(minutes=12))
        assert after["extended_minutes"] == before["extended_minutes"] + 12
        assert (after["price"], after["warn_at"]) == (before["price"], after["expires_at"] - dt.timedelta(seconds=180))

    @precondition(some_extension)
    @rule(n=st.integers(0, 1), mitra=st.integers(0, 1), accept=st.booleans())
    def mitra_answers_an_extension(self, n: int, mitra: int, accept: bool) -> None:
        extension, actor = self._extension(n), self.mitras[mitra]
        session, error = self.seen.sessions[extension["session_id"]], None
        if session["mitra_id"] != actor.user_id:
            error = "NOT_FOUND"
        elif extension["status"] != "pending" or extension["answer_by"] <= self.clock.now():
            error = "EXTENSION_RESOLVED"
        become = {} if error else {extension["payment_request_id"]: "consumed" if accept else "failed_pairing"}
        work = extension_answer.answer(
            self.harness.runtime, actor, session_id=session["id"], extension_id=extension["id"], accept=accept
        )
        self.act(work, become=become, error=error)
        if error is None and accept:
            self._prolonged(session)
        elif error is None:
            assert self.seen.failures[extension["payment_request_id"]]["cause_tag"] == "extension_rejected"

    @rule(action=st.sampled_from(["auto_approve", "reject"]))
    def extensions_time_out(self, action: str) -> None:
        self.harness.runtime.config.values["extension_default_action_on_timeout"] = action
        due = [
            extension
            for extension in self.seen.extensions.values()
            if extension["status"] == "pending" and extension["answer_by"] <= self.clock.now()
        ]
        before = {extension["session_id"]: self.seen.sessions[extension["session_id"]] for extension in due}
        state = "consumed" if action == "auto_approve" else "failed_pairing"
        become = {extension["payment_request_id"]: state for extension in due}
        self.act(extension_answer.time_out(self.harness.runtime), become=become)
        for extension in due:
            if action == "auto_approve":
                self._prolonged(before[extension["session_id"]])

    @precondition(some_session)
    @rule(n=st.integers(0, 1), mitra=st.integers(0, 1), wanted=st.sampled_from(Sensitivity))
    def mitra_marks_the_topic(self, n: int, mitra: int, wanted: Sensitivity) -> None:
        session, actor = self.seen.sessions[self._session(n)], self.mitras[mitra]
        error = None if session["status"] in (*HELD, "closing") else "SESSION_NOT_ACTIVE"
        if session["mitra_id"] != actor.user_id:
            error = "NOT_FOUND"
        before = self.seen.marks
        work = set_sensitivity.set_sensitivity(
            self.harness.runtime, actor, session_id=session["id"], topic_sensitivity=wanted
        )
        self.act(work, become={}, error=error)
        flipped = error is None and session["topic_sensitivity"] != wanted
        assert self.seen.marks == before + flipped
        assert error or self.seen.sessions[session["id"]]["topic_sensitivity"] == wanted

    def _by_the_clock(self, session: Any) -> str:
        """Return the session's state by its deadlines, whether or not the jobs process has recorded it."""
        status, now = session["status"], self.clock.now()
        if status == "closing":
            return "completed" if session["grace_ends_at"] <= now else status
        if status in HELD and session["expires_at"] <= now:
            held = self.seen.pending_extension(session["id"]) is not None
            return "completed" if session["expires_at"] + GRACE <= now and not held else "expired"
        return status

    @precondition(some_session)
    @rule(n=st.integers(0, 1), by_mitra=st.booleans(), goodbye=st.booleans())
    def party_leaves(self, n: int, by_mitra: bool, goodbye: bool) -> None:
        session = self.seen.sessions[self._session(n)]
        actor = self._owner(session["customer_id"])
        if by_mitra:
            actor = self.mitras[n]
        state, runtime = self._by_the_clock(session), self.harness.runtime
        mine = not by_mitra or session["mitra_id"] == actor.user_id
        if goodbye:
            work = end_session.say_goodbye(runtime, actor, session_id=session["id"], message="sampai jumpa")
            error = None if state in ("expired", "closing") else "SESSION_NOT_CLOSABLE"
            if mine and error is None and self.run(self._said(session["id"], actor)):
                error = "CLOSURE_EXISTS"
        else:
            work = end_session.end(runtime, actor, session_id=session["id"])
            error = {"active": "EARLY_END_DISABLED", "expired": None, "closing": None, "completed": None}.get(
                state, "SESSION_NOT_ACTIVE"
            )
        become: dict[str, str] = {}
        if mine and error is None and state == "expired":  # the session begins to close, and its extension ends with it
            become = dict.fromkeys(self.seen.unpaid_extensions(session["id"]), "abandoned")
            if pending := self.seen.pending_extension(session["id"]):
                become[pending["payment_request_id"]] = "failed_pairing"
        self.act(work, become=become, error=error if mine else "NOT_FOUND")
        for payment_id, new in become.items():
            if new == "failed_pairing":
                assert self.seen.failures[payment_id]["cause_tag"] == "extension_safeguard_tripped"

    async def _said(self, session_id: str, actor: Actor) -> bool:
        sql = "SELECT 1 FROM session_closures WHERE session_id = $1 AND user_type = $2"
        return bool(await self.harness.runtime.db.fetchval(sql, session_id, actor.user_type.value))

    # -- longer scenarios, which single steps seldom reach

    @rule(who=st.integers(0, 1), after=st.sampled_from([-1, 0, 60, 61, 90]))
    def pays_around_the_deadline(self, who: int, after: int) -> None:
        self.create_payment_request(who, False, None)
        if self.seen.payments:
            self.clock.advance(1200 + after)
            self.stale_payments_are_swept()
            self.gateway_says_paid(0, 2, False)

    @rule(who=st.integers(0, 1), mitra=st.integers(0, 1), free=st.booleans())
    def a_session_begins(self, who: int, mitra: int, free: bool = False) -> None:
        self.create_payment_request(who, False, None, free)
        self.gateway_says_paid(0, 1, False)
        self.search_starts(0)
        if self.seen.sessions:
            self.mitra_accepts(0, mitra)

    @rule(who=st.integers(0, 1), mitra=st.integers(0, 1), seconds=st.sampled_from([19, 20, 60, 299, 300]))
    def a_mitra_answers_late(self, who: int, mitra: int, seconds: int) -> None:
        self.goes_online(mitra)
        self.create_payment_request(who, False, None)
        if self.seen.payments:
            self.gateway_says_paid(0, 1, False)
            self.search_starts(0)
        if self.seen.sessions:
            self.clock.advance(seconds)
            self.mitra_accepts(0, mitra)

    @precondition(some_session)
    @rule(who=st.integers(0, 1), mitra=st.integers(0, 1))
    def a_customer_returns(self, who: int, mitra: int) -> None:
        self.clock.advance(1200)
        self.sessions_expire()
        self.grace_ends()
        self.goes_online(mitra)
        self.create_payment_request(who, False, mitra)
        self.gateway_says_paid(0, 1, False)

    @rule(
        mitra=st.integers(0, 1),
        seconds=st.sampled_from([0, 719, 720, 800, 1019, 1020]),
        later=st.sampled_from([0, 59, 60, 400]),
        then=st.sampled_from(["yes", "no", "silence", "end", "grace"]),
        leaves=st.sampled_from(["never", "never", "unpaid", "paid", "asked"]),
    )
    def a_session_is_extended(self, mitra: int, seconds: int, later: int, then: str, leaves: str) -> None:
        self._a_session_in_an_empty_database(mitra)
        self.clock.advance(seconds)
        self.sessions_expire()
        if self.seen.sessions:
            self.buy_more_time(0)
            if leaves == "unpaid":
                self.operator_changes_a_mitra(mitra, False)
            self.gateway_says_paid(0, 1, False)
            if leaves == "paid":
                self.operator_changes_a_mitra(mitra, False)
            self.extension_is_asked(0)
            if leaves == "asked":
                self.operator_changes_a_mitra(mitra, False)
        self.clock.advance(later)
        if self.seen.extensions and then in ("yes", "no"):
            self.mitra_answers_an_extension(0, mitra, then == "yes")
        if then == "silence":
            self.extensions_time_out("auto_approve")
        if self.seen.sessions and then == "end":
            self.party_leaves(0, False, False)
        if then == "grace":
            self.grace_ends()

    @rule(mitra=st.integers(0, 1), paid=st.booleans(), leaves=st.booleans())
    def extension_is_paid_late(self, mitra: int, paid: bool, leaves: bool) -> None:
        self._a_session_in_an_empty_database(mitra)
        if not self.seen.sessions:
            return
        self.buy_more_time(0)
        self.gateway_says_expired(0)
        if leaves:
            self.clock.advance(720)
            self.party_leaves(0, False, False)
        self.buy_more_time(0)
        if paid:
            self.gateway_says_paid(0, 1, False)
        for n in range(2):
            self.gateway_says_paid(n, 1, True)
            self.extension_is_asked(n)

    def _a_session_in_an_empty_database(self, mitra: int) -> None:
        """End everything that is open, so that nothing interferes."""
        for n in range(min(2, len(self.seen.payments))):
            self.search_starts(n)
        self.clock.advance(2000)
        self.rounds_end()
        self.extensions_time_out("reject")
        self.sessions_expire()
        self.grace_ends()
        self.operator_changes_a_mitra(mitra, True)
        self.goes_online(mitra)
        self.a_session_begins(0, mitra)

    @rule(
        mitra=st.integers(0, 1),
        end=st.sampled_from(["open", "no", "offline", "time"]),
        then=st.sampled_from(["nothing", "acted on", "pays for another"]),
    )
    def a_returning_customer_falls_back(self, mitra: int, end: str, then: str) -> None:
        self._a_session_in_an_empty_database(mitra)
        if not self.seen.sessions:
            return
        self.a_customer_returns(0, mitra)
        self.search_starts(0)
        if end == "no":
            self.mitra_rejects(0, mitra)
        if end == "offline":
            self.goes_offline(mitra)
        if end == "time":
            self.clock.advance(20)
            self.rounds_end()
        if then == "acted on" and self.seen.failures:
            self.operator_acts(0)
        if then == "pays for another":
            self.create_payment_request(0, False, None)
        self.customer_falls_back(1 if then == "pays for another" else 0)

    def teardown(self) -> None:
        """Check that at the end no money is in flight and no session is running."""
        if not hasattr(self, "seen"):
            return
        self._check_figures()
        for n in range(len(self.seen.payments)):
            self.search_starts(n)
            self.extension_is_asked(n)
        for _ in range(2):
            self.clock.advance(1300)
            self.stale_payments_are_swept()
            self.rounds_end()
            self.extensions_time_out("auto_approve")
            self.sessions_expire()
            self.grace_ends()
        assert {p["status"] for p in self.seen.payments.values()} <= {
            "consumed",
            "failed_pairing",
            "abandoned",
            "expired",
        }
        assert {s["status"] for s in self.seen.sessions.values()} <= {"completed", "cancelled", "failed"}
        assert not [e for e in self.seen.extensions.values() if e["status"] == "pending"]
        self._check_figures()


@pytest.mark.parametrize("part", parts(range(10)))
@pytest.mark.timeout(400)  # some thousand transactions: half a minute on an idle machine, minutes on a busy one
def test_money_is_conserved_in_any_order_of_events(empty_harness: Harness, part: int) -> None:
    runtime = empty_harness.runtime
    runtime.clock = HandClock.at(2026, 11, 21)
    runtime.config.values = {**runtime.config.values, "require_mitra_ping": False, "max_customers_per_mitra": CAPACITY}
    empty_harness.run(runtime.db.fetch(MADE_FREE))

    class Machine(MoneyMachine):
        pass

    Machine.harness = empty_harness
    run_state_machine_as_test(
        seed(part)(Machine),
        settings=settings(
            max_examples=2,
            stateful_step_count=20,
            deadline=None,
            database=None,
            print_blob=True,
            # No shrinking: a failing walk is short enough to read, and shrinking would take minutes on a real database.
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        ),
    )
