"""Read phone numbers as people write them; without a country code they are Indonesian (docs/product.md#phone-codes).

The digits of a result are the digits of the text. A reader that drops or replaces characters would turn a typing error
into the number of another person.
"""

import unicodedata
from collections.abc import Collection

import attrs
import phonenumbers

from core.base import digits
from core.base.errors import ValidationFailed
from core.base.languages import Text

MOBILE = (phonenumbers.PhoneNumberType.MOBILE, phonenumbers.PhoneNumberType.FIXED_LINE_OR_MOBILE)
PLUS = "+\uff0b"  # also full-width
# Dots and slashes of several scripts; dashes that are not in the category Pd; marks of the direction of a text, which
# come with a number that was copied from a contact list.
SEPARATORS = frozenset(
    ".\uff0e\u00b7\u2022\u2024\u2027\u3002\u30fb\uff61\uff65\u06d4/\uff0f\u2044\u2215\u29f8"
    "\u02d7\u2043\u2053\u207b\u208b\u2212\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
DASHES_AND_BRACKETS = ("Pd", "Ps", "Pe")
NO_SPACE = "\x1c\x1d\x1e\x1f"  # control characters that Python counts as white space
SCHEME = "tel:"  # of RFC 3966


@attrs.frozen(kw_only=True)
class Typed:
    """What a text has of a phone number: whether it begins with a plus, and its digits as 0 to 9."""

    plus: bool
    digits: str


def read(text: str) -> Typed | None:
    """Return the plus and the digits of a text; None if it has another sign, or no digit."""
    begin = next((position for position, sign in enumerate(text) if not _separates(sign)), 0)
    begin += len(SCHEME) if text[begin : begin + len(SCHEME)].lower() == SCHEME else 0
    signs = [sign for sign in text[begin:] if not _separates(sign)]
    plus = bool(signs) and signs[0] in PLUS
    number = digits.in_ascii("".join(signs[plus:]))
    return Typed(plus=plus, digits=number) if digits.DIGITS.fullmatch(number) else None


def normalise(text: str, *, countries: Collection[str]) -> str:
    """Return a mobile number as E.164, such as +6281234567890. `countries` are the accepted ones, as ISO 3166 codes.

    Others are refused because a code to a premium, satellite or foreign number can cost a hundred times as much, and
    the number's owner gets a share. Raises ValidationFailed about `phone`.
    """
    typed = read(text)
    if typed is None:
        raise ValidationFailed.of(
            "phone",
            Text(
                en="must be a phone number: digits, spaces and + - . ( ) / only",
                id="harus berupa nomor telepon: hanya angka, spasi dan + - . ( ) /",
            ),
        )
    wanted = _international(typed)
    try:
        number = phonenumbers.parse(wanted)
    except phonenumbers.NumberParseException as error:
        raise _invalid() from error
    if not phonenumbers.is_valid_number(number):
        raise _invalid()
    if phonenumbers.region_code_for_number(number) not in countries:
        raise ValidationFailed.of(
            "phone",
            Text(
                en=f"must be a phone number from one of these countries: {', '.join(countries)}",
                id=f"harus berupa nomor dari salah satu negara ini: {', '.join(countries)}",
            ),
        )
    if phonenumbers.number_type(number) not in MOBILE:
        raise ValidationFailed.of("phone", Text(en="must be a mobile number", id="harus berupa nomor ponsel"))
    if phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164) != wanted:
        raise _invalid()
    return wanted


def is_mobile(text: str, *, country: str) -> bool:
    """Return whether a text is a mobile number of a country (ISO 3166), written with its prefix 0, 62 or a plus."""
    typed = read(text)
    if typed is None or not (typed.plus or typed.digits.startswith(("0", "62"))):
        return False
    try:
        normalise(text, countries=(country,))
    except ValidationFailed:
        return False
    return True


def like_numbers(text: str | None) -> list[str]:
    """Return the digits to look for in E.164 numbers, so that all notations of a number find the same numbers.

    Leading digits may be a prefix or digits in the middle of a number, so both readings are returned. A text that
    `read` refuses gives an empty list.
    """
    typed = read(text or "")
    if typed is None:
        return []
    prefixed = typed.plus or typed.digits.startswith(("0", "62"))
    number = _international(typed).removeprefix("+") if prefixed else typed.digits
    return [number] if typed.plus else list(dict.fromkeys([typed.digits, number]))


def _international(typed: Typed) -> str:
    """Return a number with its plus. A zero after the country code of Indonesia is the prefix of national calls.

    A call to another country begins with 00 in most of the world, but with 001, 007 and more in Indonesia. So 00 is
    read before 62 only; elsewhere it could turn one number into another.
    """
    number = typed.digits
    if not typed.plus and number.startswith("0062"):
        number = number[2:]
    if number.startswith("62"):
        return "+62" + number[2:].removeprefix("0")
    return "+" + number if typed.plus else "+62" + number.removeprefix("0")


def _separates(sign: str) -> bool:
    return (
        sign in SEPARATORS
        or (sign.isspace() and sign not in NO_SPACE)
        or unicodedata.category(sign) in DASHES_AND_BRACKETS
    )


def _invalid() -> ValidationFailed:
    return ValidationFailed.of(
        "phone", Text(en="must be a valid phone number", id="harus berupa nomor telepon yang sah")
    )
