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


class FailureActioned(DomainError):
    """An operator has given the money back, or decided not to: the customer can't try again with it."""

    code = "FAILURE_ACTIONED"
    message = "An operator has acted on this request already."


class NotTargeted(DomainError):
    """There is no targeted request that could fall back to a blast."""

    code = "NOT_TARGETED"
    message = "This request can't be put to all mitras."


class FailureSuperseded(DomainError):
    """The customer tried again: this failure is history."""

    code = "FAILURE_SUPERSEDED"
    message = "The customer has tried again; this failure is superseded."
