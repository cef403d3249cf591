"""When a party of a session counts as absent (docs/fairness.md#absent-party)."""

WRITE_EVERY_S = 5.0  # real seconds between two writes of a party's signs, at most
WRITES = 3  # within the configured silence, at least
LEAST_S = 0.1  # real seconds between two writes, at least


def write_every_s(absent_after_s: float, scale: float) -> float:
    """Return the real seconds between two writes of the signs of one party. `absent_after_s` is service time."""
    return max(LEAST_S, min(WRITE_EVERY_S, absent_after_s / scale / WRITES))
