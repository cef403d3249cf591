"""A customer's copy of their data: its content, who gets it, and how often."""

import asyncio
import datetime as dt
import json
from typing import Any

import aiohttp
import pytest

from api import apps
from core.privacy.export import MESSAGES
from tests.http.privacy.steps import EXPORT, finish, phone_customer, say
from tests.http.sign_in.people import ASK, anonymous, by_phone, claims_of, device, new_number, raw
from tests.stack import World, at_once, outcome, refused
from tools.driving.device import Device

pytestmark = pytest.mark.anyio
AGE = "UPDATE auth_sessions SET created_at = created_at - interval '10 minutes' WHERE user_id = $1"
RECENT = "UPDATE auth_sessions SET created_at = created_at + interval '1 hour' WHERE id = $1"
SIGNED = "SELECT 1 FROM session_receipts WHERE session_id = $1 AND signed_at IS NOT NULL"
FAIRNESS = (
    """INSERT INTO session_time_credits (id, session_id, reason, began_at, ended_at, milliseconds)
       VALUES (gen_random_uuid(), $1, 'mitra_absent', now() - interval '9 s', now() - interval '8 s', 500)""",
    """INSERT INTO session_absences (id, session_id, user_type, since, declared_at, ended_at, returned)
       SELECT gen_random_uuid(), $1, t, now() - interval '9 s', now() - interval '8 s', now(), true
       FROM unnest(ARRAY['customer', 'mitra']) AS t""",
    """UPDATE chat_sessions SET expires_at = expires_at + interval '500 ms', warn_at = warn_at + interval '500 ms'
       WHERE id = $1""",
)
EXPORTED = "UPDATE customers SET exported_at = exported_at - $2::interval WHERE id = $1"


def check_shape(document: dict[str, Any], schema: dict[str, Any], value: Any) -> None:
    """Check that an answer has exactly the fields of its schema."""
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if isinstance(value, list):
        for one in value:
            check_shape(document, schema["items"], one)
    if isinstance(value, dict) and "properties" in schema:
        assert value.keys() == schema["properties"].keys()
        for name, inner in schema["properties"].items():
            check_shape(document, inner, value[name])


async def just_signed_in(world: World, customer: Device) -> None:
    """Make the sign-in recent again, and the access token new: here they last for 10 and for 15 real seconds."""
    await world.stack.sql(RECENT, claims_of(customer.access_token)["sid"])
    await customer.refresh()


@pytest.mark.slow
async def test_export_has_the_conversations_and_everything_else(world: World) -> None:
    number = new_number()
    joining = await anonymous(world, "Kenanga")
    customer = await phone_customer(world, number, name="Melati")
    joining._keep(await by_phone(world, joining, number))
    mitra = await world.mitra("Ayu")
    session_id = await world.session(customer, mitra, duration_minutes=60, topics=["kerja"])
    count = MESSAGES * 2 + 1
    for n in range(count):
        await say(customer if n % 2 else mitra, session_id, f"pesan {n}", {"n": n})
    for statement in FAIRNESS:
        await world.stack.sql(statement, session_id)
    await finish(customer, mitra, session_id, "sampai jumpa", "dadah")
    await world.request(customer)
    sent = "SELECT id::text FROM deliveries WHERE recipient_id = $1::uuid AND session_id = $2::uuid LIMIT 1"
    (event,) = await world.stack.sql(sent, customer.user["id"], session_id)
    await customer.post("/api/shared/push-opened", {"event_id": event["id"]})
    await world.until(lambda: world.stack.sql(SIGNED, session_id), bool)
    await just_signed_in(world, customer)
    status, found, headers = await raw(customer, "GET", EXPORT)
    assert status == 200
    assert headers["Cache-Control"] == "no-store"
    assert {one["display_name"] for one in found["profiles"]} == {"Melati", "Kenanga"}
    assert {one["phone"] for one in found["profiles"]} == {number, None}
    assert len(found["devices"]) == 3
    assert {one["phone"] for one in found["codes"]} == {number}
    assert [one["status"] for one in found["payment_requests"]] == ["consumed", "pending"]
    assert [one["type"] for one in found["transactions"]] == ["session"]
    (session,) = found["sessions"]
    assert (session["mitra"], session["topics"]) == ("Ayu", ["kerja"])
    assert [one["content"] for one in session["messages"]] == [f"pesan {n}" for n in range(count)]
    assert [one["metadata"] for one in session["messages"]] == [{"n": n} for n in range(count)]
    assert {one["sender"]: one["message"] for one in session["goodbyes"]} == {
        "customer": "sampai jumpa",
        "mitra": "dadah",
    }
    (opened,) = found["deliveries"]
    assert (opened["event_id"], opened["stage"], opened["session_id"]) == (event["id"], "opened", session_id)
    assert opened["device_id"] in {one["id"] for one in found["devices"]}
    (receipt,), (credit,), (absence,) = found["receipts"], found["time_credits"], found["absences"]
    assert receipt["signed"]["receipt"]["messages"] == count
    assert receipt["signed"] == await customer.get(f"/api/shared/chat/sessions/{session_id}/receipt")
    assert {one["session_id"] for one in (receipt, credit, absence)} == {session_id}
    assert (credit["reason"], credit["milliseconds"], absence["returned"]) == ("mitra_absent", 500, True)
    assert mitra.user["phone"] not in json.dumps(found)
    assert mitra.user["id"] not in json.dumps(found)
    document = apps.interface("public")
    answer = document["paths"][EXPORT]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    check_shape(document, answer, found)


