"""The rules of configuration values: what a row stores, and which values are valid (docs/configuration.md)."""

import datetime as dt
import functools
import re
import zoneinfo
from typing import Any

from core.base import field_messages, shown_texts
from core.base.errors import ValidationFailed
from core.base.languages import Text
from core.base.plain_json import has_nul, has_surrogate
from core.config.keys import KEYS, Key, Shape

# Any scheme that an app may open, except those that run code.
DEEPLINK = re.compile(r"(?!(?:javascript|data|vbscript):)[a-z][a-z0-9+.-]*:[^\s\x00-\x1f]+", re.IGNORECASE)

# Three numbers, which apps compare one after the other.
VERSION = re.compile(r"(?:0|[1-9][0-9]{0,5})(?:\.(?:0|[1-9][0-9]{0,5})){2}")
MAX_LABEL = 500  # characters of a way to reach support
NOTICE_TEXTS = ("message_id", "message_en")
MAX_NOTICE = 500  # characters of a maintenance notice in one language
NOTICE_RULE = Text(
    en=f"must be null or {{message_id, message_en, until}}, with messages of 1 to {MAX_NOTICE} characters and a time "
    "with a zone or null",
    id=f"harus null atau {{message_id, message_en, until}}, dengan pesan sepanjang 1 sampai {MAX_NOTICE} karakter dan "
    "waktu dengan zona atau null",
)


def stored(key: Key, value: Any) -> Any:
    """Return the JSON that a row stores for a value: {"value": …}, or the value itself for a document."""
    return value if key.shape is Shape.DOCUMENT else {"value": value}


def loaded(key: Key, row: Any) -> Any:
    """Return the value of a row's JSON, or the default if the JSON is not valid, as after an edit by hand."""
    value = row if key.shape is Shape.DOCUMENT else row.get("value") if isinstance(row, dict) else None
    try:
        check(key, value)
    except ValidationFailed:
        return key.default
    return value


def effective(values: dict[str, Any], *, cadence_seconds: int, production: bool = False) -> dict[str, Any]:
    """Return the values with `mitra_stale_after_seconds` raised to at least the heartbeat cadence.

    Otherwise mitras who send their heartbeats in time would be taken offline (docs/product.md#heartbeat). In
    production, a value beyond the bounds that hold there counts as the nearest one within them.
    """
    name = "mitra_stale_after_seconds"
    found = {**values, name: max(values[name], cadence_seconds)}
    for key in KEYS.values() if production else ():
        if key.in_production is not None:
            low, high = key.in_production
            found[key.name] = min(max(found[key.name], low), high)
    return found


def check(key: Key, value: Any, *, cadence_seconds: int = 1, production: bool = False) -> None:
    """Check a new value by the key's type and bounds.

    Raises ValidationFailed about `value`, with a message that states the rule.
    """
    if key.shape is Shape.FLAG and not isinstance(value, bool):
        raise _refusal(key, field_messages.FLAG)
    if key.shape is Shape.CHOICE and value not in list(key.choices):
        raise _refusal(key, field_messages.one_of(key.choices))
    if key.shape is Shape.NUMBER:
        _check_number(key, value, cadence_seconds, production)
    if key.shape is Shape.VERSION and not (value is None or (isinstance(value, str) and VERSION.fullmatch(value))):
        raise _refusal(
            key, Text(en="must be null or a version such as 1.4.0", id="harus null atau versi seperti 1.4.0")
        )
    if key.shape is Shape.NOTICE and not (value is None or _is_notice(value)):
        raise _refusal(key, NOTICE_RULE)
    if key.shape is Shape.ZONE and not _is_zone(value):
        raise _refusal(
            key, Text(en="must be a time zone such as Asia/Jakarta", id="harus zona waktu seperti Asia/Jakarta")
        )
    if key.shape is Shape.DOCUMENT:
        _check_document(key, value)


def with_checked_texts(key: Key, value: Any) -> Any:
    """Return a new value with the texts that other people see as they are stored; `check` checks its form.

    Rows that were stored before are not checked again, because a service must keep them.
    Raises ValidationFailed about `value`.
    """
    if key.shape is Shape.NOTICE and _has_form_of_notice(value):  # else `check` states the whole form
        for name in NOTICE_TEXTS:
            _refuse(key, name, shown_texts.fault_of_text(value[name], most=MAX_NOTICE))
    if key.name == "support_handles" and isinstance(value, dict):
        return {name: _handle(key, name, handle) for name, handle in value.items()}
    return value


