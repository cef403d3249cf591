"""What the export of a customer's data has (docs/privacy.md#export)."""

from typing import Any, Literal

import attrs

from core.base.field_types import CustomerId, Id, Mode, Party, PaymentRequestId, SessionId, Time
from core.deliveries.stages import Stage
from core.payments.failures.rules import OperatorAction
from core.payments.states import PaymentStatus
from core.sessions.receipts.rules import SignedReceipt
from core.sessions.rules import CreditReason, EndedBy
from core.sessions.sensitivity import Sensitivity
from core.sessions.states import SessionStatus


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
    stage: Stage
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
