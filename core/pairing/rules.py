"""Who is asked, until when, and with which cause a search ends (specification, States; contract 5)."""

import datetime as dt
import enum

import attrs

from core.base.errors import DomainError
from core.base.languages import Text


class CauseTag(enum.StrEnum):
    """Why a paid request came to no chat (specification, pairing_failures)."""

    NO_MITRA_AVAILABLE = "no_mitra_available"
    ALL_MITRAS_REJECTED = "all_mitras_rejected"
    TARGETED_MITRA_OFFLINE = "targeted_mitra_offline"
    TARGETED_MITRA_REJECTED = "targeted_mitra_rejected"
    TARGETED_MITRA_TIMEOUT = "targeted_mitra_timeout"
    PAYMENT_SESSION_EXPIRED = "payment_session_expired"
    CUSTOMER_CANCELLED = "customer_cancelled"
    EXTENSION_REJECTED = "extension_rejected"
    EXTENSION_SAFEGUARD_TRIPPED = "extension_safeguard_tripped"


class Response(enum.StrEnum):
    """How a request to a mitra ended."""

    ACCEPTED = "ACCEPTED"
    REJECTED = "REJECTED"
    MISSED = "MISSED"  # another mitra was first
    IGNORED = "IGNORED"  # no answer in time, or she went offline
    CANCELLED = "CANCELLED"  # the customer left


class RequestTaken(DomainError):
    """Another mitra accepted first."""

    code = "REQUEST_TAKEN"
    message = Text(en="Another mitra was first.", id="Mitra lain sudah lebih dahulu.")


class RequestClosed(DomainError):
    """The request has been closed for this mitra."""

    code = "REQUEST_CLOSED"
    message = Text(en="This request is closed.", id="Permintaan ini sudah ditutup.")


class SessionNotSearching(DomainError):
    """There is nothing to cancel: a mitra has accepted, or the request is for an extension."""

    code = "SESSION_NOT_SEARCHING"
    message = Text(en="There is no search to cancel.", id="Tidak ada pencarian untuk dibatalkan.")


# From a search's first new invitation to the message that gives the customer the larger number. Invitations in between are in
# the same message, so there is at most one in this time.
REPEAT_AFTER = dt.timedelta(seconds=2)


@attrs.frozen(kw_only=True)
class Tally:
    """How a search stands: distinct mitras ever asked, how many of them said no, and how many requests are open."""

    asked: int
    rejected: int
    open: int


def round_ends(*, now: dt.datetime, round_length: dt.timedelta, search_ends_at: dt.datetime) -> dt.datetime:
    """Return the end of a round that begins now: the search's end may come first."""
    return min(now + round_length, search_ends_at)


def answer_in_time(
    *, targeted: bool, round_ends_at: dt.datetime, search_ends_at: dt.datetime, now: dt.datetime
) -> bool:
    """Whether a yes still counts. The end of a blast's round changes nothing for who is asked again; the others' ends do."""
    return now < (round_ends_at if targeted else search_ends_at)


def all_rejected(tally: Tally) -> bool:
    """Whether every mitra who was ever asked has rejected."""
    return tally.asked > 0 and tally.rejected >= tally.asked


def is_idle(tally: Tally, *, anyone_eligible: bool) -> bool:
    """Whether the end of a blast's round changes nothing: no request is open, no mitra can be asked, one may still come."""
    return tally.open == 0 and not anyone_eligible and not all_rejected(tally)
