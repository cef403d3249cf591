"""A customer's or mitra's own data as JSON, in bounded parts (docs/privacy.md#export).

Lists are read by pages, each from one short query, so that a long transcript neither fills the memory nor holds a
connection. The texts of blanked sessions are gone, and those of sessions that are being blanked are hidden.

A list is a class: it has the columns that it names, and computed fields with their SQL. Those of a customer also have
the columns that are marked as exported (core/storage/personal.py); in a mitra's lists these are the customer's. The
statement of a list and the interface document are made from its class.
"""

import math
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Literal, TypeVar

import attrs
import msgspec
from piccolo.table import Table

from core.accounts.blocks.tables import Block
from core.accounts.customers import erasing as customer_erasing
from core.accounts.customers.tables import Customer
from core.accounts.logins.tables import AuthSession, OtpRequest
from core.accounts.mitras import store as mitras
from core.accounts.mitras.tables import Mitra, MitraOnlineLog
from core.accounts.operators import store as operators
from core.base.actor import Actor, UserType
from core.base.errors import NotFound
from core.base.field_types import Id, Party, Time
from core.bus.rate_limit import RateLimited
from core.deliveries.tables import DeliveryTrail
from core.erasures.rules import EXPORT_EVERY
from core.pairing.tables import ChatRequestNotification
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
from core.storage.transaction import Reader
from core.telemetry import metrics

ROWS, MESSAGES = 200, 100  # rows of a page; a message has up to 16 KB
FIRST = "00000000-0000-0000-0000-000000000000"
TYPES = {
    "UUID": Id, "INTEGER": int, "BIGINT": int, "BOOLEAN": bool, "TIMESTAMPTZ": Time, "JSONB": dict[str, Any],
    "TEXT[]": list[str],
}  # fmt: skip
OF_SESSION = "t.session_id = $1"
OF_MITRA = "t.mitra_id = ANY($1::uuid[])"
OF_MITRAS_SESSIONS = "t.session_id = ANY(ARRAY(SELECT id FROM chat_sessions WHERE mitra_id = ANY($1::uuid[])))"
SESSION = "id mode status created_at paired_at ended_at ended_by duration_minutes price expires_at extended_minutes"

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class Listed:
    """A list: the class of its rows, their table, the column that orders them, and the statement of a page."""

    row: type[Any]
    table: type[Table]
    key: str
    sql: str


LISTS: dict[UserType, dict[str, Listed]] = {UserType.CUSTOMER: {}, UserType.MITRA: {}}


def _sql(expression: str) -> Any:
    """Return a computed field. In its SQL, `t` is the row."""
    return attrs.field(metadata={"sql": expression})


def _exported(
    name: str,
    table: type[Table],
    columns: str,
    *,
    user_type: UserType = UserType.CUSTOMER,
    join: str = "",
    where: str = "",
    of: str = "",
    key: str = "id",
) -> Callable[[type[T]], type[T]]:
    """Declare a list by the class of its rows, which has the computed fields.

    `columns` names the columns without personal data; for a mitra, all columns. `where` is a further condition. `of`
    replaces the condition that a row belongs to the user. Pages are in the order of `key`.
    """
    marked = personal_columns(table) if user_type is UserType.CUSTOMER else ()
    wanted = {column for column, mark in marked if mark.exported} | set(columns.split())

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
        LISTS[user_type][name] = Listed(row=row, table=table, key=key, sql=sql)
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
    of="t.phone = ANY(ARRAY(SELECT phone FROM customers WHERE id = ANY($1::uuid[]) "
    "UNION ALL SELECT phone FROM mitras WHERE id = ANY($1::uuid[])))",
    where="AND t.user_type = CASE WHEN EXISTS (SELECT FROM mitras WHERE id = ANY($1::uuid[])) "
    "THEN 'mitra' ELSE 'customer' END",
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
    f"{SESSION} payment_request_id blanked_at",
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


