"""What happened to an event on each device is on the timeline of its payment (docs/fairness.md#delivery-trail)."""

from typing import Any

import pytest

from tests.sockets.push.devices import PushedDevices
from tests.stack import Refused, World, new_id
from tools.driving.device import Device

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
OPENED = "/api/shared/push-opened"
COUNT = "SELECT count(*)::int FROM delivery_trail WHERE event_id = $1::uuid AND stage = 'opened'"
NAMED = """UPDATE auth_sessions SET device_info = $2::jsonb WHERE push_token = $1"""


async def events_of(world: World, payment: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the events of a payment's timeline."""
    operator = await world.operator()
    told = await operator.get(f"/internal/payment-requests/{payment['payment_request_id']}/timeline")
    return told["events"]


def stages(events: list[dict[str, Any]], event_id: str) -> dict[str | None, list[str]]:
    """Return device -> its stages of an event, in order."""
    (found,) = [event for event in events if event["event_id"] == event_id]
    by_device: dict[str | None, list[str]] = {}
    for stage in found["stages"]:
        by_device.setdefault(stage["device"], []).append(stage["stage"])
    return by_device


async def pushed_request(phones: PushedDevices, mitra: Device) -> tuple[dict[str, Any], str]:
    """Let a request be pushed to two phones of a mitra; return its payment and the id of the event."""
    tokens = [await phones.token(mitra), await phones.device(mitra)]
    for token, name in zip(tokens, ("android", "ios"), strict=True):
        await phones.stack.sql(NAMED, token, f'{{"platform": "{name}", "app_version": "1.4.0"}}')
    payment = await phones.world.paid(await phones.world.customer())
    pushes = [await phones.push(token, "chat_request", session_id=payment["session_id"]) for token in tokens]
    assert pushes[0]["data"]["event_id"] == pushes[1]["data"]["event_id"]
    return payment, pushes[0]["data"]["event_id"]


@pytest.mark.slow
async def test_timeline_shows_what_happened_to_an_event_on_each_device(phones: PushedDevices) -> None:
    world, mitra = phones.world, await phones.world.mitra("Sari")
    payment, event_id = await pushed_request(phones, mitra)
    for _ in range(2):  # repeated, because the first answer may be lost
        assert await mitra.post(OPENED, {"event_id": event_id}) is None
    desk = await mitra.open("pairing", ack=False)
    try:
        await desk.wait("chat_request")
        await desk.send({"type": "ack", "event_id": event_id})
        wanted = {"android 1.4.0": {"pushed", "opened", "sent", "acknowledged"}, "ios 1.4.0": {"pushed"}}
        events = await world.until(
            lambda: events_of(world, payment),
            lambda events: {name: set(found) for name, found in stages(events, event_id).items()} == wanted,
        )
    finally:
        await desk.close()
    (request,) = [event for event in events if event["event_id"] == event_id]
    assert (request["event"], request["recipient"], request["mitra_id"]) == ("chat_request", "Sari", mitra.user["id"])
    at = [stage["at"] for stage in request["stages"]]
    assert at == sorted(at)
    assert [event["event"] for event in events] == ["chat_request"]  # the customer has no device yet


async def test_opened_push_of_another_user_is_ignored_like_an_unknown_one(phones: PushedDevices) -> None:
    mitra, stranger, customer = await phones.world.mitra(), await phones.world.mitra(), await phones.world.customer()
    _, event_id = await pushed_request(phones, mitra)
    for client in (stranger, customer):
        for one in (event_id, new_id()):
            assert await client.post(OPENED, {"event_id": one}) is None
    assert (await phones.stack.sql(COUNT, event_id))[0][0] == 0


async def test_opened_push_with_an_id_of_another_form_is_refused(phones: PushedDevices) -> None:
    mitra = await phones.world.mitra()
    for body in ({"event_id": "an event"}, {"event_id": None}, {}):
        with pytest.raises(Refused) as refused:
            await mitra.post(OPENED, body)
        assert refused.value.code == "VALIDATION_ERROR"
