"""Refresh tokens: used once, the same successor within 30 s, reuse detection, forgery (docs/security.md)."""

import base64
import datetime as dt
import uuid

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.security.refresh import (
    REMEMBERED,
    RETRY_WINDOW,
    SECRET_BYTES,
    RefreshInvalid,
    StoredTokens,
    TokenVerdict,
    auth_session_of,
    hash_of,
    judge,
    make,
    repeated_successor,
    successor,
)

NOW = dt.datetime(2026, 11, 21, 6, tzinfo=dt.UTC)
KEY, OTHER = b"k" * 32, b"o" * 32
SESSION = "01900000-0000-7000-8000-000000000002"
SECRETS = st.binary(min_size=SECRET_BYTES, max_size=SECRET_BYTES)
A_MOMENT = dt.timedelta(microseconds=1)


def a_token(*, key: bytes = KEY, session: str = SESSION, generation: int = 0, secret: bytes = b"s" * 32) -> str:
    return make(key=key, auth_session_id=session, generation=generation, secret=secret)


def a_chain(length: int, *, secret: bytes = b"s" * 32) -> list[str]:
    chain = [a_token(secret=secret)]
    while len(chain) < length:
        chain.append(successor(key=KEY, token=chain[-1]))
    return chain


def held_after(chain: list[str], *, rotated_at: dt.datetime | None = NOW) -> StoredTokens:
    """Return the database's record when the last token of the chain is the current one."""
    previous = hash_of(chain[-2]) if len(chain) > 1 else None
    return StoredTokens(
        present_hash=hash_of(chain[-1]),
        previous_hash=previous,
        rotated_at=rotated_at if previous else None,
        used={},
    )


def test_refresh_token_of_a_later_generation_is_newer():
    chain = a_chain(4)
    held = attrs.evolve(held_after(chain[:2]), generation=1)
    assert [judge(token, held, now=NOW + RETRY_WINDOW) for token in chain] == [
        TokenVerdict.REUSED, TokenVerdict.PRESENT, TokenVerdict.NEWER, TokenVerdict.NEWER,
    ]  # fmt: skip
    used = held.used_after_rotation(NOW, by_newer=True)
    assert used == {hash_of(chain[0]): NOW, hash_of(chain[1]): NOW}


def test_refresh_token_of_a_later_generation_is_reuse_if_the_current_is_unknown():
    chain = a_chain(3)
    assert judge(chain[2], held_after(chain[:2]), now=NOW + RETRY_WINDOW) is TokenVerdict.REUSED


def held_through(chain: list[str], every: dt.timedelta) -> tuple[StoredTokens, list[dt.datetime]]:
    """Return the record after all tokens but the last were used in turn from NOW on, and the time of each use."""
    held = StoredTokens(present_hash=hash_of(chain[0]), previous_hash=None, rotated_at=None, used={})
    used_at = [NOW + every * n for n in range(len(chain) - 1)]
    for token, at in zip(chain[1:], used_at, strict=True):
        used = held.used_after_rotation(at)
        held = StoredTokens(present_hash=hash_of(token), previous_hash=held.present_hash, rotated_at=at, used=used)
    return held, used_at


@given(st.uuids(), st.integers(0, 2**32 - 1), SECRETS)
def test_refresh_token_names_its_auth_session(session: uuid.UUID, generation: int, secret: bytes):
    token = a_token(session=str(session), generation=generation, secret=secret)
    assert auth_session_of(token, keys=[KEY]) == str(session)


@given(SECRETS)
def test_successor_of_a_refresh_token_is_stable_and_different(secret: bytes):
    token = a_token(secret=secret)
    following = successor(key=KEY, token=token)
    assert following == successor(key=KEY, token=token)
    assert following != token
    assert auth_session_of(following, keys=[KEY]) == SESSION


@given(SECRETS, SECRETS)
def test_different_refresh_tokens_have_different_successors(one: bytes, two: bytes):
    followers = {successor(key=KEY, token=a_token(secret=secret)) for secret in (one, two)}
    assert len(followers) == len({one, two})


def test_successor_depends_on_the_server_key():
    assert successor(key=OTHER, token=a_token()) != successor(key=KEY, token=a_token())
    with pytest.raises(RefreshInvalid):
        auth_session_of(successor(key=OTHER, token=a_token()), keys=[KEY])


def test_refresh_token_chain_never_repeats():
    assert len(set(a_chain(300))) == 300


def test_refresh_token_generation_wraps_after_its_last_number():
    assert auth_session_of(successor(key=KEY, token=a_token(generation=2**32 - 1)), keys=[KEY]) == SESSION


def test_refresh_token_has_256_random_bits_and_its_hash_fits_the_column():
    assert SECRET_BYTES * 8 >= 256
    assert len(hash_of(a_token())) <= 60


