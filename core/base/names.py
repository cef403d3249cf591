"""Names that people are shown."""

import unicodedata

from core.base.errors import ValidationFailed

MOST = 100
# Control characters, invisible formatting (it can turn a line round or hide a part), line and paragraph separators.
REFUSED = frozenset({"Cc", "Cf", "Zl", "Zp", "Cs"})
JOINER = "\u200d"  # makes one emoji out of several


def checked(name: str, *, field: str = "display_name") -> str:
    """Return a name without the space around it. Raises ValidationFailed that names the field."""
    clean = name.strip()
    if not 1 <= len(clean) <= MOST:
        raise ValidationFailed.of(field, f"must be 1 to {MOST} characters long")
    if any(sign != JOINER and unicodedata.category(sign) in REFUSED for sign in clean):
        raise ValidationFailed.of(field, "must not contain line breaks, control or invisible characters")
    if not clean.strip(f" {JOINER}"):
        raise ValidationFailed.of(field, "must contain a visible character")
    return clean
