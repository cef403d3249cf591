"""States of a payment request (docs/product.md#states-of-a-payment-request).

A trigger in the database enforces the same edges.
"""

import enum


class PaymentStatus(enum.StrEnum):
    """The state of a payment request."""

    PENDING = "pending"  # waiting for the money
    CONFIRMED = "confirmed"  # paid; a mitra is searched for, or asked to extend
    CONSUMED = "consumed"  # final: the money is earned, it bought a chat or an extension
    FAILED_PAIRING = "failed_pairing"  # paid, but no chat: an operator acts, or the customer tries again
    ABANDONED = "abandoned"  # the customer gave it up before the money came
    EXPIRED = "expired"  # the money did not come in time


P = PaymentStatus
EDGES: frozenset[tuple[PaymentStatus, PaymentStatus]] = frozenset(
    {
        (P.PENDING, P.CONFIRMED),
        (P.PENDING, P.ABANDONED),
        (P.PENDING, P.EXPIRED),
        (P.PENDING, P.FAILED_PAIRING),  # paid, but the customer may not start a session
        (P.CONFIRMED, P.CONSUMED),
        (P.CONFIRMED, P.FAILED_PAIRING),
        (P.EXPIRED, P.CONFIRMED),  # paid in time, reported late
        (P.EXPIRED, P.FAILED_PAIRING),  # paid too late
        (P.ABANDONED, P.FAILED_PAIRING),
        (P.FAILED_PAIRING, P.CONFIRMED),  # a targeted request falls back to a blast
    }
)
PAID = frozenset({P.CONFIRMED, P.CONSUMED, P.FAILED_PAIRING})
