"""Names that people are shown."""

from core.base.errors import ValidationFailed


def checked(name: str, *, field: str = "display_name") -> str:
    """Return a name without the space around it: 1 to 100 characters. Raises ValidationFailed that names the field."""
    clean = name.strip()
    if not 1 <= len(clean) <= 100:
        raise ValidationFailed.of(field, "has 1 to 100 characters")
    return clean
