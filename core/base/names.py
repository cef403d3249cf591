"""Check display names."""

import unicodedata

from core.base import field_messages
from core.base.errors import ValidationFailed
from core.base.languages import Text

MOST = 100
# Unicode categories: control characters, invisible formatting (which can reverse a line or hide a part of it), line and
# paragraph separators, lone surrogates.
REFUSED = frozenset({"Cc", "Cf", "Zl", "Zp", "Cs"})
JOINER = "\u200d"  # zero-width joiner, which combines several emoji into one


def checked(name: str, *, field: str = "display_name") -> str:
    """Return a name without surrounding space.

    Raises ValidationFailed about `field` if the name is not 1 to MOST characters long, has refused characters or
    nothing visible.
    """
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
