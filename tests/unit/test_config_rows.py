"""Configuration rows: defaults, bounds, types, and the format of a row (docs/configuration.md)."""

import datetime as dt
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.base.errors import ValidationFailed
from core.config.keys import KEYS, Key, Shape
from core.config.rules import check, effective, loaded, notice_at, stored
from tests.each import for_each

CADENCE = 30  # MITRA_HEARTBEAT_CADENCE_SECONDS
# A default that changes by mistake changes the product. A new row needs no entry.
DEFAULTS = {
    "invoices_max_per_account_per_hour": 10, "invoices_max_per_address_per_hour": 2000,
    "first_session_discount_requires_identity": False, "max_customers_per_mitra": 3, "otp_max_per_phone_per_hour": 3, "otp_max_per_ip_per_hour": 10,
    "otp_max_per_hour": 2000,
    "anonymous_max_per_address_per_hour": 3000,
    "otp_resend_cooldown_seconds": 60, "otp_verify_max_attempts": 5, "cc_login_max_attempts": 5,
    "cc_login_lockout_minutes": 15, "cc_login_lockout_scope": "account", "cc_login_max_attempts_everywhere": 50,
    "cc_login_lockout_everywhere_minutes": 60, "require_mitra_ping": True, "mitra_stale_after_seconds": 45,
    "reachability_probe": False,
    "mitra_ping_interval_seconds": 15, "payment_session_timeout_minutes": 20,
    "returning_chat_confirmation_timeout_seconds": 20, "pairing_blast_timeout_seconds": 60,
    "failure_due_hours": 24, "no_reply_minutes": 5, "blast_size": 0, "blast_wave_seconds": 10, "retention_webhook_days": 400, "retention_invalid_webhook_days": 7,
    "retention_messages_days": 0, "retention_otp_days": 30, "retention_ended_auth_sessions_days": 90, "retention_unused_anonymous_days": 90,
    "peer_absent_seconds": 0,
    "extension_timeout_seconds": 60, "max_extensions_per_session": 0, "extension_default_action_on_timeout": "auto_approve",
    "searching_timeout_minutes": 5, "early_end_mitra_enabled": False, "early_end_customer_enabled": False,
    "end_session_two_step_confirm": True, "three_minute_warning_enabled": True, "payment_method_qris_first": True,
    "sensitive_flip_confirmation_enabled": True, "sensitive_flag_one_way_latch": False, "free_trial_enabled": True,
    "free_trial_duration_minutes": 5, "anonymity": {"enabled": False},
    "refuse_unservable_payments": False,
    "minimum_version_android": None, "minimum_version_ios": None, "minimum_version_web": None, "maintenance": None,
    "business_time_zone": "Asia/Jakarta", "fair_clock": False, "fair_clock_max_seconds": 900,
}  # fmt: skip
UNUSED = {
    "mitra_ping_interval_seconds",
    "free_trial_enabled",
    "free_trial_duration_minutes",
    "anonymity",
    "price_tiers",
}
ALL = [pytest.param(key, id=name) for name, key in KEYS.items()]
NUMBERS = [key for key in KEYS.values() if key.shape is Shape.NUMBER]
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(st.text(), st.sampled_from(["value", "enabled", "primary", "label"])), inner, max_size=3
        ),
    ),
    max_leaves=8,
)
SUPPORT = {"primary": {"label": "A", "deeplink": "https://a"}, "secondary": {"label": "B", "deeplink": "tel://b"}}


def refused(key: Key, value: Any, *, cadence_seconds: int = CADENCE) -> str:
    with pytest.raises(ValidationFailed) as caught:
        check(key, value, cadence_seconds=cadence_seconds)
    assert caught.value.details is not None
    (field,) = caught.value.details["fields"]
    assert field["field"] == "value"
    return field["message"].en


def test_sensitive_rows_are_limits_of_sign_in_lockout_and_retention():
    beginnings = ("otp_", "cc_login_", "anonymous_", "retention_")
    assert {name for name, key in KEYS.items() if key.sensitive} == {n for n in KEYS if n.startswith(beginnings)}
    assert {key.area for key in KEYS.values()} == {"config", "security"}


@pytest.mark.parametrize("key", [key for key in NUMBERS if key.in_production])
def test_bounds_of_production_hold_only_there(key: Key):
    assert key.bounds is not None
    assert key.in_production is not None
    (low, high), (narrow_low, narrow_high) = key.bounds, key.in_production
    assert low <= narrow_low <= key.default <= narrow_high <= high
    beyond = {low, high} - set(range(narrow_low, narrow_high + 1))
    for value in beyond:
        check(key, value)
        assert loaded(key, stored(key, value)) == value  # stored by an earlier release
        with pytest.raises(ValidationFailed):
            check(key, value, production=True)
        values = {name: one.default for name, one in KEYS.items()} | {key.name: value}
        assert effective(values, cadence_seconds=CADENCE)[key.name] == value
        assert effective(values, cadence_seconds=CADENCE, production=True)[key.name] in key.in_production
    for value in key.in_production:
        check(key, value, production=True)
    assert beyond


