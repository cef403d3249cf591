"""Erase payer data in stored webhook calls and in lines of the fallback file (docs/privacy.md#erasure)."""

import base64
import binascii
from collections.abc import Sequence

import attrs
import msgspec

from core.payments.webhooks.personal import without_personal_fields
from core.storage import sql_files
from core.storage.transaction import Reader, Tx

SQL = sql_files.load(__file__)
AT_ONCE = 100  # bodies in memory: at most 6.4 MB
NO_ID = "00000000-0000-0000-0000-000000000000"


def masked(body: bytes) -> bytes:
    """Return a body with its personal fields masked. The fields that say what was paid stay."""
    text = body.decode("utf-8", "replace")
    return without_personal_fields(text).encode() if text else body


async def bodies(
    reader: Reader, *, request_ids: Sequence[str], invoice_ids: Sequence[str], after: str
) -> list[tuple[str, bytes]]:
    """Return (call, body) of at most AT_ONCE calls about these requests and invoices, those with ids above `after`.

    The gateway may have changed the case of a request's id.
    """
    names = [*request_ids, *(one.upper() for one in request_ids)]
    rows = await reader.fetch(SQL["bodies"], names, invoice_ids, after, AT_ONCE)
    return [(row["id"], row["raw_body"]) for row in rows]


async def replace_body(tx: Tx, log_id: str, body: bytes) -> None:
    """Store a masked body of a call."""
    await tx.execute(SQL["replace_body"], log_id, body)


async def replace_free_body(tx: Tx, log_id: str, body: bytes) -> None:
    """Store a masked body of a call that no other transaction has locked, because it waits for no call of others."""
    await tx.execute(SQL["replace_free_body"], log_id, body)


@attrs.frozen(kw_only=True)
class FallbackLine:
    """A line of a fallback file: the ids that it names, and its fields without the seal."""

    external_id: str | None
    gateway_invoice_id: str | None
    fields: dict[str, object]

    def masked(self) -> dict[str, object] | None:
        """Return the fields with a masked body; None if the body names no person."""
        try:
            body = base64.b64decode(str(self.fields.get("raw_body", "")), validate=True)
        except (binascii.Error, ValueError):
            body = b"unreadable"
        after = masked(body)
        return None if after == body else {**self.fields, "raw_body": base64.b64encode(after).decode()}


def line_of(text: bytes) -> FallbackLine | None:
    """Read a line of a fallback file; return None for any other text."""
    try:
        fields = msgspec.json.decode(text, type=dict[str, object])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    fields.pop("seal", None)
    ids = {
        name: value if isinstance(value := fields.get(name), str) else None
        for name in ("external_id", "gateway_invoice_id")
    }
    return FallbackLine(**ids, fields=fields)
