"""The state machine of an extension (docs/product.md#states-of-an-extension).

A trigger in the database enforces the same edges. The diagram and the tables of the page are made from this module.
"""

from collections.abc import Mapping

from core.base.machine import EdgeCause, Edges, Initiator, State

CUSTOMER, MITRA, OPERATOR = Initiator.CUSTOMER, Initiator.MITRA, Initiator.OPERATOR
API, JOBS = Initiator.API, Initiator.JOBS


class ExtensionStatus(State):
    """The state of an extension."""

    PENDING = "pending", "The mitra is asked."
    APPROVED = "approved", "The mitra has approved. The money is earned."
    AUTO_APPROVED = (
        "auto_approved",
        "The mitra did not answer in time, and silence approves. The money is earned.",
    )
    REJECTED = "rejected", "The mitra has rejected, or did not answer in time and silence rejects."
    SAFEGUARD_TRIPPED = (
        "safeguard_tripped",
        "The session can no longer be extended. No money is earned.",
    )


E = ExtensionStatus
INITIAL: Mapping[ExtensionStatus, tuple[EdgeCause, ...]] = {
    E.PENDING: (EdgeCause("The payment request of an extension is confirmed.", API, JOBS),),
    E.SAFEGUARD_TRIPPED: (
        EdgeCause(
            "It is confirmed, but the session is over or the mitra is deactivated: the mitra is not asked.", API, JOBS
        ),
    ),
}
EDGES: Edges[ExtensionStatus] = {
    (E.PENDING, E.APPROVED): (EdgeCause("The mitra approves.", MITRA),),
    (E.PENDING, E.AUTO_APPROVED): (
        EdgeCause("`answer_by` passes, and `extension_default_action_on_timeout` is `auto_approve`.", JOBS),
    ),
    (E.PENDING, E.REJECTED): (
        EdgeCause("The mitra rejects.", MITRA),
        EdgeCause("One party has blocked the other: the mitra is not asked, or no longer.", CUSTOMER, MITRA, API, JOBS),
        EdgeCause("`answer_by` passes, and `extension_default_action_on_timeout` is `reject`.", JOBS),
    ),
    (E.PENDING, E.SAFEGUARD_TRIPPED): (
        EdgeCause("The session starts closing.", CUSTOMER, MITRA, OPERATOR),
        EdgeCause("The mitra is deactivated.", OPERATOR),
    ),
}
EARNING = frozenset({E.APPROVED, E.AUTO_APPROVED})  # its money is earned
