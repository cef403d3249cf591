"""Rules of pairing: when a round ends, and with which cause a search ends (docs/product.md#pairing).

A mitra is asked if they are available, have no open invitation to the session, have never rejected it, and have no
block with the customer. SQL applies this rule to all mitras at once, by `MAY_BE_INVITED` in core/pairing/eligible.py:
the database function `free_mitras` returns the available mitras, and `MAY_BE_ASKED` checks the other conditions.
tests/flows/test_availability.py tests it.

Waves (docs/product.md#waves) say how many mitras a blast asks at a time.
"""

import datetime as dt
import enum

import attrs

from core.base.errors import DomainError
from core.base.languages import Text
from core.payments.failures.causes import CauseTag
from core.sessions.states import SessionStatus

# One transaction inserts at most this many invitations, so that an acceptance never waits long for the session's lock.
# They take a third of a second; a statement may take five, so a database ten times slower still makes them.
INVITED_AT_ONCE = 1_000


@attrs.frozen(kw_only=True)
class Waves:
    """The configured waves of blasts: how many mitras a wave asks, and how long it lasts. 0: all at once, no waves."""

    size: int
    length: dt.timedelta


@attrs.frozen(kw_only=True)
class Wave:
    """The newest wave of a blast. Numbers begin with 1 and continue through all rounds; 0: no wave yet.

    `ends_at` is None if the wave has ended without a mitra for the next one, or with its round. Then the next mitra to
    become eligible begins a new wave.
    """

    number: int = 0
    ends_at: dt.datetime | None = None


@attrs.frozen(kw_only=True)
class Asking:
    """The wave for which mitras may be asked now, and how many of the eligible ones: with waves, longest waiting
    first."""

    wave: Wave = Wave()
    at_most: int = INVITED_AT_ONCE


NO_WAVES = Waves(size=0, length=dt.timedelta())
EVERYONE = Asking()  # all eligible mitras, in transactions of INVITED_AT_ONCE


def ask_now(wave: Wave, waves: Waves, *, asked: int, round_ends_at: dt.datetime, now: dt.datetime) -> Asking:
    """Return the wave for which mitras may be asked now, and how many of them one transaction asks.

    `wave` is the newest one and has `asked` invitations. A wave that is not full takes the next mitras at once; they
    are newcomers, or the rest of a wave whose process has died. Without waves all mitras are asked.
    """
    if waves.size == 0:
        return Asking(wave=Wave(number=wave.number))
    if wave.ends_at is not None and now < wave.ends_at:
        return Asking(wave=wave, at_most=min(INVITED_AT_ONCE, max(0, waves.size - asked)))
    ends_at = min(now + waves.length, round_ends_at)
    return Asking(wave=Wave(number=wave.number + 1, ends_at=ends_at), at_most=min(INVITED_AT_ONCE, waves.size))


def wave_after(wave: Wave, asking: Asking, *, invited: int) -> Wave:
    """Return the newest wave after `invited` mitras were asked; `wave` was the newest one before.

    A new wave begins with its first mitra. If there is none, no wave is running.
    """
    if asking.wave.number == wave.number or invited:
        return asking.wave
    return Wave(number=wave.number)


def is_cut_short(asking: Asking, *, invited: int) -> bool:
    """Return whether another transaction must go on at once, because this one has asked as many as it may."""
    return asking.at_most == INVITED_AT_ONCE == invited


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
    advice = "Remove the chat request from the list."


class RequestClosed(DomainError):
    """The request has been closed for this mitra."""

    code = "REQUEST_CLOSED"
    message = Text(en="This request is no longer open.", id="Permintaan ini sudah ditutup.")
    advice = "Remove the chat request from the list."


class SessionNotSearching(DomainError):
    """There is nothing to cancel: a mitra has accepted, or the request is for an extension."""

    code = "SESSION_NOT_SEARCHING"
    message = Text(en="There is no active search to cancel.", id="Tidak ada pencarian untuk dibatalkan.")
    advice = "Open the session that `details.session_id` names."


# The customer is sent the number of asked mitras this long after a new one is invited. Invitations made in between are
# counted in the same message, so that the customer gets at most one in this time (docs/product.md#repeats).
REPEAT_AFTER = dt.timedelta(seconds=2)
# Causes that depend on nothing else. The customer cancelled the search, or an operator ended it:
WHEN_CANCELLED = CauseTag.CUSTOMER_CANCELLED
# When the search of a paid request is to begin, the customer's account has a live session:
WHEN_LIVE_SESSION = CauseTag.PAYMENT_SESSION_EXPIRED


@attrs.frozen(kw_only=True)
class SearchLimits:
    """The configured service time of a search, of a blast's round, and of the one round of a targeted search."""

    search: dt.timedelta
    blast_round: dt.timedelta
    targeted_round: dt.timedelta


