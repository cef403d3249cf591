"""What makes a mitra free, as configured: mitras are judged by it, and searches ask by it."""

import attrs


@attrs.frozen(kw_only=True)
class Freedom:
    """The configured limits that decide who is free."""

    require_ping: bool
    stale_after_seconds: float
    capacity: int
