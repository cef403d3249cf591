"""The state machines that docs/product.md shows.

Those of payment requests, sessions, extensions and refunds come from `core/*/states.py`. The others have no table of
edges in core and are written here; a test checks that they have the states of their enums.
"""

from collections.abc import Iterable, Mapping

import attrs

from core.base.machine import EdgeCause, Edges, Initiator, S
from core.pairing.rules import Response as R
from core.payments import states as payments
from core.payments.failures.rules import OperatorAction as A
from core.payments.refunds import states as refunds
from core.payments.refunds.states import RefundStatus
from core.payments.states import PaymentStatus
from core.sessions import states as sessions
from core.sessions.extensions import states as extensions
from core.sessions.extensions.states import ExtensionStatus
from core.sessions.sensitivity import Sensitivity
from core.sessions.states import SessionStatus

START = "[*]"  # Mermaid's name for the beginning and the end of a diagram
CUSTOMER, MITRA, OPERATOR = Initiator.CUSTOMER, Initiator.MITRA, Initiator.OPERATOR
API, GATEWAY, JOBS = Initiator.API, Initiator.GATEWAY, Initiator.JOBS


@attrs.frozen(kw_only=True)
class Machine:
    """One state machine of the page.

    `states`: the meaning of each state. `causes`: the causes of each edge. An edge from START is the creation of the
    object.
    """

    name: str
    states: dict[str, str]
    causes: dict[tuple[str, str], tuple[EdgeCause, ...]]

    @property
    def edges(self) -> frozenset[tuple[str, str]]:
        """The transitions between two states."""
        return frozenset(edge for edge in self.causes if edge[0] != START)


def _of_table(name: str, states: Iterable[S], initial: Mapping[S, tuple[EdgeCause, ...]], edges: Edges[S]) -> Machine:
    return Machine(
        name=name,
        states={state.value: state.meaning for state in states},
        causes={(START, state.value): causes for state, causes in initial.items()}
        | {(before.value, after.value): causes for (before, after), causes in edges.items()},
    )


PAYMENT_REQUEST = _of_table("payment request", PaymentStatus, payments.INITIAL, payments.EDGES)
SESSION = _of_table("chat session", SessionStatus, sessions.INITIAL, sessions.EDGES)
EXTENSION = _of_table("extension", ExtensionStatus, extensions.INITIAL, extensions.EDGES)
REFUND = _of_table("refund", RefundStatus, refunds.INITIAL, refunds.EDGES)

INVITATION = Machine(
    name="invitation",
    states={
        "open": "The mitra may answer until `answer_by`. The stored response is null.",
        R.ACCEPTED: "This mitra has the session.",
        R.REJECTED: "The mitra has rejected, and is not asked again for this session.",
        R.MISSED: "Another mitra has already accepted.",
        R.IGNORED: "The mitra did not answer in time or went offline. They may be asked again in the next round.",
        R.CANCELLED: "The customer has left, or asks all mitras instead.",
    },
    causes={
        (START, "open"): (
            EdgeCause("The mitra is eligible when a round begins, or becomes eligible while it runs.", API, JOBS),
        ),
        ("open", R.ACCEPTED): (EdgeCause("The mitra accepts.", MITRA),),
        ("open", R.REJECTED): (EdgeCause("The mitra rejects.", MITRA),),
        ("open", R.MISSED): (EdgeCause("Another mitra accepts.", MITRA),),
        ("open", R.IGNORED): (
            EdgeCause("The round or the search ends without an answer.", JOBS),
            EdgeCause("The mitra goes offline.", MITRA, OPERATOR, JOBS),
        ),
        ("open", R.CANCELLED): (
            EdgeCause("The customer cancels the search, or falls back to a blast.", CUSTOMER),
            EdgeCause("An operator ends the search.", OPERATOR),
        ),
    },
)

PRESENCE = Machine(
    name="mitra",
    states={
        "offline": "The mitra gets no chat requests. Running sessions go on.",
        "online": "The mitra gets chat requests while they have room and their heartbeat is fresh.",
    },
    causes={
        (START, "offline"): (EdgeCause("An operator adds the mitra.", OPERATOR),),
        ("offline", "online"): (EdgeCause("The mitra goes online. Only an active mitra can.", MITRA),),
        ("online", "offline"): (
            EdgeCause("The mitra goes offline.", MITRA),
            EdgeCause("No heartbeat for `mitra_stale_after_seconds`, while `require_mitra_ping` is on.", JOBS),
            EdgeCause("An operator takes the mitra offline, deactivates them or changes their number.", OPERATOR),
            EdgeCause("Their last auth session ends: by logout, removal, or reuse of a refresh token.", MITRA),
            EdgeCause("Their last auth session has expired.", JOBS),
        ),
    },
)

SENSITIVITY = Machine(
    name="topic sensitivity",
    states={
        Sensitivity.REGULAR: "The default.",
        Sensitivity.SENSITIVE: "The mitra has marked the topic as sensitive.",
    },
    causes={
        (START, Sensitivity.REGULAR): (EdgeCause("The search begins.", API, JOBS),),
        (Sensitivity.REGULAR, Sensitivity.SENSITIVE): (EdgeCause("The mitra marks the topic.", MITRA),),
        (Sensitivity.SENSITIVE, Sensitivity.REGULAR): (
            EdgeCause("The mitra takes the mark back, while `sensitive_flag_one_way_latch` is off.", MITRA),
        ),
    },
)

FAILURE = Machine(
    name="pairing failure",
    states={
        "open": "An operator has to act. `operator_action` is null.",
        A.REFUNDED: "The customer has their money back.",
        A.CREDITED: "The customer was credited.",
        A.NO_ACTION: "The operator decided that no action is needed.",
        "superseded": "The customer tried again with the same money. The row stays; `superseded_at` is set.",
    },
    causes={
        (START, "open"): (EdgeCause("A paid request fails.", API, JOBS),),
        ("open", A.REFUNDED): (
            EdgeCause("An operator records it; an operator with a second factor confirms it.", OPERATOR),
            EdgeCause("The refund that an operator asked for has succeeded.", GATEWAY),
        ),
        ("open", A.CREDITED): (EdgeCause("An operator records it.", OPERATOR),),
        ("open", A.NO_ACTION): (EdgeCause("An operator records it.", OPERATOR),),
        ("open", "superseded"): (EdgeCause("The customer falls back from a targeted request to a blast.", CUSTOMER),),
    },
)

MACHINES = (PAYMENT_REQUEST, SESSION, EXTENSION, INVITATION, PRESENCE, SENSITIVITY, FAILURE, REFUND)
