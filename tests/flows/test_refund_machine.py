"""Refunds under any order of events: clicks, answers, calls, polls, hand-made actions and deaths of processes.

Random walks over the flows. The simulated gateway knows what really happened to the money; after each step the rows must
agree with it, and the audit must find no violation.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from core.base.actor import Actor
from core.base.errors import DomainError
from core.desk import failed_pairings, operator_work
from core.desk.ledger.audit import audit
from core.payments.failures.rules import OperatorAction
from core.payments.refunds import refund
from core.providers.gateway import Gateway
from tests.flows.conftest import READER, Harness
from tests.http.gateway.simulated_gateway import SECRET_KEY, NoReply, Reply, SimulatedGateway, error_reply
from tests.tiers import parts
from tests.verdicts import check_books

# Typed in from docs/product.md#states-of-a-refund; None is a failure without a refund.
EDGES = {
    (None, "requested"), ("requested", "pending"), ("requested", "succeeded"), ("requested", "failed"),
    ("pending", "succeeded"), ("pending", "failed"), ("failed", "requested"), ("failed", "succeeded"),
}  # fmt: skip
OPEN = {"requested", "pending"}
ANSWERS = ("well", "lost before", "lost after", "declined", "busy", "dies before", "dies after")


class RefundMachine(RuleBasedStateMachine):
    """Two failures, two operators and a gateway."""

    harness: Harness
    simulated: SimulatedGateway

    @initialize()
    def begin(self) -> None:
        self.run(self.harness.clear())
        runtime = self.harness.runtime
        runtime.gateway = Gateway(runtime.http, base_url=self.simulated.url, secret_key=SECRET_KEY)
        self.failures = [self.run(self.harness.failed()) for _ in range(2)]
        self.operators: list[Actor] = [self.run(self.harness.operator()) for _ in range(2)]
        self.by_hand: dict[str, str] = {}
        self.seen: dict[str, tuple[str | None, str | None]] = dict.fromkeys(self.failures, (None, None))

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.harness.run(work)

    def step(self, work: Coroutine[Any, Any, Any]) -> str | None:
        """Run a step; return the code with which it was refused. Check all rules afterwards."""
        refused = None
        try:
            self.run(work)
        except DomainError as error:
            refused = error.code
        self._check()
        return refused

    def _check(self) -> None:
        for failure_id in self.failures:
            view = self.run(failed_pairings.failed_pairing(self.harness.runtime, READER, failure_id))
            action = view.operator_action and view.operator_action.value
            status = view.refund and view.refund.status.value
            before, acted = self.seen[failure_id]
            assert status == before or (before, status) in EDGES or (before, status) == (None, "pending")
            assert acted in (None, action)
            made = self.simulated.refunds.of(failure_id)
            assert len(made) <= 1  # the gateway has at most one refund of each failure
            if status == "succeeded":  # no money is believed to be back that is not
                assert (action, made[0]["status"]) == ("refunded", "SUCCEEDED")
            elif action is not None:
                assert self.by_hand[failure_id] == action
            if status in OPEN:
                assert action is None
            self.seen[failure_id] = (status, action)
        check_books(self.run(audit(self.harness.runtime, overdue=False)))

    @rule(n=st.integers(0, 1), who=st.integers(0, 1))
    def operator_clicks(self, n: int, who: int) -> None:
        failure_id = self.failures[n]
        status, action = self.seen[failure_id]
        view = self.run(failed_pairings.failed_pairing(self.harness.runtime, READER, failure_id))
        refused = self.step(
            refund.request(self.harness.runtime, self.operators[who], failure_id=failure_id, reason=None)
        )
        if action is not None:
            assert refused == "ALREADY_ACTIONED"
        elif status == "failed" and not view.may_refund:
            assert refused == "NOT_REFUNDABLE"
        else:
            assert refused is None
            assert self.seen[failure_id][0] in OPEN

    @rule(n=st.integers(0, 1), who=st.integers(0, 1), action=st.sampled_from(OperatorAction))
    def operator_records_an_action(self, n: int, who: int, action: OperatorAction) -> None:
        failure_id = self.failures[n]
        status, acted = self.seen[failure_id]
        expected = "ALREADY_ACTIONED" if acted is not None else "REFUND_PENDING" if status in OPEN else None
        if expected is None:
            self.by_hand[failure_id] = action.value
        actor, runtime = self.operators[who], self.harness.runtime
        work = operator_work.act_on_failure(runtime, actor, failure_id=failure_id, action=action, note="x")
        assert self.step(work) == expected

    @rule(answer=st.sampled_from(ANSWERS), twice=st.booleans())
    def jobs_process_asks(self, answer: str, twice: bool) -> None:
        self.step(self._ask(answer, 2 if twice else 1))

    async def _ask(self, answer: str, processes: int) -> None:
        """Let one or two jobs processes ask about everything that is open, while the gateway answers in this way."""
        runtime, refunds = self.harness.runtime, self.simulated.refunds
        loop = asyncio.get_running_loop()
        tasks: list[asyncio.Task[Any]] = []

        def die(_: dict[str, Any]) -> Reply | None:
            for task in tasks:
                loop.call_soon_threadsafe(task.cancel)
            raise NoReply

        def lose(_: dict[str, Any]) -> Reply | None:
            raise NoReply

        how: dict[str, tuple[str, Callable[[dict[str, Any]], Reply | None]]] = {
            "lost before": ("before_refund", lose),
            "lost after": ("after_refund", lose),
            "declined": ("before_refund", lambda _: error_reply(400, "REFUND_NOT_SUPPORTED")),
            "busy": ("before_refund", lambda _: error_reply(409, "DUPLICATE_ERROR")),
            "dies before": ("before_refund", die),
            "dies after": ("after_refund", die),
        }
        if answer in how:
            setattr(refunds, *how[answer])
        # Each walk has few failures, and the breaker would make it wait.
        runtime.gateway = Gateway(runtime.http, base_url=self.simulated.url, secret_key=SECRET_KEY)
        for _ in range(processes):
            await runtime.db.fetch("UPDATE refunds SET ask_at = requested_at WHERE status IN ('requested', 'pending')")
            tasks.append(asyncio.create_task(refund.ask_due(runtime)))
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        refunds.answer_normally()

    @rule(n=st.integers(0, 1), status=st.sampled_from(("SUCCEEDED", "FAILED")), told=st.booleans())
    def gateway_decides(self, n: int, status: str, told: bool) -> None:
        """Decide about a refund; its call may be lost. A failed refund may still succeed, a success is final."""
        (made,) = self.simulated.refunds.of(self.failures[n]) or ({"status": "SUCCEEDED"},)
        if made["status"] == "SUCCEEDED":
            return
        call = self.simulated.refunds.settle(self.failures[n], status)
        if told:
            self.step(self.harness.call(call))

    @rule(n=st.integers(0, 1))
    def gateway_repeats_its_call(self, n: int) -> None:
        for made in self.simulated.refunds.of(self.failures[n]):
            self.step(self.harness.call(self.simulated.refunds.call(made)))

    @rule(
        n=st.integers(0, 1),
        wrong=st.sampled_from(({"amount": 1}, {"id": "rfd-x"}, {"currency": "PHP"}, {"reference_id": "x"})),
        status=st.sampled_from(("SUCCEEDED", "PENDING")),
    )
    def a_wrong_call_arrives(self, n: int, wrong: dict[str, Any], status: str) -> None:
        for made in self.simulated.refunds.of(self.failures[n]):
            if made["status"] != "SUCCEEDED" and self.seen[self.failures[n]][0] != "requested":
                call = self.simulated.refunds.call({**made, "status": status, **wrong})
                before = self.seen[self.failures[n]]
                self.step(self.harness.call(call))
                assert self.seen[self.failures[n]] == before

    def teardown(self) -> None:
        """Check that every open refund ends, and as the gateway says."""
        if not hasattr(self, "seen"):
            return
        for _ in range(2):
            self.step(self._ask("well", 1))
            for failure_id in self.failures:
                for made in self.simulated.refunds.of(failure_id):
                    if made["status"] == "PENDING":
                        self.simulated.refunds.settle(failure_id)
        for failure_id in self.failures:
            status, _ = self.seen[failure_id]
            assert status not in OPEN
            made = self.simulated.refunds.of(failure_id)
            if made and made[0]["status"] == "SUCCEEDED" and failure_id not in self.by_hand:
                assert status in ("succeeded", "failed")


@pytest.mark.parametrize("part", parts(range(3)))
@pytest.mark.timeout(240)
def test_refund_is_made_once_in_any_order_of_events(refunding: Harness, simulated: SimulatedGateway, part: int) -> None:
    class Machine(RefundMachine):
        pass

    Machine.harness, Machine.simulated = refunding, simulated
    run_state_machine_as_test(
        seed(part)(Machine),
        settings=settings(
            max_examples=4,
            stateful_step_count=14,
            deadline=None,
            database=None,
            print_blob=True,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        ),
    )
