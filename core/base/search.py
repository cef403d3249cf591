"""What SQL's LIKE takes for a part of a text."""


def part_of(q: str | None) -> str | None:
    """Return the pattern that finds `q` anywhere, its wildcards taken as they are; None when nothing is looked for."""
    return None if not q else "%" + q.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
