"""One-time codes (RFC 6238) and what is stored about them (docs/product.md#second-factor)."""

import datetime as dt
import urllib.parse

import pytest

from core.accounts.operators import login_token, totp
from core.accounts.operators.login_token import LoginTokenInvalid
from core.security.keys import Keys

RFC_SECRET = b"12345678901234567890"
# RFC 6238, appendix B (SHA-1); codes here are the last six of its eight digits.
RFC_CODES = {
    59: "94287082", 1111111109: "07081804", 1111111111: "14050471", 1234567890: "89005924", 2000000000: "69279037",
    20000000000: "65353130",
}  # fmt: skip
NOW = dt.datetime(2026, 11, 23, 9, 0, 10, tzinfo=dt.UTC)
STEP = totp.step_of(NOW)
OPERATOR, OTHER = "019ad0b2-0000-7000-8000-000000000001", "019ad0b2-0000-7000-8000-000000000002"
OLD, NEW = b"o" * 32, b"n" * 32


@pytest.mark.parametrize(("seconds", "code"), RFC_CODES.items())
def test_totp_codes_equal_those_of_the_rfc(seconds: int, code: str):
    at = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=seconds)
    assert totp.code_at(RFC_SECRET, totp.step_of(at)) == code[-6:]


@pytest.mark.parametrize("away", [-1, 0, 1])
def test_totp_code_of_this_or_an_adjacent_step_is_accepted(away: int):
    assert (
        totp.matching_step(RFC_SECRET, totp.code_at(RFC_SECRET, STEP + away), real_now=NOW, after=None) == STEP + away
    )


@pytest.mark.parametrize("away", [-2, 2, 100])
def test_totp_code_of_another_step_is_refused(away: int):
    assert totp.matching_step(RFC_SECRET, totp.code_at(RFC_SECRET, STEP + away), real_now=NOW, after=None) is None


@pytest.mark.parametrize("code", ["", "12345", "1234567", "abcdef", "١٢٣٤٥٦", "\ud800" * 6])
def test_text_that_is_not_a_totp_code_is_refused(code: str):
    assert totp.matching_step(RFC_SECRET, code, real_now=NOW, after=None) is None


def test_used_totp_code_and_earlier_ones_are_refused():
    codes = {step: totp.code_at(RFC_SECRET, step) for step in (STEP - 1, STEP, STEP + 1)}
    seen = {step: totp.matching_step(RFC_SECRET, code, real_now=NOW, after=STEP) for step, code in codes.items()}
    assert seen == {STEP - 1: None, STEP: None, STEP + 1: STEP + 1}


def test_otpauth_uri_names_the_account_and_the_secret():
    uri = urllib.parse.urlsplit(totp.otpauth_uri(email="a+b@example.test", secret=RFC_SECRET))
    assert (uri.scheme, uri.netloc, urllib.parse.unquote(uri.path)) == ("otpauth", "totp", "/Sesi:a+b@example.test")
    assert dict(urllib.parse.parse_qsl(uri.query)) == {
        "secret": "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ", "issuer": "Sesi", "algorithm": "SHA1", "digits": "6", "period": "30",
    }  # fmt: skip


def test_sealed_totp_secret_opens_only_with_its_key_for_its_operator():
    old, both = Keys([OLD]).totp_secrets, Keys([NEW, OLD]).totp_secrets
    sealed = totp.seal(old[0], RFC_SECRET, operator_id=OPERATOR)
    assert RFC_SECRET.hex() not in sealed
    assert sealed != totp.seal(old[0], RFC_SECRET, operator_id=OPERATOR)
    assert totp.unseal(both, sealed, operator_id=OPERATOR) == RFC_SECRET
    assert totp.unseal(both, sealed, operator_id=OTHER) is None
    assert totp.unseal(Keys([NEW]).totp_secrets, sealed, operator_id=OPERATOR) is None


def test_one_time_code_matches_in_any_case_with_or_without_dashes():
    code = totp.new_one_time_code()
    assert len(code) == 19
    wanted = totp.hash_of(code, operator_id=OPERATOR)
    for typed in (code.upper(), code.replace("-", ""), f" {code.replace('-', ' ')} "):
        assert totp.hash_of(typed, operator_id=OPERATOR) == wanted
    assert totp.hash_of(code, operator_id=OTHER) != wanted
    assert totp.hash_of(code[:-1], operator_id=OPERATOR) != wanted


def test_login_token_lasts_five_minutes_and_until_the_password_changes():
    keys = Keys([OLD]).login_tokens
    token = login_token.make(keys[0], operator_id=OPERATOR, password_hash="hash 1", real_now=NOW)
    read = login_token.read(keys, token, real_now=NOW + dt.timedelta(seconds=299))
    assert read.operator_id == OPERATOR
    assert login_token.is_of_password(keys, read, "hash 1")
    assert not login_token.is_of_password(keys, read, "hash 2")
    rotated = Keys([NEW, OLD]).login_tokens
    assert login_token.is_of_password(rotated, login_token.read(rotated, token, real_now=NOW), "hash 1")
    for late, known in ((dt.timedelta(minutes=5), keys), (dt.timedelta(), Keys([NEW]).login_tokens)):
        with pytest.raises(LoginTokenInvalid):
            login_token.read(known, token, real_now=NOW + late)
    for other in ("", "a.b.c", token[:-2], token + "x"):
        with pytest.raises(LoginTokenInvalid):
            login_token.read(keys, other, real_now=NOW)
