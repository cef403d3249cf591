"""Heartbeats of many mitras in one statement: which are recorded, and that no mitra waits for another's row."""

import asyncio

from core.accounts.mitras.rules import HeartbeatChannel
from core.pairing import presence
from core.storage.transaction import Tx
from tests.flows.conftest import Harness
from tests.stack import within

HEARD = "SELECT last_heartbeat_at FROM mitra_online_status WHERE mitra_id = $1"


def test_heartbeats_of_online_mitras_are_recorded_and_of_offline_mitras_refused(harness: Harness) -> None:
    async def play() -> None:
        runtime = harness.runtime
        here, there, away = [await harness.mitra() for _ in range(3)]
        for mitra in (here, there, away):
            await presence.go_online(runtime, mitra)
        await presence.go_offline(runtime, mitra_id=away.user_id)
        before = {mitra.user_id: await runtime.db.fetchval(HEARD, mitra.user_id) for mitra in (here, there, away)}
        told = await presence.heartbeats(runtime, [here.user_id, away.user_id, there.user_id])
        assert told == {here.user_id: True, there.user_id: True, away.user_id: False}
        for mitra_id, at in before.items():
            assert (await runtime.db.fetchval(HEARD, mitra_id) > at) == told[mitra_id]
        for mitra in (here, there):
            await presence.go_offline(runtime, mitra_id=mitra.user_id)

    harness.run(play())


def test_heartbeats_skip_a_mitra_whose_row_is_locked(harness: Harness) -> None:
    async def play() -> None:
        runtime = harness.runtime
        free, held = await harness.mitra(), await harness.mitra()
        for mitra in (free, held):
            await presence.go_online(runtime, mitra)
        async with runtime.transaction() as tx:
            await _hold(tx, held.user_id)
            async with asyncio.timeout(within(1)):
                told = await presence.heartbeats(runtime, [held.user_id, free.user_id])
        assert told == {free.user_id: True}  # the other heartbeat is recorded later, when its row is unlocked
        await presence.heartbeat(runtime, held, HeartbeatChannel.SOCKET)
        for mitra in (free, held):
            await presence.go_offline(runtime, mitra_id=mitra.user_id)

    harness.run(play())


async def _hold(tx: Tx, mitra_id: str) -> None:
    await tx.fetchval("SELECT 1 FROM mitra_online_status WHERE mitra_id = $1 FOR UPDATE", mitra_id)
