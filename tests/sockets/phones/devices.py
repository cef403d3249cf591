"""Several devices of one user."""

from typing import Any

from tests.sockets.plain_socket import token_like
from tests.stack import World, new_id
from tools.driving.device import Device


async def second_device(world: World, client: Device) -> Device:
    """Return another signed-in device of a user; it works as long as its access token lives."""
    sid = new_id()
    kind = "mitra" if client in world.mitras else "customer"
    await world.stack.sql(
        """INSERT INTO auth_sessions (id, user_type, user_id, refresh_token_hash, device_info, created_at, last_used_at, expires_at)
           VALUES ($1::uuid, $2, $3::uuid, $4, '{}', now(), now(), now() + interval '30 days')""",
        sid, kind, client.user["id"], new_id(),
    )  # fmt: skip
    other = world.client()
    other.access_token = token_like(world.stack, client, sid=sid)
    other.user, other.role = client.user, client.role
    return other


async def stored(world: World, session_id: str) -> list[tuple[int, str, str]]:
    """Return (seq, id, content) of each stored message of a session."""
    rows = await world.stack.sql(
        "SELECT seq, id::text, content FROM chat_messages WHERE session_id = $1::uuid ORDER BY seq", session_id
    )
    return [(row["seq"], row["id"], row["content"]) for row in rows]


def shown(transcript: list[dict[str, Any]]) -> list[tuple[int, str, str]]:
    """Return what a phone shows, in the same form."""
    return [(message["seq"], message["id"], message["content"]) for message in transcript]
