"""The programs of the libraries' READMEs and pages work with a real service, as they are there."""

import asyncio
import contextlib
import os
import pathlib
import re
import shutil
import sys
from collections.abc import AsyncIterator

import pytest

from tests.client.test_python_package import FOLDER as PYTHON
from tests.stack import World, new_id
from tools.pages.client_package import FOLDER, ROOT

pytestmark = pytest.mark.anyio
ADDRESSES = {"http://127.0.0.1:8000": "public", "ws://127.0.0.1:8010": "realtime"}
AYU = "+6281200000001"
IS_ONLINE = "SELECT o.is_online FROM mitra_online_status o JOIN mitras m ON m.id = o.mitra_id WHERE m.phone = $1"


def program(world: World, page: pathlib.Path, language: str) -> str:
    """Return the first program of a page, with the addresses of this service."""
    text = re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.S)[0]
    assert len(text.splitlines()) <= 33
    for address, name in ADDRESSES.items():
        assert text.count(f'"{address}"') == 1
        text = text.replace(f'"{address}"', f'"{getattr(world.stack.addresses, name)}"')
    return text


@contextlib.asynccontextmanager
async def running(interpreter: str, path: pathlib.Path, text: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Save a program and run it, until the block ends."""
    path.write_text(text)
    pipe, environment = asyncio.subprocess.PIPE, {**os.environ, "PYTHONPATH": str(PYTHON.parent)}
    process = await asyncio.create_subprocess_exec(
        interpreter, str(path), stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.STDOUT, env=environment
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_customers_program_of_the_package_pays_and_chats(
    world: World, node: str, package: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    mitra = await world.mitra()
    shutil.copytree(package, tmp_path / "node_modules" / "sesi-client")
    async with running(node, tmp_path / "chat.mjs", program(world, FOLDER / "README.md", "js")) as process:
        assert process.stdout is not None
        line = (await asyncio.wait_for(process.stdout.readline(), 20)).decode()
        assert line.startswith("pay at http"), line
        async with mitra._http.post(line.split()[-1]) as paid:
            assert paid.status == 200
        found = await world.until(lambda: mitra.get("/api/mitra/chat-requests"), lambda seen: seen["items"])
        session_id = found["items"][0]["session_id"]
        await mitra.post(f"/api/mitra/chat-requests/{session_id}/accept")
        messages = f"/api/shared/chat/sessions/{session_id}/messages"
        sent = await world.until(lambda: mitra.get(messages), lambda seen: seen["items"])
        assert sent["items"][0]["content"].startswith("Halo Kak")
        await mitra.post(messages, {"client_message_id": new_id(), "content": "Halo Dewi!"})
        rest = (await asyncio.wait_for(process.stdout.read(), 20)).decode()
        assert (rest.splitlines(), await process.wait()) == (["Halo Dewi!"], 0)


async def test_bot_and_customers_program_of_the_python_client_chat_with_each_other(
    world: World, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the bot keeps its sign-in there
    phone = await world.mitra_account("Ayu")
    text = program(world, PYTHON / "README.md", "python").replace(AYU, phone)

    async def codes() -> list[str]:
        return [call["code"] for call in world.stack.inbox.requests if call["phone"] == phone]

    async with running(sys.executable, tmp_path / "bot.py", text) as bot:
        (code,) = await world.until(codes, lambda seen: seen)
        assert bot.stdin is not None
        bot.stdin.write(f"{code}\n".encode())
        await world.until(lambda: world.stack.sql(IS_ONLINE, phone), lambda rows: rows and rows[0]["is_online"])
        text = program(world, ROOT / "docs" / "python-client.md", "python")
        async with running(sys.executable, tmp_path / "customer.py", text) as customer:
            said, _ = await asyncio.wait_for(customer.communicate(), 40)
        assert (said.decode(), customer.returncode) == ("Halo, aku di sini.\n", 0)
        assert bot.returncode is None
