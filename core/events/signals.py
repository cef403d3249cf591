"""Signals: committed facts that other processes should look at now (docs/architecture.md#signals).

Losing one costs a delay, never a wrong state (docs/invariants.md#rule-5).
"""

import datetime as dt

import msgspec


class Signal(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The base class of signals, which are named in the past tense."""


class LoginsRevoked(Signal, frozen=True, kw_only=True):
    """These auth sessions ended: their tokens are refused and their sockets closed.

    `replaced`: their devices have the tokens of the next auth session, so their users are not signed out.
    """

    auth_session_ids: list[str]
    replaced: bool = False


class AccountJoined(Signal, frozen=True, kw_only=True):
    """An anonymous customer joined an account: their rows belong to the account, too."""

    customer_id: str
    joined_id: str


class CodeAsked(Signal, frozen=True, kw_only=True):
    """A mitra route stored a request for a code; the code is still to be sent."""

    otp_request_id: str


class ConfigChanged(Signal, frozen=True, kw_only=True):
    """A configuration row has a new value."""

    key: str


class DeadlineSet(Signal, frozen=True, kw_only=True):
    """A deadline was set; `at` is service time."""

    at: dt.datetime


class PaymentConfirmed(Signal, frozen=True, kw_only=True):
    """A payment request was confirmed: its pairing starts, or the mitra is asked for its extension."""

    payment_request_id: str
    is_extension: bool
    customer_id: str | None = None  # set if the customer paid just now, more than 0
    traceparent: str | None = None


class InvoiceVoided(Signal, frozen=True, kw_only=True):
    """An invoice is to be cancelled at the gateway, so that it can't be paid."""

    gateway_invoice_id: str


class BlastCutShort(Signal, frozen=True, kw_only=True):
    """A search has asked as many mitras as one transaction may, and goes on with the others."""

    session_id: str


class MitrasFreed(Signal, frozen=True, kw_only=True):
    """These mitras may have become free for requests."""

    mitra_ids: list[str]


Any_ = (
    LoginsRevoked
    | AccountJoined
    | CodeAsked
    | ConfigChanged
    | DeadlineSet
    | PaymentConfirmed
    | InvoiceVoided
    | BlastCutShort
    | MitrasFreed
)


def encode(signal: Signal) -> bytes:
    """Encode a signal for the bus."""
    return msgspec.json.encode(signal)


def decode(data: bytes) -> Signal | None:
    """Decode a signal; None for a type that this version does not know."""
    try:
        return msgspec.json.decode(data, type=Any_)
    except msgspec.ValidationError:
        return None
