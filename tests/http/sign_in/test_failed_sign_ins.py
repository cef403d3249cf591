"""Each failed sign-in writes one log line with the address and a keyed hash of the account.

Refresh tokens and code hashes of earlier versions still work.
"""

import json
import re
import secrets
from typing import Any

import pytest

from core.accounts.logins import otp
from core.security import refresh
from core.security.keys import Keys
from tests.http.sign_in.outside import IdentityServer
from tests.http.sign_in.people import (
    IDENTITY,
    MITRA_VERIFY,
    VERIFY,
    anonymous,
    ask,
    device,
    new_number,
    new_subject,
    raw,
    verify,
    wrong,
)
from tests.stack import World, new_id, refused
from tools.driving.device import Device

pytestmark = pytest.mark.anyio

REFRESH = "/api/shared/auth/refresh"


def secret_of(world: World) -> bytes:
    """Return the service's secret."""
    return world.stack.env["JWT_SECRETS"].partition(":")[2].encode()


def failures(world: World, client: Device) -> list[dict[str, Any]]:
    """Return the failures that were logged for a device, oldest first."""
    address = client._http.headers["X-Forwarded-For"]
    lines = [json.loads(line) for line in world.stack.log("api").splitlines() if '"sign-in failed"' in line]
    return [line for line in lines if line["address"] == address]


async def figure(world: World, way: str, code: str) -> float:
    """Return the metric of failed sign-ins for one way and one code."""
    async with world.client()._http.get(f"http://127.0.0.1:{world.stack.ports['INTERNAL']}/metrics") as answer:
        text = await answer.text()
    found = re.search(rf'^sesi_failed_sign_ins_total{{code="{code}",way="{way}"}} (\S+)$', text, re.MULTILINE)
    return float(found[1]) if found else 0.0


async def test_wrong_code_is_logged_with_address_and_account_hash(world: World) -> None:
    number, client = new_number(), device(world)
    before = await figure(world, "customer code", "OTP_INVALID")
    asked = await ask(client, number)
    code = await world.stack.inbox.code_of(asked["otp_request_id"])
    await refused(verify(client, asked, wrong(code)), 400, "OTP_INVALID")
    await refused(verify(client, {"otp_request_id": new_id()}, "123456", path=MITRA_VERIFY), 400, "OTP_INVALID")
    await verify(client, asked, code)
    await refused(verify(client, asked, code), 400, "OTP_EXPIRED")
    shown = Keys([secret_of(world)]).account_hash(number)
    found = [(line["way"], line["code"], line["account"]) for line in failures(world, client)]
    assert found == [
        ("customer code", "OTP_INVALID", shown),
        ("mitra code", "OTP_INVALID", None),
        ("customer code", "OTP_EXPIRED", shown),
    ]
    assert await figure(world, "customer code", "OTP_INVALID") == before + 1
    assert number not in world.stack.log("api")


async def test_refused_identity_tokens_and_refreshes_are_logged(world: World, provider_a: IdentityServer) -> None:
    client = await anonymous(world)
    bad = provider_a.token(new_subject(), aud="another")
    assert (await raw(client, "POST", IDENTITY["a"], {"identity_token": bad}))[0] == 401
    first = client.refresh_token
    assert (await raw(client, "POST", REFRESH, {"refresh_token": first}))[0] == 200
    await world.stack.sql(
        "UPDATE auth_sessions SET rotated_at = rotated_at - interval '1 minute' WHERE user_id = $1::text::uuid",
        client.user["id"],
    )
    assert (await raw(client, "POST", REFRESH, {"refresh_token": first}))[0] == 401  # a reuse, which revokes
    assert (await raw(client, "POST", REFRESH, {"refresh_token": "x" * 91}))[0] == 401
    identity, reuse, garbage = failures(world, client)
    assert (identity["way"], identity["code"]) == ("identity a", "IDENTITY_TOKEN_INVALID")
    assert (reuse["way"], reuse["code"]) == ("refresh", "REFRESH_INVALID")
    assert reuse["account"] == Keys([secret_of(world)]).account_hash(client.user["id"])
    assert reuse["auth_session_id"] is not None
    assert (garbage["account"], garbage["auth_session_id"]) == (None, None)
    assert str(first) not in world.stack.log("api")


async def test_refresh_token_of_earlier_version_still_works(world: World) -> None:
    client = await anonymous(world)
    (row,) = await world.stack.sql(
        "SELECT id::text FROM auth_sessions WHERE user_id = $1::text::uuid", client.user["id"]
    )
    old = refresh.make(
        key=secret_of(world), auth_session_id=row["id"], generation=4, secret=secrets.token_bytes(refresh.SECRET_BYTES)
    )
    await world.stack.sql(
        "UPDATE auth_sessions SET refresh_token_hash = $2 WHERE id = $1::text::uuid", row["id"], refresh.hash_of(old)
    )
    status, answer, _ = await raw(client, "POST", REFRESH, {"refresh_token": old})
    assert status == 200
    with pytest.raises(refresh.RefreshInvalid):  # the new token is sealed with its own derived key
        refresh.auth_session_of(answer["refresh_token"], keys=[secret_of(world)])
    assert (await raw(client, "POST", REFRESH, {"refresh_token": answer["refresh_token"]}))[0] == 200


async def test_code_hash_of_earlier_version_still_works(world: World) -> None:
    number, client = new_number(), device(world)
    asked = await ask(client, number)
    old = otp.hash_code(key=secret_of(world), otp_request_id=asked["otp_request_id"], code="123456")
    await world.stack.inbox.code_of(asked["otp_request_id"])
    await world.stack.sql(
        "UPDATE otp_requests SET code_hash = $2 WHERE id = $1::text::uuid", asked["otp_request_id"], old
    )
    answer = await client.call("POST", VERIFY, {"otp_request_id": asked["otp_request_id"], "code": "123456"})
    assert answer["customer"]["phone"] == number
