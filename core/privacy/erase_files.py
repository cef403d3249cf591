"""Mask payer data of erased customers in the fallback files of this machine (docs/privacy.md#the-fallback-file).

Each api process looks at the files of its machine. Only files whose day is over are rewritten, because calls are
appended to the others.
"""

import asyncio
import datetime as dt
import pathlib

import attrs
import msgspec

from core.base.clock import real_sleep
from core.base.errors import Unavailable
from core.base.ids import parse_id
from core.erasures import store as erasures
from core.payments.webhooks.erasing import FallbackLine, line_of
from core.providers import webhook_files
from core.runtime.container import Runtime
from core.telemetry import logs

EVERY_S = 300.0  # real seconds
log = logs.get("erasure")


@attrs.define(kw_only=True)
class SeenFiles:
    """What this process has looked at: by file its size, its time of change, and the newest erasure at that time."""

    files: dict[pathlib.Path, tuple[int, float, dt.datetime]] = attrs.field(factory=dict)


async def keep_files_clean(runtime: Runtime) -> None:
    """Look at the files every EVERY_S until cancelled."""
    seen = SeenFiles()
    while True:
        try:
            await mask_files(runtime, seen)
        except Unavailable:
            pass
        except Exception:
            log.exception("masking the fallback files failed")
        await real_sleep(EVERY_S)


async def mask_files(runtime: Runtime, seen: SeenFiles) -> int:
    """Mask the lines about erased customers in each closed file that may have new ones. Return the number of files."""
    newest = await erasures.newest(runtime.db)
    closed = runtime.webhook_sink.closed_files(now=runtime.now())
    if newest is None or not closed:
        return 0
    await asyncio.to_thread(webhook_files.remove_leftovers, closed[0].parent)
    changed = 0
    for path in closed:
        before = path.stat()
        state = (before.st_size, before.st_mtime, newest)
        if seen.files.get(path) == state:
            continue
        erased = await _erased_in(runtime, path)
        if erased:
            if not await asyncio.to_thread(
                webhook_files.rewrite, path, lambda line, ids=erased: _masked(runtime, line, ids)
            ):
                continue  # another process is at it, or the file grew: look again
            changed += 1
            log.info("masked lines of the fallback file", file=path.name)
            after = path.stat()
            state = (after.st_size, after.st_mtime, newest)
        seen.files[path] = state
    return changed


async def _erased_in(runtime: Runtime, path: pathlib.Path) -> frozenset[str]:
    """Return the ids of payment requests and invoices of erased customers whose payer data is in a file."""
    found: set[str] = set()
    begin: int | None = 0
    while begin is not None:
        requests, invoices, begin = await asyncio.to_thread(_named_in_part, path, begin)
        found |= (await erasures.of_lines(runtime.db, request_ids=requests, invoice_ids=invoices)).keys()
    return frozenset(found)


def _named_in_part(path: pathlib.Path, begin: int) -> tuple[list[str], list[str], int | None]:
    """Return the (requests, invoices) of lines with payer data in a part of a file, and where the next part begins."""
    texts, end = webhook_files.read_part(path, begin=begin)
    lines = [line for text in texts if (line := line_of(text)) is not None and line.masked() is not None]
    requests = {one for line in lines if (one := parse_id(line.external_id)) is not None}
    invoices = {line.gateway_invoice_id for line in lines if line.gateway_invoice_id is not None}
    return sorted(requests), sorted(invoices), end if texts else None


def _names_one_of(line: FallbackLine, erased: frozenset[str]) -> bool:
    return parse_id(line.external_id) in erased or line.gateway_invoice_id in erased


def _masked(runtime: Runtime, text: bytes, erased: frozenset[str]) -> bytes:
    """Return a line with its body masked if it is about an erased customer. A line without a valid seal gets none."""
    line = line_of(text)
    if line is None or not _names_one_of(line, erased) or (fields := line.masked()) is None:
        return text
    return (
        runtime.webhook_sink.sealed(fields)
        if runtime.webhook_sink.is_sealed(text)
        else msgspec.json.encode(fields) + b"\n"
    )
