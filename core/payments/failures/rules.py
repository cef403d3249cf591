"""What operators do about failed pairings, and the refusals (docs/product.md#failed-pairings)."""

import enum

from core.base.errors import DomainError
from core.base.languages import Text


class OperatorAction(enum.StrEnum):
    """What an operator has done for the customer."""

    REFUNDED = "refunded"
    CREDITED = "credited"
    NO_ACTION = "no_action"


class AlreadyActioned(DomainError):
    """An operator has already acted on this failure."""

    code = "ALREADY_ACTIONED"
    message = Text(en="This failure has already been resolved.", id="Kegagalan ini sudah ditangani.")
    advice = "Read the failure again, and show what was done."


class AlreadyAssigned(DomainError):
    """Another operator works on this failure. They or you give it back first (`assigned_to` null)."""

    code = "ALREADY_ASSIGNED"
    message = Text(en="Another operator works on this failure.", id="Operator lain sedang menangani kegagalan ini.")
    advice = "Read the failure again, and show who works on it."


class FailureActioned(DomainError):
    """An operator has already acted on the failed request, so the customer can't use its money for another try."""

    code = "FAILURE_ACTIONED"
    message = Text(en="An operator has already resolved this request.", id="Permintaan ini sudah ditangani operator.")
    advice = "Show what was done (`failure.operator_action`), and offer a new request."


class NotTargeted(DomainError):
    """The request is not targeted, or its state does not allow to ask other mitras."""

    code = "NOT_TARGETED"
    message = Text(
        en="This request can't be offered to other mitras.", id="Permintaan ini tidak dapat diajukan ke mitra lain."
    )
    advice = "Read the payment request again, and show its state."


class FailureSuperseded(DomainError):
    """The customer has tried again with the same payment, so operators can't act on the failure."""

    code = "FAILURE_SUPERSEDED"
    message = Text(
        en="The customer has started a new attempt; this failure is superseded.",
        id="Pelanggan sudah mencoba lagi; kegagalan ini tergantikan.",
    )
    advice = "Read the list again: the customer has tried again."
