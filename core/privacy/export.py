"""A customer's own data as JSON, in bounded parts (docs/privacy.md#export).

Lists are read by pages, each from one short query, so that a long transcript neither fills the memory nor holds a
connection. The texts of blanked sessions are gone, and those of sessions that are being blanked are hidden.

A list is a class: it has the columns that are marked as exported (core/storage/personal.py), the columns that it
names, and computed fields with their SQL. Its statement and the interface document are made from it.
"""

import math
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Literal, TypeVar

import attrs
import msgspec
from piccolo.table import Table

from core.accounts.blocks.tables import Block
from core.accounts.customers import erasing as customers
from core.accounts.customers.tables import Customer
from core.accounts.logins.tables import AuthSession, OtpRequest
from core.accounts.operators import store as operators
from core.base.actor import Actor
from core.base.errors import NotFound
from core.base.field_types import Id, Party, Time
from core.bus.rate_limit import RateLimited
from core.deliveries.tables import DeliveryTrail
from core.erasures.rules import EXPORT_EVERY
from core.payments.failures.rules import OperatorAction
from core.payments.ledger.tables import CustomerTransaction
from core.payments.tables import PaymentRequest
from core.runtime.container import Runtime
from core.sessions.absences.tables import SessionAbsence
from core.sessions.messages.tables import ChatMessage
from core.sessions.receipts.rules import SignedReceipt
from core.sessions.receipts.tables import SessionReceipt
from core.sessions.reports.tables import SessionReport
from core.sessions.tables import ChatSession, SessionClosure, SessionTimeCredit
from core.storage.personal import belongs, personal_columns
from core.storage.records import as_dict
from core.telemetry import metrics

ROWS, MESSAGES = 200, 100  # rows of a page; a message has up to 16 KB
FIRST = "00000000-0000-0000-0000-000000000000"
TYPES = {
    "UUID": Id, "INTEGER": int, "BIGINT": int, "BOOLEAN": bool, "TIMESTAMPTZ": Time, "JSONB": dict[str, Any],
    "TEXT[]": list[str],
}  # fmt: skip
OF_SESSION = "t.session_id = $1"

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class Listed:
    """A list: the class of its rows, their table, the column that orders them, and the statement of a page."""

    row: type[Any]
    table: type[Table]
    key: str
    sql: str


LISTS: dict[str, Listed] = {}


def _sql(expression: str) -> Any:
    """Return a computed field. In its SQL, `t` is the row."""
    return attrs.field(metadata={"sql": expression})


def _exported(
    name: str, table: type[Table], columns: str, *, join: str = "", where: str = "", of: str = "", key: str = "id"
) -> Callable[[type[T]], type[T]]:
    """Declare a list by the class of its rows, which has the computed fields.

    `columns` names the columns without personal data. `where` is a further condition. `of` replaces the condition that
    a row belongs to the customer. Pages are in the order of `key`.
    """
    wanted = {column for column, mark in personal_columns(table) if mark.exported} | set(columns.split())

    def declare(cls: type[T]) -> type[T]:
        own = vars(cls).get("__annotations__", {})
        read = [one for one in table._meta.columns if one._meta.name in wanted - own.keys()]
        cls.__annotations__ = {one._meta.name: _type_of(table, one) for one in read} | own
        row = attrs.frozen(kw_only=True)(cls)
        values = [f"t.{one._meta.name}" for one in read]
        values += [f"{one.metadata['sql']} AS {one.name}" for one in attrs.fields(row) if one.metadata]
        sql = f"""SELECT {", ".join(values)}
FROM {table._meta.tablename} AS t {join}
WHERE {of or belongs(table, "t")} AND t.{key} > $2 {where}
ORDER BY t.{key}
LIMIT $3"""
        LISTS[name] = Listed(row=row, table=table, key=key, sql=sql)
        return row

    return declare


def _type_of(table: type[Table], column: Any) -> Any:
    """Return the type of a column's values: the words that a CHECK lists, or that of its SQL type."""
    words = (vars(one) for one in table._meta.constraints)
    kind: Any = next((one["kind"] for one in words if one.get("column") == column._meta.name), None)
    if isinstance(kind, tuple):
        kind = Literal[kind]
    kind = kind or TYPES.get(column.column_type, str)
    return kind | None if column._meta.null else kind


