"""Test numbers: phones with a fixed code, for app reviewers and automated tests (docs/product.md#test-numbers)."""

import datetime as dt
import re
from collections.abc import Iterable

import attrs

from core.base import phones
from core.base.errors import ValidationFailed

CODE_LENGTH = 6  # of every code
NUMBER, CODE, DAY = r"\+[1-9][0-9]{6,14}", rf"[0-9]{{{CODE_LENGTH}}}", r"[0-9]{4}-[0-9]{2}-[0-9]{2}"


class WrongEntry(ValueError):
    """An entry of OTP_TEST_NUMBERS is wrong. The message names its position and the rule, never the number or code."""


@attrs.frozen(kw_only=True)
class FixedCode:
    """A number in international form with its code, and the last day of service time (UTC) on which the code works.

    `last_day` is None if the code has no end.
    """

    phone: str
    code: str = attrs.field(repr=False)
    last_day: dt.date | None

    def works_on(self, day: dt.date) -> bool:
        """Return whether the code works on a day."""
        return self.last_day is None or day <= self.last_day


def parse(text: str) -> tuple[FixedCode, ...]:
    """Read `number:code:YYYY-MM-DD` entries, comma separated; the day may be left out. Raises WrongEntry."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    found = tuple(_entry(position, word) for position, word in enumerate(words, 1))
    for position, one in enumerate(found, 1):
        if any(one.phone == earlier.phone for earlier in found[: position - 1]):
            raise WrongEntry(f"entry {position} repeats the number of an earlier entry")
    return found


def _entry(position: int, word: str) -> FixedCode:
    phone, code, day = [*word.split(":", 2), "", ""][:3]
    if not re.fullmatch(NUMBER, phone):
        raise WrongEntry(f"entry {position} needs a number in international form, such as +6281234567890")
    if not re.fullmatch(CODE, code):
        raise WrongEntry(f"entry {position} needs a code of {CODE_LENGTH} digits after the number")
    try:
        last_day = dt.date.fromisoformat(day) if re.fullmatch(DAY, day) else None
    except ValueError:
        last_day = None
    if last_day is None and word.count(":") > 1:
        raise WrongEntry(f"entry {position} needs a day such as 2027-01-31 after the code")
    return FixedCode(phone=phone, code=code, last_day=last_day)


def check(fixed: Iterable[FixedCode], *, countries: tuple[str, ...], days_required: bool) -> None:
    """Check that codes may be sent to the numbers, and in production that each code has an end. Raises WrongEntry."""
    for position, one in enumerate(fixed, 1):
        try:
            usable = phones.normalise(one.phone, countries=countries) == one.phone
        except ValidationFailed:
            usable = False
        if not usable:
            raise WrongEntry(f"entry {position} needs a mobile number of a country in OTP_COUNTRIES")
        if days_required and one.last_day is None:
            raise WrongEntry(f"entry {position} needs a last day in production")


def find(fixed: Iterable[FixedCode], phone: str, *, day: dt.date) -> FixedCode | None:
    """Return the fixed code of a number on a day, None if the provider must send one."""
    return next((one for one in fixed if one.phone == phone and one.works_on(day)), None)
