"""Mask personal fields in JSON from third parties."""

import json
import re
from typing import Any

MASK = "***"
# Field names that gateways use for people and their accounts, in lower case without dashes and underscores. Masking too
# much costs an operator nothing; no pattern matches the fields that say what was paid.
PERSONAL = re.compile(
    r"email|phone|mobile|msisdn|whatsapp|surname|givennames?|firstname|lastname|middlename|fullname|displayname|"
    r"(payer|customer|buyer|sender|holder|account|cardholder|beneficiary|owner|shopper|recipient)(name|holder)|"
    r"^names?$|"
    r"accountno|accountnumber|accountid$|accountdetails|cardnumber|maskedcard|cardtoken|iban|virtualaccount|vanumber|"
    r"address|street|postalcode|zipcode|birth|gender|nationalid|identitynumber|passport|npwp|^nik$|ktp|"
    r"^(customer|payer|buyer|shopper|sender)$|ipaddress|deviceid"
)


def _is_personal(name: str) -> bool:
    return PERSONAL.search(re.sub(r"[^a-z]", "", name.lower())) is not None


def _masked(value: Any) -> Any:
    """Return a value with the same structure and its content masked; true, false and null reveal nothing and stay."""
    if isinstance(value, dict):
        return {name: _masked(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_masked(inner) for inner in value]
    return value if value is None or isinstance(value, bool) else MASK


def without_personal_fields(text: str) -> str:
    """Return a JSON text with its personal fields masked.

    A text without personal fields is returned unchanged; a text that is not a JSON object or list becomes MASK.
    """
    found = False

    def read(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        # Called for each object, including one that a later field of the same name replaces.
        nonlocal found
        kept = {name: _masked(value) if _is_personal(name) else value for name, value in pairs}
        found = found or len(kept) < len(pairs) or any(_is_personal(name) for name, _ in pairs)
        return kept

    try:
        value = json.loads(text, object_pairs_hook=read)
        if not found:
            return text if isinstance(value, dict | list) else MASK
        # A lone surrogate, which UTF-8 can't hold, is escaped again.
        return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
    except (ValueError, RecursionError):
        return MASK
