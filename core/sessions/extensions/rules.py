"""When a session can be extended, and its end after that (docs/product.md#extensions)."""

import datetime as dt
import enum

from core.base.errors import DomainError, Repeat
from core.base.languages import Text
from core.sessions.extensions.states import ExtensionStatus


class SessionNotExtendable(DomainError):
    """The session is neither active nor in the grace period of `expired`, or its mitra is not active."""

    code = "SESSION_NOT_EXTENDABLE"
    message = Text(en="This session can't be extended.", id="Sesi ini tidak dapat diperpanjang.")
    advice = "Offer a new session instead."


class ExtensionPending(DomainError):
    """An extension of the session is unpaid or waits for the mitra; `details.payment_request_id` names its request."""

    code = "EXTENSION_PENDING"
    message = Text(en="An extension is already in progress.", id="Perpanjangan sedang diproses.")
    repeat = Repeat.LATER
    advice = "Open the payment request that `details` names, or wait for the mitra."


class ExtensionLimit(DomainError):
    """The session has as many approved extensions as `max_extensions_per_session` allows."""

    code = "EXTENSION_LIMIT"
    message = Text(en="This session can't be extended again.", id="Sesi ini tidak dapat diperpanjang lagi.")
    advice = "Offer a new session after this one."


class ExtensionNotPending(DomainError):
    """The extension has been answered, or the time to answer it is over."""

    code = "EXTENSION_RESOLVED"
    message = Text(en="This extension has already been answered.", id="Perpanjangan ini sudah dijawab.")
    advice = "Read the session again: the answer has been given."


class DefaultAction(enum.StrEnum):
    """What happens if the mitra does not answer: the values of `extension_default_action_on_timeout`."""

    AUTO_APPROVE = "auto_approve"
    REJECT = "reject"


def by_silence(action: DefaultAction) -> ExtensionStatus:
    """Return the final status of an extension that was not answered in time."""
    return ExtensionStatus.AUTO_APPROVED if action is DefaultAction.AUTO_APPROVE else ExtensionStatus.REJECTED


def new_end(*, expires_at: dt.datetime, minutes: int, now: dt.datetime, is_over: bool) -> dt.datetime:
    """Return the session's new end: `minutes` after its present end, or after now if its paid time is over."""
    return (now if is_over else expires_at) + dt.timedelta(minutes=minutes)
