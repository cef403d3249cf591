"""Normalise phone numbers to E.164; without a country code they are Indonesian (docs/product.md#phone-codes)."""

import re
from collections.abc import Collection

import phonenumbers

from core.base.errors import ValidationFailed
from core.base.languages import Text

MOBILE = (phonenumbers.PhoneNumberType.MOBILE, phonenumbers.PhoneNumberType.FIXED_LINE_OR_MOBILE)


def normalise(text: str, *, countries: Collection[str]) -> str:
    """Return a mobile number as E.164, such as +6281234567890. `countries` are the accepted ones, as ISO 3166 codes.

    Others are refused because a code to a premium, satellite or foreign number can cost a hundred times as much, and
    the number's owner gets a share. Raises ValidationFailed about `phone`.
    """
    try:
        number = phonenumbers.parse(text, "ID")
    except phonenumbers.NumberParseException as error:
        raise ValidationFailed.of(
            "phone", Text(en="must be a phone number", id="harus berupa nomor telepon")
        ) from error
    if not phonenumbers.is_valid_number(number) or number.extension:
        raise ValidationFailed.of(
            "phone", Text(en="must be a valid phone number", id="harus berupa nomor telepon yang sah")
        )
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
    return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)


def like_numbers(text: str | None) -> list[str]:
    """Return the digits to look for in E.164 numbers, so that 0812…, 62812… and +62 812… find the same numbers.

    A leading zero may be the national prefix or a digit in the middle of a number, so both readings are returned. A
    text with anything but digits and separators gives an empty list.
    """
    digits = re.sub(r"[ +().-]", "", text or "")
    if re.fullmatch(r"[0-9]+", digits) is None:
        return []
    return [digits, "62" + digits[1:]] if digits.startswith("0") else [digits]
