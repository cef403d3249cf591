"""Phone codes: hourly limits, cooldown and the keyed hash (docs/product.md#phone-codes)."""

import datetime as dt
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.accounts.logins.otp import (
    CODE_LENGTH,
    LIFETIME,
    REFUSED_NUMBERS,
    WINDOW,
    CodesAsked,
    Limits,
    OtpBudgetExceeded,
    OtpCooldown,
    OtpRateLimitIp,
    OtpRateLimitPhone,
    code_for,
    hash_code,
    hit_by,
    hit_by_budget,
    same,
)
from core.base.errors import DomainError

NOW = dt.datetime(2026, 11, 21, 6, tzinfo=dt.UTC)
KEY = b"k" * 32
REQUEST = "01900000-0000-7000-8000-000000000006"
LIMITS = st.builds(
    lambda phone, ip, cooldown: Limits(per_phone=phone, per_ip=ip, cooldown=dt.timedelta(seconds=cooldown)),
    st.integers(0, 4),
    st.integers(0, 6),
    st.sampled_from([1, 60, 600, 3600]),
)
# (seconds since the previous request, phone, address) of each request
HISTORIES = st.lists(
    st.tuples(
        st.one_of(st.sampled_from([0, 1, 59, 60, 600, 3600]), st.floats(0, 2000)),
        st.sampled_from("ab"),
        st.sampled_from("xy"),
    ),
    max_size=40,
)


def within_the_hour(times: list[dt.datetime], now: dt.datetime) -> tuple[dt.datetime, ...]:
    return tuple(at for at in times if at > now - WINDOW)


def refusal(asked: CodesAsked, limits: Limits, now: dt.datetime) -> DomainError | None:
    hit = hit_by(asked, limits, now=now)
    return None if hit is None else hit.refusal(retry_after_seconds=hit.retry_after_seconds)


@given(LIMITS, HISTORIES)
def test_otp_limits_hold_exactly_for_any_history(limits: Limits, history: list[tuple[float, str, str]]):
    """No phone or address gets more than the limit in any hour, and none is refused below it."""
    sent: list[tuple[dt.datetime, str, str]] = []
    now = NOW
    for pause, phone, ip in history:
        now += dt.timedelta(seconds=pause)
        by_phone = within_the_hour([at for at, p, _ in sent if p == phone], now)
        by_ip = within_the_hour([at for at, _, i in sent if i == ip], now)
        error = refusal(CodesAsked(by_phone=by_phone, by_ip=by_ip), limits, now)
        reasons: set[type[DomainError]] = set()
        if len(by_phone) >= limits.per_phone:
            reasons.add(OtpRateLimitPhone)
        if len(by_ip) >= limits.per_ip:
            reasons.add(OtpRateLimitIp)
        if by_phone and now - by_phone[-1] < limits.cooldown:
            reasons.add(OtpCooldown)
        if error is None:
            assert not reasons
            sent.append((now, phone, ip))
        else:
            assert type(error) in reasons
    for phone in "ab":
        times = [at for at, p, _ in sent if p == phone]
        for at in times:
            assert len([t for t in times if at - WINDOW < t <= at]) <= limits.per_phone
    for ip in "xy":
        times = [at for at, _, i in sent if i == ip]
        for at in times:
            assert len([t for t in times if at - WINDOW < t <= at]) <= limits.per_ip


@given(LIMITS, st.lists(st.integers(1, 3_599_999), min_size=1, max_size=8), st.booleans())
def test_otp_wait_is_the_shortest_that_is_enough(limits: Limits, ages: list[int], one_phone: bool):
    times = sorted(NOW - dt.timedelta(milliseconds=age) for age in ages)

    def ask(now: dt.datetime) -> DomainError | None:
        counted = within_the_hour(times, now)
        return refusal(CodesAsked(by_phone=counted if one_phone else (), by_ip=counted), limits, now)

    error = ask(NOW)
    if error is None or 0 in (limits.per_phone, limits.per_ip):
        return
    wait = error.retry_after_seconds
    assert wait is not None
    assert wait >= 1
    after = ask(NOW + dt.timedelta(seconds=wait))
    assert after is None
    if wait > 1:
        assert ask(NOW + dt.timedelta(seconds=wait - 1)) is not None


@given(st.integers(1, 3600), st.floats(0, 3600))
def test_otp_cooldown_returns_the_whole_seconds_until_its_end(cooldown: int, passed: float):
    limits = Limits(per_phone=5, per_ip=5, cooldown=dt.timedelta(seconds=cooldown))
    now = NOW + dt.timedelta(seconds=passed)
    error = refusal(CodesAsked(by_phone=(NOW,), by_ip=()), limits, now)
    left = (NOW + limits.cooldown - now).total_seconds()
    if left <= 0:
        assert error is None
    else:
        assert isinstance(error, OtpCooldown)
        assert error.retry_after_seconds == max(1, math.ceil(left))


