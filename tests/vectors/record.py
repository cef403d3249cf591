"""Record the service's frames and answers for the vectors: `python -m tests.vectors.record`.

Two customers and two mitras search, race, talk and say goodbye on a real service. Vectors lay what they serve over this
recording, objects.json. tests/client/test_recording.py compares it with what the service sends now.
"""

import asyncio
import json
import pathlib
import time
from typing import Any

import jwt

from core.base import ids
from tests.http.extensions.steps import answer_extension, ask_for_extension
from tests.stack import Stack, World
from tests.vectors.renaming import Renaming
from tools.driving.device import Device, RecordedSocket
from tools.driving.sesi_client import Refused

FILE = pathlib.Path(__file__).parent / "objects.json"
SHORT_LIFE_S = 40  # less than the 60 s before its end at which a token expires soon
FLOOD = 60  # frames, more than WS_MESSAGES_BURST
ROUTES = {
    "GET /api/client/auth/me": "Customer",
    "GET /api/mitra/auth/me": "Mitra",
    "GET /api/mitra/status": "MitraStatus",
    "POST /api/mitra/status/heartbeat": "MitraStatus",
    "GET /api/shared/chat/sessions/{session_id}": "Session",
    "GET /api/client/payment/requests/{request_id}": "PaymentRequest",
}
VARIED = {"error": "code", "pairing_status": "status"}  # types whose frames have other fields by the value of one
Recording = dict[str, Any]


