"""When a session warns, ends and closes (specification, States; contract 5 and 6)."""

import datetime as dt

import attrs

from core.base.actor import UserType
from core.base.errors import DomainError, Kind
from core.base.languages import Text
from core.sessions.states import SessionStatus

WARNING = dt.timedelta(seconds=180)  # specification, fixed constants
GRACE = dt.timedelta(minutes=5)  # specification, fixed constants


@attrs.frozen(kw_only=True)
class Closure:
    """A party's goodbye."""

    user_type: str
    message: str
    created_at: dt.datetime


class SessionNotActive(DomainError):
    """The session does not take messages, or can't be ended, in its present state."""

    code = "SESSION_NOT_ACTIVE"
    message = Text(en="The session is not active.", id="Sesi ini tidak aktif.")


class EarlyEndDisabled(DomainError):
    """This side may not end a session before the paid time is over."""

    kind = Kind.FORBIDDEN
    code = "EARLY_END_DISABLED"
    message = Text(en="Sessions can't be ended early.", id="Sesi tidak dapat diakhiri lebih awal.")


class SessionNotClosable(DomainError):
    """The session is neither `expired` nor `closing`, so it takes no goodbye."""

    code = "SESSION_NOT_CLOSABLE"
    message = Text(en="This session does not take a goodbye now.", id="Sesi ini tidak menerima salam penutup sekarang.")


class ClosureExists(DomainError):
    """This side has already said goodbye."""

    code = "CLOSURE_EXISTS"
    message = Text(en="You have said goodbye already.", id="Anda sudah mengucapkan salam penutup.")


def warning_due(*, expires_at: dt.datetime, set_at: dt.datetime) -> dt.datetime | None:
    """Return when the warning is due; None when the session had no more than 180 s to go as its end was set."""
    return expires_at - WARNING if expires_at - set_at > WARNING else None


def may_end(status: SessionStatus, side: UserType, *, early_end_enabled: bool) -> bool:
    """Whether an end changes anything: True to end now, False when it is ended already.

    Raises SessionNotActive, or EarlyEndDisabled while paid time runs and the side's switch is off.
    """
    if status in (SessionStatus.CLOSING, SessionStatus.COMPLETED):
        return False
    if status is SessionStatus.ACTIVE:
        if not early_end_enabled:
            raise EarlyEndDisabled
        return True
    if status is SessionStatus.EXPIRED:
        return True
    raise SessionNotActive


def may_close(status: SessionStatus) -> None:
    """Check that a goodbye fits. Raises SessionNotClosable."""
    if status not in (SessionStatus.EXPIRED, SessionStatus.CLOSING):
        raise SessionNotClosable


def closures_for(side: UserType, closures: list[Closure], status: SessionStatus) -> list[Closure]:
    """Return the goodbyes of a session that a side may read.

    A side reads the other's once it has written its own, or once the session is completed.
    """
    has_written = any(closure.user_type == side.value for closure in closures)
    return closures if has_written or status is SessionStatus.COMPLETED else []