def test_first_otp_request_is_never_refused():
    assert refusal(CodesAsked(by_phone=(), by_ip=()), Limits(per_phone=1, per_ip=1, cooldown=WINDOW), NOW) is None


def test_otp_limit_of_zero_refuses_every_request():
    nobody = CodesAsked(by_phone=(), by_ip=())
    assert isinstance(refusal(nobody, Limits(per_phone=0, per_ip=9, cooldown=LIFETIME), NOW), OtpRateLimitPhone)
    assert isinstance(refusal(nobody, Limits(per_phone=9, per_ip=0, cooldown=LIFETIME), NOW), OtpRateLimitIp)


def test_otp_cooldown_does_not_apply_to_another_phone_of_the_address():
    limits = Limits(per_phone=3, per_ip=3, cooldown=dt.timedelta(seconds=60))
    assert refusal(CodesAsked(by_phone=(), by_ip=(NOW,)), limits, NOW) is None


def test_otp_code_has_six_digits_and_lasts_five_minutes():
    assert CODE_LENGTH == 6
    assert dt.timedelta(minutes=5) == LIFETIME
    assert dt.timedelta(hours=1) == WINDOW


@pytest.mark.parametrize(
    "changed",
    [{"key": b"o" * 32}, {"otp_request_id": REQUEST[:-1] + "7"}, {"code": "123457"}, {"code": "0123456"}],
    ids=str,
)
def test_otp_hash_depends_on_key_request_and_code(changed: dict[str, object]):
    right = {"key": KEY, "otp_request_id": REQUEST, "code": "123456"}
    assert same(hash_code(**right), hash_code(**right))  # type: ignore[arg-type]
    assert not same(hash_code(**right), hash_code(**right | changed))  # type: ignore[arg-type]


def test_otp_hash_hides_the_code_and_fits_its_column():
    made = hash_code(key=KEY, otp_request_id=REQUEST, code="123456")
    assert "123456" not in made
    assert len(made) == 64


@given(st.text(), st.text())
def test_any_text_can_be_compared_with_an_otp_hash(one: str, two: str):
    hashes = [hash_code(key=KEY, otp_request_id=REQUEST, code=code) for code in (one, two)]
    assert same(*hashes) is (one == two)
    assert not same(hashes[0], "")


def test_address_is_limited_to_thirty_refused_numbers():
    limits = Limits(per_phone=3, per_ip=10, cooldown=dt.timedelta(seconds=60))
    refused = tuple(NOW - dt.timedelta(minutes=n) for n in reversed(range(REFUSED_NUMBERS)))
    assert hit_by(CodesAsked(by_phone=(), by_ip=(), refused_by_ip=refused[1:]), limits, now=NOW) is None
    hit = hit_by(CodesAsked(by_phone=(), by_ip=(), refused_by_ip=refused), limits, now=NOW)
    assert hit is not None
    assert (hit.limit, hit.refusal, hit.retry_after_seconds) == ("otp_refused_numbers", OtpRateLimitIp, 31 * 60)


def test_otp_budget_is_free_an_hour_after_the_code_that_filled_it():
    assert hit_by_budget(None, None, now=NOW) is None
    minutes = [NOW - dt.timedelta(minutes=59 - n) for n in range(2)]
    for full, share, name, wait in (
        (minutes[0], None, "otp_budget", 60),
        (None, minutes[0], "otp_budget_share", 60),
        (minutes[0], minutes[1], "otp_budget", 120),
    ):
        hit = hit_by_budget(full, share, now=NOW)
        assert hit is not None
        assert (hit.limit, hit.refusal, hit.retry_after_seconds) == (name, OtpBudgetExceeded, wait)


def test_otp_code_is_the_same_per_request_and_differs_between_requests():
    made = {code_for(key=KEY, otp_request_id=f"{REQUEST[:-4]}{n:04d}") for n in range(2000)}
    assert code_for(key=KEY, otp_request_id=REQUEST) == code_for(key=KEY, otp_request_id=REQUEST)
    assert code_for(key=KEY, otp_request_id=REQUEST) != code_for(key=b"o" * 32, otp_request_id=REQUEST)
    assert all(len(code) == CODE_LENGTH and code.isdigit() for code in made)
    assert len(made) > 1990  # two of them may be equal by chance in 2,000
    firsts = [sum(code[0] == digit for code in made) for digit in "0123456789"]
    assert min(firsts) > 120
