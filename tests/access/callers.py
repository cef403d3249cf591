"""Callers for the access tests: valid users of each kind, operators with any permissions, and invalid tokens."""

import base64
import hashlib
import hmac
import json
import time
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from core.base import ids
from tests.stack import EMAIL, PASSWORD, Stack, World
from tools.driving.device import Device

# An operator with the administrator's password hash and a separate role.
ADD_ROLE = "INSERT INTO roles (id, name, permissions) VALUES ($1::uuid, $2, $3::text::jsonb)"
ADD_OPERATOR = """INSERT INTO control_center_users (id, email, display_name, role_id, password_hash)
  SELECT $1::uuid, $2, 'Sari', $3::uuid, password_hash FROM control_center_users WHERE email = $4"""

RENEWED_S = 300  # before the end of an access token


@cache
def _stranger() -> Any:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _sealed(header: dict[str, Any], claims: dict[str, Any], key: bytes) -> str:
    """Return a JWT with this header, signed with HMAC-SHA256 whatever algorithm the header names."""
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in (header, claims)]
    seal = hmac.new(key, ".".join(parts).encode(), hashlib.sha256).digest()
    return ".".join([*parts, base64.urlsafe_b64encode(seal).decode().rstrip("=")])


def bad_tokens(stack: Stack, good: str) -> dict[str, str]:
    """Return invalid variants of the valid token `good`, by what is wrong with them."""
    kid, secret = stack.env["JWT_SECRETS"].split(":")
    claims = jwt.decode(good, options={"verify_signature": False})
    head, payload, seal = good.split(".")
    other = "internal" if claims["aud"] == "public" else "public"
    public_key = _stranger().public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )  # fmt: skip
    header = {"alg": "HS256", "typ": "JWT", "kid": kid}

    def signed(key: Any = secret, algorithm: str = "HS256", headers: Any = None, **changed: Any) -> str:
        return jwt.encode({**claims, **changed}, key, algorithm=algorithm, headers=headers or {"kid": kid})

    return {
        "garbage": "garbage",
        "three words": "a.b.c",
        "expired": signed(iat=int(time.time()) - 10**8, exp=int(time.time()) - 10**8 + 900),
        "ends at once": signed(exp=claims["iat"]),
        "forged": signed("x" * 64),
        "changed": f"{head}.{signed(sub=ids.new_id()).split('.')[1]}.{seal}",
        "unsigned": f"{head}.{payload}.",
        "alg none": signed(None, "none"),
        "alg none, signed": _sealed({**header, "alg": "none"}, claims, secret.encode()),
        "RS256": signed(_stranger(), "RS256"),
        "RS256 over our secret": _sealed({**header, "alg": "RS256"}, claims, secret.encode()),
        "HS256 over a public key": _sealed(header, claims, public_key),
        "HS512": signed(algorithm="HS512"),
        "unknown kid": signed(headers={"kid": "another"}),
        "no kid": signed(headers={"typ": "JWT"}),
        "a path as kid": signed(headers={"kid": "../../dev/null"}),
        "another audience": signed(aud=other),
        "no audience": jwt.encode({k: v for k, v in claims.items() if k != "aud"}, secret, headers={"kid": kid}),
        "unknown type": signed(typ="administrator"),
    }


async def valid_token(client: Device) -> str:
    """Return the client's access token, renewed before it expires: some modules take longer than it lives."""
    assert client.access_token is not None
    if jwt.decode(client.access_token, options={"verify_signature": False})["exp"] < time.time() + RENEWED_S:
        await client.renew(client.access_token)
    return client.access_token


async def signed_out_token(client: Device, logout: str) -> str:
    """Sign the client out and return its access token, which has not expired yet."""
    token = client.access_token
    assert token is not None
    await client.post(logout)
    return token


class OperatorAccount:
    """An operator account whose permissions a test sets."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._role_id = ids.new_id()
        self.operator_id = ids.new_id()
        self.client = world.client()

    async def open(self) -> "OperatorAccount":
        """Create the operator, sign in, and return self."""
        email = f"{self.operator_id}@example.test"
        await self._world.stack.sql(ADD_ROLE, self._role_id, f"role {self._role_id}", "{}")
        await self._world.stack.sql(ADD_OPERATOR, self.operator_id, email, self._role_id, EMAIL)
        await self.client.sign_in_as_operator(email, PASSWORD)
        return self

    async def may(self, permissions: dict[str, str]) -> str:
        """Give the operator exactly these permissions (area -> level) and return their access token."""
        sql = "UPDATE roles SET permissions = $2::text::jsonb WHERE id = $1::uuid"
        await self._world.stack.sql(sql, self._role_id, json.dumps(permissions))
        return await valid_token(self.client)

    async def disable(self, disabled: bool) -> None:
        """Disable or enable the operator directly in the database."""
        sql = "UPDATE control_center_users SET disabled = $2 WHERE id = $1::uuid"
        await self._world.stack.sql(sql, self.operator_id, disabled)
