"""Read decimal digits of any script (Unicode category `Nd`), as people type them in codes and phone numbers.

A code with other signs is a typing error, which must not use up an attempt, so it is refused before it is compared.
"""

import re
import unicodedata

DIGITS = re.compile(r"[0-9]+")
# A recovery or enrolment code as people type it, or digits only. Six signs are meant as a code of an authenticator.
ONE_TIME_CODE = re.compile(r"[0-9]+|(?!(?:[ -]*[0-9A-Za-z]){6}[ -]*$)[ -]*(?:[0-9A-Za-z][ -]*)+")


def in_ascii(text: str) -> str:
    """Return a text with its decimal digits as 0 to 9. Other characters stay, also numerals such as ² and ①."""
    if text.isascii():
        return text
    return "".join(str(unicodedata.decimal(sign)) if sign.isdecimal() else sign for sign in text)
