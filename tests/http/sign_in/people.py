"""Devices of customers, each with a separate address, and the steps by which they sign in."""

import asyncio
import base64
import json
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp

from tests.http.sign_in.outside import IdentityServer
from tests.sockets.plain_socket import bare_and_known
from tests.stack import Stack, World, within
from tools.driving.device import Device
from tools.driving.sesi_client import Refused
from tools.driving.throwaway import free_port

ASK, VERIFY = "/api/client/auth/otp/request", "/api/client/auth/otp/verify"
MITRA_ASK, MITRA_VERIFY = "/api/mitra/auth/otp/request", "/api/mitra/auth/otp/verify"
IDENTITY = {"a": "/api/client/auth/identity-a", "b": "/api/client/auth/identity-b"}
TOKENS = {"access_token", "refresh_token", "token_type", "expires_in", "customer"}
CUSTOMER = {
    "id", "phone", "display_name", "is_anonymous", "email", "push_enabled", "account_belongs_to", "usp_seen",
    "created_at", "identities",
}  # fmt: skip
ME = "/api/client/auth/me"


def new_number() -> str:
    """Return a new phone number."""
    return f"+62811{secrets.randbelow(10**8):08d}"


def new_subject() -> str:
    """Return a subject that no provider has used yet."""
    return secrets.token_hex(12)


def new_address() -> str:
    """Return a client address that no other test uses."""
    return f"10.{secrets.randbelow(256)}.{secrets.randbelow(256)}.{secrets.randbelow(256)}"


def device(world: World, *, like: Device | None = None, base: str | None = None) -> Device:
    """Return a device with a new address.

    With `like` it has that device's tokens. `base` is the address of another api process.
    """
    made = world.client()
    made._http.headers["X-Forwarded-For"] = new_address()
    if like is not None:
        made.access_token, made.user = like.access_token, like.user
    if base is not None:
        made._base = base
    return made


async def anonymous(world: World, name: str | None = "Dewi") -> Device:
    """Create an anonymous customer and return their device."""
    made = device(world)
    made._keep(await made.post("/api/shared/auth/anonymous"))
    if name is not None:
        made.user = await made.call("PATCH", "/api/client/auth/profile", {"display_name": name})
    return made


def store_tokens(client: Device, answer: dict[str, Any]) -> Device:
    """Store the tokens and the user of a sign-in answer in a device; return the device."""
    client._keep(answer)
    return client


async def raw(client: Device, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any, Any]:
    """Send one call; return status, body and headers."""
    if client.access_token is not None:
        headers.setdefault("Authorization", f"Bearer {client.access_token}")
    timeout = aiohttp.ClientTimeout(total=40)
    url = client._base + path
    async with client._http.request(method, url, json=body, headers=headers, timeout=timeout) as answer:
        return answer.status, None if answer.status == 204 else await answer.json(content_type=None), answer.headers


async def refusal(client: Device, method: str, path: str, body: Any = None) -> tuple[int, str, dict[str, Any]]:
    """Send one call that must be refused; return status, code and error."""
    status, answer, headers = await raw(client, method, path, body)
    assert status >= 400, answer
    error = answer["error"]
    assert headers.get("Retry-After") == (str(error["retry_after_seconds"]) if "retry_after_seconds" in error else None)
    return status, error["code"], error


async def all_at_once(calls: list[Any]) -> list[Any]:
    """Run all calls concurrently; return each one's answer, or its exception if it was refused."""

    async def one(call: Any) -> Any:
        try:
            return await call
        except Refused as no:
            return no

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(call)) for call in calls]
    return [task.result() for task in tasks]


# -- codes


async def forget_codes(world: World, number: str) -> None:
    """Move earlier code requests of a phone into the past, outside all limits."""
    await world.stack.sql(
        "UPDATE otp_requests SET created_at = created_at - interval '2 hours' WHERE phone = $1", number
    )


