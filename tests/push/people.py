"""Devices with push tokens, and the pushes that came to them."""

import asyncio
from typing import Any

from core.pushes.store import HOLD_S
from tests.stack import World, new_id
from tools.client import Client
from tools.push_inbox import PushInbox

# Events that nobody has acknowledged and that were not handed to the pushes yet, and pushes that were not sent.
OPEN = """SELECT (SELECT count(*) FROM pushes) + (SELECT count(*) FROM deliveries WHERE pushed_real_at IS NULL)"""
# The provider is down, and names a pause that is longer than a push is held while it is sent: so the two can be told apart.
DOWN = (503, {}, {"Retry-After": "120"})
SENT_AGAIN_S = HOLD_S + 5  # what is due later than this is in nobody's hands


class Phones:
    """The people of a test with their devices."""

    def __init__(self, world: World, inbox: PushInbox) -> None:
        self.world = world
        self.stack = world.stack
        self.inbox = inbox

    async def token(self, client: Client) -> str:
        """Give a device a push token."""
        token = f"device-{new_id()}"
        await client.call("PUT", "/api/shared/push-token", {"push_token": token})
        return token

    async def device(self, client: Client) -> str:
        """One more device of a user, which is never connected; returns its push token."""
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
        """Wait for the push of an event on a device."""
        wanted = {"event": event, **data}
        return await self.inbox.wait(lambda m: m["token"] == token and wanted.items() <= m["data"].items())

    def of(self, *tokens: str, event: str | None = None) -> list[dict[str, Any]]:
        """The pushes that came to devices, one after the other."""
        return [m for m in list(self.inbox.messages) if m["token"] in tokens and event in (None, m["data"]["event"])]

    async def settled(self, *, hurry: bool = False) -> None:
        """Wait until whatever is unheard was pushed: what has not come by then, does not come."""

        async def look() -> list[Any]:
            if hurry:
                await self.hurry()
            return await self.stack.sql(OPEN)

        await self.world.until(look, lambda rows: rows[0][0] == 0)

    async def quiet(self, session_id: str) -> None:
        """Wait until the messages of a session would have been pushed: a second passed, and one more look."""
        later = "SELECT bool_and(created_at < now() - interval '2.2 seconds') FROM chat_messages WHERE session_id = $1::uuid"
        await self.world.until(lambda: self.stack.sql(later, session_id), lambda rows: rows[0][0])
        await self.settled()

    async def hurry(self) -> None:
        """Let the pushes that wait for another try after DOWN be due now; one that is being sent stays with its sender."""
        later = f"UPDATE pushes SET due_real_at = now() WHERE due_real_at > now() + interval '{SENT_AGAIN_S} seconds'"
        await self.stack.sql(later)

    async def until_pushed(self, token: str, count: int, *, hurry: bool = True) -> list[dict[str, Any]]:
        """Wait until so many pushes came to a device; pushes that wait for another try are hurried up."""
        async with asyncio.timeout(20):
            while len(self.of(token)) < count:
                if hurry:
                    await self.hurry()
                await asyncio.sleep(0.1)
        return self.of(token)
