"""The fallback file: webhook calls that the database could not store (docs/invariants.md#i10).

Each line ends with a seal, an HMAC of the rest of the line. A line may claim that its call had a valid token, so only
lines with a valid seal are trusted.
"""

import asyncio
import base64
import datetime as dt
import errno
import hmac
import os
import pathlib
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from core.settings.settings import Settings
from core.telemetry import logs

WAIT_S = 0.5  # for the disk: a disk that hangs must not delay the response, which is due within 2 s
DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
CLOSED_AFTER = dt.timedelta(hours=1)  # a disk that hangs may finish a write late
SEAL = b',"seal":"'
PURPOSE = b"sesi webhook fallback file"
log = logs.get("webhook_sink")


def _seal(key: bytes, line: bytes) -> bytes:
    """Return the end of a sealed line: the seal, the closing quote and the closing brace."""
    return hmac.new(key, line, "sha256").hexdigest().encode() + b'"}'


class WebhookSink:
    """Appends each call as a JSON line to `<NAME>-YYYY-MM-DD.jsonl`. Off by default; never writes to stdout."""

    def __init__(self, settings: Settings) -> None:
        self._enabled = settings.webhook_fallback_enabled
        self._dir = settings.webhook_fallback_dir
        self._name = settings.webhook_fallback_name
        # The first secret makes seals; the others verify lines from before a rotation.
        self._keys = [hmac.digest(secret, PURPOSE, "sha256") for _, secret in settings.jwt_secrets]
        # A separate thread: a disk that hangs must not block the threads that check passwords.
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="webhook-sink")
        # While the disk hangs, lines wait here for WAIT_S; the queue of the thread would keep them until it goes on.
        self._turn = asyncio.Lock()

    async def write(self, *, received_at: dt.datetime, raw_body: bytes, fields: dict[str, Any]) -> bool:
        """Append a call.

        Return False if the file is off or the disk fails or is too slow; a slow write may still succeed later.
        """
        if not self._enabled:
            return False
        fields = {"received_at": received_at, "raw_body": base64.b64encode(raw_body).decode(), **fields}
        line = self.sealed(fields)
        try:
            async with asyncio.timeout(WAIT_S):
                await self._turn.acquire()
                writing = asyncio.get_running_loop().run_in_executor(self._writer, self._append, received_at, line)
                writing.add_done_callback(self._ended)
                await asyncio.shield(writing)
        except OSError as error:
            log.warning("writing the fallback file failed", error=error.strerror or type(error).__name__)
            return False
        return True

    def _ended(self, writing: asyncio.Future[None]) -> None:
        self._turn.release()
        writing.exception()  # read, because a write that was too slow has no reader

    def sealed(self, fields: Mapping[str, Any]) -> bytes:
        """Return a line of these fields with a new seal, and a newline."""
        return self._sealed(msgspec.json.encode(fields)) + b"\n"

    def closed_files(self, *, now: dt.datetime) -> list[pathlib.Path]:
        """Return the files that nothing is appended to: their day ended more than CLOSED_AFTER ago."""
        if not self._enabled or not self._dir.is_dir():
            return []
        last = (now - CLOSED_AFTER).date()
        days = {
            path: path.name.removeprefix(f"{self._name}-").removesuffix(".jsonl") for path in self._dir.glob("*.jsonl")
        }
        return sorted(path for path, day in days.items() if DAY.fullmatch(day) and day < last.isoformat())

    def _sealed(self, line: bytes) -> bytes:
        return line[:-1] + SEAL + _seal(self._keys[0], line)

    def is_sealed(self, line: bytes) -> bool:
        """Return whether the service wrote this line and it was not changed since."""
        content, _, seal = line.strip().rpartition(SEAL)
        return any(hmac.compare_digest(_seal(key, content + b"}"), seal) for key in self._keys)

    def _append(self, received_at: dt.datetime, line: bytes) -> None:
        self._dir.mkdir(parents=True, exist_ok=True)
        path = self._dir / f"{self._name}-{received_at.date().isoformat()}.jsonl"
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line  # a full disk may have cut the previous line; keep this one separate
            written = os.write(descriptor, line)  # a single write, so that lines of concurrent processes don't mix
            if written < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
