"""Operators' passwords: 12 characters to 72 bytes, not among common ones (contract 8)."""

import asyncio

import pytest

from core.base.errors import ValidationFailed
from core.logins import passwords

GOOD = "correct horse battery"


@pytest.mark.parametrize("password", [GOOD, "abcdefghijk1", "ä" * 5 + "bcdefghijkl", "x1y2" * 18, "é1yz" * 14])
def test_twelve_characters_to_72_bytes_are_enough(password: str):
    passwords.check_new(password)


@pytest.mark.parametrize(
    "password",
    ["", "short", "abcdefghij1", "x1y2" * 18 + "z", "é1yz" * 15, "password1234", "PassWord1234", "1" * 20, "abababababab",
     "good password\0"],
)  # fmt: skip
def test_a_bad_password_is_refused_by_field(password: str):
    with pytest.raises(ValidationFailed) as caught:
        passwords.check_new(password)
    assert caught.value.details is not None
    assert [field["field"] for field in caught.value.details["fields"]] == ["password"]


@pytest.mark.parametrize(
    "password",
    ["1q2w3e4r5t6y", "1qaz2wsx3edc", "password12345", "Administrator", "qwertyqwerty", "123456123456", "P@ssw0rd!2026!",
     "adminadminadmin", "987654321098", "012345678901", "changeme-123", "iloveyouiloveyou", "Rahasia12345"],
)  # fmt: skip
def test_what_is_tried_first_is_too_common(password: str):
    with pytest.raises(ValidationFailed) as caught:
        passwords.check_new(password)
    assert caught.value.details == {"fields": [{"field": "password", "message": "is too common"}]}


@pytest.mark.parametrize(
    "password", ["a password of mine", "qwerty and a duck", "admin-of-nothing", "12345 monkeys sing"]
)
def test_a_known_word_among_others_is_no_common_password(password: str):
    passwords.check_new(password)


def test_only_the_password_itself_is_right_and_its_hash_fits_the_column():
    async def walk() -> None:
        stored = await passwords.make_hash(GOOD, rounds=4)
        assert len(stored) <= 60
        assert GOOD not in stored
        assert await passwords.verify(GOOD, stored, rounds=4)
        for other in ("", GOOD + " ", GOOD.upper(), GOOD + "x" * 60, GOOD + "\0"):
            assert not await passwords.verify(other, stored, rounds=4)

    asyncio.run(walk())


def test_two_hashes_of_one_password_differ():
    async def walk() -> set[str]:
        return {await passwords.make_hash(GOOD, rounds=4), await passwords.make_hash(GOOD, rounds=4)}

    assert len(asyncio.run(walk())) == 2


def test_where_there_is_no_hash_no_password_is_right():
    for password in ("", GOOD, "too long", "nobody has this password, and nobody is nobody", "x" * 100):
        assert not asyncio.run(passwords.verify(password, "", rounds=4))


def test_a_long_password_is_not_cut_to_one_that_fits():
    """Bcrypt reads 72 bytes: what is longer must not pass for its beginning."""
    full = "x1y2" * 18
    stored = asyncio.run(passwords.make_hash(full, rounds=4))
    assert asyncio.run(passwords.verify(full, stored, rounds=4))
    assert not asyncio.run(passwords.verify(full + "z", stored, rounds=4))
