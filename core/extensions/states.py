"""States of an extension (docs/product.md#states-of-an-extension). A database trigger enforces the same edges."""

import enum


class ExtensionStatus(enum.StrEnum):
    """The state of an extension."""

    PENDING = "pending"  # the mitra has been asked
    APPROVED = "approved"  # the mitra approved: earned. Final
    AUTO_APPROVED = "auto_approved"  # no answer in time, and the default action approves: earned. Final
    REJECTED = "rejected"  # the mitra rejected, or the default action did. Final
    SAFEGUARD_TRIPPED = "safeguard_tripped"  # the session can no longer be extended. Final


E = ExtensionStatus
EDGES: frozenset[tuple[ExtensionStatus, ExtensionStatus]] = frozenset(
    {
        (E.PENDING, E.APPROVED),
        (E.PENDING, E.AUTO_APPROVED),
        (E.PENDING, E.REJECTED),
        (E.PENDING, E.SAFEGUARD_TRIPPED),
    }
)
