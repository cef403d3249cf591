"""Keys by purpose: one for each purpose, and values of earlier versions stay valid."""

import pytest

from core.accounts.logins import otp
from core.security import refresh
from core.security.keys import Keys, Purpose, derive

OLD, NEW = b"o" * 32, b"n" * 40
SESSION = "01900000-0000-7000-8000-000000000002"


def a_token(key: bytes) -> str:
    return refresh.make(key=key, auth_session_id=SESSION, generation=3, secret=b"s" * 32)


def test_each_purpose_and_secret_has_its_own_key():
    made = [derive(secret, purpose) for secret in (OLD, NEW) for purpose in Purpose]
    assert len({*made, OLD, NEW}) == len(made) + 2
    assert {len(key) for key in made} == {32}


def test_derived_keys_equal_the_recorded_ones():
    # HKDF-SHA256 (RFC 5869) over the secret, without a salt; computed with another implementation.
    assert derive(OLD, Purpose.REFRESH_SEAL).hex() == "46965d1dd2b002b8105fba51b6f1389cebc73542b5ea619d63c254998b8b9a5d"


def test_value_of_one_purpose_is_not_valid_for_another():
    keys = Keys([OLD])
    sealed = a_token(keys.refresh[0])
    assert refresh.auth_session_of(sealed, keys=keys.refresh) == SESSION
    for foreign in ([OLD], keys.identity_tokens, keys.codes[:1]):
        with pytest.raises(refresh.RefreshInvalid):
            refresh.auth_session_of(sealed, keys=foreign)


@pytest.mark.parametrize("secrets", [[OLD], [NEW, OLD]], ids=["the same secret", "a newer secret first"])
def test_values_from_before_derived_keys_stay_valid(secrets: list[bytes]):
    keys = Keys(secrets)
    token = a_token(OLD)
    following = refresh.successor(key=OLD, token=token)
    assert refresh.auth_session_of(token, keys=keys.refresh) == SESSION
    held = refresh.StoredTokens(
        present_hash=refresh.hash_of(following), previous_hash=refresh.hash_of(token), rotated_at=None, used={}
    )
    assert refresh.repeated_successor(token, held, keys=keys.refresh) == following
    hashed = otp.hash_code(key=OLD, otp_request_id=SESSION, code="123456")
    again = [otp.hash_code(key=key, otp_request_id=SESSION, code="123456") for key in keys.codes]
    assert hashed in again


def test_first_secret_signs_and_the_others_verify():
    before, after = Keys([OLD, NEW]), Keys([NEW, OLD])
    assert before.refresh[0] != after.refresh[0]
    assert set(before.refresh) == set(after.refresh)
    assert set(before.codes) == set(after.codes)


def test_account_hash_is_keyed_and_hides_its_input():
    keys = Keys([OLD])
    shown = keys.account_hash("+6281234567890")
    assert shown == keys.account_hash("+6281234567890") != keys.account_hash("+6281234567891")
    assert shown != Keys([NEW]).account_hash("+6281234567890")
    assert len(shown) == 16
    assert keys.account_hash("\ud800")
