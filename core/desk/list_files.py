"""Lists as CSV files: cells, masks, and how many files are made at once (docs/protocol.md#files)."""

import asyncio
import contextlib
import csv
import io
import json
import zlib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

import attrs

from core.accounts.operators import store as operators
from core.base.actor import Actor
from core.base.errors import ValidationFailed
from core.base.languages import Text
from core.bus.rate_limit import RateLimited
from core.cluster import work_lease
from core.desk import disclosure
from core.runtime.container import Runtime
from core.telemetry import metrics

MOST_ROWS = 100_000
MOST_BYTES = 2**26  # of the whole file; one is compressed in memory until all its rows are read
AT_ONCE = 2  # files that one process makes
LEASE_S = 300.0  # real seconds; longer than a file takes
RETRY_S = 10
FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet would calculate a text that begins with one of these
CONTACTS = frozenset({"phone", "email"})
DOWNLOADED = "list.downloaded"
TOO_LARGE = Text(
    en=f"has more than {MOST_ROWS:,} rows or 64 MiB; narrow the filters",
    id=f"memiliki lebih dari {MOST_ROWS:,} baris atau 64 MiB; persempit saringannya",
)


def cell(value: Any) -> str:
    """Return a value of JSON as the text of a cell. Lists and objects stay JSON, and null is empty."""
    if isinstance(value, str):
        return f"'{value}" if value.startswith(FORMULAS) else value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def masked(value: Any, name: str = "") -> Any:
    """Return a value of JSON with the phone numbers and e-mail addresses in it masked."""
    if isinstance(value, dict):
        return {key: masked(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [masked(inner, name) for inner in value]
    return disclosure.masked_contact(value) if name in CONTACTS and isinstance(value, str) else value


def _at(item: Any, column: str) -> Any:
    """Return the value of a column such as `mitra.display_name`."""
    for name in column.split("."):
        item = item.get(name) if isinstance(item, dict) else None
    return item


def _text(rows: Iterable[Sequence[str]]) -> bytes:
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue().encode()


class ListFile:
    """A file in the making. `rows` is how many it has."""

    def __init__(self, columns: Sequence[str], *, with_contacts: bool) -> None:
        """Begin with a header of the columns. Without `with_contacts`, phones and e-mail addresses are masked."""
        self._columns = columns
        self._with_contacts = with_contacts
        self._size = 0
        self._parts: list[bytes] = []
        self.rows = 0
        self._write([columns])

    def add(self, items: Sequence[Any], *, more: bool) -> None:
        """Add the rows of a page; `more` says that another one follows.

        Raises ValidationFailed if the file would be too large.
        """
        self.rows += len(items)
        if self.rows > MOST_ROWS or (more and self.rows == MOST_ROWS) or self._size > MOST_BYTES:
            raise ValidationFailed.of("", TOO_LARGE)
        shown = items if self._with_contacts else masked(items)
        self._write([[cell(_at(item, column)) for column in self._columns] for item in shown])

    def _write(self, rows: Iterable[Sequence[str]]) -> None:
        text = _text(rows)
        self._size += len(text)
        self._parts.append(zlib.compress(text, 1))

    def parts(self) -> Iterable[bytes]:
        """Yield the file in parts."""
        return (zlib.decompress(part) for part in self._parts)


@attrs.define
class _InProgress:
    """The operators who get a file from this process now, and the places to make one."""

    operators: set[str] = attrs.field(factory=set)
    slots: asyncio.Semaphore = attrs.field(factory=lambda: asyncio.Semaphore(AT_ONCE))


def _in_progress(_runtime: Runtime) -> _InProgress:
    return _InProgress()


@contextlib.asynccontextmanager
async def place(runtime: Runtime, actor: Actor) -> AsyncIterator[asyncio.Semaphore]:
    """Let an operator make and receive one file at a time, over all processes. Yield what bounds those being made.

    Raises RateLimited if they have one already, and Unavailable.
    """
    held, lease = runtime.part(_in_progress), f"file:{actor.user_id.replace('-', '')}"
    if actor.user_id in held.operators:
        _refuse()
    held.operators.add(actor.user_id)
    try:
        if not await work_lease.hold(runtime, lease, length_s=LEASE_S):
            _refuse()
        try:
            yield held.slots
        finally:
            await work_lease.release(runtime, lease)
    finally:
        held.operators.discard(actor.user_id)


def _refuse() -> None:
    metrics.LIMITED.labels("list_files").inc()
    raise RateLimited(retry_after_seconds=RETRY_S)


async def note(runtime: Runtime, actor: Actor, *, listing: str, query: Mapping[str, str], rows: int) -> None:
    """Write the audit row about a file. A search text is kept as a keyed hash, because it can be a name or a number.

    Raises Unavailable; then the file must not be sent.
    """
    filters = {name: value[:100] for name, value in query.items() if name != "q"}
    if query.get("q"):
        filters["q_hash"] = runtime.keys.account_hash(query["q"])
    async with runtime.transaction() as tx:
        await operators.audit(
            tx, actor.user_id, DOWNLOADED, "list_file", listing[:100], after={"filters": filters, "rows": rows}
        )