@_exported("profiles", Customer, "id is_anonymous account_belongs_to usp_seen created_at")
class ExportedProfile:
    """The account, or an anonymous customer that has joined it."""


@_exported("devices", AuthSession, "id created_at last_used_at expires_at revoked_at")
class ExportedDevice:
    """A sign-in on a device, and what the app said of the device."""

    push_enabled: bool = _sql("t.push_token IS NOT NULL")


@_exported(
    "codes",
    OtpRequest,
    "id channel created_at",
    of="t.phone = ANY(ARRAY(SELECT c.phone FROM customers AS c WHERE c.id = ANY($1::uuid[])))",
    where="AND t.user_type = 'customer'",
)
class ExportedCode:
    """A request for a code to the phone. It does not have the code."""

    # Only a request that was used has its address: others may be a stranger's.
    ip_address: str = _sql("CASE WHEN t.used_at > t.created_at THEN t.ip_address ELSE '' END")
    used_at: Time | None = _sql("CASE WHEN t.used_at > t.created_at THEN t.used_at END")


@_exported(
    "payment_requests",
    PaymentRequest,
    "id amount duration_minutes is_first_session_discount is_extension extends_session_id mode status created_at "
    "confirmed_at consumed_at expires_at",
    join="LEFT JOIN mitras AS m ON m.id = t.targeted_mitra_id "
    "LEFT JOIN pairing_failures AS f ON f.payment_request_id = t.id AND f.superseded_at IS NULL",
)
class ExportedPayment:
    """A payment request. `mitra` is the name of the mitra that it was meant for."""

    mitra: str | None = _sql("m.display_name")
    failure: str | None = _sql("f.cause_tag")
    operator_action: OperatorAction | None = _sql("f.operator_action")


@_exported("transactions", CustomerTransaction, "id session_id payment_request_id type amount created_at")
class ExportedTransaction:
    """A payment that was earned."""


@_exported("goodbyes", SessionClosure, "id created_at", of=OF_SESSION)
class ExportedGoodbye:
    """A goodbye of the customer or the mitra."""

    sender: Party = _sql("t.user_type")


@_exported(
    "messages",
    ChatMessage,
    "id seq type created_at delivered_at read_at",
    join="JOIN chat_sessions AS s ON s.id = t.session_id",
    of=OF_SESSION,
    key="seq",
)
class ExportedMessage:
    """A message of the customer or the mitra."""

    sender: str = _sql("t.sender_type")
    content: str = _sql("CASE WHEN s.blanked_at IS NULL THEN t.content ELSE '' END")
    metadata: Any = _sql("CASE WHEN s.blanked_at IS NULL THEN t.metadata END")


@_exported(
    "sessions",
    ChatSession,
    "id payment_request_id mode status created_at paired_at ended_at ended_by duration_minutes price expires_at "
    "extended_minutes blanked_at",
    join="LEFT JOIN mitras AS m ON m.id = t.mitra_id",
)
class ExportedSession:
    """A session with its conversation. It names the mitra, and has nothing else about them."""

    mitra: str | None = _sql("m.display_name")
    goodbyes: list[ExportedGoodbye]
    messages: list[ExportedMessage]


@_exported("deliveries", DeliveryTrail, "id event_id event session_id payment_request_id at")
class ExportedDelivery:
    """What happened to an event on one of the devices; `device_id` is null if it was given up for all of them."""

    device_id: Id | None = _sql("t.auth_session_id")


@_exported("receipts", SessionReceipt, "id session_id", where="AND t.signed_at IS NOT NULL")
class ExportedReceipt:
    """The receipt of a session; `signed` is what the parties can read and verify."""

    signed: SignedReceipt = _sql(
        "jsonb_build_object('receipt', t.body::jsonb, 'key_id', t.key_id, 'signature', t.signature)"
    )


@_exported("time_credits", SessionTimeCredit, "id session_id began_at ended_at created_at")
class ExportedTimeCredit:
    """Paid time that a session got back for what it lost from `began_at` to `ended_at`."""


