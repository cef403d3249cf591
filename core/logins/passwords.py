"""Operators' passwords: bcrypt, which fits varchar(60); common passwords are refused; at most two hashes run at once."""

import asyncio
import functools
import pathlib
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from passlib.handlers.bcrypt import bcrypt

from core.base import field_messages, metrics
from core.base.errors import Unavailable, ValidationFailed
from core.base.languages import Text

T = TypeVar("T")
# A hash keeps a core busy for 0.1 s. With two at once, callers of this process still get the rest of the machine.
HASHES_AT_ONCE = 2
# Hashes that run or wait. With the default rounds the last one waits for a second; one more is refused.
MAX_HASHES = 20
WAIT_S = 4.0  # real: the caller has an answer within 5 s, whatever PASSWORD_ROUNDS is
RETRY_AFTER_S = 2
# 34,695 common passwords and first names, one a line, most common first; their licence is beside them.
LIST = pathlib.Path(__file__).parent / "common_passwords.txt"
# Keyboard runs of 12 characters and more that the list does not have.
KEYBOARD_RUNS = """abc123abc123 abcdefghijkl abcd12345678 a1b2c3d4e5f6 1q2w3e4r5t6y7u 1q2w3e4r5t6y7u8i 1qaz2wsx3edc4rfv
  zaq12wsxcde3 qwertyuiopas qwertyuiop[] qwerasdfzxcv 1234qwerasdf 1234qwerasdfzxcv asdfghjkl;' trustno1trustno1
  thequickbrownfox"""
# Words of our language, product and trade that the list does not have.
OWN_WORDS = """p@ssw0rd p@ssword katasandi sandi rahasia admin administrator adminadmin superuser user login welcome
  selamat letmein changeme sayang indonesia jakarta bismillah asdfghjkl abc abcd abcdef abcdefgh test testing default
  sesi operator mitra"""
_AROUND = "0123456789!@#$%^&*()-_=+.,?~ "
_COUNTED = ("0123456789" * 8, "9876543210" * 8)


@functools.cache
def _common() -> frozenset[str]:
    return frozenset(f"{LIST.read_text(encoding='utf-8')} {OWN_WORDS} {KEYBOARD_RUNS}".split())


def _is_common(password: str) -> bool:
    """Return whether attackers try this password early.

    That is a password of the list, one of its words with digits or signs around it, a keyboard run, a row of digits,
    a repetition of any of these, or a text of fewer than 4 different characters.
    """
    lowered = password.lower()
    repeated = lowered[: (lowered + lowered).find(lowered, 1)]  # the part that is repeated, else the whole
    return (
        not _common().isdisjoint((lowered, repeated, repeated.strip(_AROUND)))
        or any(repeated in digits for digits in _COUNTED)
        or len(set(lowered)) < 4
    )


def check_new(password: str, *, field: str = "password") -> None:
    """Check a password that is to be set: 12 characters to 72 bytes, not among common ones.

    Raises ValidationFailed that names the field.
    """
    if len(password) < 12:
        raise ValidationFailed.of(field, field_messages.length(12, None))
    if len(password.encode()) > 72:
        raise ValidationFailed.of(field, Text(en="must be at most 72 bytes long", id="paling panjang 72 bita"))
    if "\0" in password:
        raise ValidationFailed.of(field, field_messages.NO_NUL)
    if _is_common(password):
        raise ValidationFailed.of(
            field, Text(en="must not be a common password", id="tidak boleh kata sandi yang umum")
        )


class PasswordHasher:
    """Makes and checks the bcrypt hashes of one process, of 2 ** rounds steps each, in threads of its own."""

    def __init__(self, *, rounds: int) -> None:
        self._bcrypt: Any = bcrypt.using(rounds=rounds)
        self._threads = ThreadPoolExecutor(HASHES_AT_ONCE, thread_name_prefix="password")
        self._room = threading.BoundedSemaphore(MAX_HASHES)

    async def make(self, password: str) -> str:
        """Return a new hash of the password. Raises Unavailable when too many hashes wait."""
        return await self._run(functools.partial(self._bcrypt.hash, password))

    async def verify(self, password: str, stored: str) -> bool:
        """Return whether the password has this hash. An empty hash takes as long and is never right.

        Raises Unavailable when too many hashes wait.
        """
        if len(password.encode()) > 72 or "\0" in password:
            password, stored = "too long", ""
        return await self._run(functools.partial(self._verify, password, stored))

    async def _run(self, work: Callable[[], T]) -> T:
        if not self._room.acquire(blocking=False):
            raise _too_many()
        future: Future[T] = self._threads.submit(work)
        # Called when the work has ended, or was cancelled before it began.
        future.add_done_callback(lambda _: self._room.release())
        try:
            async with asyncio.timeout(WAIT_S):
                return await asyncio.wrap_future(future)
        except TimeoutError as error:
            raise _too_many() from error

    def _verify(self, password: str, stored: str) -> bool:
        nobodys = self._nobodys  # the first caller makes it, with or without a hash of its own
        return self._bcrypt.verify(password, stored or nobodys) and bool(stored)

    @functools.cached_property
    def _nobodys(self) -> str:
        # The hash of a text that no operator has as a password: an unknown e-mail takes as long as a known one.
        return self._bcrypt.hash("nobody has this password, and nobody is nobody")

    def close(self) -> None:
        """Start no further hash."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _too_many() -> Unavailable:
    metrics.LIMITED.labels("password_hashes").inc()
    return Unavailable(retry_after_seconds=RETRY_AFTER_S)
