"""Rules of a session's warning, end and goodbyes (docs/product.md#sessions)."""

import datetime as dt
import enum
from typing import Literal

import attrs

from core.base.actor import UserType
from core.base.errors import DomainError, Kind, Repeat
from core.base.field_types import Party, Time
from core.base.languages import Text
from core.sessions.states import CLOSABLE, ENDED, HELD, SessionStatus

WARNING = dt.timedelta(seconds=180)  # docs/product.md#warning
GRACE = dt.timedelta(minutes=5)  # docs/product.md#grace-period
EndedBy = Literal["customer", "mitra", "timer", "operator"]


class CreditReason(enum.StrEnum):
    """Why a session gets paid time back: an outage of this kind, or the mitra was away."""

    DATABASE = "database"
    REALTIME = "realtime"
    MITRA_ABSENT = "mitra_absent"


@attrs.frozen(kw_only=True)
class Closure:
    """The goodbye of one party. `blanked`: its text was removed for good, so `message` is empty."""

    user_type: Party
    message: str
    created_at: Time
    blanked: bool


class SessionNotActive(DomainError):
    """The session's state does not allow messages, or an end."""

    code = "SESSION_NOT_ACTIVE"
    message = Text(en="The session is not active.", id="Sesi ini tidak aktif.")
    advice = "Read the session again. Keep the unsent message on the screen."


class EarlyEndDisabled(DomainError):
    """This side may not end a session before the paid time is over."""

    kind = Kind.FORBIDDEN
    code = "EARLY_END_DISABLED"
    message = Text(en="Sessions can't be ended early.", id="Sesi tidak dapat diakhiri lebih awal.")
    repeat = Repeat.LATER
    advice = "Hide the button until the paid time is over: read the app's switches."


class SessionNotClosable(DomainError):
    """The session is neither `expired` nor `closing`, so it takes no goodbye."""

    code = "SESSION_NOT_CLOSABLE"
    message = Text(
        en="This session does not accept a goodbye now.", id="Sesi ini tidak menerima salam penutup sekarang."
    )
    repeat = Repeat.LATER
    advice = "Read the session again, and show the goodbye when it has expired."


class ClosureExists(DomainError):
    """This side has already said goodbye."""

    code = "CLOSURE_EXISTS"
    message = Text(en="You have already said goodbye.", id="Anda sudah mengucapkan salam penutup.")
    advice = "Show the goodbye that was said."


def warning_due(*, expires_at: dt.datetime, set_at: dt.datetime) -> dt.datetime | None:
    """Return when the warning is due; None if at most 180 s were left at `set_at`, when `expires_at` was set."""
    return expires_at - WARNING if expires_at - set_at > WARNING else None


def status_at(
    status: SessionStatus,
    *,
    expires_at: dt.datetime | None,
    grace_ends_at: dt.datetime | None,
    extension_pending: bool,
    now: dt.datetime,
) -> SessionStatus:
    """Return the state of a session by the clock; `status` is the stored one.

    The stored state may be a moment old, because the jobs process changes it after the deadline has passed. A pending
    extension holds the grace period of an expired session.
    """
    if status in HELD and expires_at is not None and expires_at <= now:
        over = expires_at + GRACE <= now and not extension_pending
        return SessionStatus.COMPLETED if over else SessionStatus.EXPIRED
    if status is SessionStatus.CLOSING and grace_ends_at is not None and grace_ends_at <= now:
        return SessionStatus.COMPLETED
    return status


def extendable(status: SessionStatus, *, expires_at: dt.datetime | None, now: dt.datetime) -> bool:
    """Return whether a session can be extended: it is active, or expired less than the grace period ago.

    The clock decides, because the jobs process may change the state a moment late.
    """
    return status in HELD and expires_at is not None and now < expires_at + GRACE


def may_end(status: SessionStatus, side: UserType, *, early_end_enabled: bool) -> bool:
    """Return True if the session can be ended now, False if it has ended already.

    Raises EarlyEndDisabled if the paid time runs and this side may not end it early, and SessionNotActive in all other
    states.
    """
    if status in ENDED:
        return False
    if status is SessionStatus.ACTIVE:
        if not early_end_enabled:
            raise EarlyEndDisabled
        return True
    if status is SessionStatus.EXPIRED:
        return True
    raise SessionNotActive


def may_close(status: SessionStatus) -> None:
    """Check that the session's state allows a goodbye.

    Raises SessionNotClosable if it doesn't.
    """
    if status not in CLOSABLE:
        raise SessionNotClosable


def closures_for(side: UserType, closures: list[Closure], status: SessionStatus) -> list[Closure]:
    """Return the goodbyes of a session that one side may read.

    A side may read the other's goodbye once it has written its own, or once the session is completed.
    """
    has_written = any(closure.user_type == side.value for closure in closures)
    return closures if has_written or status is SessionStatus.COMPLETED else []
