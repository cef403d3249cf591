"""The example in the client library's README plays a chat with a real service."""

import asyncio
import pathlib
import re

import pytest

from tests.stack import World, new_id
from tools.pages.client_package import FOLDER

pytestmark = pytest.mark.anyio
ADDRESSES = {"http://127.0.0.1:8000": "public", "ws://127.0.0.1:8010": "realtime"}


def example(world: World) -> str:
    """Return the README's program, with the addresses of this service and of the library's files."""
    text, _ = re.findall(r"```js\n(.*?)```", (FOLDER / "README.md").read_text(), re.S)  # the other is for React Native
    assert len(text.splitlines()) <= 30
    for address, name in (*ADDRESSES.items(), ("sesi-client", None)):
        assert text.count(f'"{address}"') == 1
        here = getattr(world.stack.addresses, name) if name else (FOLDER / "index.js").as_uri()
        text = text.replace(f'"{address}"', f'"{here}"')
    return text


async def test_example_pays_and_chats(world: World, node: str, tmp_path: pathlib.Path) -> None:
    mitra = await world.mitra()
    program = tmp_path / "example.mjs"
    program.write_text(example(world))
    running = await asyncio.create_subprocess_exec(
        node, str(program), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        assert running.stdout is not None
        line = (await asyncio.wait_for(running.stdout.readline(), 20)).decode()
        assert line.startswith("pay at http"), line
        ((request_id, amount),) = await world.stack.sql(
            "SELECT id::text, amount FROM payment_requests WHERE gateway_invoice_url = $1", line.split()[-1]
        )
        status, _ = await world.webhook({"payment_request_id": request_id, "amount": amount})
        assert status == 200
        found = await world.until(lambda: mitra.get("/api/mitra/chat-requests"), lambda seen: seen["items"])
        session_id = found["items"][0]["session_id"]
        await mitra.post(f"/api/mitra/chat-requests/{session_id}/accept")
        messages = f"/api/shared/chat/sessions/{session_id}/messages"
        sent = await world.until(lambda: mitra.get(messages), lambda seen: seen["items"])
        assert sent["items"][0]["content"].startswith("Halo Kak")
        await mitra.post(messages, {"client_message_id": new_id(), "content": "Halo Dewi!"})
        rest = (await asyncio.wait_for(running.stdout.read(), 20)).decode()
        assert (rest.splitlines(), await running.wait()) == (["Halo Dewi!"], 0)
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()