class Recorder:
    """The users of one recording, and what the service has sent them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._frames: dict[str, dict[str, Any]] = {}
        self._bodies: dict[str, Any] = {}

    def _keep(self, place: str, frame: dict[str, Any]) -> None:
        name = frame["type"]
        if name in VARIED:
            name = f"{name} {frame[VARIED[name]]}"
        self._frames.setdefault(place, {})[name] = frame

    async def _take(self, socket: RecordedSocket, place: str, kind: str) -> None:
        self._keep(place, await socket.wait(kind))

    async def _open(self, client: Device, path: str) -> RecordedSocket:
        """Open a socket; record its snapshot and a pong."""
        socket = await client.open(path)
        place = f"{'customer' if 'is_anonymous' in client.user else 'mitra'} /ws/{path}"
        self._keep(place, socket.frames[0])
        await socket.send({"type": "ping", "ref": "1"})
        await self._take(socket, place, "pong")
        return socket

    async def _refused(self, client: Device, method: str, path: str, body: Any = None, **more: Any) -> None:
        try:
            await client.call(method, path, body, **more)
        except Refused as refused:
            self._bodies[str(refused.code)] = refused.body
            return
        raise AssertionError(f"{method} {path} was not refused")

    async def play(self) -> Recording:
        """Play the conversation; return the recording."""
        world = self._world
        self._dewi, self._rani = await world.customer("Dewi"), await world.customer("Rani")
        self._ayu, self._sari = await world.mitra("Ayu"), await world.mitra("Sari")
        async with world.setting(max_customers_per_mitra=1):
            session_id = await self._pair()
        await self._record_bodies(session_id)
        await self._talk(session_id)
        await self._extend(session_id)
        await self._say_goodbye(session_id)
        await self._fail()
        await self._be_away()
        await self._flood(session_id)
        renaming = Renaming(
            customer=self._dewi.user["id"],
            mitra=self._ayu.user["id"],
            session=session_id,
            phone=self._ayu.user["phone"],
        )
        return {
            "schemas": {name: renaming.apply(body) for name, body in sorted(self._bodies.items())},
            "routes": ROUTES,
            "frames": {
                place: {name: renaming.apply(frame) for name, frame in sorted(frames.items())}
                for place, frames in sorted(self._frames.items())
            },
        }

    async def _pair(self) -> str:
        """Let two customers search and one mitra accept both; return the first one's session."""
        ayu, sari = await self._ayu.open("pairing"), await self._sari.open("pairing")
        chat = await self._dewi.open("chat")
        first = (await self._world.paid(self._dewi))["session_id"]
        asked = await ayu.wait("chat_request")
        assert asked["request"]["session_id"] == first
        self._keep("mitra /ws/pairing", asked)
        await self._open(self._ayu, "pairing")
        search = await self._open(self._dewi, "pairing")
        asked = await search.wait("pairing_status")
        # The repeats of this frame, for a larger number of mitras, are no events; the others are.
        self._keep("customer /ws/pairing", {name: value for name, value in asked.items() if name != "event_id"})
        self._bodies["SearchingSession"] = await self._dewi.get(f"/api/shared/chat/sessions/{first}")
        second = (await self._world.paid(self._rani))["session_id"]
        await ayu.wait("chat_request", where=lambda frame: frame["request"]["session_id"] == second)
        desk_chat = await self._ayu.open("chat")
        await self._ayu.post(f"/api/mitra/chat-requests/{first}/accept")
        await self._take(chat, "customer /ws/chat", "session_started")
        await self._take(desk_chat, "mitra /ws/chat", "session_started")
        await self._take(search, "customer /ws/pairing", "pairing_status")
        await self._take(sari, "mitra /ws/pairing", "chat_request_closed")
        for client, socket, session_id in (
            (self._ayu, ayu, first),
            (self._sari, sari, first),
            (self._ayu, ayu, second),
        ):
            await socket.send({"type": "accept", "ref": "1", "session_id": session_id})
            self._keep("mitra /ws/pairing", await socket.wait("accepted", "error"))
            if (client, session_id) != (self._ayu, first):
                await self._refused(client, "POST", f"/api/mitra/chat-requests/{session_id}/accept")
        operator = await self._world.operator()
        await operator.post(f"/internal/mitras/{self._sari.user['id']}/force-offline")
        await self._take(sari, "mitra /ws/pairing", "mitra_status_changed")
        return first

    async def _record_bodies(self, session_id: str) -> None:
        """Record the answers and refusals of routes."""
        session = f"/api/shared/chat/sessions/{session_id}"
        for client, role in ((self._dewi, "customer"), (self._ayu, "mitra")):
            old = client.refresh_token
            self._bodies[f"{role.title()}Tokens"] = await client.post(
                "/api/shared/auth/refresh", {"refresh_token": old}
            )
        self._bodies["Session"] = await self._dewi.get(session)
        self._bodies["Customer"] = await self._dewi.get("/api/client/auth/me")
        self._bodies["PaymentRequest"] = await self._world.request(await self._world.customer("Putri"))
        self._bodies["Mitra"] = await self._ayu.get("/api/mitra/auth/me")
        self._bodies["MitraStatus"] = await self._ayu.get("/api/mitra/status")
        stranger = self._world.client()
        await self._refused(stranger, "GET", "/api/client/auth/me")
        await self._refused(stranger, "POST", "/api/shared/auth/refresh", {"refresh_token": "R0"})
        async with self._world.setting(anonymous_max_per_address_per_hour=1):
            await self._refused(stranger, "POST", "/api/shared/auth/anonymous")

    async def _talk(self, session_id: str) -> None:
        """Record the frames of an active chat."""
        dewi, ayu = await self._open(self._dewi, "chat"), await self._open(self._ayu, "chat")
        place = "customer /ws/chat"
        self._keep(place, await dewi.say(session_id, "Halo"))
        await ayu.wait("message")
        await ayu.send({"type": "read", "session_id": session_id, "up_to": 1})
        self._keep(place, await dewi.wait("message_status", where=lambda frame: frame["status"] == "read"))
        await ayu.send({"type": "typing", "session_id": session_id, "is_typing": True})
        await self._take(dewi, place, "typing")
        await ayu.say(session_id, "Halo Dewi")
        await self._take(dewi, place, "message")
        await dewi.send({"type": "sync", "ref": "1", "session_id": session_id, "after": 0})
        await self._take(dewi, place, "sync")
        self._keep(place, await dewi.say(session_id, ""))
        body = {"client_message_id": ids.new_id(), "content": "Halo"}
        self._bodies["Message"] = await self._dewi.post(f"/api/shared/chat/sessions/{session_id}/messages", body)
        await self._take(await self._expiring_socket(), place, "auth_expiring")

    async def _expiring_socket(self) -> RecordedSocket:
        """Open a chat socket with a token that ends soon."""
        kid, secret = self._world.stack.env["JWT_SECRETS"].split(",")[0].split(":")
        claims = jwt.decode(self._dewi.access_token or "", options={"verify_signature": False})
        device = self._world.client()
        device.access_token = jwt.encode(
            {**claims, "exp": int(time.time()) + SHORT_LIFE_S}, secret, headers={"kid": kid}
        )
        return await device.open("chat")

    async def _extend(self, session_id: str) -> None:
        """Record an extension from the mitra's question to the new end."""
        chat, desk = await self._dewi.open("chat"), await self._ayu.open("chat")
        _, extension = await ask_for_extension(self._world, self._dewi, session_id)
        await self._take(desk, "mitra /ws/chat", "extension_requested")
        await answer_extension(self._ayu, extension, accept=True)
        await self._take(desk, "mitra /ws/chat", "extension_resolved")
        for kind in ("extension_resolved", "session_resumed"):
            await self._take(chat, "customer /ws/chat", kind)

    async def _fail(self) -> None:
        """Record a search whose mitra says no, and money that comes after the request was given up."""
        world, place = self._world, "customer /ws/pairing"
        search, desk = await self._dewi.open("pairing"), await self._ayu.open("pairing")
        wish = {"mode": "chat", "duration_minutes": 12, "mitra_id": self._ayu.user["id"]}
        payment = await self._dewi.post("/api/client/chat/returning", wish)
        await world.webhook(payment)
        asked = await desk.wait("chat_request", where=lambda frame: frame["request"]["kind"] == "targeted")
        await self._ayu.post(f"/api/mitra/chat-requests/{asked['request']['session_id']}/reject")
        self._keep(place, await search.wait("pairing_status", where=lambda frame: frame["status"] == "failed"))
        late = await world.request(self._dewi)
        await self._dewi.post(f"/api/client/payment/requests/{late['payment_request_id']}/abandon")
        await world.webhook(late)

        def is_late(frame: dict[str, Any]) -> bool:
            request = frame["payment_request"]
            return (request["payment_request_id"], request["status"]) == (late["payment_request_id"], "failed_pairing")

        self._keep(place, await search.wait("payment_updated", where=is_late))

    async def _be_away(self) -> None:
        """Record the absence and the return of a mitra who has no socket, and the time that is given back."""
        wati, nur = await self._world.customer("Wati"), await self._world.mitra("Nur")
        session_id, place = await self._world.session(wati, nur), "customer /ws/chat"
        self._world.stop_heartbeats(nur)
        chat = await wati.open("chat")
        async with self._world.setting(peer_absent_seconds=1, fair_clock=True):
            await self._take(chat, place, "peer_absent")
            await nur.get(f"/api/shared/chat/sessions/{session_id}")
            await self._take(chat, place, "peer_returned")
            await self._take(chat, place, "session_clock_adjusted")

    async def _say_goodbye(self, session_id: str) -> None:
        """End the session, and write to it afterwards."""
        path, place = f"/api/shared/chat/sessions/{session_id}", "customer /ws/chat"
        chat = await self._dewi.open("chat")
        async with self._world.setting(early_end_customer_enabled=True):
            await self._dewi.post(f"{path}/end")
        await self._take(chat, place, "session_closing")
        await self._dewi.post(f"{path}/closure", {"message": "Terima kasih Kak."})
        await self._ayu.post(f"{path}/closure", {"message": "Jaga diri, Dewi."})
        await self._take(chat, place, "session_completed")
        self._keep(place, await chat.say(session_id, "Halo"))

    async def _flood(self, session_id: str) -> None:
        """Send too many frames. This is the last step: it uses up what the user's other sockets may send."""
        chat = await self._dewi.open("chat")
        for _ in range(FLOOD):
            await chat.send({"type": "sync", "session_id": session_id, "after": 0})
        refused = await chat.wait("error", where=lambda frame: frame["code"] == "TOO_FAST")
        self._keep("customer /ws/chat", refused)


async def record(stack: Stack) -> Recording:
    """Return a new recording of the service."""
    world = World(stack)
    try:
        return await Recorder(world).play()
    finally:
        await world.leave_searches()
        await world.close()


def main() -> None:
    """Start a service, and write objects.json."""
    stack = Stack()
    try:
        recording = asyncio.run(record(stack))
    finally:
        stack.close()
    FILE.write_text(json.dumps(recording, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
