"""Devices with push tokens, and the pushes that they received."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from core.deliveries.pushes.store import HOLD_S
from tests.stack import World, new_id
from tools.driving.device import Device
from tools.driving.push_inbox import PushInbox

# Counts unacknowledged events without a planned push, and pushes that are not sent.
OPEN = """SELECT (SELECT count(*) FROM pushes) + (SELECT count(*) FROM deliveries WHERE pushed_real_at IS NULL)"""
# The provider is down and asks for a pause that is longer than the lease of a push: so a delayed push and a claimed one
# differ.
DOWN = (503, {}, {"Retry-After": "120"})
SENT_AGAIN_S = HOLD_S + 5  # a push that is due later than this is not claimed by any process


class PushedDevices:
    """The users of the test with their devices."""

    def __init__(self, world: World, inbox: PushInbox) -> None:
        self.world = world
        self.stack = world.stack
        self.inbox = inbox

    async def token(self, client: Device) -> str:
        """Give a device a push token; return it."""
        token = f"device-{new_id()}"
        await client.call("PUT", "/api/shared/push-token", {"push_token": token})
        return token

    async def device(self, client: Device) -> str:
        """Add a device of a user that never connects; return its push token."""
        token = f"device-{new_id()}"
        kind = "mitra" if client in self.world.mitras else "customer"
        await self.stack.sql(
            """INSERT INTO auth_sessions (id, user_type, user_id, refresh_token_hash, device_info, push_token, push_token_at,
                 created_at, last_used_at, expires_at)
               VALUES ($1::uuid, $2, $3::uuid, $4, '{}', $5, now(), now(), now(), now() + interval '30 days')""",
            new_id(), kind, client.user["id"], new_id(), token,
        )  # fmt: skip
        return token

    async def push(self, token: str, event: str, **data: str) -> dict[str, Any]:
        """Wait for the push of an event on a device; return it."""
        wanted = {"event": event, **data}
        return await self.inbox.wait(lambda m: m["token"] == token and wanted.items() <= m["data"].items())

    def of(self, *tokens: str, event: str | None = None) -> list[dict[str, Any]]:
        """Return the pushes that devices received, in order."""
        return [m for m in list(self.inbox.messages) if m["token"] in tokens and event in (None, m["data"]["event"])]

    async def settled(self, *, hurry: bool = False) -> None:
        """Wait until every unacknowledged event was pushed; a push that has not come by then never comes."""
        await self._until_none(OPEN, hurry=hurry)

    async def _until_none(self, count: str, *, hurry: bool) -> None:
        async def look() -> list[Any]:
            if hurry:
                await self.hurry()
            return await self.stack.sql(count)

        await self.world.until(look, lambda rows: rows[0][0] == 0)

    async def kill(self) -> None:
        """Kill the realtime process when no push is under way: one that it has claimed is sent again after HOLD_S."""
        await self.settled()
        await asyncio.to_thread(self.stack.kill, "realtime")

    @contextlib.asynccontextmanager
    async def waiting(self, *, ack_s: str) -> AsyncIterator[None]:
        """Let the service wait for acknowledgements as long as PUSH_ACK_SECONDS says, until the block ends."""
        before = self.stack.env["PUSH_ACK_SECONDS"]
        await self._restart(ack_s=ack_s)
        try:
            yield
        finally:
            await self._restart(ack_s=before)

    async def _restart(self, *, ack_s: str) -> None:
        # When it sends no push: `kill` says why.
        self.inbox.answer = lambda _: None
        await self._until_none("SELECT count(*) FROM pushes", hurry=True)
        self.stack.env["PUSH_ACK_SECONDS"] = ack_s
        await asyncio.to_thread(self.stack.restart, "realtime")

    async def quiet(self, session_id: str) -> None:
        """Wait until the messages of a session would have been pushed: one second and one more poll."""
        later = "SELECT bool_and(created_at < now() - interval '2.2 seconds') FROM chat_messages WHERE session_id = $1::uuid"
        await self.world.until(lambda: self.stack.sql(later, session_id), lambda rows: rows[0][0])
        await self.settled()

    async def hurry(self) -> None:
        """Make pushes due that wait for a retry after DOWN; a push that is being sent stays with its sender."""
        later = f"UPDATE pushes SET due_real_at = now() WHERE due_real_at > now() + interval '{SENT_AGAIN_S} seconds'"
        await self.stack.sql(later)

    async def until_pushed(self, token: str, count: int, *, hurry: bool = True) -> list[dict[str, Any]]:
        """Wait until a device has received `count` pushes; with `hurry`, retries are due at once."""
        async with asyncio.timeout(20):
            while len(self.of(token)) < count:
                if hurry:
                    await self.hurry()
                await asyncio.sleep(0.1)
        return self.of(token)
