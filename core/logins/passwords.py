"""Operators' passwords: bcrypt, which is what varchar(60) holds (specification, Authentication 6; contract 8)."""

import asyncio
import functools
from typing import Any

from passlib.handlers.bcrypt import bcrypt

from core.base.errors import ValidationFailed

# Ways over the keyboard, and others that are in every list of stolen ones.
WAYS = """abc123abc123 abcdefghijkl abcd12345678 a1b2c3d4e5f6 q1w2e3r4t5y6 1q2w3e4r5t6y 1q2w3e4r5t6y7u 1q2w3e4r5t6y7u8i
  1qaz2wsx3edc 1qaz2wsx3edc4rfv zaq12wsxcde3 qazwsxedcrfv qazwsxedc123 qwertyuiopas qwertyuiop[] qwerasdfzxcv
  1234qwerasdf 1234qwerasdfzxcv asdfghjkl;' trustno1trustno1 thequickbrownfox"""
# Words that are the commonest of all, with digits and signs around them.
WORDS = """password passw0rd p@ssw0rd p@ssword katasandi sandi rahasia admin administrator adminadmin root superuser user
  login welcome selamat letmein changeme secret master iloveyou sayang monkey dragon football baseball superman batman
  princess sunshine shadow indonesia jakarta bismillah qwerty qwertyuiop asdfgh asdfghjkl zxcvbn zxcvbnm abc abcd abcdef
  abcdefgh test testing default sesi"""
_WAYS, _WORDS = frozenset(WAYS.split()), frozenset(WORDS.split())
_AROUND = "0123456789!@#$%^&*()-_=+.,?~ "
_COUNTED = ("0123456789" * 8, "9876543210" * 8)


def _is_common(password: str) -> bool:
    """Whether it is among those that are tried first: known ones, one part again and again, a known word and digits."""
    said = password.lower()
    part = said[: (said + said).find(said, 1)]  # what it says again and again, or all of it
    return (
        said in _WAYS
        or part.strip(_AROUND) in _WORDS
        or any(part in digits for digits in _COUNTED)
        or len(set(said)) < 4
    )


def check_new(password: str, *, field: str = "password") -> None:
    """Check a password that is to be set: 12 characters to 72 bytes, not among common ones.

    Raises ValidationFailed that names the field.
    """
    if len(password) < 12:
        raise ValidationFailed.of(field, "has at least 12 characters")
    if len(password.encode()) > 72:
        raise ValidationFailed.of(field, "has at most 72 bytes")
    if "\0" in password:
        raise ValidationFailed.of(field, "has no NUL character")
    if _is_common(password):
        raise ValidationFailed.of(field, "is too common")


async def make_hash(password: str, *, rounds: int) -> str:
    """Return the password's hash, of 2 ** rounds steps; in a thread, because it takes long (0.1 s for 11)."""
    return await asyncio.to_thread(_hasher(rounds).hash, password)


async def verify(password: str, stored: str, *, rounds: int) -> bool:
    """Whether the password is the one; takes the same time when there is no hash."""
    if len(password.encode()) > 72 or "\0" in password:
        password, stored = "too long", ""
    return await asyncio.to_thread(_verify, password, stored, rounds)


def _verify(password: str, stored: str, rounds: int) -> bool:
    nobodys = _nobodys(rounds)  # made by whoever comes first, with or without a hash
    return _hasher(rounds).verify(password, stored or nobodys) and bool(stored)


@functools.cache
def _hasher(rounds: int) -> Any:
    return bcrypt.using(rounds=rounds)


@functools.cache
def _nobodys(rounds: int) -> str:
    # A hash of nothing anybody types: an unknown e-mail takes as long as a known one.
    return _hasher(rounds).hash("nobody has this password, and nobody is nobody")
