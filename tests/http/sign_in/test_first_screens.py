"""What the apps read before a payment: onboarding state, support contacts and switches (docs/product.md#onboarding)."""

import datetime as dt
import time
from typing import Any

import pytest

from tests.http.sign_in.outside import IdentityServer
from tests.http.sign_in.people import (
    anonymous,
    by_identity,
    by_phone,
    device,
    new_number,
    new_subject,
    raw,
    refusal,
    store_tokens,
)
from tests.stack import World, refused, within

pytestmark = pytest.mark.anyio

STATE, SEEN, HANDLES = "/api/client/onboarding-state", "/api/client/usp-seen", "/api/client/support-handles"
APP, OTP = "/api/shared/config/app", "/api/shared/config/otp"
NO_VERSIONS = {"android": None, "ios": None, "web": None}
NOBODY = {
    "is_anonymous": True, "has_display_name": False, "usp_seen": False, "has_consulted_before": False,
    "first_session_discount_eligible": True, "has_live_session": False,
}  # fmt: skip
SWITCHES = {
    "early_end_customer_enabled": False, "early_end_mitra_enabled": False, "end_session_two_step_confirm": True,
    "three_minute_warning_enabled": True, "payment_method_qris_first": True, "sensitive_flip_confirmation_enabled": True,
    "sensitive_flag_one_way_latch": False,
}  # fmt: skip
APP_SETTINGS = {**SWITCHES, "minimum_versions": NO_VERSIONS, "maintenance": None, "time_scale": 1}


async def test_onboarding_flags_follow_the_customers_actions(world: World) -> None:
    client = await anonymous(world, None)
    expected = dict(NOBODY)

    async def now(**change: bool) -> None:
        expected.update(change)
        assert await client.get(STATE) == expected

    await now()
    await client.call("PATCH", "/api/client/auth/profile", {"display_name": "Dewi"})
    await now(has_display_name=True)
    assert (await raw(client, "POST", SEEN))[0] == 204
    await now(usp_seen=True)
    assert (await raw(client, "POST", SEEN, {}))[0] == 204
    await now()
    assert (await client.get("/api/client/auth/me"))["usp_seen"] is True
    payment = await world.paid(client)
    await now(has_live_session=True)
    await client.post("/api/client/chat/cancel", {"payment_request_id": payment["payment_request_id"]})
    await now(has_live_session=False)  # a search alone is not a consultation
    mitra = await world.mitra()
    session_id = await world.session(client, mitra)
    await now(has_live_session=True, has_consulted_before=True, first_session_discount_eligible=False)
    await world.config("early_end_mitra_enabled", True)
    path = f"/api/shared/chat/sessions/{session_id}/end"
    await world.until(lambda: raw(mitra, "POST", path), lambda seen: seen[0] == 200, timeout=5)
    await world.config("early_end_mitra_enabled", False)
    await now(has_live_session=False)
    store_tokens(client, await by_phone(world, client, new_number()))
    await now(is_anonymous=False)


async def test_onboarding_flags_are_separate_for_each_customer(world: World, provider_a: IdentityServer) -> None:
    one, other = await anonymous(world), await anonymous(world, None)
    await one.post(SEEN)
    assert await other.get(STATE) == NOBODY
    account = store_tokens(device(world), await by_identity(device(world), provider_a, new_subject()))
    assert await account.get(STATE) == {**NOBODY, "is_anonymous": False}


@pytest.mark.parametrize(("method", "path"), [("GET", STATE), ("POST", SEEN), ("GET", HANDLES)])
async def test_onboarding_routes_refuse_other_callers(world: World, method: str, path: str) -> None:
    mitra = await world.mitra(online=False)
    assert (await refusal(mitra, method, path))[:2] == (403, "FORBIDDEN")
    assert (await refusal(device(world), method, path))[:2] == (401, "UNAUTHENTICATED")


async def test_support_contacts_come_from_the_configuration(world: World) -> None:
    client, operator = await anonymous(world), await world.operator()
    before = (await operator.get("/internal/config/support_handles"))["value"]
    assert await client.get(HANDLES) == {"handles": [before["primary"], before["secondary"]]}
    changed = {
        "primary": {"label": "Tanya kami", "deeplink": "https://example.test/wa"},
        "secondary": {"label": "Surel", "deeplink": "tg://resolve?domain=sesi"},
    }
    await world.config("support_handles", changed)
    try:
        wanted = {"handles": [changed["primary"], changed["secondary"]]}
        await world.until(lambda: client.get(HANDLES), lambda seen: seen == wanted, timeout=within(1))
    finally:
        await world.config("support_handles", before)
    await refused(
        operator.call("PUT", "/internal/config/support_handles", {"value": {"primary": before["primary"]}}),
        422,
        "VALIDATION_ERROR",
    )


