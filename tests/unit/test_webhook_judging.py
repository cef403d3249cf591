"""The result of a gateway call, for every state and any JSON (docs/product.md#how-a-payment-is-confirmed)."""

import datetime as dt
import itertools
import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.base.plain_json import plain_text
from core.payments.gateway_calls import (
    PAID_STATUSES,
    CallCase,
    Effect,
    Facts,
    InvoiceCall,
    InvoiceOwner,
    Issued,
    Judgement,
    RefundCall,
    UnreadableCall,
    is_callback_token,
    judge,
    overpaid_by,
    parse,
    read_invoice_call,
    whole_idr,
)
from core.payments.states import EDGES, PAID, PaymentStatus
from tests.each import for_each

NOW = dt.datetime(2026, 11, 21, 6, tzinfo=dt.UTC)
EXPIRES = NOW + dt.timedelta(minutes=20)
REQUEST_ID = "01900000-0000-7000-8000-000000000001"
BODY = {"id": "inv-1", "external_id": REQUEST_ID, "status": "PAID", "amount": 12000}
# Everything that json.loads can return, including lone surrogates and numbers beyond floats.
TEXT = st.text(st.characters(exclude_categories=()), max_size=30)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXT)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=6,
)
TIMES = st.datetimes(timezones=st.timezones()).map(lambda at: at.isoformat())
NEAR = st.fixed_dictionaries(
    {},
    optional={
        "id": st.one_of(st.sampled_from(["inv-1", "inv-2"]), JSON),
        "external_id": st.one_of(st.just(REQUEST_ID), JSON),
        "status": st.one_of(st.sampled_from(["PAID", "SETTLED", "EXPIRED", "PENDING", "paid"]), JSON),
        "amount": st.one_of(st.integers(0, 30000), JSON),
        "paid_amount": st.one_of(st.integers(0, 30000), JSON),
        "currency": st.one_of(st.sampled_from(["IDR", "USD"]), JSON),
        "paid_at": st.one_of(TIMES, JSON),
        "metadata": st.one_of(st.fixed_dictionaries({"app": st.one_of(st.just("sesi"), JSON)}), JSON),
        "anything": JSON,
    },
)
ISSUED = st.builds(
    lambda status, amount, invoice, minutes: an_issued(
        status=status, amount=amount, invoice_id=invoice, expires_at=NOW + dt.timedelta(minutes=minutes)
    ),
    st.sampled_from(PaymentStatus),
    st.sampled_from([0, 2000, 12000]),
    st.sampled_from([None, "inv-1"]),
    st.integers(-60, 60),
)


def an_issued(
    *,
    status: PaymentStatus = PaymentStatus.PENDING,
    amount: int = 12000,
    expires_at: dt.datetime = EXPIRES,
    invoice_id: str | None = "inv-1",
) -> Issued:
    return Issued(
        status=status, amount=amount, expires_at=expires_at, invoice_id=invoice_id, was_confirmed=status in PAID
    )


def read_call(body: Any, *, app_tag: str) -> InvoiceCall | CallCase:
    """Return the invoice of a body, or the case that decides it."""
    read = read_invoice_call(body, app_tag=app_tag)
    return read.case if isinstance(read, UnreadableCall) else read


def a_call(**changed: Any) -> InvoiceCall:
    read = read_call(BODY | changed, app_tag="sesi")
    assert isinstance(read, InvoiceCall)
    return read


def case_of(call: InvoiceCall, issued: Issued, *, received_at: dt.datetime) -> CallCase:
    """Return the case of a call about a request of which nothing else is known."""
    return judge(call, Facts(issued=issued, received_at=received_at)).case


# -- parsing


@given(JSON)
@example(math.nan)
def test_any_json_is_a_gateway_call_or_a_result(body: Any):
    assert isinstance(read_call(body, app_tag="sesi"), InvoiceCall | CallCase)


@given(st.one_of(st.binary(max_size=100), JSON.map(lambda body: json.dumps(body).encode())))
@example(b"{" * 100_000)
def test_any_body_of_the_webhook_is_read(raw: bytes):
    assert isinstance(parse(raw, app_tag="sesi").content, InvoiceCall | RefundCall | UnreadableCall)


