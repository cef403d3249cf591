"""Operators' passwords: bcrypt hashes, which fit varchar(60), made two at a time; common passwords are refused."""

import asyncio
import functools
import pathlib
import threading
import unicodedata
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from passlib.handlers.bcrypt import bcrypt

from core.base import field_messages
from core.base.errors import Unavailable, ValidationFailed
from core.base.languages import Text
from core.telemetry import metrics

T = TypeVar("T")
NFC = "NFC"  # keyboards write é as one character or as two
# A hash keeps a core busy for 0.1 s. With two at once, other requests still get the rest of the machine.
HASHES_AT_ONCE = 2
# Hashes that run or wait; more are refused. With the default rounds the last one waits for a second.
MAX_HASHES = 20
WAIT_S = 4.0  # real seconds: the caller gets an answer within 5 s, whatever PASSWORD_ROUNDS is
RETRY_AFTER_S = 2
# 34,695 common passwords and first names, one per line, most common first. See common_passwords.LICENSE.txt.
LIST = pathlib.Path(__file__).parent / "common_passwords.txt"
# Keyboard walks of 12 characters and more that are not in the list.
KEYBOARD_RUNS = """abc123abc123 abcdefghijkl abcd12345678 a1b2c3d4e5f6 1q2w3e4r5t6y7u 1q2w3e4r5t6y7u8i 1qaz2wsx3edc4rfv
  zaq12wsxcde3 qwertyuiopas qwertyuiop[] qwerasdfzxcv 1234qwerasdf 1234qwerasdfzxcv asdfghjkl;' trustno1trustno1
  thequickbrownfox"""
# Words of the users' language, of the product and of administration that are not in the list.
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

    True for a listed password, also when it is padded with digits or symbols, for a keyboard walk, a run of digits, a
    repetition of any of these, and a text with fewer than 4 different characters.
    """
    lowered = password.lower()
    repeated = lowered[: (lowered + lowered).find(lowered, 1)]  # the repeated part, or the whole password
    return (
        not _common().isdisjoint((lowered, repeated, repeated.strip(_AROUND)))
        or any(repeated in digits for digits in _COUNTED)
        or len(set(lowered)) < 4
    )


def check_new(password: str, *, field: str = "password") -> None:
    """Check a new password: at least 12 characters, at most 72 bytes (bcrypt reads no more), not a common one.

    Raises ValidationFailed about `field`.
    """
    password = unicodedata.normalize(NFC, password)
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
    """Makes and checks bcrypt hashes of 2 ** `rounds` iterations in separate threads, one pool per process."""

    def __init__(self, *, rounds: int) -> None:
        self._bcrypt: Any = bcrypt.using(rounds=rounds)
        self._threads = ThreadPoolExecutor(HASHES_AT_ONCE, thread_name_prefix="password")
        self._room = threading.BoundedSemaphore(MAX_HASHES)

    async def make(self, password: str) -> str:
        """Return a new hash of the password in NFC. Raises Unavailable if too many hashes wait."""
        return await self._run(functools.partial(self._bcrypt.hash, unicodedata.normalize(NFC, password)))

    async def verify(self, password: str, stored: str) -> bool:
        """Return whether the password matches the hash. An empty hash takes as long to check and never matches.

        The password is compared in NFC, then as typed and in NFD: earlier hashes are of what a device sent. Raises
        Unavailable if too many hashes wait.
        """
        forms = dict.fromkeys([unicodedata.normalize(NFC, password), password, unicodedata.normalize("NFD", password)])
        usable = [form for form in forms if len(form.encode()) <= 72 and "\0" not in form]
        return await self._run(functools.partial(self._verify_any, usable, stored))

    async def _run(self, work: Callable[[], T]) -> T:
        if not self._room.acquire(blocking=False):
            raise _too_many()
        future: Future[T] = self._threads.submit(work)
        # Called when the work ends, or is cancelled before it begins.
        future.add_done_callback(lambda _: self._room.release())
        try:
            async with asyncio.timeout(WAIT_S):
                return await asyncio.wrap_future(future)
        except TimeoutError as error:
            raise _too_many() from error

    def _verify_any(self, forms: list[str], stored: str) -> bool:
        if not forms:
            return self._verify("too long", "")
        return any(self._verify(form, stored) for form in forms)

    def _verify(self, password: str, stored: str) -> bool:
        nobodys = self._nobodys  # the first call makes it, even if `stored` is not empty: both cases take as long
        return self._bcrypt.verify(password, stored or nobodys) and bool(stored)

    @functools.cached_property
    def _nobodys(self) -> str:
        # The hash that is checked for an unknown e-mail, so that it takes as long as a known one.
        return self._bcrypt.hash("nobody has this password, and nobody is nobody")

    def close(self) -> None:
        """Cancel waiting hashes and start no new ones."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _too_many() -> Unavailable:
    metrics.LIMITED.labels("password_hashes").inc()
    return Unavailable(retry_after_seconds=RETRY_AFTER_S)
