"""The state machine of a refund (docs/product.md#states-of-a-refund).

A trigger in the database enforces the same edges. The diagram and the tables of the page are made from this module.
"""

from collections.abc import Mapping

from core.base.languages import Text
from core.base.machine import EdgeCause, Edges, Initiator, State

OPERATOR, GATEWAY, JOBS = Initiator.OPERATOR, Initiator.GATEWAY, Initiator.JOBS


class RefundStatus(State):
    """The state of a refund."""

    REQUESTED = (
        "requested",
        "An operator has asked for it. The gateway may have it: the jobs process asks until it knows.",
        Text(en="requested", id="diminta"),
    )
    PENDING = "pending", "The gateway has it, and has not decided yet.", Text(en="at the gateway", id="di gateway")
    SUCCEEDED = "succeeded", "The customer has the money back.", Text(en="paid back", id="sudah dikembalikan")
    FAILED = (
        "failed",
        "The gateway declined it, or it failed there. `failure_code` has the gateway's reason.",
        Text(en="failed", id="gagal"),
    )


R = RefundStatus
OPEN = frozenset({R.REQUESTED, R.PENDING})
INITIAL: Mapping[RefundStatus, tuple[EdgeCause, ...]] = {
    R.REQUESTED: (EdgeCause("An operator asks for the refund of a failed pairing, or of earned money.", OPERATOR),),
    R.SUCCEEDED: (EdgeCause("An operator has given earned money back by hand.", OPERATOR),),
}
EDGES: Edges[RefundStatus] = {
    (R.REQUESTED, R.PENDING): (EdgeCause("The gateway has made the refund.", JOBS),),
    (R.REQUESTED, R.SUCCEEDED): (EdgeCause("The gateway reports the success, by its webhook or when asked.", GATEWAY),),
    (R.REQUESTED, R.FAILED): (
        EdgeCause("The gateway declines the refund.", JOBS),
        EdgeCause("The gateway reports the failure, by its webhook or when asked.", GATEWAY),
    ),
    (R.PENDING, R.SUCCEEDED): (EdgeCause("The gateway reports the success, by its webhook or when asked.", GATEWAY),),
    (R.PENDING, R.FAILED): (EdgeCause("The gateway reports the failure, by its webhook or when asked.", GATEWAY),),
    (R.FAILED, R.REQUESTED): (
        EdgeCause(
            "An operator asks again. Only if the gateway has made no refund and none can have happened, or if it "
            "failed for want of balance.",
            OPERATOR,
        ),
    ),
    (R.FAILED, R.SUCCEEDED): (
        EdgeCause(
            "The gateway reports the success after all, and the money has not gone back in another way.", GATEWAY
        ),
    ),
}
