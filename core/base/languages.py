"""The two languages of the service, texts in both, and how a client chooses one (docs/product.md#languages)."""

import enum
from functools import lru_cache

import attrs

MAX_HEADER = 200  # characters of an Accept-Language header that are read; browsers send fewer than a hundred


class Language(enum.StrEnum):
    """A language, by its ISO 639-1 code."""

    INDONESIAN = "id"
    ENGLISH = "en"


DEFAULT = Language.ENGLISH  # of error messages
# Android names Indonesian by the code that it had until 1989.
CODES = {"id": Language.INDONESIAN, "in": Language.INDONESIAN, "en": Language.ENGLISH}


@attrs.frozen(kw_only=True)
class Text:
    """One text in both languages. `str` gives the English one, for logs and the command line."""

    en: str
    id: str

    def __str__(self) -> str:
        return self.en

    def said_in(self, language: Language) -> str:
        """Return the text in a language."""
        return self.id if language is Language.INDONESIAN else self.en


def parse_locale(header: str | None) -> Language | None:
    """Return the language that an `X-Locale` header names; None for a missing header and any other value."""
    return None if header is None else _known(header)


def preferred(accept_language: str | None) -> Language | None:
    """Return the language that an `Accept-Language` header prefers (RFC 9110, 12.5.4).

    None when the header is missing or names neither language. A part that can't be read is skipped.
    """
    return None if not accept_language else _preferred(accept_language[:MAX_HEADER])


def of_errors(accept_language: str | None, x_locale: str | None = None) -> Language:
    """Return the language of error messages: from `Accept-Language`, else `X-Locale` (sockets), else the default."""
    return preferred(accept_language) or parse_locale(x_locale) or DEFAULT


@lru_cache(maxsize=1_024)
def _preferred(header: str) -> Language | None:
    weights: dict[Language, float] = {}
    others = 0.0
    for part in header.split(","):
        range_, _, parameter = part.partition(";")
        weight = _weight(parameter)
        if range_.strip() == "*":
            others = max(others, weight)
        elif (language := _known(range_)) is not None:
            weights[language] = max(weights.get(language, 0.0), weight)
    for language in (DEFAULT, *Language):
        weights.setdefault(language, others)
    best = max(weights, key=weights.__getitem__)  # a tie goes to the first in the header
    return best if weights[best] > 0 else None


def _known(tag: str) -> Language | None:
    """Return the language of a tag: en, en-US, and as platforms write it, en_US and EN_us.UTF-8."""
    return CODES.get(tag.strip().replace("_", "-").partition(".")[0].partition("-")[0].lower())


def _weight(parameter: str) -> float:
    """Return a part's quality value: 1 when it has none, 0 when it can't be read."""
    if not parameter.strip():
        return 1.0
    name, _, value = parameter.partition("=")
    value = value.strip()
    if name.strip().lower() != "q" or not value.replace(".", "", 1).isdecimal() or not value.isascii():
        return 0.0
    return min(1.0, float(value))
