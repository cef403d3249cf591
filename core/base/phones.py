"""Phone numbers: E.164, Indonesia when no country is given (contract 3)."""

import re
from collections.abc import Collection

import phonenumbers

from core.base.errors import ValidationFailed
from core.base.languages import Text

MOBILE = (phonenumbers.PhoneNumberType.MOBILE, phonenumbers.PhoneNumberType.FIXED_LINE_OR_MOBILE)


def normalise(text: str, *, countries: Collection[str]) -> str:
    """Return a mobile number of one of these countries as E.164, for instance +6281234567890.

    A code to a premium, satellite or foreign number can cost a hundred times as much as one at home, and part of that
    money goes to the number's owner. Raises ValidationFailed.
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
    """Return what a part of a number may look like in E.164: 0812… and 62812… and +62 812… find the same ones.

    A leading zero may be the one that is dialled at home, or a digit of the middle. What has letters is no number.
    """
    digits = re.sub(r"[ +().-]", "", text or "")
    if re.fullmatch(r"[0-9]+", digits) is None:
        return []
    return [digits, "62" + digits[1:]] if digits.startswith("0") else [digits]
