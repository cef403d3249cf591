"""The state tables: every pair of states, allowed or not (docs/product.md#states-of-a-payment-request)."""

import itertools

import pytest

from core.base.machine import NoTransition, check_edge
from core.payments import states as payments
from core.payments.states import PaymentStatus
from core.sessions import states as sessions
from core.sessions.states import SessionStatus

# As in the two tables of docs/product.md.
PAYMENT = {
    "pending": {"confirmed", "abandoned", "expired", "failed_pairing"},
    "confirmed": {"consumed", "failed_pairing"},
    "consumed": set(),
    "failed_pairing": {"confirmed"},
    "abandoned": {"failed_pairing"},
    "expired": {"confirmed", "failed_pairing"},
}
SESSION = {
    "searching": {"active", "cancelled", "failed"},
    "active": {"expired", "closing"},
    "expired": {"active", "closing", "completed"},
    "closing": {"completed"},
    "completed": set(),
    "cancelled": set(),
    "failed": set(),
}


@pytest.mark.parametrize(("before", "after"), list(itertools.product(PaymentStatus, repeat=2)))
def test_payment_request_allows_only_the_documented_state_changes(before: PaymentStatus, after: PaymentStatus):
    if after.value in PAYMENT[before.value]:
        assert check_edge(payments.EDGES, before, after) is after
    else:
        with pytest.raises(NoTransition, match=f"{before} -> {after}"):
            check_edge(payments.EDGES, before, after)


@pytest.mark.parametrize(("before", "after"), list(itertools.product(SessionStatus, repeat=2)))
def test_session_allows_only_the_documented_state_changes(before: SessionStatus, after: SessionStatus):
    if after.value in SESSION[before.value]:
        assert check_edge(sessions.EDGES, before, after) is after
    else:
        with pytest.raises(NoTransition, match=f"{before} -> {after}"):
            check_edge(sessions.EDGES, before, after)


def test_consumed_payment_request_is_final():
    assert not [edge for edge in payments.EDGES if edge[0] is PaymentStatus.CONSUMED]


def test_paid_request_never_becomes_unpaid():
    assert not [edge for edge in payments.EDGES if edge[0] in payments.PAID and edge[1] not in payments.PAID]


def test_final_session_states_are_those_without_a_state_change():
    assert {status for status in SessionStatus if not SESSION[status.value]} == sessions.FINAL


def test_every_session_state_can_reach_a_final_one():
    for start in SessionStatus:
        reached = {start}
        for _ in SessionStatus:
            reached |= {after for before, after in sessions.EDGES if before in reached}
        assert reached & sessions.FINAL


def test_sets_of_states_equal_the_documented_ones():
    assert {"searching", "active", "expired"} == sessions.LIVE
    assert {"active", "expired"} == sessions.HELD
    assert {"active", "expired", "closing"} == sessions.OPEN