async def test_app_switches_follow_the_configuration_within_a_second(world: World) -> None:
    client = device(world)
    await world.until(lambda: client.get(APP), lambda seen: seen == APP_SETTINGS, timeout=within(1))
    for name, value in SWITCHES.items():
        await world.config(name, not value)
        since = time.monotonic()
        await world.until(
            lambda: client.get(APP), lambda seen, n=name, v=value: seen == {**APP_SETTINGS, n: not v}, timeout=within(1)
        )
        assert time.monotonic() - since < within(1)
        await world.config(name, value)
        await world.until(lambda: client.get(APP), lambda seen: seen == APP_SETTINGS, timeout=within(1))


async def test_oldest_usable_versions_are_those_of_the_rows(world: World) -> None:
    client = device(world)
    for platform in NO_VERSIONS:
        await world.config(f"minimum_version_{platform}", "1.4.0")
        expected = {**APP_SETTINGS, "minimum_versions": {**NO_VERSIONS, platform: "1.4.0"}}
        await world.until(lambda: client.get(APP), lambda seen, expected=expected: seen == expected, timeout=within(1))
        await world.config(f"minimum_version_{platform}", None)
    await world.until(lambda: client.get(APP), lambda seen: seen == APP_SETTINGS, timeout=within(1))


async def test_maintenance_notice_ends_at_its_time(world: World) -> None:
    client = device(world)

    async def maintenance() -> tuple[Any, dt.datetime]:
        """Return the notice, and the service's time."""
        _, settings, headers = await raw(client, "GET", APP)
        return settings["maintenance"], dt.datetime.fromisoformat(headers["X-Server-Time"])

    await world.operator()
    until = (await maintenance())[1] + dt.timedelta(seconds=4)
    notice = {"message_id": "Kami segera kembali.", "message_en": "We are back soon."}
    await world.config("maintenance", {**notice, "until": until.isoformat()})
    try:
        shown, _ = await world.until(maintenance, lambda seen: seen[0] is not None)
        assert dt.datetime.fromisoformat(shown.pop("until")) == until
        assert shown == notice
        _, at = await world.until(maintenance, lambda seen: seen[0] is None)
        assert at >= until  # by the service's clock, which may be ahead of this process's
        await world.config("maintenance", {**notice, "until": None})
        await world.until(lambda: client.get(APP), lambda seen: seen["maintenance"] == {**notice, "until": None})
    finally:
        await world.config("maintenance", None)


async def test_code_limits_follow_the_configuration_within_a_second(world: World) -> None:
    client = device(world)
    shown = {"resend_cooldown_seconds": 60, "max_per_phone_per_hour": 3, "verify_max_attempts": 5, "code_length": 6}
    rows: dict[str, Any] = {
        "otp_resend_cooldown_seconds": ("resend_cooldown_seconds", 90), "otp_max_per_phone_per_hour": ("max_per_phone_per_hour", 7),
        "otp_verify_max_attempts": ("verify_max_attempts", 2),
    }  # fmt: skip
    await world.until(lambda: client.get(OTP), lambda seen: seen == shown, timeout=within(1))
    for key, (name, value) in rows.items():
        await world.config(key, value)
        await world.until(
            lambda: client.get(OTP), lambda seen, n=name, v=value: seen == {**shown, n: v}, timeout=within(1)
        )
        await world.config(key, shown[name])
    await world.until(lambda: client.get(OTP), lambda seen: seen == shown, timeout=within(1))


async def test_open_app_routes_answer_any_caller(world: World) -> None:
    mitra = await world.mitra(online=False)
    for client in (device(world), mitra, await anonymous(world)):
        for path in (APP, OTP, "/api/shared/auth-providers"):
            assert (await raw(client, "GET", path))[0] == 200
    garbage = device(world)
    garbage.access_token = "x.y.z"
    assert (await raw(garbage, "GET", APP))[0] == 200
