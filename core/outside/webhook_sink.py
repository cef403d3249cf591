"""The rolling file for webhook calls that the database could not take (specification, Limits: fallback variables).

Each line ends with a seal, an HMAC of the rest of the line under a key of the service: a line that says that its call had a
valid token must be one that the service has written.
"""

import asyncio
import base64
import datetime as dt
import errno
import hmac
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from core.base import logs
from core.base.settings import Settings

WAIT_S = 0.5  # for the disk: one that hangs must not hold the reply, which is out in under 2 s (contract 4)
SEAL = b',"seal":"'
PURPOSE = b"sesi webhook fallback file"
log = logs.get("webhook_sink")


def _seal(key: bytes, line: bytes) -> bytes:
    """Return the end of a sealed line: the seal, the closing quote and the closing brace."""
    return hmac.new(key, line, "sha256").hexdigest().encode() + b'"}'


class WebhookSink:
    """Appends one JSON line a call to `<NAME>-YYYY-MM-DD.jsonl`; off by default; never writes to stdout."""

    def __init__(self, settings: Settings) -> None:
        self._enabled = settings.webhook_fallback_enabled
        self._dir = settings.webhook_fallback_dir
        self._name = settings.webhook_fallback_name
        # The first secret seals, as it signs; the others verify lines from before a rotation.
        self._keys = [hmac.digest(secret, PURPOSE, "sha256") for _, secret in settings.jwt_secrets]
        # A thread of its own: what hangs on the disk must not take those that check passwords.
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="webhook-sink")

    async def write(self, *, received_at: dt.datetime, raw_body: bytes, fields: dict[str, Any]) -> bool:
        """Keep a call. Returns False when the sink is off or the disk does not take it in time: it may take it yet."""
        if not self._enabled:
            return False
        fields = {"received_at": received_at, "raw_body": base64.b64encode(raw_body).decode(), **fields}
        line = self._sealed(msgspec.json.encode(fields)) + b"\n"
        try:
            async with asyncio.timeout(WAIT_S):
                await asyncio.get_running_loop().run_in_executor(self._writer, self._append, received_at, line)
        except OSError as error:
            log.warning("the fallback file could not be written", error=error.strerror or type(error).__name__)
            return False
        return True

    def _sealed(self, line: bytes) -> bytes:
        return line[:-1] + SEAL + _seal(self._keys[0], line)

    def is_sealed(self, line: bytes) -> bool:
        """Whether the service wrote a line of the file, and nothing changed it since."""
        content, _, seal = line.strip().rpartition(SEAL)
        return any(hmac.compare_digest(_seal(key, content + b"}"), seal) for key in self._keys)

    def _append(self, received_at: dt.datetime, line: bytes) -> None:
        self._dir.mkdir(parents=True, exist_ok=True)
        path = self._dir / f"{self._name}-{received_at.date().isoformat()}.jsonl"
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line  # a full disk has cut the line before: it must not take this one with it
            written = os.write(descriptor, line)  # one write of one line: concurrent processes do not mix
            if written < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
