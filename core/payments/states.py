"""The state machine of a payment request (docs/product.md#states-of-a-payment-request).

A trigger in the database enforces the same edges. The diagram and the tables of the page are made from this module.
"""

from collections.abc import Mapping

from core.base.languages import Text
from core.base.machine import EdgeCause, Edges, Initiator, State

CUSTOMER, MITRA, OPERATOR = Initiator.CUSTOMER, Initiator.MITRA, Initiator.OPERATOR
GATEWAY, API, JOBS = Initiator.GATEWAY, Initiator.API, Initiator.JOBS


class PaymentStatus(State):
    """The state of a payment request."""

    PENDING = "pending", "The service waits for the money.", Text(en="waiting for payment", id="menunggu uang")
    CONFIRMED = (
        "confirmed",
        "The money is there. A mitra is being searched for, or the mitra is asked to extend the session.",
        Text(en="paid", id="dibayar"),
    )
    CONSUMED = (
        "consumed",
        "The money is earned: it bought a chat, or more minutes of one.",
        Text(en="earned", id="menjadi pendapatan"),
    )
    FAILED_PAIRING = (
        "failed_pairing",
        "The money is there, but no chat came of it. It has one live pairing failure.",
        Text(en="paid, no chat", id="dibayar, tanpa obrolan"),
    )
    ABANDONED = (
        "abandoned",
        "The customer gave the request up before the money came.",
        Text(en="given up", id="ditinggalkan"),
    )
    EXPIRED = (
        "expired",
        "The payment did not arrive in time.",
        Text(en="not paid in time", id="tidak dibayar tepat waktu"),
    )


P = PaymentStatus
INITIAL: Mapping[PaymentStatus, tuple[EdgeCause, ...]] = {
    P.PENDING: (EdgeCause("A payment request is created.", CUSTOMER),),
    P.FAILED_PAIRING: (
        EdgeCause(
            "A request that an operator had confirmed by hand is paid, or more of a short payment that was decided: this "
            "money gets a separate request.",
            GATEWAY,
        ),
    ),
}
EDGES: Edges[PaymentStatus] = {
    (P.PENDING, P.CONFIRMED): (
        EdgeCause("The gateway reports the payment, by its webhook or when it is asked.", GATEWAY),
        EdgeCause("The price is 0: the request is confirmed in the transaction that creates it.", CUSTOMER),
        EdgeCause("An operator confirms the payment by hand.", OPERATOR),
    ),
    (P.PENDING, P.ABANDONED): (
        EdgeCause("The customer abandons or cancels it, asks for another one, or falls back to a blast.", CUSTOMER),
        EdgeCause("The gateway does not make the invoice.", GATEWAY),
        EdgeCause("An operator blocks the customer's account.", OPERATOR),
        EdgeCause(
            "An extension: its session starts closing or is completed, or its mitra is deactivated.",
            CUSTOMER,
            MITRA,
            OPERATOR,
            JOBS,
        ),
    ),
    (P.PENDING, P.EXPIRED): (
        EdgeCause("`expires_at` has passed; a sweep looks every 60 s.", JOBS),
        EdgeCause("The gateway reports that the invoice has expired.", GATEWAY),
    ),
    (P.PENDING, P.FAILED_PAIRING): (
        EdgeCause("The money comes, but the customer has a live session or another paid request.", GATEWAY, OPERATOR),
        EdgeCause("The money comes, but the first-session discount was used elsewhere.", GATEWAY, OPERATOR),
        EdgeCause("Less money comes than the invoice asked for.", GATEWAY),
    ),
    (P.CONFIRMED, P.CONSUMED): (
        EdgeCause("A mitra accepts the chat request, or approves the extension.", MITRA),
        EdgeCause("The mitra does not answer the extension in time, and silence approves.", JOBS),
    ),
    (P.CONFIRMED, P.FAILED_PAIRING): (
        EdgeCause("The search fails.", JOBS, MITRA),
        EdgeCause("The search is cancelled.", CUSTOMER, OPERATOR),
        EdgeCause("The extension is rejected, or its safeguard trips.", MITRA, JOBS, OPERATOR),
        EdgeCause("When the search is to begin, the customer's account has a live session.", API, JOBS),
    ),
    (P.EXPIRED, P.CONFIRMED): (
        EdgeCause("The money was paid at most 60 s after `expires_at`, and is reported later.", GATEWAY),
    ),
    (P.EXPIRED, P.FAILED_PAIRING): (
        EdgeCause("The money was paid later than that.", GATEWAY),
        EdgeCause("It was paid in time, but no session may start, or it is less than the invoice asked for.", GATEWAY),
    ),
    (P.ABANDONED, P.FAILED_PAIRING): (EdgeCause("The money comes after all.", GATEWAY),),
    (P.FAILED_PAIRING, P.CONFIRMED): (
        EdgeCause("The customer falls back from a targeted request to a blast, or asks another mitra.", CUSTOMER),
        EdgeCause("An operator accepts a short payment for what it is.", OPERATOR),
        EdgeCause("The rest of a short payment comes in time, before an operator has acted.", GATEWAY),
    ),
}
PAID = frozenset({P.CONFIRMED, P.CONSUMED, P.FAILED_PAIRING})
