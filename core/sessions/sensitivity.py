"""Topic sensitivity: regular or sensitive, with the one-way latch (docs/product.md#topic-sensitivity)."""

import enum

from core.base.errors import DomainError
from core.base.languages import Text


class Sensitivity(enum.StrEnum):
    """How a session's topic is marked."""

    REGULAR = "regular"
    SENSITIVE = "sensitive"


class SensitivityLatched(DomainError):
    """The session is sensitive, and `sensitive_flag_one_way_latch` keeps it so."""

    code = "SENSITIVITY_LATCHED"
    message = Text(en="A sensitive session can't be made regular again.", id="Sesi sensitif tetap sensitif.")
    advice = "Show the mark without a way to take it back."


def flips(before: Sensitivity, wanted: Sensitivity, *, one_way: bool) -> bool:
    """Return whether the flag changes. `one_way` is the latch.

    Raises SensitivityLatched if the session is sensitive and the latch keeps it so.
    """
    if before is wanted:
        return False
    if one_way and before is Sensitivity.SENSITIVE:
        raise SensitivityLatched
    return True
