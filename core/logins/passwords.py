"""Operators' passwords: bcrypt, which is what varchar(60) holds (specification, Authentication 6; contract 8)."""

import asyncio
import functools
from typing import Any

from passlib.handlers.bcrypt import bcrypt

from core.base.errors import ValidationFailed

_COMMON = frozenset(
    [
        "password1234",
        "passwordpassword",
        "123456789012",
        "1234567890123",
        "qwertyuiop12",
        "qwertyuiopas",
        "administrator1",
        "adminadmin12",
        "adminadminadmin",
        "letmeinletmein",
        "welcomewelcome",
        "iloveyouiloveyou",
        "111111111111",
        "000000000000",
        "passw0rd1234",
        "changeme1234",
        "changemechangeme",
        "abcdefghijkl",
        "abc123abc123",
        "qwerty123456",
        "q1w2e3r4t5y6",
    ]
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
    if password.lower() in _COMMON or len(set(password)) < 4:
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
