"""Phone numbers: E.164, Indonesia when no country is given (contract 3)."""

import re

import phonenumbers

from core.base.errors import ValidationFailed


def normalise(text: str) -> str:
    """Return the number as E.164, for instance +6281234567890.

    Raises ValidationFailed for what is no possible number.
    """
    try:
        number = phonenumbers.parse(text, "ID")
    except phonenumbers.NumberParseException as error:
        raise ValidationFailed.of("phone", "is not a phone number") from error
    if not phonenumbers.is_valid_number(number) or number.extension:
        raise ValidationFailed.of("phone", "is not a valid phone number")
    return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)


def like_numbers(text: str | None) -> list[str]:
    """Return what a part of a number may look like in E.164: 0812… and 62812… and +62 812… find the same ones.

    A leading zero may be the one that is dialled at home, or a digit of the middle. What has letters is no number.
    """
    digits = re.sub(r"[ +().-]", "", text or "")
    if re.fullmatch(r"[0-9]+", digits) is None:
        return []
    return [digits, "62" + digits[1:]] if digits.startswith("0") else [digits]