@given(st.sampled_from(["refund.succeeded", "REFUND.FAILED"]), JSON, st.booleans())
def test_event_about_a_refund_is_never_read_as_an_invoice(event: str, data: Any, is_nested: bool):
    body = BODY | {"event": event, "data": {"data": data} if is_nested else data}
    assert isinstance(parse(json.dumps(body).encode(), app_tag="sesi").content, RefundCall | UnreadableCall)


@given(NEAR)
@example(BODY | {"amount": math.inf})
@example(BODY | {"amount": math.nan})
@example(BODY | {"paid_amount": -math.inf})
def test_any_body_like_a_gateway_call_is_a_call_or_a_result(body: dict[str, Any]):
    assert isinstance(read_call(body, app_tag="sesi"), InvoiceCall | CallCase)


@given(NEAR, ISSUED, st.integers(-7200, 7200))
def test_every_parsed_gateway_call_has_a_result(body: dict[str, Any], issued: Issued, later: int):
    finite = {k: v for k, v in (BODY | body).items() if not isinstance(v, float) or math.isfinite(v)}
    call = read_call(BODY | finite, app_tag="sesi")
    if isinstance(call, InvoiceCall):
        assert isinstance(case_of(call, issued, received_at=NOW + dt.timedelta(seconds=later)), CallCase)
        assert overpaid_by(call, issued) >= 0


@pytest.mark.parametrize("body", [None, [], "PAID", 7, True, [BODY], {}])
def test_body_that_is_empty_or_not_an_object_is_an_invalid_payload(body: Any):
    assert read_call(body, app_tag="sesi") is CallCase.INVALID_PAYLOAD


@pytest.mark.parametrize("field", ["id", "external_id", "status", "amount"])
def test_paid_call_without_a_required_field_is_an_invalid_payload(field: str):
    assert read_call({k: v for k, v in BODY.items() if k != field}, app_tag="sesi") is CallCase.INVALID_PAYLOAD


@for_each(
    ("field", "value"),
    [
        *itertools.product(["id", "status", "amount"], [None, "", [], {}, True, 1.5]),
        *itertools.product(["external_id"], [None, [], {}, True]),
    ],
)
def test_field_of_the_wrong_type_counts_as_missing(field: str, value: Any):
    assert read_call(BODY | {field: value}, app_tag="sesi") is CallCase.INVALID_PAYLOAD


@for_each("value", ["1e999", "NaN", "Infinity", "-Infinity"])
@for_each("field", ["amount", "paid_amount"])
def test_infinite_or_nan_amount_is_an_invalid_payload(field: str, value: str):
    body = json.loads(json.dumps(BODY | {field: "@"}).replace('"@"', value))
    assert read_call(body, app_tag="sesi") is CallCase.INVALID_PAYLOAD


@pytest.mark.parametrize("value", ["12000", 1.5, True, [], 2**31])
def test_paid_amount_that_is_not_whole_idr_is_an_invalid_payload(value: Any):
    assert read_call(BODY | {"paid_amount": value}, app_tag="sesi") is CallCase.INVALID_PAYLOAD


def test_invoice_id_that_does_not_fit_its_column_is_an_invalid_payload():
    for invoice_id in ("inv\0", "x" * 256, json.loads('"\\ud800"')):
        assert read_call(BODY | {"id": invoice_id}, app_tag="sesi") is CallCase.INVALID_PAYLOAD


@for_each("value", ["", 0, 17, -1.5, 10**400, "order-7", REQUEST_ID + " ", REQUEST_ID.replace("-", ""), "x" * 5000])
def test_external_id_that_is_not_a_uuid_belongs_to_another_app(value: Any):
    assert read_call(BODY | {"external_id": value}, app_tag="sesi") is CallCase.NON_UUID


@pytest.mark.parametrize(
    "odd", [{"amount": 12000.5}, {"amount": 3 * 10**9}, {"amount": None}, {"id": None}, {"status": 7}, {"currency": 5}]
)
def test_call_of_another_app_may_have_any_format(odd: dict[str, Any]):
    assert read_call(BODY | {"external_id": "legacy-17"} | odd, app_tag="sesi") is CallCase.NON_UUID
    assert read_call(BODY | {"metadata": {"app": "other"}} | odd, app_tag="sesi") is CallCase.FOREIGN_APP


@pytest.mark.parametrize("app", ["other", "SESI", "", 7, [], {"a": 1}, True])
def test_call_with_another_app_tag_belongs_to_another_app(app: Any):
    assert read_call(BODY | {"metadata": {"app": app}}, app_tag="sesi") is CallCase.FOREIGN_APP


