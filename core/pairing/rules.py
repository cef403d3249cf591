"""Rules of pairing: how an invitation ends, its deadlines and its refusals (docs/product.md#pairing).

Which mitras are eligible is decided in SQL: `free_mitras`, a function in the database, and ELIGIBLE in `store.py`.
"""

import datetime as dt
import enum

import attrs

from core.base.errors import DomainError
from core.base.languages import Text


class Response(enum.StrEnum):
    """How an invitation ended (docs/product.md#states-of-an-invitation)."""

    ACCEPTED = "ACCEPTED"
    REJECTED = "REJECTED"
    MISSED = "MISSED"  # another mitra accepted first
    IGNORED = "IGNORED"  # the mitra did not answer in time, or went offline
    CANCELLED = "CANCELLED"  # the customer cancelled, or fell back to a blast


class RequestTaken(DomainError):
    """Another mitra accepted first."""

    code = "REQUEST_TAKEN"
    message = Text(en="Another mitra has already accepted.", id="Mitra lain sudah lebih dahulu.")


class RequestClosed(DomainError):
    """The request has been closed for this mitra."""

    code = "REQUEST_CLOSED"
    message = Text(en="This request is no longer open.", id="Permintaan ini sudah ditutup.")


class SessionNotSearching(DomainError):
    """There is nothing to cancel: a mitra has accepted, or the request is for an extension."""

    code = "SESSION_NOT_SEARCHING"
    message = Text(en="There is no active search to cancel.", id="Tidak ada pencarian untuk dibatalkan.")


# The customer is sent the number of asked mitras this long after a new one is invited. Invitations made in between are
# counted in the same message, so that the customer gets at most one in this time (docs/product.md#repeats).
REPEAT_AFTER = dt.timedelta(seconds=2)


@attrs.frozen(kw_only=True)
class Tally:
    """Counts of one search: the distinct mitras ever asked, those of them who rejected, and the open invitations."""

    asked: int
    rejected: int
    open: int


def round_ends(*, now: dt.datetime, round_length: dt.timedelta, search_ends_at: dt.datetime) -> dt.datetime:
    """Return the end of a round that begins now: after `round_length`, or with the search if that ends earlier."""
    return min(now + round_length, search_ends_at)


def answer_in_time(
    *, targeted: bool, round_ends_at: dt.datetime, search_ends_at: dt.datetime, now: dt.datetime
) -> bool:
    """Return whether an acceptance still counts: for a blast until the search ends, for a targeted request until its
    round ends.

    In a blast a mitra who is invited again keeps their chance after the round.
    """
    return now < (round_ends_at if targeted else search_ends_at)


def all_rejected(tally: Tally) -> bool:
    """Return whether every mitra who was ever asked has rejected; False if none was asked."""
    return tally.asked > 0 and tally.rejected >= tally.asked


def is_idle(tally: Tally, *, anyone_eligible: bool) -> bool:
    """Return whether the end of a blast's round has no effect.

    That is so if no invitation is open, no mitra can be invited, and the search does not fail because all have
    rejected.
    """
    return tally.open == 0 and not anyone_eligible and not all_rejected(tally)
