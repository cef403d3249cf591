"""Patterns for SQL's LIKE."""


def part_of(q: str | None) -> str | None:
    """Return the LIKE pattern that finds `q` anywhere, with its wildcards escaped; None if `q` is empty or None."""
    return None if not q else "%" + q.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
