"""Common steps of the control center's tests: operators with any permissions, concurrent calls, audit rows, lists."""

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import attrs

from tests.stack import World
from tools.driving.device import Device
from tools.driving.sesi_client import Refused

PASSWORD = "a quite long password 7"
REPEATS = 100  # of a call that a busy machine refuses


def unique(word: str) -> str:
    """Return a word with a suffix that makes it unique."""
    return f"{word}-{secrets.token_hex(5)}"


@attrs.frozen(kw_only=True)
class SignedInOperator:
    """An operator, their role and their signed-in device."""

    id: str
    email: str
    role_id: str
    client: Device


async def a_role(root: Device, permissions: dict[str, str]) -> dict[str, Any]:
    """Create a role."""
    return await root.post("/internal/roles", {"name": unique("role"), "permissions": permissions})


async def an_account(root: Device, role_id: str, **more: Any) -> dict[str, Any]:
    """Create an operator who is not signed in."""
    body = {"email": f"{unique('op')}@example.test", "display_name": "Sari", "role_id": role_id, "password": PASSWORD}
    return await root.post("/internal/operators", {**body, **more})


async def signed_in(world: World, email: str, password: str = PASSWORD) -> Device:
    """Sign a further device of an operator in."""
    client = world.client()
    await client.sign_in_as_operator(email, password)
    return client


async def an_operator(world: World, permissions: dict[str, str]) -> SignedInOperator:
    """Create an operator with exactly these permissions, signed in."""
    root = await world.operator()
    role = await a_role(root, permissions)
    made = await an_account(root, role["id"])
    client = await signed_in(world, made["email"])
    return SignedInOperator(id=made["id"], email=made["email"], role_id=role["id"], client=client)


async def answer(call: Awaitable[Any]) -> tuple[int, Any]:
    """Return 200 and the answer of a call, or the status and code of its refusal."""
    try:
        return 200, await call
    except Refused as no:
        return no.status, no.code


async def at_once(count: int, call: Callable[[int], Awaitable[Any]]) -> list[tuple[int, Any]]:
    """Make `count` calls concurrently; return the result of each, as `answer` does.

    A busy machine may refuse a call with 503. It has changed nothing, and is repeated.
    """
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_answered(call, n)) for n in range(count)]
    return [task.result() for task in tasks]


async def _answered(call: Callable[[int], Awaitable[Any]], n: int) -> tuple[int, Any]:
    seen = await answer(call(n))
    for _ in range(REPEATS):
        if seen[0] != 503:
            break
        await asyncio.sleep(0.1)
        seen = await answer(call(n))
    return seen


async def audits(world: World, object_id: str) -> list[dict[str, Any]]:
    """Return the audit rows about an object, oldest first."""
    rows = await world.stack.sql(
        """SELECT action, operator_id::text, before, after FROM operator_audit_log WHERE object_id = $1
           ORDER BY created_at, id""",
        object_id,
    )
    return [
        {**row, "before": json.loads(row["before"] or "null"), "after": json.loads(row["after"] or "null")}
        for row in rows
    ]


async def audit_count(world: World) -> int:
    """Return how many audit rows there are."""
    return (await world.stack.sql("SELECT count(*) FROM operator_audit_log"))[0][0]


async def found(client: Device, path: str, *, by: str = "id", **query: Any) -> list[str]:
    """Return the ids of a list's items."""
    return [item[by] for item in (await client.get(path, **query))["items"]]


async def every(client: Device, path: str, *, limit: int, **query: Any) -> list[dict[str, Any]]:
    """Return all items of a list, read in pages."""
    items: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        page = await client.get(path, limit=limit, **query, **cursor)
        assert len(page["items"]) <= limit
        items += page["items"]
        if page["next_cursor"] is None:
            return items
        cursor = {"cursor": page["next_cursor"]}
