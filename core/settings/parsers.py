"""Parsers of settings: each reads the text of a variable, and raises ValueError or KeyError if the text is wrong."""

import datetime as dt
import ipaddress
import re
import urllib.parse
from collections.abc import Callable

import phonenumbers

from core.base.addresses import database_urls
from core.settings.redis_url import read as read_redis_url

USUAL_CADENCE_S, LONGEST_CADENCE_S = 30, 3600
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)


def bounded(low: int, high: int) -> Callable[[str], int]:
    """Return a parser of whole numbers from `low` to `high`."""

    def read(text: str) -> int:
        number = int(text)
        if not low <= number <= high:
            raise ValueError(text)
        return number

    return read


def bounded_or_blank(low: int, high: int) -> Callable[[str], int | None]:
    """Return a parser of whole numbers from `low` to `high`; blank is None."""
    number = bounded(low, high)

    def read(text: str) -> int | None:
        return number(text) if text.strip() else None

    return read


def one_of(*choices: str) -> Callable[[str], str]:
    """Return a parser of these words."""

    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(text)
        return text

    return read


def at_most(size: int) -> Callable[[str], str]:
    """Return a parser of texts that are stored in a column of this size."""

    def read(text: str) -> str:
        if len(text) > size:
            raise ValueError(text)
        return text

    return read


def flag(text: str) -> bool:
    """Read true, 1, yes, false, 0 or no; blank is false."""
    value = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False, "": False}
    return value[text.strip().lower()]


def flag_or_blank(text: str) -> bool | None:
    """Read a flag; blank is None."""
    return flag(text) if text.strip() else None


def words(text: str) -> tuple[str, ...]:
    """Read words, comma separated."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def countries(text: str) -> tuple[str, ...]:
    """Read ISO 3166 codes of countries that the library phonenumbers supports."""
    codes = tuple(word.upper() for word in words(text))
    if not codes or not set(codes) <= phonenumbers.SUPPORTED_REGIONS:
        raise ValueError(text)
    return codes


def networks(text: str) -> tuple[str, ...]:
    """Read addresses and CIDR networks, clearing host bits: some consumers reject 10.0.0.1/8."""
    found = [(word, ipaddress.ip_network(word, strict=False)) for word in words(text)]
    return tuple(str(network) if "/" in word else word for word, network in found)


def cadence(text: str) -> int:
    """Read the heartbeat cadence in seconds; blank, anything that is not a number, and no positive one count as 30.

    Clients get whole seconds, so a fraction is dropped, and less than a second is one. It is at most 3,600, because
    `mitra_stale_after_seconds` must reach it and ends there.
    """
    number = float(text) if NUMBER.fullmatch(text.strip()) else 0.0
    if number >= LONGEST_CADENCE_S + 1:
        raise ValueError(text)
    return max(1, int(number)) if number > 0 else USUAL_CADENCE_S


def scale(text: str) -> float:
    """Read the time scale, 0.01 to 10,000."""
    number = float(text)
    if not 0.01 <= number <= 10_000:
        raise ValueError(text)
    return number


def ratio(text: str) -> float:
    """Read a ratio, 0 to 1."""
    number = float(text)
    if not 0 <= number <= 1:
        raise ValueError(text)
    return number


def secrets(text: str) -> tuple[tuple[str, bytes], ...]:
    """Read pairs of key id and secret, `kid:secret`, comma separated."""
    pairs = []
    for part in words(text):
        kid, colon, secret = part.partition(":")
        if not colon or not kid or len(secret.encode()) < 32:
            raise ValueError("short")
        pairs.append((kid, secret.encode()))
    if not pairs or len({kid for kid, _ in pairs}) < len(pairs):
        raise ValueError("none")
    return tuple(pairs)


def signing_keys(text: str) -> tuple[tuple[str, bytes], ...]:
    """Read pairs of key id and Ed25519 seed, `kid:seed`, comma separated; a seed is 32 bytes in hex."""
    pairs = []
    for part in words(text):
        kid, _, seed = part.partition(":")
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", kid) or not re.fullmatch("[0-9a-fA-F]{64}", seed):
            raise ValueError("form")
        pairs.append((kid, bytes.fromhex(seed)))
    if not pairs or len({kid for kid, _ in pairs}) < len(pairs):
        raise ValueError("none")
    return tuple(pairs)


def plain_secrets(text: str) -> tuple[bytes, ...]:
    """Read secrets without key ids, comma separated."""
    found = tuple(word.encode() for word in words(text))
    if not found or any(len(secret) < 32 for secret in found):
        raise ValueError("short")
    return found


def moment(text: str) -> dt.datetime | None:
    """Read an ISO 8601 time with a zone; blank is None."""
    if not text:
        return None
    at = dt.datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError(text)
    return at


def url(*schemes: str) -> Callable[[str], str]:
    """Return a parser of URLs with one of these schemes; blank is allowed."""

    def read(text: str) -> str:
        if text and not text.startswith(tuple(f"{scheme}://" for scheme in schemes)):
            raise ValueError(text)
        _ = urllib.parse.urlsplit(text).port  # raises ValueError for an invalid port
        return text

    return read


def read_url(text: str) -> str:
    """Read the URL of a replica: of one host, because several would be searched for the one that takes writes."""
    if len(database_urls(text)) > 1:
        raise ValueError(text)
    return database_url(text)


def redis_url(text: str) -> str:
    """Read the URL of one Redis server, of sentinels or of a cluster; blank is allowed."""
    if text:
        read_redis_url(text)
    return text


def database_url(text: str) -> str:
    """Read the URL of a database, which may name several hosts."""
    for one in database_urls(text):
        url("postgresql", "postgres")(one)
    return text
