"""What an operator may still do about a failure (specification, Pairing failure operator action; contract 8)."""

import enum

from core.base.errors import DomainError


class OperatorAction(enum.StrEnum):
    """What was done for the customer."""

    REFUNDED = "refunded"
    CREDITED = "credited"
    NO_ACTION = "no_action"


class AlreadyActioned(DomainError):
    """Somebody acted on this failure before."""

    code = "ALREADY_ACTIONED"
    message = "Somebody has acted on this failure already."


class FailureSuperseded(DomainError):
    """The customer tried again: this failure is history."""

    code = "FAILURE_SUPERSEDED"
    message = "The customer has tried again; this failure is superseded."
