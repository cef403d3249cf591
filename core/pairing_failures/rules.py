"""What an operator may still do about a failure (specification, Pairing failure operator action; contract 8)."""

import enum

from core.base.errors import DomainError
from core.base.languages import Text


class OperatorAction(enum.StrEnum):
    """What was done for the customer."""

    REFUNDED = "refunded"
    CREDITED = "credited"
    NO_ACTION = "no_action"


class AlreadyActioned(DomainError):
    """An operator has already acted on this failure."""

    code = "ALREADY_ACTIONED"
    message = Text(en="Somebody has acted on this failure already.", id="Kegagalan ini sudah ditangani.")


class FailureActioned(DomainError):
    """An operator has already acted on the failure, so the customer can't try again with its money."""

    code = "FAILURE_ACTIONED"
    message = Text(en="An operator has acted on this request already.", id="Permintaan ini sudah ditangani operator.")


class NotTargeted(DomainError):
    """The request is not targeted, or can't become a blast in its present state."""

    code = "NOT_TARGETED"
    message = Text(
        en="This request can't be put to all mitras.", id="Permintaan ini tidak dapat diajukan ke semua mitra."
    )


class FailureSuperseded(DomainError):
    """The customer has tried again, so the failure takes no action."""

    code = "FAILURE_SUPERSEDED"
    message = Text(
        en="The customer has tried again; this failure is superseded.",
        id="Pelanggan sudah mencoba lagi; kegagalan ini tergantikan.",
    )