@_exported("absences", SessionAbsence, "id session_id", where="AND t.user_type = 'customer'")
class ExportedAbsence:
    """When the customer gave no sign of life in a session; `returned` is false if the session ended before."""


@_exported(
    "blocks",
    Block,
    "id session_id created_at",
    join="JOIN mitras AS m ON m.id = t.mitra_id",
    where="AND t.blocked_by = 'customer'",
)
class ExportedBlock:
    """A block of the customer, with the name of the mitra."""

    mitra: str = _sql("m.display_name")


@_exported("reports", SessionReport, "id session_id created_at", where="AND t.reporter = 'customer'")
class ExportedReport:
    """A report of the customer about the mitra of a session; without a `resolution` it is open."""


OF_EACH_SESSION = ("goodbyes", "messages")
OF_CUSTOMER = tuple(name for name in LISTS if name not in OF_EACH_SESSION)


@attrs.frozen(kw_only=True)
class Export:
    """Everything that is stored of the calling customer."""

    exported_at: Time
    __annotations__ |= {name: list[LISTS[name].row] for name in OF_CUSTOMER}


async def begin_own(runtime: Runtime, actor: Actor) -> None:
    """Count an export of the caller: one an hour. Raises RateLimited."""
    async with runtime.transaction() as tx:
        account_id = await customers.account_of(tx, actor.user_id)
        last = await customers.begin_export(tx, account_id, every=EXPORT_EVERY)
        now = tx.now
    if last is not None:
        metrics.LIMITED.labels("exports").inc()
        wait = (last + EXPORT_EVERY - now).total_seconds()
        raise RateLimited(retry_after_seconds=max(1, math.ceil(wait)))


async def note_export(runtime: Runtime, customer_id: str, *, operator_id: str | None) -> None:
    """Write the audit row of an export that an operator or the command line makes. Raises NotFound."""
    async with runtime.transaction() as tx:
        if not await customers.rows_of(tx, customer_id):
            raise NotFound
        await operators.audit(tx, operator_id, "customer.exported", "customer", customer_id)


async def begin_for_operator(runtime: Runtime, actor: Actor, customer_id: str) -> str:
    """Write the audit row of an export that an operator takes, and return the id of the customer's account.

    Raises NotFound.
    """
    account_id = await customers.account_of(runtime.db, customer_id)
    await note_export(runtime, account_id, operator_id=actor.user_id)
    return account_id


async def operator_named(runtime: Runtime, email: str) -> str:
    """Return the id of the operator with this e-mail. Raises LookupError."""
    found = await operators.by_email(runtime.db, email)
    if found is None:
        raise LookupError(email)
    return found.id


async def parts(runtime: Runtime, customer_id: str) -> AsyncIterator[bytes]:
    """Yield the JSON of an `Export`. Raises Unavailable; what was yielded by then is not JSON."""
    ids = await customers.rows_of(runtime.db, customer_id)
    yield b'{"exported_at":' + msgspec.json.encode(runtime.now())
    async for part in _lists(runtime, OF_CUSTOMER, ids):
        yield part
    yield b"}"


async def _lists(runtime: Runtime, names: Sequence[str], of: Any, *, limit: int = ROWS) -> AsyncIterator[bytes]:
    """Yield lists, each after a comma and its name."""
    for name in names:
        yield b',"' + name.encode() + b'":['
        async for part in _list(runtime, name, of, limit=limit):
            yield part
        yield b"]"


async def _list(runtime: Runtime, name: str, of: Any, *, limit: int) -> AsyncIterator[bytes]:
    """Yield the rows of a list, separated by commas."""
    listed, separator = LISTS[name], b""
    after: Any = FIRST if listed.key == "id" else 0
    while True:
        rows = [as_dict(row) for row in await runtime.db.fetch(listed.sql, of, after, limit)]
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
        after = rows[-1][listed.key]


async def _session(runtime: Runtime, row: dict[str, Any]) -> AsyncIterator[bytes]:
    yield msgspec.json.encode(row)[:-1]
    async for part in _lists(runtime, OF_EACH_SESSION, row["id"], limit=MESSAGES):
        yield part
    yield b"}"
