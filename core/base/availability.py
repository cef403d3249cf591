"""The availability policy, which mitra rules and searches share (docs/product.md#eligible-mitras)."""

import attrs


@attrs.frozen(kw_only=True)
class AvailabilityPolicy:
    """The configured limits that decide which mitras are available for a session.

    `stale_after_seconds` is service time without a heartbeat, ignored unless `require_ping`. `capacity` is the number
    of sessions that a mitra may have.
    """

    require_ping: bool
    stale_after_seconds: float
    capacity: int
