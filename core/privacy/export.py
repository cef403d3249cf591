"""A customer's own data as JSON, in bounded parts (docs/privacy.md#export).

Lists are read by pages, each from one short query, so that a long transcript neither fills the memory nor holds a
connection. The texts of blanked sessions are gone, and those of sessions that are being blanked are hidden.
"""

import math
from collections.abc import AsyncIterator
from typing import Any, Literal

import attrs
import msgspec

from core.accounts.customers import erasing as customers
from core.accounts.logins import erasing as logins
from core.accounts.operators import store as operators
from core.base.actor import Actor
from core.base.errors import NotFound
from core.base.field_types import CustomerId, Id, Mode, Party, PaymentRequestId, SessionId, Time
from core.bus.rate_limit import RateLimited
from core.deliveries.stages import TrailStage
from core.erasures.rules import EXPORT_EVERY, RECENT, RecentSignInRequired
from core.payments.failures.rules import OperatorAction
from core.payments.states import PaymentStatus
from core.runtime.container import Runtime
from core.sessions.receipts.rules import SignedReceipt
from core.sessions.rules import CreditReason, EndedBy
from core.sessions.sensitivity import Sensitivity
from core.sessions.states import SessionStatus
from core.storage import sql_files
from core.storage.records import as_dict
from core.telemetry import metrics

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


@attrs.frozen(kw_only=True)
class ExportedProfile:
    """The account, or an anonymous customer that has joined it."""

    id: CustomerId
    account_belongs_to: CustomerId | None
    display_name: str | None
    is_anonymous: bool
    phone: str | None
    email: str | None
    identity_a_sub: str | None
    identity_b_sub: str | None
    legacy_uid: str | None
    usp_seen: bool
    created_at: Time


@attrs.frozen(kw_only=True)
class ExportedDevice:
    """A sign-in on a device, and what the app said of the device."""

    id: Id
    device_info: dict[str, Any] | None
    locale: str | None
    push_enabled: bool
    created_at: Time
    last_used_at: Time | None
    expires_at: Time
    revoked_at: Time | None


@attrs.frozen(kw_only=True)
class ExportedCode:
    """A request for a code to the phone. It does not have the code."""

    id: Id
    phone: str
    ip_address: str
    channel: str
    created_at: Time
    used_at: Time | None


@attrs.frozen(kw_only=True)
class ExportedPayment:
    """A payment request. `mitra` is the name of the mitra that it was meant for."""

    id: PaymentRequestId
    amount: int
    duration_minutes: int
    mode: Mode
    status: PaymentStatus
    is_first_session_discount: bool
    is_extension: bool
    extends_session_id: SessionId | None
    mitra: str | None
    topics: list[str] | None
    created_at: Time
    expires_at: Time
    confirmed_at: Time | None
    consumed_at: Time | None
    gateway_invoice_id: str | None
    failure: str | None
    operator_action: OperatorAction | None


@attrs.frozen(kw_only=True)
class ExportedTransaction:
    """A payment that was earned."""

    id: Id
    type: Literal["session", "extension"]
    amount: int
    session_id: SessionId
    payment_request_id: PaymentRequestId | None
    created_at: Time


@attrs.frozen(kw_only=True)
class ExportedGoodbye:
    """A goodbye of the customer or the mitra."""

    id: Id
    sender: Party
    message: str
    created_at: Time


@attrs.frozen(kw_only=True)
class ExportedMessage:
    """A message of the customer or the mitra."""

    id: Id
    seq: int
    sender: str
    type: str
    content: str
    metadata: Any
    created_at: Time
    delivered_at: Time | None
    read_at: Time | None


@attrs.frozen(kw_only=True)
class ExportedSession:
    """A session with its conversation. It names the mitra, and has nothing else about them."""

    id: SessionId
    payment_request_id: PaymentRequestId | None
    mode: Mode
    status: SessionStatus
    mitra: str | None
    topics: list[str] | None
    topic_sensitivity: Sensitivity
    price: int
    duration_minutes: int | None
    extended_minutes: int
    created_at: Time
    paired_at: Time | None
    expires_at: Time | None
    ended_at: Time | None
    ended_by: EndedBy | None
    blanked_at: Time | None
    goodbyes: list[ExportedGoodbye]
    messages: list[ExportedMessage]


@attrs.frozen(kw_only=True)
class ExportedDelivery:
    """What happened to an event on one of the devices; `device_id` is null if it was given up for all of them."""

    id: Id
    event_id: Id
    event: str
    stage: TrailStage
    device_id: Id | None
    session_id: SessionId | None
    payment_request_id: PaymentRequestId | None
    at: Time


@attrs.frozen(kw_only=True)
class ExportedReceipt:
    """The receipt of a session; `signed` is what the parties can read and verify."""

    id: Id
    session_id: SessionId
    signed: SignedReceipt


@attrs.frozen(kw_only=True)
class ExportedTimeCredit:
    """Paid time that a session got back for what it lost from `began_at` to `ended_at`."""

    id: Id
    session_id: SessionId
    reason: CreditReason
    began_at: Time
    ended_at: Time
    milliseconds: int
    created_at: Time


@attrs.frozen(kw_only=True)
class ExportedAbsence:
    """When the customer gave no sign of life in a session; `returned` is false if the session ended before."""

    id: Id
    session_id: SessionId
    since: Time
    declared_at: Time
    ended_at: Time | None
    returned: bool


@attrs.frozen(kw_only=True)
class Export:
    """Everything that is stored of the calling customer."""

    exported_at: Time
    profiles: list[ExportedProfile]
    devices: list[ExportedDevice]
    codes: list[ExportedCode]
    payment_requests: list[ExportedPayment]
    transactions: list[ExportedTransaction]
    sessions: list[ExportedSession]
    deliveries: list[ExportedDelivery]
    receipts: list[ExportedReceipt]
    time_credits: list[ExportedTimeCredit]
    absences: list[ExportedAbsence]


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


async def operator_named(runtime: Runtime, email: str) -> str:
    """Return the id of the operator with this e-mail. Raises LookupError."""
    found = await operators.by_email(runtime.db, email)
    if found is None:
        raise LookupError(email)
    return found.id


async def require_recent_sign_in(runtime: Runtime, actor: Actor) -> None:
    """Check that the caller signed in on this device within the last 10 minutes. Raises RecentSignInRequired."""
    at = await logins.signed_in_at(runtime.db, actor.auth_session_id)
    if at is None or at <= runtime.now() - RECENT:
        raise RecentSignInRequired


async def parts(runtime: Runtime, customer_id: str) -> AsyncIterator[bytes]:
    """Yield the JSON of an `Export`. Raises Unavailable; what was yielded by then is not JSON."""
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
