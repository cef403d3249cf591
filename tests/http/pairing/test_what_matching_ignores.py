"""Topics of a request and the setting `anonymity` change neither who is invited nor what anyone sees."""

import re
from typing import Any

import pytest

from tests.http.pairing.steps import end_now, failed, rejecting, responses, session_of, wait_for_invitation
from tests.stack import World, new_id
from tools.driving.device import Device

pytestmark = pytest.mark.anyio

TOPICS = (None, [], ["kerja"], ["keluarga", "depresi", "kehilangan"], [f"topik {n}" for n in range(12)])
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}T[\d:.]+Z")


async def searched(world: World, mitras: list[Device], payment: dict[str, Any]) -> list[Any]:
    """Let each mitra reject a search in turn; return who was invited and what each was shown."""
    shown = []
    for mitra in mitras:
        request = await wait_for_invitation(world, mitra, payment["session_id"])
        shown.append({name: value for name, value in request.items() if name != "topics"})
    answers = await responses(world, payment["session_id"])
    for mitra in mitras:
        await rejecting(mitra, payment["session_id"])
    return [set(answers), without_variable_values(shown)]


def without_variable_values(payload: Any) -> Any:
    """Return the payload without values that differ from run to run: ids, times and sums of seconds."""
    if isinstance(payload, dict):
        return {name: without_variable_values(value) for name, value in payload.items()}
    if isinstance(payload, list):
        return [without_variable_values(value) for value in payload]
    if isinstance(payload, str):
        return MOMENT.sub("moment", UUID.sub("id", payload))
    return payload


async def test_topics_change_neither_invitations_nor_outcomes(world: World) -> None:
    mitras = [await world.mitra(name) for name in ("Ayu", "Bima", "Citra")]
    # One of the mitras has talked about a topic before and marked it as sensitive.
    earlier = await world.customer()
    session_id = await world.session(earlier, mitras[0], topics=["depresi"])
    await mitras[0].call("PATCH", f"/api/shared/chat/sessions/{session_id}/topic", {"topic_sensitivity": "sensitive"})
    await end_now(world, earlier, session_id)
    for mitra in mitras:
        await mitra.post("/api/mitra/status/offline")
        await mitra.post("/api/mitra/status/online")
    outcomes = []
    for topics in TOPICS:
        customer = await world.customer()
        payment = await world.paid(customer, **({} if topics is None else {"topics": topics}))
        found = await searched(world, mitras, payment)
        outcomes.append([*found, await failed(world, customer, payment)])
    assert outcomes[0][0] >= {mitra.user["id"] for mitra in mitras}
    assert outcomes == [outcomes[0]] * len(TOPICS)


async def life(world: World) -> list[Any]:
    """Let a customer and a mitra go through a session; return everything that both and the operators see."""
    customer, mitra = await world.customer(), await world.mitra()
    desk = await mitra.open("pairing")
    payment = await world.paid(customer, topics=["kerja"])
    seen = [await wait_for_invitation(world, mitra, payment["session_id"])]
    session_id = (await mitra.post(f"/api/mitra/chat-requests/{payment['session_id']}/accept"))["id"]
    phones = [await customer.open("chat"), await mitra.open("chat")]
    await phones[0].say(session_id, "halo", client_message_id=new_id())
    message = await phones[1].wait("message")
    await end_now(world, customer, session_id)
    for party in (customer, mitra):
        await party.post(f"/api/shared/chat/sessions/{session_id}/closure", {"message": "sampai jumpa"})
    seen += [await session_of(customer, session_id), await session_of(mitra, session_id), message]
    seen += [await customer.get("/api/client/auth/me"), await customer.get("/api/client/chat/history")]
    seen += [await mitra.get("/api/mitra/chat/history")]
    seen += [await customer.get(f"/api/shared/chat/sessions/{session_id}/messages")]
    operator = await world.operator()
    seen += [await operator.get(f"/internal/sessions/{session_id}")]
    seen += [sorted({frame["type"] for frame in desk.frames} - {"pong"})]
    await mitra.post("/api/mitra/status/offline")
    return without_variable_values(seen)


async def test_anonymity_setting_changes_no_payload(world: World) -> None:
    operator = await world.operator()
    before = (await operator.get("/internal/config/anonymity"))["value"]
    lives = []
    try:
        for enabled in (False, True):
            await operator.call("PUT", "/internal/config/anonymity", {"value": {"enabled": enabled}})
            lives.append(await life(world))
    finally:
        await operator.call("PUT", "/internal/config/anonymity", {"value": before})
    assert lives[0] == lives[1]
