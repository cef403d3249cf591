"""Check display names."""

from core.base import shown_texts

MOST = 100


def checked(name: str, *, field: str = "display_name") -> str:
    """Return a name in NFC without surrounding space. Raises ValidationFailed about `field`."""
    return shown_texts.checked_line(field, name, most=MOST)
