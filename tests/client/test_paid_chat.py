"""Two clients of the library play a paid chat with the real service."""

import asyncio
import json
import os
import pathlib

import pytest

from tests.stack import World

pytestmark = pytest.mark.anyio

SCRIPT = pathlib.Path(__file__).parent / "paid_chat.mjs"


async def test_paid_chat_has_equal_transcripts_on_both_devices(world: World, node: str) -> None:
    mitra = await world.mitra("Dewi", online=False)
    world.stop_heartbeats(mitra)
    addresses = world.stack.addresses
    service = {
        "api": addresses.public,
        "sockets": addresses.realtime,
        "mitra": {"access": mitra.access_token, "refresh": mitra.refresh_token, "user": mitra.user},
    }
    process = await asyncio.create_subprocess_exec(
        node, str(SCRIPT), env={**os.environ, "SERVICE": json.dumps(service)}, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            asked = json.loads(await process.stdout.readline())
            await world.webhook(asked["pay"])
            seen = json.loads(await process.stdout.readline())
            ended = json.loads(await process.stdout.readline())
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
    customers, mitras = seen["transcripts"]
    assert customers == mitras
    assert len(customers) == 4
    assert abs(seen["drift"]) < 1000  # each estimate may be wrong by half the time that its quickest answer took
    assert ended == {"signedOut": "self", "user": None}
