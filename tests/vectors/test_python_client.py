"""What the Python client does that no vector shows."""

import asyncio
import pathlib
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest

from tests.vectors import documents, virtual_time
from tests.vectors.python_client import API, SOCKETS, FixedDice
from tests.vectors.world import FakeAnswer, FakeSocket, World
from tools.driving.sesi_client import Client, FileStore, MemoryStore, Refused, ServiceClock, SignedOut, Store, Unreached

SESSION = "019aa4b6-5f00-7000-8000-000000005001"
EVENTS = ("019aa4b6-6000-7000-8000-000000000001", "019aa4b6-6000-7000-8000-000000000002")


class Scene:
    """A client in a world that the test plays."""

    def __init__(self, store: Store | None = None, *, is_anonymous: bool = False) -> None:
        self.world = World()
        self.client = Client(
            role="customer",
            api=API,
            sockets=SOCKETS,
            storage=store,
            http=cast(Any, self.world),
            clock=ServiceClock(monotonic=asyncio.get_running_loop().time),
            dice=FixedDice(),
        )
        self.client._keep(tokens("1", is_anonymous=is_anonymous))

    async def opened(self, **snapshot: Any) -> FakeSocket:
        """Connect the chat path."""
        await self.client.start("chat")
        await virtual_time.advance(0)
        socket = self.world.latest("/ws/chat")
        socket.opened.set_result(None)
        await self.serve(socket, "auth_ok", **{"sessions": [{"id": SESSION, "last_seq": 0}], **snapshot})
        self.world.out.clear()
        return socket

    async def serve(self, socket: FakeSocket, kind: str, **fields: Any) -> None:
        """Serve a frame, laid over the recorded one."""
        frame = documents.whole_frame(
            "customer", socket.path, {"server_time": documents.BEGINS_AT, "type": kind, **fields}
        )
        socket.serve(frame)
        await virtual_time.advance(0)

    async def answer(self, route: str, status: int, body: Any) -> None:
        """Answer the only request that waits."""
        await virtual_time.advance(0)
        (did,) = [one for one in self.world.out if one.get("request") == route]
        self.world.out.remove(did)
        did["answered"].set_result(FakeAnswer(status, body, {}))
        await virtual_time.advance(0)

    def frames(self) -> list[dict[str, Any]]:
        """Return the frames that the client has sent since the last call, without `ref`."""
        sent = [{name: value for name, value in one["frame"].items() if name != "ref"} for one in self.world.out]
        self.world.out.clear()
        return sent


def tokens(name: str, **user: Any) -> dict[str, Any]:
    """Return an answer with tokens."""
    answer = documents.whole_body({"like": "CustomerTokens", "access_token": f"A{name}", "refresh_token": f"R{name}"})
    return {**answer, "customer": {**answer["customer"], **user}}


