"""State tables in general, and what those of payment requests and sessions must hold."""

import itertools

import pytest

from core.base.machine import NoTransition, check_edge, final
from core.payments import states as payments
from core.payments.states import PaymentStatus
from core.sessions import states as sessions
from core.sessions.extensions import states as extensions
from core.sessions.extensions.states import ExtensionStatus
from core.sessions.states import SessionStatus
from tests.each import for_each


@for_each(("before", "after"), list(itertools.product(ExtensionStatus, repeat=2)))
def test_check_edge_raises_unless_the_table_has_the_edge(before: ExtensionStatus, after: ExtensionStatus):
    if before is ExtensionStatus.PENDING and after is not ExtensionStatus.PENDING:
        assert check_edge(extensions.EDGES, before, after) is after
    else:
        with pytest.raises(NoTransition, match=f"{before} -> {after}"):
            check_edge(extensions.EDGES, before, after)


def test_state_is_its_stored_value_and_has_a_meaning():
    assert PaymentStatus("pending") is PaymentStatus.PENDING
    assert (PaymentStatus.PENDING.value, f"{PaymentStatus.PENDING}") == ("pending", "pending")
    assert PaymentStatus.PENDING.meaning == "The service waits for the money."


def test_consumed_payment_request_is_final():
    assert final(PaymentStatus, payments.EDGES) == {PaymentStatus.CONSUMED}


def test_paid_request_never_becomes_unpaid():
    assert not [edge for edge in payments.EDGES if edge[0] in payments.PAID and edge[1] not in payments.PAID]


def test_every_session_state_can_reach_a_final_one():
    for start in SessionStatus:
        reached = {start}
        for _ in SessionStatus:
            reached |= {after for before, after in sessions.EDGES if before in reached}
        assert reached & sessions.FINAL


def test_sets_of_session_states_equal_the_documented_ones():
    assert {"completed", "cancelled", "failed"} == sessions.FINAL
    assert {"searching", "active", "expired"} == sessions.LIVE
    assert {"active", "expired"} == sessions.HELD
    assert {"active", "expired", "closing"} == sessions.OPEN
    assert {"searching", "active", "expired", "closing"} == sessions.UNENDED
