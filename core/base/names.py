"""Names that people are shown."""

import unicodedata

from core.base import field_messages
from core.base.errors import ValidationFailed
from core.base.languages import Text

MOST = 100
# Control characters, invisible formatting (it can turn a line round or hide a part), line and paragraph separators.
REFUSED = frozenset({"Cc", "Cf", "Zl", "Zp", "Cs"})
JOINER = "\u200d"  # makes one emoji out of several


def checked(name: str, *, field: str = "display_name") -> str:
    """Return a name without the space around it. Raises ValidationFailed that names the field."""
    clean = name.strip()
    if not 1 <= len(clean) <= MOST:
        raise ValidationFailed.of(field, field_messages.length(1, MOST))
    if any(sign != JOINER and unicodedata.category(sign) in REFUSED for sign in clean):
        raise ValidationFailed.of(
            field,
            Text(
                en="must not contain line breaks, control or invisible characters",
                id="tidak boleh berisi ganti baris, karakter kendali atau karakter tak terlihat",
            ),
        )
    if not clean.strip(f" {JOINER}"):
        raise ValidationFailed.of(
            field, Text(en="must contain a visible character", id="harus berisi karakter yang terlihat")
        )
    return clean
