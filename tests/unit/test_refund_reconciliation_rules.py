"""How a refund of the gateway may differ from ours."""

import datetime as dt
from typing import Any

import pytest

from core.payments.failures.rules import OperatorAction as A
from core.payments.gateway_calls import RefundCall, RefundStateThere
from core.payments.reconciliation.rules import (
    UNDER_WAY,
    KnownRefund,
    RefundDifference,
    is_refund_under_way,
    refund_difference,
)
from core.payments.refunds.states import RefundStatus as S
from tests.each import for_each

NOW = dt.datetime(2026, 11, 25, 12, tzinfo=dt.UTC)
D, R = RefundDifference, RefundStateThere


def report(state: RefundStateThere = R.SUCCEEDED, **more: Any) -> RefundCall:
    """Return a refund of 12,000 Rupiah at the gateway."""
    fields = {"refund_id": "rfd", "amount": 12_000, "currency": "IDR", "failure_code": None, **more}
    return RefundCall(reference="f", state=state, body={}, **fields)


def known(status: S | None, action: A | None = None, refund_id: str | None = "rfd") -> KnownRefund:
    """Return a failure, with a refund of 12,000 Rupiah if there is a status."""
    return KnownRefund(action=action, status=status, amount=status and 12_000, gateway_refund_id=status and refund_id)


@for_each(
    ("refund", "failure", "expected"),
    [
        (report(), known(S.SUCCEEDED, A.REFUNDED), None),
        (report(currency=None), known(S.SUCCEEDED, A.REFUNDED), None),
        (report(), known(S.REQUESTED, refund_id=None), None),
        (report(amount=1), known(S.PENDING), None),
        (report(), known(None, A.REFUNDED), None),
        (report(R.FAILED), None, None),
        (report(R.FAILED), known(None), None),
        (report(R.FAILED), known(S.FAILED), None),
        (report(R.FAILED, refund_id="other"), known(S.SUCCEEDED, A.REFUNDED), None),
        (report(), None, D.REFUND_NOT_RECORDED),
        (report(R.PENDING), None, D.REFUND_NOT_RECORDED),
        (report(), known(None), D.REFUND_NOT_RECORDED),
        (report(), known(None, A.CREDITED), D.REFUND_NOT_RECORDED),
        (report(), known(S.FAILED), D.REFUND_NOT_RECORDED),
        (report(), known(S.FAILED, A.REFUNDED), D.REFUND_NOT_RECORDED),  # paid back twice
        (report(R.PENDING), known(S.FAILED, refund_id=None), D.REFUND_NOT_RECORDED),
        (report(refund_id="other"), known(S.SUCCEEDED, A.REFUNDED), D.REFUND_NOT_RECORDED),
        (report(R.FAILED), known(S.SUCCEEDED, A.REFUNDED), D.REFUND_NOT_PAID),
        (report(R.PENDING), known(S.SUCCEEDED, A.REFUNDED), D.REFUND_NOT_PAID),
        (report(amount=11_999), known(S.SUCCEEDED, A.REFUNDED), D.REFUND_AMOUNT_DIFFERS),
        (report(amount=None), known(S.SUCCEEDED, A.REFUNDED), D.REFUND_AMOUNT_DIFFERS),
        (report(currency="USD"), known(S.SUCCEEDED, A.REFUNDED), D.REFUND_AMOUNT_DIFFERS),
    ],
)
def test_difference_of_a_refund_and_its_failure(
    refund: RefundCall, failure: KnownRefund | None, expected: RefundDifference | None
) -> None:
    assert refund_difference(refund, failure) is expected


@pytest.mark.parametrize(
    ("created", "updated", "expected"),
    [
        (NOW - UNDER_WAY, NOW - UNDER_WAY, False),
        (NOW - UNDER_WAY, NOW - UNDER_WAY / 2, True),
        (NOW - UNDER_WAY / 2, None, True),
        (None, None, False),  # without a time it is compared: a false alarm is better than missed money
    ],
)
def test_refund_that_changed_just_before_the_end_is_under_way(
    created: dt.datetime | None, updated: dt.datetime | None, expected: bool
) -> None:
    assert is_refund_under_way(created, updated, until=NOW) is expected