def test_config_defaults_equal_the_specified_ones():
    assert {name: key.default for name, key in KEYS.items() if name in DEFAULTS} == DEFAULTS
    assert {name for name, key in KEYS.items() if not key.used} == UNUSED


@for_each("key", ALL)
def test_every_config_default_passes_its_check(key: Key):
    check(key, key.default, cadence_seconds=CADENCE)


@for_each("key", ALL)
def test_every_config_default_survives_storage(key: Key):
    row = msgspec.json.decode(msgspec.json.encode(stored(key, key.default)))
    assert loaded(key, row) == key.default
    assert key.shape is Shape.DOCUMENT or set(row) == {"value"}


@for_each("key", [pytest.param(key, id=key.name) for key in NUMBERS])
def test_config_number_outside_the_bounds_of_its_unit_is_refused(key: Key):
    assert key.unit is not None
    assert key.bounds is not None
    low, high = key.bounds
    if low < key.unit.bounds[0]:  # 0 has a special effect, which the operator must know
        assert low == 0
        assert "; 0: " in key.meaning.en
    low = CADENCE if key.name == "mitra_stale_after_seconds" else low
    for good in (low, high):
        check(key, good, cadence_seconds=CADENCE)
        assert loaded(key, stored(key, good)) == good
    for bad in (low - 1, high + 1, -1, 10**30):
        assert f"{low:,} to {high:,} {key.unit.word}" in refused(key, bad)


@for_each("key", [pytest.param(key, id=key.name) for key in NUMBERS if not key.fraction])
def test_config_number_that_is_not_an_integer_is_refused(key: Key):
    for value in (None, True, 5.0, "5", [5], {"value": 5}):
        assert "whole number" in refused(key, value), value


def test_mitra_silence_threshold_may_have_a_fraction():
    (key,) = [key for key in NUMBERS if key.fraction]
    assert key.name == "mitra_stale_after_seconds"
    for good in (60.5, 60.0, float(CADENCE), 3600.0):
        check(key, good, cadence_seconds=CADENCE)
        row = msgspec.json.decode(msgspec.json.encode(stored(key, good)))
        assert loaded(key, row) == good
    for bad in (CADENCE - 0.1, 3600.1, float("inf"), float("nan"), True, "60.5", None, [60.5]):
        assert "a number from" in refused(key, bad, cadence_seconds=CADENCE)


@for_each("key", [pytest.param(k, id=k.name) for k in KEYS.values() if k.shape is Shape.FLAG])
def test_config_flag_that_is_not_a_boolean_is_refused(key: Key):
    for value in (None, 0, 1, "true", [], {}):
        assert key.label.en in refused(key, value), value
    for good in (True, False):
        check(key, good)
        assert loaded(key, stored(key, good)) is good


@pytest.mark.parametrize("value", [None, "", "approve", "AUTO_APPROVE", True, ["auto_approve"]], ids=repr)
def test_timeout_action_is_one_of_two_values(value: Any):
    key = KEYS["extension_default_action_on_timeout"]
    assert tuple(key.choices) == ("auto_approve", "reject")
    refused(key, value)
    check(key, "reject")


@pytest.mark.parametrize("cadence", [1, 30, 46, 3600])
def test_silence_threshold_is_never_shorter_than_a_heartbeat_interval(cadence: int):
    key = KEYS["mitra_stale_after_seconds"]
    check(key, cadence, cadence_seconds=cadence)
    refused(key, cadence - 1, cadence_seconds=cadence)


@for_each(
    "value",
    [
        None, [], {}, {"primary": SUPPORT["primary"]}, SUPPORT | {"third": SUPPORT["primary"]},
        SUPPORT | {"primary": {"label": "A"}}, SUPPORT | {"primary": {"label": "", "deeplink": "https://a"}},
        SUPPORT | {"primary": {"label": "A", "deeplink": "call us"}}, SUPPORT | {"primary": None},
        SUPPORT | {"primary": {"label": 1, "deeplink": "https://a"}},
        SUPPORT | {"primary": {"label": "x" * 501, "deeplink": "https://a"}},
    ],
    ids=lambda v: repr(v)[:50],
)  # fmt: skip
def test_support_handles_without_label_and_deeplink_are_refused(value: Any):
    refused(KEYS["support_handles"], value)
    check(KEYS["support_handles"], SUPPORT)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("support_handles", SUPPORT | {"primary": {"label": "a\0b", "deeplink": "https://a"}}),
        ("support_handles", SUPPORT | {"primary": {"label": "a", "deeplink": "https://a\0"}}),
        ("price_tiers", [{"label": "\0"}]),
    ],
    ids=repr,
)
def test_config_document_with_a_nul_is_refused(name: str, value: Any):
    refused(KEYS[name], value)