@pytest.mark.parametrize("metadata", [None, {}, {"app": "sesi"}, {"app": None}, {"other": 1}, [], "sesi"])
def test_metadata_may_be_missing_or_name_this_app(metadata: Any):
    assert isinstance(read_call(BODY | {"metadata": metadata}, app_tag="sesi"), InvoiceCall)


def test_external_id_and_status_are_case_insensitive():
    call = a_call(external_id=REQUEST_ID.upper(), status="settled")
    assert (call.external_id, call.status) == (REQUEST_ID, "SETTLED")


def test_unknown_fields_of_a_gateway_call_are_accepted():
    assert isinstance(read_call(BODY | {"payer_email": "a@b", "fees": [1]}, app_tag="sesi"), InvoiceCall)


@pytest.mark.parametrize("paid_at", [None, "", "yesterday", "2026-11-21T06:00:00", 7, [], "2026-11-21"])
def test_unreadable_time_of_payment_counts_as_none(paid_at: Any):
    assert a_call(paid_at=paid_at).paid_at is None


@pytest.mark.parametrize("paid_at", ["2026-11-21T06:00:00Z", "2026-11-21T13:00:00.000+07:00"])
def test_time_of_payment_is_parsed_with_its_zone(paid_at: str):
    assert a_call(paid_at=paid_at).paid_at == NOW


@given(st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False)))
def test_whole_idr_returns_an_integer_that_fits_the_column_or_none(value: float):
    read = whole_idr(value)
    assert read == (int(value) if value == int(value) and abs(value) < 2**31 else None)
    assert read is None or type(read) is int


@for_each("value", [None, True, False, "12000", [], {}, math.nan, math.inf, -math.inf])
def test_text_that_is_not_a_number_is_not_an_amount(value: Any):
    assert whole_idr(value) is None


# -- judging

STATUSES = ("PAID", "SETTLED", "EXPIRED", "PENDING", "FAILED", "REFUNDED")


@for_each(("state", "status", "late"), list(itertools.product(PaymentStatus, STATUSES, (False, True))), ids=str)
def test_every_state_and_status_have_the_result_of_the_table(state: PaymentStatus, status: str, late: bool):
    received = EXPIRES + dt.timedelta(seconds=61 if late else 60)
    case = case_of(a_call(status=status), an_issued(status=state), received_at=received)
    if status == "EXPIRED":
        wanted = CallCase.EXPIRED if state is PaymentStatus.PENDING else CallCase.IGNORED_STATUS
    elif status not in ("PAID", "SETTLED"):
        wanted = CallCase.IGNORED_STATUS
    elif state in PAID:
        wanted = CallCase.DUPLICATE
    elif state is PaymentStatus.PENDING or (state is PaymentStatus.EXPIRED and not late):
        wanted = CallCase.CONFIRMED
    else:
        wanted = CallCase.LATE
    assert case is wanted


EFFECTS = {
    CallCase.EXPIRED: {Effect.EXPIRE},
    CallCase.CONFIRMED: {Effect.CONFIRM},
    CallCase.NOT_PAIRABLE: {Effect.FAIL},
    CallCase.LATE: {Effect.FAIL, Effect.RECORD_MORE},
    CallCase.DUPLICATE: {Effect.KEEP, Effect.NONE},
    CallCase.CONFLICT: {Effect.NONE, Effect.FAIL_SHORT},
    CallCase.IGNORED_STATUS: {Effect.NONE},
}


@given(NEAR, ISSUED, st.sampled_from(InvoiceOwner), st.booleans(), st.booleans())
def test_case_and_effect_of_a_judgement_agree_for_all_facts(
    body: dict[str, Any], issued: Issued, owner: InvoiceOwner, was_by_hand: bool, has_obstacle: bool
):
    call = read_call(BODY | {k: v for k, v in body.items() if not isinstance(v, float)}, app_tag="sesi")
    if not isinstance(call, InvoiceCall):
        return
    by_hand_at = NOW - dt.timedelta(hours=1) if was_by_hand and issued.was_confirmed else None
    judgement = judge(
        call, Facts(issued=issued, received_at=NOW, owner=owner, by_hand_at=by_hand_at, has_obstacle=has_obstacle)
    )
    assert judgement.effect in EFFECTS[judgement.case]
    assert (judgement.effect is Effect.RECORD_MORE) <= (by_hand_at is not None)
    if call.status in PAID_STATUSES and owner is not InvoiceOwner.THIS_OR_NONE:
        assert judgement.effect is Effect.NONE
    if has_obstacle:
        assert judgement.case is not CallCase.CONFIRMED


