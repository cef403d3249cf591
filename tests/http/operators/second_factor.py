"""Operators with a second factor: enrolled through the public routes, with codes of any time step."""

import base64
import secrets
import time
from typing import Any

import attrs

from core.accounts.operators import totp
from tests.http.operators.steps import PASSWORD, a_role, an_account
from tests.stack import World
from tools.driving.device import Device

AUTH = "/internal/auth"


def from_an_address(world: World, address: str | None = None) -> Device:
    """Return a device with a given address, or with a new one."""
    client = world.client()
    client._http.headers["X-Forwarded-For"] = address or an_address()
    return client


def an_address() -> str:
    """Return an address that no other test uses."""
    return f"10.{secrets.randbelow(256)}.{secrets.randbelow(256)}.{secrets.randbelow(256)}"


@attrs.define(kw_only=True)
class Enrolled:
    """An operator with a second factor."""

    world: World
    id: str
    email: str
    role_id: str
    client: Device
    secret: bytes
    recovery_codes: list[str]

    def code(self, away: int = 0) -> str:
        """Return the code of the current step, or of the step `away` steps from it."""
        return totp.code_at(self.secret, int(time.time()) // totp.STEP_S + away)

    async def forget_steps(self) -> None:
        """Make the codes of this minute valid again, so that no test waits for the next step."""
        sql = "UPDATE control_center_users SET totp_last_step = NULL WHERE email = $1"
        await self.world.stack.sql(sql, self.email)

    async def password_right(self, client: Device) -> str:
        """Send the right password; return the login token."""
        answer = await login(client, self.email)
        assert set(answer) == {"totp_required", "login_token"}
        assert answer["totp_required"] is True
        return answer["login_token"]

    async def sign_in(self, client: Device | None = None) -> Device:
        """Sign a further device in with password and code."""
        client = client or from_an_address(self.world)
        token = await self.password_right(client)
        await self.forget_steps()
        store_tokens(client, await verify(client, token, code=self.code()))
        return client

    async def step_up(self) -> None:
        """Send a fresh code, which opens five minutes for protected actions."""
        await self.forget_steps()
        assert await self.client.post(f"{AUTH}/step-up", {"code": self.code()}) == {"expires_in": 300}


async def login(client: Device, email: str, password: str = PASSWORD) -> dict[str, Any]:
    """Send e-mail and password."""
    return await client.post(f"{client.addresses.internal}{AUTH}/login", {"email": email, "password": password})


async def verify(client: Device, login_token: str, **code: str) -> dict[str, Any]:
    """Send the second factor."""
    return await client.post(f"{client.addresses.internal}{AUTH}/totp/verify", {"login_token": login_token, **code})


def store_tokens(client: Device, answer: dict[str, Any]) -> None:
    """Store the tokens and the operator of a sign-in answer in the client."""
    client._base, client._refresh_path = client.addresses.internal, f"{AUTH}/refresh"
    client._keep(answer)


async def enrol(client: Device, **more: Any) -> tuple[bytes, list[str]]:
    """Set up the caller's second factor; return its secret and recovery codes."""
    begun = await client.post(f"{AUTH}/totp/begin", {"password": PASSWORD, **more})
    text = begun["secret"]
    secret = base64.b32decode(text + "=" * (-len(text) % 8))
    step = int(time.time()) // totp.STEP_S
    confirmed = await client.post(f"{AUTH}/totp/confirm", {"code": totp.code_at(secret, step)})
    return secret, confirmed["recovery_codes"]


async def an_enrolled_operator(world: World, permissions: dict[str, str]) -> Enrolled:
    """Create an operator with these permissions, sign in, and enrol a second factor."""
    root = await world.operator()
    role = await a_role(root, permissions)
    made = await an_account(root, role["id"])
    client = from_an_address(world)
    store_tokens(client, await login(client, made["email"]))
    secret, codes = await enrol(client)
    return Enrolled(
        world=world, id=made["id"], email=made["email"], role_id=role["id"], client=client, secret=secret,
        recovery_codes=codes,
    )  # fmt: skip
