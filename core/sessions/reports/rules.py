"""Why a session is reported, what operators do about it, and the refusals (docs/product.md#reports)."""

import enum

from core.base.errors import DomainError
from core.base.languages import Text

LONGEST_MESSAGE = 1_000  # characters of what a party reports


class Reason(enum.StrEnum):
    """Why a party reports a session."""

    NO_ANSWER = "no_answer"
    RUDE = "rude"
    HARASSMENT = "harassment"
    SEXUAL = "sexual"
    SELF_HARM = "self_harm"
    SCAM = "scam"
    OTHER = "other"


class Resolution(enum.StrEnum):
    """What an operator has done about a report."""

    DISMISSED = "dismissed"
    WARNED = "warned"
    BLOCKED = "blocked"
    MADE_GOOD = "made_good"


class ReportStatus(enum.StrEnum):
    """Whether an operator has resolved a report."""

    OPEN = "open"
    RESOLVED = "resolved"


class AlreadyReported(DomainError):
    """The caller has reported this session before."""

    code = "ALREADY_REPORTED"
    message = Text(en="You have already reported this chat.", id="Anda sudah melaporkan chat ini.")
    advice = "Show that the report was received."


class ReportResolved(DomainError):
    """Another operator has resolved the report."""

    code = "REPORT_RESOLVED"
    message = Text(en="This report has already been resolved.", id="Laporan ini sudah diselesaikan.")
    advice = "Read the report again, and show what was done."