def test_facts_decide_about_money_that_would_fit():
    def judged(status: PaymentStatus, **facts: Any) -> Judgement:
        call = a_call(paid_at=NOW.isoformat(), **facts.pop("call", {}))
        return judge(call, Facts(issued=an_issued(status=status), received_at=NOW, **facts))

    pending, confirmed = PaymentStatus.PENDING, PaymentStatus.CONFIRMED
    hour_ago = NOW - dt.timedelta(hours=1)
    assert judged(pending, has_obstacle=True) == Judgement(case=CallCase.NOT_PAIRABLE, effect=Effect.FAIL)
    assert judged(pending, owner=InvoiceOwner.ANOTHER).case is CallCase.CONFLICT
    assert judged(confirmed, owner=InvoiceOwner.MORE_MONEY) == Judgement(case=CallCase.DUPLICATE)
    assert judged(confirmed, by_hand_at=hour_ago) == Judgement(case=CallCase.LATE, effect=Effect.RECORD_MORE)
    assert judged(confirmed, by_hand_at=NOW).effect is Effect.KEEP  # the payment that the operator had seen
    assert judged(confirmed, by_hand_at=hour_ago, call={"currency": "USD"}).case is CallCase.CONFLICT
    assert judged(pending, call={"paid_amount": 15000}).note == "overpaid by 3000"


@pytest.mark.parametrize("state", PaymentStatus)
def test_expiry_of_another_invoice_is_ignored(state: PaymentStatus):
    call = a_call(status="EXPIRED", id="inv-2")
    assert case_of(call, an_issued(status=state), received_at=NOW) is CallCase.IGNORED_STATUS


@pytest.mark.parametrize("changed", [{"amount": 11999}, {"paid_amount": 1}, {"currency": "USD"}])
def test_other_payment_of_a_request_confirmed_by_hand_is_a_conflict(changed: dict[str, Any]):
    by_hand = an_issued(status=PaymentStatus.CONFIRMED, invoice_id=None)
    assert case_of(a_call(**changed), by_hand, received_at=NOW) is CallCase.CONFLICT
    assert case_of(a_call(), by_hand, received_at=NOW) is CallCase.DUPLICATE
    told = an_issued(status=PaymentStatus.CONFIRMED)
    assert case_of(a_call(**changed), told, received_at=NOW) is CallCase.DUPLICATE


@given(NEAR, ISSUED, st.integers(-7200, 7200))
def test_result_that_changes_the_state_is_allowed_and_requires_the_full_amount(
    body: dict[str, Any], issued: Issued, later: int
):
    received_at = NOW + dt.timedelta(seconds=later)
    finite = {k: v for k, v in body.items() if not isinstance(v, float) or math.isfinite(v)}
    call = read_call(BODY | finite, app_tag="sesi")
    if not isinstance(call, InvoiceCall):
        return
    case = case_of(call, issued, received_at=received_at)
    target = {
        CallCase.CONFIRMED: PaymentStatus.CONFIRMED,
        CallCase.LATE: PaymentStatus.FAILED_PAIRING,
        CallCase.EXPIRED: PaymentStatus.EXPIRED,
    }.get(case)
    if target is None:
        return
    assert (issued.status, target) in EDGES
    if case is not CallCase.EXPIRED:
        paid = call.amount if call.paid_amount is None else call.paid_amount
        assert paid is not None
        assert paid >= issued.amount
        assert issued.invoice_id in (None, call.invoice_id)
        assert overpaid_by(call, issued) == paid - issued.amount


@for_each("state", [PaymentStatus.PENDING, PaymentStatus.EXPIRED, PaymentStatus.ABANDONED])
@for_each(
    "changed",
    [
        {"amount": 11999},
        {"paid_amount": 11999},
        {"paid_amount": 0},
        {"amount": -1},
        {"currency": "USD"},
        {"id": "inv-2"},
    ],
    ids=str,
)
def test_wrong_amount_currency_or_invoice_is_a_conflict(state: PaymentStatus, changed: dict[str, Any]):
    assert case_of(a_call(**changed), an_issued(status=state), received_at=NOW) is CallCase.CONFLICT