@_exported("profiles", Mitra, "id phone display_name is_active created_at", user_type=UserType.MITRA)
class ExportedMitra:
    """The mitra."""


@_exported("presence", MitraOnlineLog, "id status timestamp", user_type=UserType.MITRA, of=OF_MITRA)
class ExportedPresence:
    """When the mitra went online or offline."""


@_exported(
    "invitations",
    ChatRequestNotification,
    "id session_id round_number notified_at answer_by response responded_at lost_by_ms",
    user_type=UserType.MITRA,
    of=OF_MITRA,
)
class ExportedInvitation:
    """A search that asked the mitra, and their answer."""


@_exported(
    "goodbyes",
    SessionClosure,
    "id message created_at",
    user_type=UserType.MITRA,
    of=OF_SESSION,
    where="AND t.user_type = 'mitra'",
)
class ExportedMitraGoodbye:
    """A goodbye of the mitra."""


@_exported(
    "messages",
    ChatMessage,
    "id seq type created_at delivered_at read_at",
    user_type=UserType.MITRA,
    join="JOIN chat_sessions AS s ON s.id = t.session_id",
    of=OF_SESSION,
    where="AND t.sender_type = 'mitra'",
    key="seq",
)
class ExportedMitraMessage:
    """A message that the mitra wrote."""

    content: str = _sql("CASE WHEN s.blanked_at IS NULL THEN t.content ELSE '' END")
    metadata: Any = _sql("CASE WHEN s.blanked_at IS NULL THEN t.metadata END")


@_exported("sessions", ChatSession, f"{SESSION} blanked_at", user_type=UserType.MITRA, of=OF_MITRA)
class ExportedMitraSession:
    """A session of the mitra, with their own words. It has nothing about the customer."""

    goodbyes: list[ExportedMitraGoodbye]
    messages: list[ExportedMitraMessage]


@_exported(
    "absences",
    SessionAbsence,
    "id session_id since declared_at ended_at returned",
    user_type=UserType.MITRA,
    of=OF_MITRAS_SESSIONS,
    where="AND t.user_type = 'mitra'",
)
class ExportedMitraAbsence:
    """When the mitra gave no sign of life in a session; `returned` is false if the session ended before."""


@_exported(
    "blocks",
    Block,
    "id session_id created_at",
    user_type=UserType.MITRA,
    of=OF_MITRA,
    where="AND t.blocked_by = 'mitra'",
)
class ExportedMitraBlock:
    """A block of the mitra."""


@_exported(
    "reports",
    SessionReport,
    "id session_id reason message resolution created_at",
    user_type=UserType.MITRA,
    of=OF_MITRAS_SESSIONS,
    where="AND t.reporter = 'mitra'",
)
class ExportedMitraReport:
    """A report of the mitra about a customer; without a `resolution` it is open."""


for _name in ("devices", "codes", "deliveries"):
    LISTS[UserType.MITRA][_name] = LISTS[UserType.CUSTOMER][_name]

OF_EACH_SESSION = ("goodbyes", "messages")
OF_USER = {
    user_type: tuple(name for name in lists if name not in OF_EACH_SESSION) for user_type, lists in LISTS.items()
}


def _rows(user_type: UserType) -> dict[str, Any]:
    return {name: list[LISTS[user_type][name].row] for name in OF_USER[user_type]}


@attrs.frozen(kw_only=True)
class Export:
    """Everything that is stored of the calling customer."""

    exported_at: Time
    __annotations__ |= _rows(UserType.CUSTOMER)


@attrs.frozen(kw_only=True)
class MitraExport:
    """Everything that is stored of a mitra."""

    exported_at: Time
    __annotations__ |= _rows(UserType.MITRA)


