"""The form of a configuration row: the type of its value, its bounds and its meaning."""

import enum
from typing import Any

import attrs

LIMIT = (0, 1_000_000)
SECONDS = (1, 3_600)
MINUTES = (1, 1_440)
BLAST = (0, 10_000)
DAYS = (0, 36_500)
HOURS = (1, 8_760)


class Shape(enum.Enum):
    """The type of a row's value."""

    NUMBER = "number"  # {"value": int}, or float where a row has `fraction`
    FLAG = "flag"  # {"value": bool}
    CHOICE = "choice"  # {"value": one of `choices`}
    VERSION = "version"  # {"value": text such as 1.4.0, or null}
    NOTICE = "notice"  # {"value": {"message_id", "message_en", "until"}, or null}
    DOCUMENT = "document"  # the JSON document itself


@attrs.frozen(kw_only=True)
class Key:
    """One row of `app_config`. `used` is False for legacy rows that no code reads.

    A number with `fraction` need not be a whole one. `sensitive` rows bound what a stranger may try, or delete data: they are in the operators' area `security`. `in_production` is narrower than `bounds`, and holds in production.
    """

    name: str
    shape: Shape
    default: Any
    meaning: str
    unit: str | None = None
    bounds: tuple[int, int] | None = None
    fraction: bool = False
    choices: tuple[str, ...] = ()
    used: bool = True
    sensitive: bool = False
    in_production: tuple[int, int] | None = None

    @property
    def area(self) -> str:
        """Return the area of operators' rights that the row is in."""
        return "security" if self.sensitive else "config"

    def bounds_in(self, *, production: bool) -> tuple[int, int] | None:
        """Return the bounds of new values; None for a row whose value is not a number."""
        return self.in_production if production and self.in_production is not None else self.bounds


def number(name: str, default: int, bounds: tuple[int, int], unit: str, meaning: str, *, used: bool = True) -> Key:
    """Return a row whose value is a whole number within bounds."""
    return Key(name=name, shape=Shape.NUMBER, default=default, bounds=bounds, unit=unit, meaning=meaning, used=used)


def limit(
    name: str,
    default: int,
    bounds: tuple[int, int],
    unit: str,
    meaning: str,
    *,
    in_production: tuple[int, int] | None = None,
) -> Key:
    """Return a sensitive row whose value is a whole number within bounds."""
    return attrs.evolve(number(name, default, bounds, unit, meaning), sensitive=True, in_production=in_production)


def days(name: str, default: int, meaning: str) -> Key:
    """Return a sensitive row whose value is a number of days."""
    return limit(name, default, DAYS, "days", meaning)


def flag(name: str, meaning: str, *, default: bool, used: bool = True) -> Key:
    """Return a row whose value is true or false."""
    return Key(name=name, shape=Shape.FLAG, default=default, meaning=meaning, used=used)


def version(name: str, meaning: str) -> Key:
    """Return a row whose value is a version or null."""
    return Key(name=name, shape=Shape.VERSION, default=None, meaning=meaning)


def document(name: str, default: Any, meaning: str, *, used: bool = True) -> Key:
    """Return a row whose value is a JSON document."""
    return Key(name=name, shape=Shape.DOCUMENT, default=default, meaning=meaning, used=used)