@given(st.integers(0, 10_000), st.integers(0, 7), SECRETS)
def test_refresh_token_with_one_changed_bit_is_refused(place: int, bit: int, secret: bytes):
    token = a_token(secret=secret)
    raw = bytearray(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    raw[place % len(raw)] ^= 1 << bit
    with pytest.raises(RefreshInvalid):
        auth_session_of(base64.urlsafe_b64encode(bytes(raw)).decode().rstrip("="), keys=[KEY])


@given(st.text(max_size=120))
def test_any_text_as_a_token_is_refused(text: str):
    with pytest.raises(RefreshInvalid):
        auth_session_of(text, keys=[KEY])


@given(st.text(max_size=3), st.text(max_size=3))
def test_refresh_token_has_only_one_spelling(before: str, behind: str):
    token = a_token()
    if before + behind:
        with pytest.raises(RefreshInvalid):
            auth_session_of(before + token + behind, keys=[KEY])
    for other in (token + "=", token[:5] + "\n" + token[5:], token.swapcase(), token[:-1]):
        with pytest.raises(RefreshInvalid):
            auth_session_of(other, keys=[KEY])


def test_refresh_token_with_an_equivalent_last_character_is_refused():
    """91 characters hold 546 bits but a token has 544, so two bits would be free."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    token = a_token()
    for other in set(alphabet) - {token[-1]}:
        with pytest.raises(RefreshInvalid):
            auth_session_of(token[:-1] + other, keys=[KEY])


def test_refresh_token_sealed_with_an_older_key_is_valid_and_a_foreign_one_is_not():
    assert auth_session_of(a_token(key=OTHER), keys=[KEY, OTHER]) == SESSION
    with pytest.raises(RefreshInvalid):
        auth_session_of(a_token(key=OTHER), keys=[KEY])
    with pytest.raises(RefreshInvalid):
        auth_session_of(a_token(), keys=[])


@given(st.integers(1, 8), st.integers(0, 10**6))
def test_newest_refresh_token_is_current_at_any_age(length: int, later: int):
    chain = a_chain(length)
    assert judge(chain[-1], held_after(chain), now=NOW + dt.timedelta(seconds=later)) is TokenVerdict.PRESENT


@given(st.integers(2, 8), st.integers(0, 120_000))
def test_previous_refresh_token_is_a_retry_for_30_s_and_then_reuse(length: int, milliseconds: int):
    chain = a_chain(length)
    verdict = judge(chain[-2], held_after(chain), now=NOW + dt.timedelta(milliseconds=milliseconds))
    assert verdict is (TokenVerdict.RETRY if milliseconds < 30_000 else TokenVerdict.REUSED)


def test_used_refresh_token_after_the_window_is_reuse():
    chain = a_chain(2)
    assert judge(chain[0], held_after(chain), now=NOW + RETRY_WINDOW - A_MOMENT) is TokenVerdict.RETRY
    assert judge(chain[0], held_after(chain), now=NOW + RETRY_WINDOW) is TokenVerdict.REUSED


@given(st.integers(3, 8), st.data())
def test_older_used_refresh_token_after_the_window_is_reuse(length: int, data: st.DataObject):
    chain = a_chain(length)
    old = chain[data.draw(st.integers(0, length - 3))]
    assert judge(old, held_after(chain), now=NOW + RETRY_WINDOW) is TokenVerdict.REUSED


@given(st.integers(2, 40), st.integers(1, 40_000), st.integers(0, 60_000))
def test_each_refresh_token_has_its_own_retry_window(length: int, every: int, later: int):
    chain = a_chain(length)
    held, used_at = held_through(chain, dt.timedelta(milliseconds=every))
    now = used_at[-1] + dt.timedelta(milliseconds=later)
    verdicts = [judge(token, held, now=now) for token in chain]
    assert verdicts[-1] is TokenVerdict.PRESENT
    within = [now < at + RETRY_WINDOW for at in used_at]
    assert verdicts[:-1] == [
        (TokenVerdict.RETRY if n == length - 2 else TokenVerdict.STALE) if good else TokenVerdict.REUSED
        for n, good in enumerate(within)
    ]
    assert len(held.used) <= REMEMBERED


def test_refresh_in_time_is_stale_and_not_reuse_after_waiting_for_a_lock():
    """Another rotation happened a moment after the window and got the lock first."""
    chain = a_chain(3)
    held, _ = held_through(chain, RETRY_WINDOW + A_MOMENT)
    assert judge(chain[0], held, now=NOW + RETRY_WINDOW - A_MOMENT) is TokenVerdict.STALE
    assert judge(chain[0], held, now=NOW + RETRY_WINDOW) is TokenVerdict.REUSED


def test_rotation_by_an_older_version_signs_no_device_out():
    chain = a_chain(3)
    held = attrs.evolve(held_after(chain), used=None)
    assert judge(chain[0], held, now=NOW + RETRY_WINDOW - A_MOMENT) is TokenVerdict.STALE
    assert judge(chain[0], held, now=NOW + RETRY_WINDOW) is TokenVerdict.REUSED
    assert judge(chain[1], held, now=NOW + RETRY_WINDOW) is TokenVerdict.REUSED
    assert held.used_after_rotation(NOW) == {hash_of(chain[1]): NOW}


def test_record_of_used_refresh_tokens_is_limited():
    chain = a_chain(REMEMBERED + 3)
    held, used_at = held_through(chain, dt.timedelta(milliseconds=1))
    assert list(held.used) == [hash_of(token) for token in chain[1:-2]]
    assert judge(chain[0], held, now=used_at[-1]) is TokenVerdict.REUSED


def test_valid_refresh_token_that_the_session_never_had_is_reuse():
    assert judge(a_token(secret=b"t" * 32), held_after(a_chain(1)), now=NOW) is TokenVerdict.REUSED


@given(st.integers(2, 8), SECRETS)
def test_every_refresh_retry_gets_the_same_successor(length: int, secret: bytes):
    chain = a_chain(length, secret=secret)
    again = repeated_successor(chain[-2], held_after(chain), keys=[KEY])
    assert again == chain[-1]
    assert judge(again, held_after(chain), now=NOW) is TokenVerdict.PRESENT


def test_refresh_retry_gets_the_same_successor_after_a_key_rotation():
    chain = a_chain(2)
    assert repeated_successor(chain[0], held_after(chain), keys=[OTHER, KEY]) == chain[1]


def test_refresh_retry_whose_successor_no_key_produces_is_refused():
    chain = a_chain(2)
    with pytest.raises(RefreshInvalid):
        repeated_successor(chain[0], held_after(chain), keys=[OTHER])
