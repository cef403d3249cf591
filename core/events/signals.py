"""Signals: committed facts that other processes should look at now. Losing one costs a delay, never a wrong state."""

import datetime as dt

import msgspec


class Signal(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A fact in the past tense."""


class LoginsRevoked(Signal, frozen=True, kw_only=True):
    """These auth sessions ended: their tokens are refused and their sockets closed."""

    auth_session_ids: list[str]


class AccountJoined(Signal, frozen=True, kw_only=True):
    """An anonymous customer signed into an account: what is hers is the account's too."""

    customer_id: str
    joined_id: str


class CodeAsked(Signal, frozen=True, kw_only=True):
    """A mitra route took a request for a code, which is to be sent."""

    otp_request_id: str


class ConfigChanged(Signal, frozen=True, kw_only=True):
    """A configuration row has a new value."""

    key: str


class DeadlineSet(Signal, frozen=True, kw_only=True):
    """Something will be due at this moment of service time."""

    at: dt.datetime


class PaymentConfirmed(Signal, frozen=True, kw_only=True):
    """`payment_request.confirmed`: its pairing starts, or its extension is asked."""

    payment_request_id: str
    is_extension: bool
    customer_id: str | None = None  # when they paid just now


class InvoiceVoided(Signal, frozen=True, kw_only=True):
    """Nobody should pay this invoice of the gateway's any more."""

    gateway_invoice_id: str


class MitrasFreed(Signal, frozen=True, kw_only=True):
    """These mitras may have become free for requests."""

    mitra_ids: list[str]


class SessionMoved(Signal, frozen=True, kw_only=True):
    """A session changed its state or its end."""

    session_id: str
    status: str


Any_ = (
    LoginsRevoked
    | AccountJoined
    | CodeAsked
    | ConfigChanged
    | DeadlineSet
    | PaymentConfirmed
    | InvoiceVoided
    | MitrasFreed
    | SessionMoved
)


def encode(signal: Signal) -> bytes:
    """Write for the wire."""
    return msgspec.json.encode(signal)


def decode(data: bytes) -> Signal | None:
    """Read from the wire; None for a type that this version does not know."""
    try:
        return msgspec.json.decode(data, type=Any_)
    except msgspec.ValidationError:
        return None