@attrs.frozen(kw_only=True)
class Round:
    """A round of a search. Numbers begin with 1."""

    number: int
    ends_at: dt.datetime


@attrs.frozen(kw_only=True)
class Search:
    """A running search with its present round and wave. A targeted search asks one mitra, a blast all eligible ones."""

    is_targeted: bool
    round: Round
    ends_at: dt.datetime
    wave: Wave = Wave()


@attrs.frozen(kw_only=True)
class InvitationTally:
    """Counts of one search: the distinct mitras ever asked, those of them who rejected, and the open invitations."""

    asked: int
    rejected: int
    open: int


def begin_search(limits: SearchLimits, *, is_targeted: bool, now: dt.datetime) -> Search:
    """Return a search that begins now, in its first round."""
    ends_at = now + limits.search
    length = limits.targeted_round if is_targeted else limits.blast_round
    return Search(
        is_targeted=is_targeted,
        round=Round(number=1, ends_at=round_ends(now=now, round_length=length, search_ends_at=ends_at)),
        ends_at=ends_at,
    )


def next_round(search: Search, limits: SearchLimits, *, now: dt.datetime) -> Round:
    """Return the round that follows now. It is a blast's: a targeted search has a second round only as a blast."""
    ends_at = round_ends(now=now, round_length=limits.blast_round, search_ends_at=search.ends_at)
    return Round(number=search.round.number + 1, ends_at=ends_at)


def in_round(search: Search, following: Round) -> Search:
    """Return a search after it has moved to its next round: a blast, without a running wave."""
    return attrs.evolve(search, is_targeted=False, round=following, wave=Wave(number=search.wave.number))


def round_ends(*, now: dt.datetime, round_length: dt.timedelta, search_ends_at: dt.datetime) -> dt.datetime:
    """Return the end of a round that begins now: after `round_length`, or with the search if that ends earlier."""
    return min(now + round_length, search_ends_at)


def answer_in_time(search: Search, *, now: dt.datetime) -> bool:
    """Return whether an acceptance still counts: for a blast until the search ends, for a targeted request until its
    round ends.

    In a blast a mitra who is invited again keeps their chance after the round.
    """
    return now < (search.round.ends_at if search.is_targeted else search.ends_at)


def check_open(status: SessionStatus, *, is_paired: bool, response: str | None) -> None:
    """Check that an invitation can still be answered, by the state of its session and the stored response to it.

    `is_paired` says that the session has a mitra. Raises RequestTaken or RequestClosed.
    """
    if is_paired:
        raise RequestTaken
    if status is not SessionStatus.SEARCHING or response is not None:
        raise RequestClosed


def end_of_round(
    search: Search, tally: InvitationTally, limits: SearchLimits, *, anyone_eligible: bool, now: dt.datetime
) -> Round | CauseTag:
    """Return what follows a round whose time is over: the next round, or the cause with which the search fails.

    `tally` counts the invitations before the round's open ones are closed.
    """
    if search.is_targeted:
        return CauseTag.TARGETED_MITRA_TIMEOUT
    if search.ends_at <= now:
        return CauseTag.NO_MITRA_AVAILABLE
    if all_rejected(tally) and not anyone_eligible:
        return CauseTag.ALL_MITRAS_REJECTED
    return next_round(search, limits, now=now)


def after_rejection(search: Search, tally: InvitationTally, *, anyone_eligible: bool) -> CauseTag | None:
    """Return the cause with which a search fails at once when a mitra rejects, or None if it goes on."""
    if search.is_targeted:
        return CauseTag.TARGETED_MITRA_REJECTED
    return CauseTag.ALL_MITRAS_REJECTED if all_rejected(tally) and not anyone_eligible else None


def after_absence(search: Search) -> CauseTag | None:
    """Return the cause with which a search fails at once when a mitra is absent.

    The mitra had an open invitation and went offline, or is the target of a search that begins. None for a blast.
    """
    return CauseTag.TARGETED_MITRA_OFFLINE if search.is_targeted else None


def depends_on_eligible(search: Search, tally: InvitationTally) -> bool:
    """Return whether it matters if a mitra is eligible: a blast whose asked mitras have all rejected."""
    return not search.is_targeted and all_rejected(tally)


def all_rejected(tally: InvitationTally) -> bool:
    """Return whether every mitra who was ever asked has rejected; False if none was asked."""
    return tally.asked > 0 and tally.rejected >= tally.asked


def is_idle(tally: InvitationTally, *, anyone_eligible: bool) -> bool:
    """Return whether the end of a blast's round has no effect.

    That is so if no invitation is open, no mitra can be invited, and the search does not fail because all have
    rejected.
    """
    return tally.open == 0 and not anyone_eligible and not all_rejected(tally)
