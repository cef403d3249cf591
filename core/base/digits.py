"""Read decimal digits of any script (Unicode category Nd), as people type them in codes and phone numbers."""

import unicodedata


def in_ascii(text: str) -> str:
    """Return a text with its decimal digits as 0 to 9. Other characters stay, also numerals such as ² and ①."""
    if text.isascii():
        return text
    return "".join(str(unicodedata.decimal(sign)) if sign.isdecimal() else sign for sign in text)