async def test_export_has_addresses_only_of_requests_that_were_used(world: World) -> None:
    number, before, after = new_number(), device(world), device(world)
    await before.post(ASK, {"phone": number})  # a stranger's, which the sign-in uses up
    customer = await phone_customer(world, number)
    async with world.setting(otp_resend_cooldown_seconds=1):
        await world.until(lambda: outcome(after.post(ASK, {"phone": number})), lambda code: code == "ok")
    _, found, _ = await raw(customer, "GET", EXPORT)
    assert [(one["ip_address"] == "", one["used_at"] is None) for one in found["codes"]] == [
        (True, True),
        (False, False),
        (True, True),
    ]
    strangers = {one._http.headers["X-Forwarded-For"] for one in (before, after)}
    assert not strangers & {one["ip_address"] for one in found["codes"]}


async def test_export_needs_a_sign_in_of_the_last_ten_minutes_on_the_device(world: World) -> None:
    number = new_number()
    customer = await phone_customer(world, number)
    await world.stack.sql(AGE, customer.user["id"])
    await refused(customer.get(EXPORT), 403, "RECENT_SIGN_IN_REQUIRED")
    other = device(world)
    other._keep(await by_phone(world, other, number))
    await refused(customer.get(EXPORT), 403, "RECENT_SIGN_IN_REQUIRED")
    await customer.refresh()
    await refused(customer.get(EXPORT), 403, "RECENT_SIGN_IN_REQUIRED")
    assert (await other.get(EXPORT))["profiles"][0]["id"] == customer.user["id"]


async def test_one_export_an_hour_of_calls_at_the_same_moment(world: World) -> None:
    customer = await phone_customer(world)
    outcomes = await at_once(*(device(world, like=customer).get(EXPORT) for _ in range(8)))
    assert sorted(outcomes) == ["RATE_LIMITED"] * 7 + ["ok"]
    status, _, headers = await raw(customer, "GET", EXPORT)
    assert status == 429
    assert 3_000 < int(headers["Retry-After"]) <= 3_600
    await world.stack.sql(EXPORTED, customer.user["id"], dt.timedelta(hours=1))
    await customer.get(EXPORT)


@pytest.mark.slow
async def test_slow_reader_of_an_export_holds_no_connection_of_the_database(world: World) -> None:
    number = new_number()
    customer, mitra = await phone_customer(world, number), await world.mitra()
    session_id = await world.session(customer, mitra, duration_minutes=60)
    for n in range(MESSAGES):
        await say(customer, session_id, f"{n}" + "x" * 3_900)
    await finish(customer, mitra, session_id)
    await just_signed_in(world, customer)
    url, headers = customer._base + EXPORT, {"Authorization": f"Bearer {customer.access_token}"}
    async with aiohttp.ClientSession() as http, http.get(url, headers=headers) as answer:
        first = await answer.content.readany()
        # Transactions of the jobs process end at once. The server would end one of the export after 8 s.
        busy = "SELECT 1 FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
        await world.until(lambda: world.stack.sql(busy), lambda rows: rows == [], timeout=5)
        await asyncio.gather(*(mitra.get("/api/mitra/chat/history") for _ in range(40)))
        assert json.loads(first + await answer.read())["sessions"][0]["id"] == session_id


async def test_mitra_has_no_export_or_erasure_of_their_own(world: World) -> None:
    mitra = await world.mitra()
    await refused(mitra.get(EXPORT), 403, "FORBIDDEN")
    await refused(mitra.post("/api/client/auth/me/erase", {}), 403, "FORBIDDEN")


async def test_export_that_fails_midway_is_cut_off(world: World) -> None:
    customer, mitra = await phone_customer(world), await world.mitra()
    session_id = await world.session(customer, mitra)
    await finish(customer, mitra, session_id)
    await world.stack.sql("ALTER TABLE session_closures RENAME TO session_closures_away")
    try:
        url, headers = customer._base + EXPORT, {"Authorization": f"Bearer {customer.access_token}"}
        async with aiohttp.ClientSession() as http, http.get(url, headers=headers) as answer:
            assert answer.status == 200
            with pytest.raises(aiohttp.ClientPayloadError):
                await answer.read()
    finally:
        await world.stack.sql("ALTER TABLE session_closures_away RENAME TO session_closures")
    await refused(customer.get(EXPORT), 429, "RATE_LIMITED")
