"""A customer's own data as JSON, in bounded parts (docs/privacy.md#export).

Lists are read by pages, each from one short query, so that a long transcript neither fills the memory nor holds a
connection. The texts of blanked sessions are gone, and those of sessions that are being blanked are hidden.
"""

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from core.accounts.customers import erasing as customers
from core.accounts.logins import erasing as logins
from core.base.actor import Actor
from core.erasures.rules import RECENT, RecentSignInRequired
from core.runtime.container import Runtime
from core.runtime.transactions import translate_db_errors
from core.storage import sql_files
from core.storage.records import as_dict

ROWS, MESSAGES = 200, 100  # rows of a page; a message has up to 16 KB
FIRST = "00000000-0000-0000-0000-000000000000"
SQL = sql_files.load(__file__)

LISTS = {
    "profiles": SQL["profiles"],
    "devices": SQL["devices"],
    "codes": SQL["codes"],
    "payment_requests": SQL["payment_requests"],
    "transactions": SQL["transactions"],
    "sessions": SQL["sessions"],
    "deliveries": SQL["deliveries"],
    "receipts": SQL["receipts"],
    "time_credits": SQL["time_credits"],
    "absences": SQL["absences"],
}
OF_SESSION = {"goodbyes": SQL["goodbyes"], "messages": SQL["messages"]}


async def require_recent_sign_in(runtime: Runtime, actor: Actor) -> None:
    """Check that the caller signed in on this device within the last 10 minutes. Raises RecentSignInRequired."""
    with translate_db_errors():
        at = await logins.signed_in_at(runtime.db, actor.auth_session_id)
    if at is None or at <= runtime.now() - RECENT:
        raise RecentSignInRequired


async def parts(runtime: Runtime, customer_id: str) -> AsyncIterator[bytes]:
    """Yield the JSON of an `exported.Export`. Raises Unavailable; what was yielded by then is not JSON."""
    with translate_db_errors():
        ids = await customers.rows_of(runtime.db, customer_id)
    yield b'{"exported_at":' + msgspec.json.encode(runtime.now())
    for name, sql in LISTS.items():
        yield b',"' + name.encode() + b'":['
        async for part in _list(runtime, name, sql, ids):
            yield part
        yield b"]"
    yield b"}"


async def _list(runtime: Runtime, name: str, sql: str, of: Any, *, limit: int = ROWS) -> AsyncIterator[bytes]:
    """Yield the rows of a list, separated by commas."""
    key, after = ("seq", 0) if name == "messages" else ("id", FIRST)
    separator = b""
    while True:
        with translate_db_errors():
            rows = [as_dict(row) for row in await runtime.db.fetch(sql, of, after, limit)]
        if name == "sessions":
            for row in rows:
                yield separator
                separator = b","
                async for part in _session(runtime, row):
                    yield part
        elif rows:
            yield separator + b",".join(msgspec.json.encode(row) for row in rows)
            separator = b","
        if len(rows) < limit:
            return
        after = rows[-1][key]


async def _session(runtime: Runtime, row: dict[str, Any]) -> AsyncIterator[bytes]:
    yield msgspec.json.encode(row)[:-1]
    for name, sql in OF_SESSION.items():
        yield b',"' + name.encode() + b'":['
        async for part in _list(runtime, name, sql, row["id"], limit=MESSAGES):
            yield part
        yield b"]"
    yield b"}"