def play(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test on virtual time."""
    virtual_time.run(main())


def test_refused_message_stays_until_it_is_sent_again_or_discarded() -> None:
    async def main() -> None:
        scene = Scene(store := MemoryStore())
        socket = await scene.opened()
        first = scene.client.send(SESSION, "Halo")
        await virtual_time.advance(0)
        await scene.serve(socket, "error", code="VALIDATION_ERROR", ref=first)
        assert [(one.state, one.error) for one in scene.client.messages(SESSION)] == [("refused", "VALIDATION_ERROR")]
        assert [one["refusal"]["code"] for one in store.get("outbox")] == ["VALIDATION_ERROR"]
        scene.frames()
        scene.client.resend(first)
        await virtual_time.advance(0)
        assert [frame["client_message_id"] for frame in scene.frames()] == [first]
        scene.client.discard(first)
        await virtual_time.advance(10)
        assert scene.client.messages(SESSION) == store.get("outbox") == scene.frames() == []
        await scene.client.close()

    play(main)


def test_say_raises_the_refusal_and_drops_the_message() -> None:
    async def main() -> None:
        scene = Scene()
        socket = await scene.opened()
        saying = asyncio.create_task(scene.client.say(SESSION, "Halo"))
        await virtual_time.advance(0)
        (sent,) = scene.frames()
        await scene.serve(socket, "error", code="SESSION_NOT_ACTIVE", ref=sent["client_message_id"])
        with pytest.raises(Refused, match="SESSION_NOT_ACTIVE"):
            await saying
        assert scene.client.messages(SESSION) == []
        await scene.client.close()

    play(main)


def test_say_ends_when_the_device_is_revoked() -> None:
    async def main() -> None:
        scene = Scene()
        socket = await scene.opened()
        saying = asyncio.create_task(scene.client.say(SESSION, "Halo"))
        await virtual_time.advance(0)
        socket.end(4403)
        await virtual_time.advance(1)
        with pytest.raises(SignedOut, match="revoked"):
            await saying
        assert (scene.client.user, scene.client.connection) == ({}, "stopped")
        await scene.client.close()

    play(main)


def test_hidden_app_acknowledges_what_came_again_when_it_is_shown() -> None:
    async def main() -> None:
        scene = Scene()
        socket = await scene.opened()
        scene.client.hide()
        session = {"id": SESSION, "last_seq": 0}
        await scene.serve(socket, "session_closing", event_id=EVENTS[0], session=session)
        assert scene.frames() == [{"type": "ack", "event_id": EVENTS[0], "shown": False}]
        scene.client.wake()
        await virtual_time.advance(0)
        assert scene.frames() == [{"type": "ping"}, {"type": "ack", "event_id": EVENTS[0]}]
        await scene.serve(socket, "session_completed", event_id=EVENTS[1], session=session)
        assert scene.frames() == [{"type": "ack", "event_id": EVENTS[1]}]
        await scene.client.close()

    play(main)


def test_end_of_the_old_sign_in_counts_only_if_the_new_one_fails() -> None:
    async def main() -> None:
        scene = Scene(is_anonymous=True)
        socket = await scene.opened()
        upgrade = asyncio.create_task(scene.client.verify_code("request", "123456"))
        await scene.answer("GET /api/client/auth/me", 200, scene.client.user)
        socket.end(4403)
        await virtual_time.advance(1)
        assert scene.client.access_token == "A1"
        await scene.answer("POST /api/client/auth/otp/verify", 200, tokens("2", is_anonymous=False))
        await upgrade
        assert (scene.client.access_token, scene.client.signed_out, scene.client.connection) == (
            "A2",
            None,
            "connecting",
        )

        failing = asyncio.create_task(scene.client.verify_code("request", "000000"))
        await virtual_time.advance(0)
        scene.world.latest("/ws/chat").opened.set_result(None)
        await virtual_time.advance(0)
        scene.world.latest("/ws/chat").end(4403)
        await virtual_time.advance(0)
        await scene.answer("POST /api/client/auth/otp/verify", 401, {"error": {"code": "OTP_WRONG", "message": "No."}})
        with pytest.raises(Refused, match="OTP_WRONG"):
            await failing
        assert (scene.client.access_token, scene.client.signed_out) == (None, "revoked")
        await scene.client.close()

    play(main)


def test_sign_in_of_another_user_forgets_the_first_ones_messages() -> None:
    async def main() -> None:
        scene = Scene(store := MemoryStore())
        await scene.opened()
        scene.client.send(SESSION, "Halo")
        await virtual_time.advance(0)
        signing_in = asyncio.create_task(scene.client.verify_code("request", "123456"))
        other = tokens("2", is_anonymous=False, id="019aa4b6-5f00-7000-8000-00000000c002")
        await scene.answer("POST /api/client/auth/otp/verify", 200, other)
        await signing_in
        assert (scene.client.sessions, scene.client.messages(SESSION), store.get("outbox")) == ({}, [], None)
        assert scene.client.user["id"] == other["customer"]["id"]
        await scene.client.close()

    play(main)


def test_answer_of_another_program_is_no_answer() -> None:
    async def main() -> None:
        scene = Scene()
        paying = asyncio.create_task(scene.client.pay(duration_minutes=12))
        for n in range(6):
            await scene.answer("POST /api/client/payment/requests", 200, {"hotel": "Please sign in to our network."})
            await virtual_time.advance(0 if n == 5 else 30)
        with pytest.raises(Unreached, match="another program"):
            await paying
        await scene.client.close()

    play(main)


def test_chat_whose_digest_differs_is_read_again_once() -> None:
    message = {
        "id": EVENTS[0], "session_id": SESSION, "seq": 1, "client_message_id": EVENTS[1], "content": "Halo",
        "status": "sent",
    }  # fmt: skip

    async def main() -> None:
        scene = Scene()
        socket = await scene.opened(sessions=[{"id": SESSION, "last_seq": 1}])
        page = {"session_id": SESSION, "messages": [message], "last_seq": 1, "more": False, "digest": "0" * 64}
        await scene.serve(socket, "sync", ref=f"sync {SESSION} 0", **page)
        again = {"type": "sync", "session_id": SESSION, "after": 0}
        assert [frame for frame in scene.frames() if frame["type"] == "sync"] == [again]
        assert scene.client.chat(SESSION).digest == "unchecked"
        await scene.serve(socket, "sync", ref=f"reread {SESSION} 0", **page)
        assert [frame for frame in scene.frames() if frame["type"] == "sync"] == []
        assert scene.client.chat(SESSION).digest == "different"
        assert [one.content for one in scene.client.messages(SESSION)] == ["Halo"]
        await scene.client.close()

    play(main)


def test_files_keep_values_over_a_restart_and_broken_ones_count_as_missing(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "client"
    store = FileStore(folder)
    assert store.get("signed_in") is None
    store.set("signed_in", ["A1", "R1", {"id": "x"}])
    assert FileStore(folder).get("signed_in") == ["A1", "R1", {"id": "x"}]
    assert {path.stat().st_mode & 0o77 for path in (folder, *folder.iterdir())} == {0}
    (folder / "signed_in.json").write_text('["A1", ')
    assert store.get("signed_in") is None
    store.remove("signed_in")
    store.remove("signed_in")
    assert list(folder.iterdir()) == []