async def begin_own(runtime: Runtime, actor: Actor) -> None:
    """Count an export of the caller: one an hour. Raises RateLimited."""
    async with runtime.transaction() as tx:
        account_id = await customer_erasing.account_of(tx, actor.user_id)
        last = await customer_erasing.begin_export(tx, account_id, every=EXPORT_EVERY)
        now = tx.now
    if last is not None:
        metrics.LIMITED.labels("exports").inc()
        wait = (last + EXPORT_EVERY - now).total_seconds()
        raise RateLimited(retry_after_seconds=max(1, math.ceil(wait)))


async def note_export(runtime: Runtime, user_type: UserType, user_id: str, *, operator_id: str | None) -> None:
    """Write the audit row of an export that an operator or the command line makes. Raises NotFound."""
    async with runtime.transaction() as tx:
        if not await _ids_of(tx, user_type, user_id):
            raise NotFound
        await operators.audit(tx, operator_id, f"{user_type.value}.exported", user_type.value, user_id)


async def begin_for_operator(runtime: Runtime, actor: Actor, user_type: UserType, user_id: str) -> str:
    """Write the audit row of an export that an operator takes, and return the id of the user; a customer's account.

    Raises NotFound.
    """
    if user_type is UserType.CUSTOMER:
        user_id = await customer_erasing.account_of(runtime.db, user_id)
    await note_export(runtime, user_type, user_id, operator_id=actor.user_id)
    return user_id


async def _ids_of(reader: Reader, user_type: UserType, user_id: str) -> list[str]:
    """Return the ids of a mitra, or of a customer's account and those that joined it. Unknown users have none."""
    if user_type is UserType.CUSTOMER:
        return await customer_erasing.rows_of(reader, user_id)
    return [] if await mitras.get(reader, user_id) is None else [user_id]


async def operator_named(runtime: Runtime, email: str) -> str:
    """Return the id of the operator with this e-mail. Raises LookupError."""
    found = await operators.by_email(runtime.db, email)
    if found is None:
        raise LookupError(email)
    return found.id


async def parts(runtime: Runtime, user_type: UserType, user_id: str) -> AsyncIterator[bytes]:
    """Yield the JSON of an `Export` or `MitraExport`. Raises Unavailable; what was yielded by then is not JSON."""
    ids, lists = await _ids_of(runtime.db, user_type, user_id), LISTS[user_type]
    yield b'{"exported_at":' + msgspec.json.encode(runtime.now())
    async for part in _lists(runtime, lists, OF_USER[user_type], ids):
        yield part
    yield b"}"


async def _lists(
    runtime: Runtime, lists: dict[str, Listed], names: Sequence[str], of: Any, *, limit: int = ROWS
) -> AsyncIterator[bytes]:
    """Yield some of the lists, each after a comma and its name."""
    for name in names:
        yield b',"' + name.encode() + b'":['
        async for part in _list(runtime, lists, name, of, limit=limit):
            yield part
        yield b"]"


async def _list(runtime: Runtime, lists: dict[str, Listed], name: str, of: Any, *, limit: int) -> AsyncIterator[bytes]:
    """Yield the rows of a list, separated by commas."""
    listed, separator = lists[name], b""
    after: Any = FIRST if listed.key == "id" else 0
    while True:
        rows = [as_dict(row) for row in await runtime.db.fetch(listed.sql, of, after, limit)]
        if name == "sessions":
            for row in rows:
                yield separator
                separator = b","
                async for part in _session(runtime, lists, row):
                    yield part
        elif rows:
            yield separator + b",".join(msgspec.json.encode(row) for row in rows)
            separator = b","
        if len(rows) < limit:
            return
        after = rows[-1][listed.key]


async def _session(runtime: Runtime, lists: dict[str, Listed], row: dict[str, Any]) -> AsyncIterator[bytes]:
    yield msgspec.json.encode(row)[:-1]
    async for part in _lists(runtime, lists, OF_EACH_SESSION, row["id"], limit=MESSAGES):
        yield part
    yield b"}"