def _handle(key: Key, name: str, handle: Any) -> Any:
    if not isinstance(handle, dict) or not _is_text(handle, "label"):
        return handle
    label = shown_texts.as_line(handle["label"])
    _refuse(key, f"{name}.label", shown_texts.fault_of_line(label, most=MAX_LABEL))
    return {**handle, "label": label}


def _is_text(value: dict[str, Any], name: str) -> bool:
    return isinstance(value.get(name), str)


def _refuse(key: Key, part: str, fault: Text | None) -> None:
    if fault is not None:
        raise ValidationFailed.of(
            "value", Text(en=f"{key.label.en}: {part} {fault.en}", id=f"{key.label.id}: {part} {fault.id}")
        )


def _is_notice(value: Any) -> bool:
    return _has_form_of_notice(value) and not has_nul(value)


def _has_form_of_notice(value: Any) -> bool:
    if not isinstance(value, dict) or set(value) != {"message_id", "message_en", "until"}:
        return False
    messages = [value[name] for name in NOTICE_TEXTS]
    if not all(isinstance(one, str) and one.strip() and shown_texts.length_of(one) <= MAX_NOTICE for one in messages):
        return False
    return value["until"] is None or _moment(value["until"]) is not None


def _moment(text: Any) -> dt.datetime | None:
    """Return an ISO 8601 time with a zone in UTC; None for anything else."""
    try:
        at = dt.datetime.fromisoformat(text)
        return None if at.tzinfo is None else at.astimezone(dt.UTC)
    except (TypeError, ValueError, OverflowError):
        return None


@functools.cache  # it reads a whole folder
def _zones() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())


def _is_zone(value: Any) -> bool:
    return isinstance(value, str) and value in _zones()


def has_placeholder(handles: dict[str, Any]) -> bool:
    """Return whether a contact of `support_handles` still leads to the address of the seed, which helps no customer."""
    seeded = {one["deeplink"] for one in KEYS["support_handles"].default.values()}
    return any(one["deeplink"].strip().rstrip("/").casefold() in seeded for one in handles.values())


def notice_at(value: dict[str, Any] | None, *, now: dt.datetime) -> dict[str, Any] | None:
    """Return the maintenance notice for apps, with `until` as a time; None without a notice or after its end."""
    if value is None:
        return None
    until = _moment(value["until"])
    return None if until is not None and until <= now else {**value, "until": until}


def _refusal(key: Key, rule: Text) -> ValidationFailed:
    label = key.label
    return ValidationFailed.of("value", Text(en=f"{label.en}: {rule.en}", id=f"{label.id}: {rule.id}"))


def _check_number(key: Key, value: Any, cadence_seconds: int, production: bool) -> None:
    bounds = key.bounds_in(production=production)
    assert bounds is not None
    assert key.unit is not None
    low, high = bounds
    if key.name == "mitra_stale_after_seconds":
        low = cadence_seconds
    kinds = (int, float) if key.fraction else int
    if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
        raise _refusal(key, field_messages.between(low, high, key.unit.word, whole=not key.fraction))


def _check_document(key: Key, value: Any) -> None:
    if has_nul(value) or has_surrogate(value):
        raise ValidationFailed.of("value", field_messages.NO_NUL if has_nul(value) else field_messages.NO_SURROGATES)
    if key.name == "support_handles":
        handles = value if isinstance(value, dict) else {}
        good = set(handles) == {"primary", "secondary"} and all(
            isinstance(handle, dict)
            and set(handle) == {"label", "deeplink"}
            and all(isinstance(text, str) and 0 < len(text) <= MAX_LABEL for text in handle.values())
            and DEEPLINK.fullmatch(handle["deeplink"])
            for handle in handles.values()
        )
        if not good:
            form = "{primary: {label, deeplink}, secondary: {label, deeplink}}"
            raise _refusal(key, Text(en=f"must be {form}", id=f"harus berbentuk {form}"))
    elif key.name == "anonymity":
        if not (isinstance(value, dict) and set(value) == {"enabled"} and isinstance(value["enabled"], bool)):
            raise _refusal(
                key,
                Text(
                    en="must be an object with `enabled`: true or false",
                    id="harus berupa objek dengan `enabled`: true atau false",
                ),
            )
    elif not isinstance(value, list):
        raise _refusal(key, field_messages.LIST)
