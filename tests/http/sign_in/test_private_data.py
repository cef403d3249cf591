"""A customer's phone and e-mail are shown to the customer and to operators only (docs/product.md#names-and-privacy).

No mitra and no log sees them.
"""

import json
import re
from typing import Any

import pytest

from core.base.actor import UserType
from tests.access.routes import CLOSED, Route
from tests.http.pairing.steps import end_now
from tests.http.sign_in.outside import IdentityServer
from tests.http.sign_in.people import by_identity, by_phone, device, new_number, new_subject
from tests.stack import World
from tools.driving.device import Device
from tools.driving.sesi_client import Refused

pytestmark = pytest.mark.anyio

READS = [
    route
    for route in CLOSED
    if route.listener == "public" and route.method == "GET" and UserType.MITRA in route.access.kinds
]
PROCESSES = ("api", "realtime", "jobs")
# The scan must have had an answer from each of these routes; routes that are added later are scanned too.
SEEN = {
    "/api/mitra/chat-requests",
    "/api/mitra/chat-requests/sessions/active-with-unread",
    "/api/mitra/chat/history",
    "/api/shared/chat/sessions/{session_id}",
    "/api/shared/chat/sessions/{session_id}/messages",
}


async def read_everything(mitra: Device, session_id: str) -> dict[str, Any]:
    """Call each route that a mitra may read, about this session; return the answers by path."""
    found: dict[str, Any] = {}

    async def read(route: Route) -> None:
        try:
            found[route.path] = await mitra.get(route.at(**dict.fromkeys(route.parameters, session_id)))
        except Refused as no:
            found[f"{route.path} refused"] = no.body

    for route in READS:
        await read(route)
    return found


@pytest.mark.parametrize("kind", ["phone", "e-mail"])
async def test_mitras_and_logs_never_see_a_customers_phone_or_email(
    world: World, provider_a: IdentityServer, kind: str
) -> None:
    number, subject = new_number(), new_subject()
    email = f"{subject}@example.test"
    customer = device(world)
    if kind == "phone":
        customer._keep(await by_phone(world, customer, number))
        secret = re.compile(number.removeprefix("+62"))
    else:
        customer._keep(await by_identity(customer, provider_a, subject, email=email, email_verified=True))
        secret = re.compile(subject)
    await customer.call("PATCH", "/api/client/auth/profile", {"display_name": "Dewi"})
    me = await customer.get("/api/client/auth/me")
    assert secret.search(f"{me['phone']} {me['email']}")  # the pattern matches where the data may appear

    mitra = await world.mitra()
    sockets = [await mitra.open(path) for path in ("pairing", "chat")]
    payment = await world.paid(customer, topics=["kerja"])
    await world.until(lambda: mitra.get("/api/mitra/chat-requests"), lambda seen: seen["items"])
    asked = await read_everything(mitra, payment["session_id"])
    accepted = await mitra.post(f"/api/mitra/chat-requests/{payment['session_id']}/accept")
    session_id = accepted["id"]
    talk = await customer.open("chat")
    await talk.say(session_id, "halo")
    await sockets[1].wait("message")
    running = await read_everything(mitra, session_id)
    await end_now(world, customer, session_id)
    for party in (customer, mitra):
        await party.post(f"/api/shared/chat/sessions/{session_id}/closure", {"message": "sampai jumpa"})
    over = await read_everything(mitra, session_id)
    await customer.post("/api/shared/auth/logout")

    assert running.keys() >= SEEN, sorted(SEEN - running.keys())
    for payload in (asked, accepted, running, over, sockets[0].frames):
        assert "Dewi" in json.dumps(payload)
    for payload in (asked, accepted, running, over, *(socket.frames for socket in sockets)):
        assert not secret.search(json.dumps(payload))
    for process in PROCESSES:
        log = world.stack.log(process)
        assert log
        assert not secret.search(log), process