@given(st.sampled_from(sorted(KEYS)), JSON)
def test_any_config_value_is_refused_by_name_or_survives_storage(name: str, value: Any):
    key = KEYS[name]
    refusal: ValidationFailed | None = None
    try:
        check(key, value, cadence_seconds=CADENCE)
    except ValidationFailed as error:
        refusal = error
    if refusal is None:
        assert loaded(key, stored(key, value)) == value
    else:
        assert refusal.details is not None
        assert refusal.details["fields"][0]["field"] == "value"


@given(st.sampled_from(sorted(name for name, key in KEYS.items() if key.shape is not Shape.DOCUMENT)), JSON)
def test_invalid_config_row_counts_as_the_default(name: str, row: Any):
    key = KEYS[name]
    value = loaded(key, row)
    check(key, value)
    try:
        check(key, row["value"])
    except (ValidationFailed, KeyError, TypeError, IndexError):
        assert value == key.default


@pytest.mark.parametrize("row", [None, 7, [], {}, {"primary": None}], ids=repr)
def test_invalid_support_handles_count_as_the_default(row: Any):
    assert loaded(KEYS["support_handles"], row) == KEYS["support_handles"].default


@pytest.mark.parametrize(
    ("threshold", "cadence", "holds"), [(45, 30, 45), (45, 45, 45), (45, 60, 60), (3600, 3600, 3600), (60.5, 60, 60.5)]
)
def test_mitra_with_timely_heartbeats_is_never_stale(threshold: float, cadence: int, holds: int):
    values = {"mitra_stale_after_seconds": threshold, "require_mitra_ping": True}
    wanted = {"mitra_stale_after_seconds": holds, "require_mitra_ping": True}
    assert effective(values, cadence_seconds=cadence) == wanted


@for_each("zone", ["Asia/Bandung", "UTC+7", "+07:00", "../etc/passwd", "", 7, None, ["UTC"]], ids=repr)
def test_unknown_time_zone_is_refused(zone: Any):
    key = KEYS["business_time_zone"]
    refused(key, zone)
    for good in ("Asia/Jakarta", "America/New_York", "UTC"):
        check(key, good)


NOTICE = {"message_id": "Kami segera kembali.", "message_en": "We are back soon.", "until": "2026-01-01T12:00:00+07:00"}
NOON = dt.datetime(2026, 1, 1, 5, tzinfo=dt.UTC)


@pytest.mark.parametrize("value", [None, "0.0.0", "1.4.0", "10.20.300", "999999.0.1"])
def test_version_of_three_numbers_is_accepted(value: str | None):
    check(KEYS["minimum_version_android"], value)


@for_each("value", ["", "1", "1.4", "1.4.0.1", "v1.4.0", "1.04.0", "1.4.0 ", "1.4.x", "1.4.0-b", 1.4, True, []])
def test_other_versions_are_refused(value: Any):
    assert "1.4.0" in refused(KEYS["minimum_version_ios"], value)


@pytest.mark.parametrize("until", [None, "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5+07:00"])
def test_notice_in_both_languages_is_accepted(until: str | None):
    check(KEYS["maintenance"], {**NOTICE, "until": until})


@for_each(
    "value",
    [
        {},
        "soon",
        False,
        {"message_id": "a", "message_en": "b"},
        {**NOTICE, "more": 1},
        {**NOTICE, "message_id": " "},
        {**NOTICE, "message_en": "x" * 501},
        {**NOTICE, "message_en": "\0"},
        {**NOTICE, "message_en": None},
        {**NOTICE, "until": ""},
        {**NOTICE, "until": "2026-01-01T00:00:00"},
        {**NOTICE, "until": "0001-01-01T00:00:00+14:00"},
        {**NOTICE, "until": 5},
    ],
)
def test_other_notices_are_refused(value: Any):
    assert "message_id" in refused(KEYS["maintenance"], value)


def test_notice_is_shown_until_its_end():
    assert notice_at(None, now=NOON) is None
    assert notice_at({**NOTICE, "until": None}, now=NOON) == {**NOTICE, "until": None}
    assert notice_at(NOTICE, now=NOON - dt.timedelta(microseconds=1)) == {**NOTICE, "until": NOON}
    assert notice_at(NOTICE, now=NOON) is None