@pytest.mark.parametrize("currency", ["UNITED STATES DOLLAR", 840, {"code": "USD"}, ["USD"]], ids=str)
def test_currency_other_than_idr_never_confirms(currency: Any):
    read = read_call(BODY | {"currency": currency}, app_tag="sesi")
    case = read if isinstance(read, CallCase) else case_of(read, an_issued(), received_at=NOW)
    assert case in (CallCase.CONFLICT, CallCase.INVALID_PAYLOAD)


@pytest.mark.parametrize("currency", [None, "IDR"])
def test_missing_currency_counts_as_idr(currency: str | None):
    assert case_of(a_call(currency=currency), an_issued(), received_at=NOW) is CallCase.CONFIRMED


@pytest.mark.parametrize("state", sorted(PAID))
def test_second_payment_with_another_invoice_is_a_conflict(state: PaymentStatus):
    assert case_of(a_call(id="inv-2"), an_issued(status=state), received_at=NOW) is CallCase.CONFLICT


def test_first_invoice_counts_if_none_was_issued():
    assert case_of(a_call(id="whatever"), an_issued(invoice_id=None), received_at=NOW) is CallCase.CONFIRMED


def test_overpayment_confirms_and_its_difference_is_known():
    call = a_call(paid_amount=15000)
    assert case_of(call, an_issued(), received_at=NOW) is CallCase.CONFIRMED
    assert overpaid_by(call, an_issued()) == 3000
    assert overpaid_by(a_call(), an_issued()) == 0


@pytest.mark.parametrize("seconds", [-3600, 0, 60, 61, 3600])
def test_expired_request_paid_in_time_is_confirmed_however_late_the_call(seconds: int):
    paid_at = (EXPIRES + dt.timedelta(seconds=seconds)).isoformat()
    case = case_of(
        a_call(paid_at=paid_at), an_issued(status=PaymentStatus.EXPIRED), received_at=EXPIRES + dt.timedelta(days=1)
    )
    assert case is (CallCase.CONFIRMED if seconds <= 60 else CallCase.LATE)


def test_abandoned_request_is_never_confirmed_even_if_paid_in_time():
    call = a_call(paid_at=NOW.isoformat())
    assert case_of(call, an_issued(status=PaymentStatus.ABANDONED), received_at=NOW) is CallCase.LATE


def test_free_request_is_not_confirmed_by_a_payment():
    assert case_of(a_call(amount=0), an_issued(amount=0), received_at=NOW) is CallCase.CONFIRMED


def test_answers_to_the_gateway_equal_the_documented_ones():
    assert {(case.result, case.http_status) for case in CallCase} == {
        ("unauthorized", 401), ("flood", 401), ("invalid_payload", 400), ("invalid_payload", 413), ("ignored_non_uuid_external_id", 200),
        ("ignored_foreign_app", 200), ("unknown_external_id", 404), ("confirmed", 200), ("duplicate", 200),
        ("late_payment_recorded", 200), ("paid_not_pairable", 200), ("conflict", 409), ("expired", 200),
        ("ignored_status", 200), ("error", 500),
        ("refund_succeeded", 200), ("refund_failed", 200),
    }  # fmt: skip


# -- the token and the log


@for_each("given_token", [None, "", "x", "token ", " token", "TOKEN", "tökën", "token\0"])
def test_only_the_exact_callback_token_is_accepted(given_token: str | None):
    assert is_callback_token("token", ("token",))
    assert not is_callback_token(given_token, ("token",))


@pytest.mark.parametrize("given_token", [None, "", "x"])
def test_no_callback_token_is_accepted_if_none_is_configured(given_token: str | None):
    assert not is_callback_token(given_token, ())


def test_each_of_several_callback_tokens_is_accepted():
    assert is_callback_token("new", ("new", "old"))
    assert is_callback_token("old", ("new", "old"))
    assert not is_callback_token("new,old", ("new", "old"))


@given(st.text(st.characters(max_codepoint=255)), st.text(min_size=1))
def test_any_callback_header_is_compared_without_an_error(given_token: str, expected: str):
    assert is_callback_token(given_token, (expected,)) is (given_token == expected)


@given(JSON)
def test_any_received_value_becomes_text_that_fits_its_column(value: Any):
    text = plain_text(value, 20)
    if text is None:
        assert value is None or isinstance(value, list | dict)
    else:
        assert len(text) <= 20
        assert b"\0" not in text.encode()
