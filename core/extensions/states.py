"""States of an extension (contract 6). A trigger holds the database to the same edges."""

import enum


class ExtensionStatus(enum.StrEnum):
    """Where an extension is."""

    PENDING = "pending"  # the mitra is asked
    APPROVED = "approved"  # she said yes: earned. Final
    AUTO_APPROVED = "auto_approved"  # she did not answer in time, and that means yes: earned. Final
    REJECTED = "rejected"  # she said no, or did not answer and that means no. Final
    SAFEGUARD_TRIPPED = "safeguard_tripped"  # the session could not be extended any more. Final


E = ExtensionStatus
EDGES: frozenset[tuple[ExtensionStatus, ExtensionStatus]] = frozenset(
    {
        (E.PENDING, E.APPROVED),
        (E.PENDING, E.AUTO_APPROVED),
        (E.PENDING, E.REJECTED),
        (E.PENDING, E.SAFEGUARD_TRIPPED),
    }
)
