"""The AsyncAPI document is complete, and its examples work on a real service."""

import inspect
import json
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from aiohttp import WSCloseCode
from aiohttp._websocket import reader_py

from core.base.actor import UserType
from core.settings.environment import read as read_settings
from realtime import asyncapi, close_codes, frames, server_frames
from realtime.frame_examples import CLIENT, SERVER
from tests.sockets import declared
from tests.sockets.plain_socket import PlainSocket, bare_and_known
from tests.stack import Stack, World, new_id
from tools.driving.device import Device

pytestmark = pytest.mark.anyio

DOCUMENT: dict[str, Any] = json.loads(asyncapi.encoded(read_settings({})))
REALTIME = pathlib.Path(asyncapi.__file__).parent
PROTOCOL = (REALTIME.parent / "docs/protocol.md").read_text()
CLIENT_CLASSES = {type(example) for example in CLIENT}


def nodes(of: Any, way: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield every node of the document and the path to it."""
    yield way, of
    for key, value in of.items() if isinstance(of, dict) else enumerate(of) if isinstance(of, list) else ():
        yield from nodes(value, (*way, key))


def found(ref: str) -> Any:
    """Return the target of a reference. Raises KeyError."""
    place = DOCUMENT
    assert ref.startswith("#/")
    for part in ref[2:].split("/"):
        place = place[part]
    return place


def below(cls: type) -> set[type]:
    """Return the classes with a tag, each of which is a frame."""
    found = {one for sub in cls.__subclasses__() for one in below(sub)}
    return found or {cls}


# -- the document


def test_every_reference_of_the_document_resolves() -> None:
    refs = [node["$ref"] for _, node in nodes(DOCUMENT) if isinstance(node, dict) and "$ref" in node]
    assert len(refs) > 150
    for ref in refs:
        found(ref)


def test_document_has_the_fields_that_asyncapi_3_requires() -> None:
    assert DOCUMENT["asyncapi"] == "3.0.0"
    assert {"title", "version"} <= DOCUMENT["info"].keys()
    for server in DOCUMENT["servers"].values():
        assert {"host", "protocol"} <= server.keys()
    for kind in DOCUMENT["components"].values():
        assert [name for name in kind if not re.fullmatch(r"[a-zA-Z0-9._-]+", name)] == []
    for operation in DOCUMENT["operations"].values():
        assert operation["action"] in ("send", "receive")
        for part in (operation, operation.get("reply", operation)):
            channel = part["channel"]["$ref"]
            assert found(channel)["address"].startswith("/ws/")
            assert part["messages"]  # an operation's messages are messages of its channel
            assert all(message["$ref"].startswith(f"{channel}/messages/") for message in part["messages"])


def test_document_has_every_frame_once() -> None:
    sent = {kind for kinds in server_frames.FRAMES.values() for kind in kinds}
    assert sent == below(server_frames.ServerFrame) == {type(example) for example in SERVER}
    assert below(frames.Frame) == CLIENT_CLASSES
    assert len(CLIENT) == len(CLIENT_CLASSES)
    assert len(SERVER) == len(sent)
    assert DOCUMENT["components"]["messages"].keys() == {kind.__name__ for kind in sent | CLIENT_CLASSES}
    for path, types in frames.TYPES.items():
        received = [name.split(".")[1] for name, one in DOCUMENT["operations"].items()
                    if name.startswith(f"{path}.") and one["action"] == "receive"]  # fmt: skip
        assert sorted(received) == sorted(types)
        here = {kind for (one, _), kinds in server_frames.FRAMES.items() if one == path for kind in kinds}
        mine = {kind for kind in CLIENT_CLASSES if asyncapi.type_of(kind) in types}
        assert DOCUMENT["channels"][path]["messages"].keys() == {kind.__name__ for kind in here | mine}


def test_every_server_frame_is_a_reply_or_unsolicited() -> None:
    for path in frames.TYPES:
        told: set[str] = set()
        for name, operation in DOCUMENT["operations"].items():
            if name.startswith(f"{path}."):
                part = operation["reply"] if operation["action"] == "receive" else operation
                told |= {message["$ref"].rpartition("/")[2] for message in part["messages"]}
        assert told == {kind.__name__ for kind in asyncapi.sent_on(path)}


def test_schemas_have_the_forms_from_which_generators_make_types() -> None:
    """Generators make no type of an alternative to null, of a list of one value, or of an enumeration without a name."""

    def walk(schema: Any) -> Iterator[dict[str, Any]]:
        if isinstance(schema, dict):
            yield schema
        for one in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
            yield from walk(one)

    found = list(walk(DOCUMENT["components"]["schemas"]))
    assert any(schema.get("type") == ["string", "null"] for schema in found)
    for schema in found:
        assert {"type": "null"} not in (schema.get("anyOf") or ()), schema
        if isinstance(schema.get("enum"), list):
            assert len(schema["enum"]) > 1, schema
            assert "title" in schema, schema
            assert "type" in schema, schema


def test_every_message_has_a_summary() -> None:
    for name, message in DOCUMENT["components"]["messages"].items():
        assert message["summary"], name
        assert message["description"], name
    assert "docs/" not in json.dumps(DOCUMENT)


def test_frames_to_acknowledge_have_an_event_id() -> None:
    for name, message in DOCUMENT["components"]["messages"].items():
        if "x-acknowledged-by" in message:
            schema = DOCUMENT["components"]["schemas"][name]
            assert "server_time" in schema["required"]
            assert ("event_id" in schema["properties"]) == bool(message["x-acknowledged-by"]), name
            if name not in ("PairingStatus", "MitraStatusChanged"):  # some events of these classes are not stored
                assert ("event_id" in schema["required"]) == bool(message["x-acknowledged-by"]), name
    acked = {m["name"] for m in DOCUMENT["components"]["messages"].values() if m.get("x-acknowledged-by") == ["ack"]}
    assert {"chat_request", "pairing_status", "session_started", "extension_requested"} <= acked
    assert DOCUMENT["components"]["messages"]["NewMessage"]["x-acknowledged-by"] == ["delivered", "read"]


def test_every_close_code_says_whether_to_reconnect() -> None:
    codes = {value for name, value in vars(close_codes).items() if name.isupper() and isinstance(value, int)}
    assert {code.code for code in close_codes.ALL} == codes
    for channel in DOCUMENT["channels"].values():
        assert {code["code"] for code in channel["x-close-codes"]} == codes
    for code in codes:
        assert f"| {code} |" in DOCUMENT["info"]["description"]
        assert f"\n| {code} |" in PROTOCOL


def test_every_close_code_that_the_service_sends_is_declared() -> None:
    """`realtime` closes with constants of close_codes, and the parser of aiohttp with its own codes."""
    declared_codes = {code.code for code in close_codes.ALL}
    of_parser = set(re.findall(r"WSCloseCode\.(\w+)", inspect.getsource(reader_py)))
    assert of_parser
    assert {WSCloseCode[name] for name in of_parser} <= declared_codes & close_codes.REFUSALS
    literals = {path.name: re.findall(r"\bclose\w*\(\d{4}", path.read_text()) for path in REALTIME.glob("*.py")}
    assert not any(literals.values()), literals


# -- the examples


def client_examples(path: str) -> list[dict[str, Any]]:
    """Return the examples that a client may send on a path."""
    made = []
    for kind in asyncapi.CHANNELS[path][2]:
        made += [one["payload"] for one in DOCUMENT["components"]["messages"][kind.__name__]["examples"]]
    return made


@pytest.mark.parametrize("path", sorted(frames.TYPES))
def test_every_client_example_parses_as_its_frame(path: str) -> None:
    seen = client_examples(path)
    assert sorted(example["type"] for example in seen) == sorted(frames.TYPES[path])
    for example in seen:
        frame = frames.read(path, json.dumps(example).encode())
        assert frame in CLIENT


@pytest.mark.parametrize(("path", "user_type"), sorted(server_frames.FRAMES))
def test_every_server_example_is_a_declared_frame(path: str, user_type: UserType) -> None:
    for kind in server_frames.FRAMES[(path, user_type)]:
        for example in DOCUMENT["components"]["messages"][kind.__name__]["examples"]:
            assert type(declared.read(path, user_type.value, example["payload"])) is kind


PONG = {"type": "pong", "server_time": "2026-11-21T06:30:00Z"}
SESSION = msgspec.to_builtins(next(one for one in SERVER if asyncapi.type_of(type(one)) == "session_started"))


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "pung", "server_time": "2026-11-21T06:30:00Z"},
        {"type": "pong"},
        {**PONG, "more": 1},
        {**PONG, "server_time": "2026-11-21T06:30:00"},
        {**PONG, "server_time": "2026-11-21T06:30:00+00:00"},
        {**PONG, "ref": None},
        {**SESSION, "session": {**SESSION["session"], "more": 1}},
        {**SESSION, "session": {**SESSION["session"], "status": "asleep"}},
        {**SESSION, "session": {name: value for name, value in SESSION["session"].items() if name != "topics"}},
        {**SESSION, "session": {**SESSION["session"], "mitra": {**SESSION["session"]["mitra"], "phone": "+62"}}},
        {name: value for name, value in SESSION.items() if name != "event_id"},
    ],
)
def test_frame_check_refuses_undeclared_frames(frame: dict[str, Any]) -> None:
    declared.read("chat", "customer", PONG)
    declared.read("chat", "customer", SESSION)
    with pytest.raises((ValueError, msgspec.ValidationError)):
        declared.read("chat", "customer", frame)


async def frames_until_pong(socket: PlainSocket) -> list[dict[str, Any]]:
    """Return the frames up to the answer to a ping: everything that earlier frames have caused directly."""
    ref = new_id()
    await socket.say({"type": "ping", "ref": ref})
    seen = []
    while (frame := await socket.next_frame()).get("ref") != ref:
        seen.append(frame)
    return seen


async def run(client: Device, path: str, types: set[str], session_id: str) -> dict[str, dict[str, Any]]:
    """Send the examples of these types with real ids; return the last answer to each, by type."""
    socket, _ = await bare_and_known(client, path)
    real = {"session_id": session_id, "event_id": new_id(), "client_message_id": new_id(), "token": client.access_token}
    answers: dict[str, dict[str, Any]] = {}
    for example in client_examples(path):
        if example["type"] in types:
            sent = {name: real.get(name, value) for name, value in example.items()} | {"ref": new_id()}
            await socket.say(sent)
            for frame in await frames_until_pong(socket):
                assert frame.get("code") not in ("INVALID_FRAME", "UNKNOWN_TYPE"), (example, frame)
                if frame.get("ref") == sent["ref"]:
                    answers[example["type"]] = frame
    await socket.ws.close()
    return answers


async def test_every_chat_example_runs_on_a_real_service(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    for client in (customer, mitra):
        answers = await run(client, "chat", set(frames.TYPES["chat"]), session_id)
        assert (answers["auth"]["type"], answers["sync"]["type"]) == ("auth_ok", "sync")
        assert answers["ping"]["type"] == "pong"
        await world.until(  # the answer to the ping may come before the message is stored
            lambda client=client: client.get(f"/api/shared/chat/sessions/{session_id}/messages"),
            lambda stored: bool(stored["items"]) and stored["items"][-1]["metadata"] == {"reply_to": 3},
        )


async def test_every_pairing_example_runs_on_a_real_service(world: World) -> None:
    mitra = await world.mitra()

    async def asked(customer: Device) -> str:
        """Create a search whose invitation has reached the mitra; return the session's id."""
        session_id = (await world.paid(customer))["session_id"]
        await world.until(
            lambda: mitra.get("/api/mitra/chat-requests"),
            lambda seen: any(item["session_id"] == session_id for item in seen["items"]),
        )
        return session_id

    answers = await run(mitra, "pairing", {"reject"}, await asked(await world.customer()))
    assert answers == {}  # the mitra's devices get `chat_request_closed`
    customer = await world.customer()
    session_id = await asked(customer)
    answers = await run(mitra, "pairing", set(frames.TYPES["pairing"]) - {"reject"}, session_id)
    assert {kind: answer["type"] for kind, answer in answers.items()} == {
        "auth": "auth_ok",
        "accept": "accepted",
        "ping": "pong",
    }  # a successful heartbeat and an acknowledgement have no answer
    answers = await run(customer, "pairing", {"auth", "accept", "reject", "heartbeat", "ack", "ping"}, session_id)
    assert (answers["accept"]["code"], answers["reject"]["code"]) == ("FORBIDDEN", "FORBIDDEN")


# -- where the document is available


def test_command_prints_the_document_without_a_server(stack: Stack) -> None:
    gone: Any = {"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none", "REDIS_URL": "redis://127.0.0.1:1"}
    done = stack.command("asyncapi", WS_FRAMES_PER_SECOND="7", **gone)
    limits = json.loads(done.stdout)["channels"]["chat"]["x-limits"]
    assert (limits["frames_per_second"], limits["frames_burst"]) == (7, 200)
    assert stack.command("asyncapi", "--nonsense", check=False).returncode == 2
    assert stack.command("asyncapi", check=False, WS_FRAMES_PER_SECOND="many").returncode == 1


async def test_realtime_process_serves_the_document_of_the_command(world: World) -> None:
    url = f"http://127.0.0.1:{world.stack.ports['REALTIME']}/asyncapi.json"
    async with world.client()._http.get(url) as answer:
        assert (answer.status, answer.content_type) == (200, "application/json")
        assert "X-Server-Time" in answer.headers
        assert await answer.json() == json.loads(world.stack.command("asyncapi").stdout)
