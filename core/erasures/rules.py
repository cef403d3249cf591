"""Rules of erasures: who asks for one, the hash that is kept, and the refusals (docs/privacy.md#erasure)."""

import datetime as dt
import enum
import hashlib
import hmac

from core.base.errors import DomainError, Repeat
from core.base.languages import Text

# Requests that were in progress at the erasure have ended by then, and events about the last session have arrived. What
# they stored is erased after it, at the latest. Service time.
SETTLED = dt.timedelta(minutes=1)
EXPORT_EVERY = dt.timedelta(hours=1)  # service time


class RequestedBy(enum.StrEnum):
    """Who asked for an erasure."""

    USER = "user"
    OPERATOR = "operator"
    COMMAND_LINE = "command_line"


class MitraStillActive(DomainError):
    """The mitra to be erased is active, so their data is needed."""

    code = "MITRA_STILL_ACTIVE"
    message = Text(
        en="The mitra is active: deactivate them first.", id="Mitra masih aktif: nonaktifkan mitra terlebih dahulu."
    )
    repeat = Repeat.LATER
    advice = "Deactivate the mitra, then erase them."


def identity_hash(key: bytes, *, kind: str, value: str) -> str:
    """Return the keyed hash of a phone or identity, 64 hex digits.

    Without the key it can't be tested against a list of numbers: there are few enough phone numbers to try them all.
    """
    return hmac.new(key, f"erased {kind} {value}".encode(), hashlib.sha256).hexdigest()


def phone_mark(key: bytes, *, phone: str) -> str:
    """Return what replaces a phone in requests for codes, so that the limits of codes hold after an erasure.

    It fits the column and can't be mistaken for a phone. With 76 bits of a hash two phones never have the same mark.
    """
    return "#" + identity_hash(key, kind="code", value=phone)[:19]
