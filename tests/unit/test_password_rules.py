"""Operators' passwords: 12 characters to 72 bytes, and not a common one (docs/product.md#sign-in-of-operators)."""

import asyncio
import threading
import types
import unicodedata

import pytest

from core.base.errors import Unavailable, ValidationFailed
from core.base.languages import Language
from core.security import passwords
from core.security.passwords import HASHES_AT_ONCE, MAX_HASHES, PasswordHasher
from tests.each import for_each

GOOD = "correct horse battery"


@pytest.mark.parametrize("password", [GOOD, "abcdefghijk1", "ä" * 5 + "bcdefghijkl", "x1y2" * 18, "é1yz" * 14])
def test_password_of_12_characters_to_72_bytes_is_accepted(password: str):
    passwords.check_new(password)


@for_each(
    "password",
    ["", "short", "abcdefghij1", "x1y2" * 18 + "z", "é1yz" * 15, "password1234", "PassWord1234", "1" * 20, "abababababab",
     "good password\0"],
)  # fmt: skip
def test_invalid_password_is_refused_with_its_field(password: str):
    with pytest.raises(ValidationFailed) as caught:
        passwords.check_new(password)
    assert caught.value.details is not None
    assert [field["field"] for field in caught.value.details["fields"]] == ["password"]


@for_each(
    "password",
    ["1q2w3e4r5t6y", "1qaz2wsx3edc", "password12345", "Administrator", "qwertyqwerty", "123456123456", "P@ssw0rd!2026!",
     "adminadminadmin", "987654321098", "012345678901", "changeme-123", "iloveyouiloveyou", "Rahasia12345",
     "michael12345", "starwars1234", "Sunflower2026!", "liverpoolliverpool", "123qweasdzxc", "charlie-2026"],
)  # fmt: skip
def test_common_password_is_refused(password: str):
    with pytest.raises(ValidationFailed) as caught:
        passwords.check_new(password)
    assert caught.value.details_in(Language.ENGLISH) == {
        "fields": [{"field": "password", "message": "must not be a common password"}]
    }


@pytest.mark.parametrize(
    "password", ["a password of mine", "qwerty and a duck", "admin-of-nothing", "12345 monkeys sing"]
)
def test_common_word_among_others_is_accepted(password: str):
    passwords.check_new(password)


async def hashed(password: str) -> str:
    """Return the hash of a password."""
    return await PasswordHasher(rounds=4).make(password)


def is_right(password: str, stored: str) -> bool:
    """Return whether a password has this hash."""
    return asyncio.run(PasswordHasher(rounds=4).verify(password, stored))


def test_only_the_password_matches_its_hash_which_fits_the_column():
    stored = asyncio.run(hashed(GOOD))
    assert len(stored) <= 60
    assert GOOD not in stored
    assert is_right(GOOD, stored)
    for other in ("", GOOD + " ", GOOD.upper(), GOOD + "x" * 60, GOOD + "\0"):
        assert not is_right(other, stored)


def test_hashes_of_one_password_differ():
    assert asyncio.run(hashed(GOOD)) != asyncio.run(hashed(GOOD))


def test_no_password_matches_without_a_hash():
    for password in ("", GOOD, "too long", "nobody has this password, and nobody is nobody", "x" * 100):
        assert not is_right(password, "")


def test_long_password_does_not_match_its_first_72_bytes():
    """Bcrypt reads 72 bytes: a longer password must not match its first 72 bytes."""
    full = "x1y2" * 18
    stored = asyncio.run(hashed(full))
    assert is_right(full, stored)
    assert not is_right(full + "z", stored)


def test_two_password_hashes_run_at_once_and_those_over_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(passwords, "WAIT_S", 60.0)  # a busy machine hashes slowly
    others = set(threading.enumerate())  # hashers of other tests may still have threads
    may_hash = threading.Event()  # a hash that ended earlier would make room for another call

    async def ask(hasher: PasswordHasher, count: int) -> list[Exception | str]:
        may_hash.clear()
        asked = [asyncio.create_task(hasher.make(GOOD)) for _ in range(count)]
        await asyncio.sleep(0)  # all calls have started and none has finished
        threads = [one for one in threading.enumerate() if one.name.startswith("password") and one not in others]
        may_hash.set()
        assert len(threads) == HASHES_AT_ONCE
        return list(await asyncio.gather(*asked, return_exceptions=True))  # type: ignore[arg-type]

    async def walk() -> None:
        hasher = PasswordHasher(rounds=4)
        plain = hasher._bcrypt
        hasher._bcrypt = types.SimpleNamespace(hash=lambda password: may_hash.wait() and plain.hash(password))
        for _ in range(2):  # the slots are free again afterwards
            answers = await ask(hasher, MAX_HASHES + 7)
            refused = [one for one in answers if isinstance(one, Unavailable)]
            assert len(refused) == 7
            assert all(one.retry_after_seconds for one in refused)
            assert all(isinstance(one, str) for one in answers if one not in refused)
        hasher.close()

    asyncio.run(walk())


def test_cancelled_caller_releases_the_hash_slot():
    async def walk() -> None:
        hasher = PasswordHasher(rounds=10)
        waiting = [asyncio.create_task(hasher.make(GOOD)) for _ in range(MAX_HASHES)]
        await asyncio.sleep(0)
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
        assert await hasher.verify(GOOD, await hasher.make(GOOD))
        hasher.close()

    asyncio.run(walk())


def test_password_matches_in_either_normal_form_also_an_earlier_hash_of_what_was_typed():
    composed, decomposed = (unicodedata.normalize(form, "sandi-kafé-ñandú-2026") for form in ("NFC", "NFD"))
    hasher = PasswordHasher(rounds=4)
    hashes = [asyncio.run(hasher.make(composed)), asyncio.run(hasher.make(decomposed))]
    hashes += [hasher._bcrypt.hash(composed), hasher._bcrypt.hash(decomposed)]
    for stored in hashes:
        for typed in (composed, decomposed):
            assert asyncio.run(hasher.verify(typed, stored))
        assert not asyncio.run(hasher.verify("sandi-kafe-nandu-2026", stored))
        assert not asyncio.run(hasher.verify("é" * 100, stored))


def test_length_of_a_new_password_is_that_of_its_nfc():
    passwords.check_new("e\u0301xamples of 36 bytes" + "e\u0301" * 15)  # 68 bytes in NFC, 84 as typed
    with pytest.raises(ValidationFailed):
        passwords.check_new("e\u0301" * 6 + "abcd")  # 16 characters as typed, 10 in NFC