async def ask(client: Device, number: str, *, path: str = ASK) -> dict[str, Any]:
    """Request a code and return the answer."""
    return await client.call("POST", path, {"phone": number})


async def verify(client: Device, asked: dict[str, Any], code: str, *, path: str = VERIFY) -> dict[str, Any]:
    """Verify a code and return the answer."""
    return await client.call("POST", path, {"otp_request_id": asked["otp_request_id"], "code": code})


async def proof(world: World, number: str) -> dict[str, Any]:
    """Request a code and return the body that verifies it."""
    await forget_codes(world, number)
    asked = await ask(device(world), number)
    return {"otp_request_id": asked["otp_request_id"], "code": await world.stack.inbox.code_of(asked["otp_request_id"])}


async def by_phone(world: World, client: Device, number: str) -> dict[str, Any]:
    """Sign in by phone code, with the device's bearer token if there is one, and store the new tokens in the device."""
    return await client.call("POST", VERIFY, await proof(world, number))


def wrong(code: str) -> str:
    """Return a code that differs from `code`."""
    return f"{(int(code) + 1) % 10**6:06d}"


# -- identities


async def by_identity(
    client: Device, server: IdentityServer, subject: str, letter: str = "a", **claims: Any
) -> dict[str, Any]:
    """Sign in by identity token, with the device's bearer token if there is one; store the new tokens in the device."""
    status, answer, _ = await raw(client, "POST", IDENTITY[letter], {"identity_token": server.token(subject, **claims)})
    if status != 200:
        raise Refused(status, answer)
    return answer


# -- inspection


def claims_of(token: str | None) -> dict[str, Any]:
    """Return a JWT's claims, unverified."""
    return json.loads(base64.urlsafe_b64decode((token or "").split(".")[1] + "=="))


async def row_of(world: World, customer_id: str) -> dict[str, Any]:
    """Return a customer's row."""
    (row,) = await world.stack.sql(
        "SELECT to_jsonb(c)::text AS row FROM customers c WHERE id = $1::text::uuid", customer_id
    )
    return json.loads(row["row"])


async def count(world: World, where: str, *args: Any) -> int:
    """Return how many customers match the condition."""
    (row,) = await world.stack.sql(f"SELECT count(*)::int AS n FROM customers WHERE {where}", *args)
    return row["n"]


async def me_status(client: Device) -> int:
    """Return the status of a call with the device's token."""
    return (await raw(client, "GET", ME))[0]


async def token_ends(world: World, client: Device) -> None:
    """Wait until a device's access token is refused, at most a second."""
    await world.until(lambda: me_status(client), lambda status: status == 401, timeout=within(1))


async def ending_the_earlier(
    world: World, client: Device, sign_in: Callable[[], Awaitable[dict[str, Any]]]
) -> dict[str, Any]:
    """Sign in with a device's token; return the answer. Within a second, all that the device had must end."""
    sockets = [(await bare_and_known(client, path))[0] for path in ("chat", "pairing")]
    answer = await sign_in()
    signed_in_at = time.monotonic()
    assert [await socket.code(within(1)) for socket in sockets] == [4401, 4401]
    await token_ends(world, client)
    assert time.monotonic() - signed_in_at < within(1)
    error = await refusal(device(world), "POST", "/api/shared/auth/refresh", {"refresh_token": client.refresh_token})
    assert error[:2] == (401, "REFRESH_INVALID")
    return answer


def another_api(stack: Stack, key: str, **env: str) -> str:
    """Start a further api process with other settings; return its public address."""
    public, internal = free_port(), free_port()
    stack.start("api", key=key, PUBLIC_PORT=str(public), INTERNAL_PORT=str(internal), **env)
    stack.wait_ready("api", port=internal)
    return f"http://127.0.0.1:{public}"


def end_api(stack: Stack, key: str) -> None:
    """Stop an api process that `another_api` started."""
    assert stack.stop(key) == 0
    del stack.processes[key]
