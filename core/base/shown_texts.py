"""The rules of texts that other people see (docs/product.md#texts).

A *line* is a name, topic, tag or label: it is stored in NFC, so that two spellings of one text are equal. A *text* is a
message, goodbye, note or notice: it is stored as sent, because the digests of a session's messages compare its
characters.
"""

import re
import unicodedata

from core.base import field_messages
from core.base.errors import ValidationFailed
from core.base.languages import Text

NFC = "NFC"
# Tabs, line breaks, and the category Zs.
SPACES = "\t\n\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
# Unicode categories: control characters, invisible formatting (which can reverse a line or hide a part of it), line and
# paragraph separators, lone surrogates.
HIDDEN = frozenset({"Cc", "Cf", "Zl", "Zp", "Cs"})
JOINERS = "\u200c\u200d"  # formatting that scripts and emoji need
CONTROLS = re.compile(r"[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")  # all but tabs and line breaks
VISIBLE = frozenset("LNPS")  # letters, numbers, punctuation, symbols: the first letters of their categories
# Characters of these categories that show nothing: fillers of Korean, and the empty pattern of Braille.
BLANK = "\u115f\u1160\u3164\uffa0\u2800"
PLAIN = re.compile(r"[!-~]")

NO_CONTROLS = Text(
    en="must not contain control characters other than line breaks and tabs",
    id="tidak boleh berisi karakter kendali selain ganti baris dan tab",
)
NOTHING_HIDDEN = Text(
    en="must not contain line breaks, control or invisible characters",
    id="tidak boleh berisi ganti baris, karakter kendali atau karakter tak terlihat",
)
SOMETHING_VISIBLE = Text(en="must contain a visible character", id="harus berisi karakter yang terlihat")


def is_visible(text: str) -> bool:
    """Return whether a text shows something. Combining marks alone do not."""
    return PLAIN.search(text) is not None or any(
        unicodedata.category(sign)[0] in VISIBLE and sign not in BLANK for sign in text
    )


def as_line(text: str) -> str:
    """Return a line as it is stored: in NFC, without spaces, tabs and line breaks around it.

    Other control characters and separators around it stay, so that they are refused.
    """
    return unicodedata.normalize(NFC, text).strip(SPACES)


def fault_of_line(line: str, *, most: int) -> Text | None:
    """Return the rule that a line, as it is stored, breaks; None for a good one. `most` is in characters."""
    if not 1 <= len(line) <= most:
        return field_messages.length(1, most)
    if any(sign not in JOINERS and unicodedata.category(sign) in HIDDEN for sign in line):
        return NOTHING_HIDDEN
    return None if is_visible(line) else SOMETHING_VISIBLE


def checked_line(field: str, text: str, *, most: int) -> str:
    """Return a line as it is stored. Raises ValidationFailed about `field` if it is not 1 to `most` characters long,
    has hidden characters or nothing visible."""
    line = as_line(text)
    fault = fault_of_line(line, most=most)
    if fault is not None:
        raise ValidationFailed.of(field, fault)
    return line


def length_of(text: str) -> int:
    """Return the length of a text, in characters of its NFC."""
    return len(text) if unicodedata.is_normalized(NFC, text) else len(unicodedata.normalize(NFC, text))


def fault_of_text(text: str, *, most: int) -> Text | None:
    """Return the rule that a text breaks; None for a good one. `most` is in characters of its NFC."""
    if not 1 <= length_of(text) <= most:
        return field_messages.length(1, most)
    if CONTROLS.search(text) is not None:
        return NO_CONTROLS
    return None if is_visible(text) else SOMETHING_VISIBLE


def check_text(field: str, text: str, *, most: int) -> None:
    """Check a text. Raises ValidationFailed about `field` if it is not 1 to `most` characters long, has control
    characters or nothing visible."""
    fault = fault_of_text(text, most=most)
    if fault is not None:
        raise ValidationFailed.of(field, fault)
