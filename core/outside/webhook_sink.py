"""The rolling file for webhook calls that the database could not take (specification, Limits: fallback variables)."""

import asyncio
import base64
import datetime as dt
import errno
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from core.base import logs
from core.base.settings import Settings

WAIT_S = 0.5  # for the disk: one that hangs must not hold the reply, which is out in under 2 s (contract 4)
log = logs.get("webhook_sink")


class WebhookSink:
    """Appends one JSON line a call to `<NAME>-YYYY-MM-DD.jsonl`; off by default; never writes to stdout."""

    def __init__(self, settings: Settings) -> None:
        self._enabled = settings.webhook_fallback_enabled
        self._dir = settings.webhook_fallback_dir
        self._name = settings.webhook_fallback_name
        # A thread of its own: what hangs on the disk must not take those that check passwords.
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="webhook-sink")

    async def write(self, *, received_at: dt.datetime, raw_body: bytes, fields: dict[str, Any]) -> bool:
        """Keep a call. Returns False when the sink is off or the disk does not take it in time: it may take it yet."""
        if not self._enabled:
            return False
        fields = {"received_at": received_at, "raw_body": base64.b64encode(raw_body).decode(), **fields}
        line = msgspec.json.encode(fields) + b"\n"
        try:
            async with asyncio.timeout(WAIT_S):
                await asyncio.get_running_loop().run_in_executor(self._writer, self._append, received_at, line)
        except OSError as error:
            log.warning("the fallback file could not be written", error=error.strerror or type(error).__name__)
            return False
        return True

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
