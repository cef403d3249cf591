"""Phone numbers: E.164, Indonesia when no country is given (contract 3)."""

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
