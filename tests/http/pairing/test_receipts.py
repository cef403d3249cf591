"""Receipts over HTTP, and by the command: what parties, operators and anyone with the file can check."""

import asyncio
import hashlib
import json
import pathlib
from typing import Any

import aiohttp
import jwt
import pytest

from core.settings.settings import DEVELOPMENT_RECEIPT_SEED
from tests.http.privacy.steps import finish
from tests.stack import World, new_id, refused
from tools.driving.device import Device
from tools.driving.sesi_client import Refused

pytestmark = pytest.mark.anyio
KEYS = "/.well-known/sesi-receipts.json"


def path_of(session_id: str) -> str:
    return f"/api/shared/chat/sessions/{session_id}/receipt"


async def signed_for(client: Device, session_id: str) -> dict[str, Any]:
    """Return a session's receipt; until it can be signed, the answer is 409."""
    async with asyncio.timeout(20):
        while True:
            try:
                return await client.get(path_of(session_id))
            except Refused as refusal:
                if refusal.code != "RECEIPT_NOT_READY":
                    raise
                await asyncio.sleep(refusal.body["error"]["retry_after_seconds"])


async def verify_compact_form(world: World, party: Device, session_id: str, signed: dict[str, Any]) -> None:
    """Check a party's receipt as a JWS by a JOSE library and the published keys."""
    public, headers = world.stack.addresses.public, {"Authorization": f"Bearer {party.access_token}"}
    async with aiohttp.ClientSession(public) as http:
        async with http.get(KEYS) as answer:
            published = jwt.PyJWKSet.from_dict(await answer.json())
        for accept, media in (
            ("application/jose", "application/jose"),
            ("application/jose, application/json;q=0.5", "application/jose"),
            ("*/*", "application/json"),
            ("application/json, application/jose", "application/json"),
            ("text/html;q=x, ;;,", "application/json"),
        ):
            async with http.get(path_of(session_id), headers={**headers, "Accept": accept}) as answer:
                assert (answer.status, answer.content_type, answer.headers["Vary"]) == (200, media, "Accept")
                body = await answer.text()
            if media == "application/jose":
                head = jwt.get_unverified_header(body)
                assert head == {"alg": "EdDSA", "kid": signed["key_id"]}
                assert jwt.decode(body, published[head["kid"]], algorithms=["EdDSA"]) == signed["receipt"]
            else:
                assert json.loads(body) == signed
        await refused(party.get(path_of(new_id())), 404, "NOT_FOUND")


async def a_completed_session(world: World) -> tuple[Device, Device, str]:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    for client, text in ((customer, "halo"), (mitra, "halo juga 🙂")):
        body = {"client_message_id": new_id(), "content": text}
        await client.post(f"/api/shared/chat/sessions/{session_id}/messages", body)
    await refused(customer.get(path_of(session_id)), 409, "SESSION_NOT_COMPLETED")
    async with world.setting(early_end_customer_enabled=True):
        await finish(customer, mitra, session_id)
    return customer, mitra, session_id


@pytest.mark.slow
async def test_both_parties_and_operators_get_the_same_receipt_and_others_none(world: World) -> None:
    customer, mitra, session_id = await a_completed_session(world)
    signed = await signed_for(customer, session_id)
    operator = await world.operator()
    assert await mitra.get(path_of(session_id)) == signed
    assert await operator.get(f"/internal/sessions/{session_id}/receipt") == signed
    for stranger in (await world.customer(), await world.mitra()):
        await refused(stranger.get(path_of(session_id)), 404, "NOT_FOUND")
    await verify_compact_form(world, mitra, session_id, signed)
    await refused(operator.get(f"/internal/sessions/{new_id()}/receipt"), 404, "NOT_FOUND")
    receipt = signed["receipt"]
    assert set(receipt) == {
        "session_id", "seconds_paid", "seconds_both_could_talk", "seconds_credited", "messages", "digest", "completed_at",
    }  # fmt: skip
    view = await customer.get(f"/api/shared/chat/sessions/{session_id}")
    assert (receipt["session_id"], receipt["messages"], receipt["seconds_paid"]) == (session_id, 2, 720)
    assert receipt["completed_at"] == view["ended_at"]
    items = (await customer.get(f"/api/shared/chat/sessions/{session_id}/messages"))["items"]
    digest = bytes(32)
    for one in items:
        text = f"{one['seq']}:{one['id']}:{hashlib.sha256(one['content'].encode()).hexdigest()}\n"
        digest = hashlib.sha256(digest + text.encode()).digest()
    assert receipt["digest"] == digest.hex()
    done = world.stack.command("session", "digest", session_id)
    assert done.stdout.split() == ["2", receipt["digest"]]
    assert world.stack.command("session", "digest", session_id, "--seq", "3", check=False).returncode == 1
    assert world.stack.command("session", "digest", new_id(), check=False).returncode == 1


async def test_keys_are_public_and_may_be_cached(world: World) -> None:
    async with (
        aiohttp.ClientSession() as http,
        http.get(f"http://127.0.0.1:{world.stack.ports['PUBLIC']}{KEYS}") as answer,
    ):
        assert answer.status == 200
        assert answer.headers["Cache-Control"] == "public, max-age=3600"
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        (key,) = (await answer.json())["keys"]
    assert (key["kty"], key["crv"], key["kid"]) == ("OKP", "Ed25519", "test")
    assert set(key) == {"kty", "crv", "kid", "x"}


@pytest.mark.slow
async def test_command_verifies_a_file_with_keys_from_anywhere_and_refuses_a_changed_one(
    world: World, tmp_path: pathlib.Path
) -> None:
    customer, _, session_id = await a_completed_session(world)
    signed = await signed_for(customer, session_id)
    url = f"http://127.0.0.1:{world.stack.ports['PUBLIC']}{KEYS}"
    file, changed, keys = tmp_path / "receipt.json", tmp_path / "changed.json", tmp_path / "keys.json"
    file.write_text(json.dumps(signed, indent=2))
    changed.write_text(json.dumps({**signed, "receipt": {**signed["receipt"], "seconds_paid": 1}}))
    async with aiohttp.ClientSession() as http, http.get(url) as answer:
        keys.write_bytes(await answer.read())
    offline = {"DATABASE_URL": "postgresql://nowhere.invalid/x", "RECEIPT_SIGNING_KEYS": "other:" + "ab" * 32}

    def verify(*args: Any, **env: str) -> tuple[int, str]:
        done = world.stack.command("receipt", "verify", *map(str, args), check=False, **env)
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    for code, said in (verify(file), verify(file, "--keys", url), verify(file, "--keys", keys, **offline)):
        assert code == 0
        assert "VALID, signed with the key test" in said
        assert f"digest {signed['receipt']['digest']}" in said
    for args, env, why in (
        ([changed], {}, "NOT VALID: the signature does not fit"),
        ([file], offline, "NOT VALID: the key 'test' is not one of the known keys: other"),
        ([file], {"RECEIPT_SIGNING_KEYS": f"test:{DEVELOPMENT_RECEIPT_SEED.hex()}"}, "pass the service's key set with"),
        ([keys], {}, "NOT VALID: this is no receipt"),
        ([file, "--keys", changed], {}, "is no JWK set"),
        ([tmp_path / "missing.json"], {}, "can't be read"),
        ([file, "--keys", "http://127.0.0.1:9/keys"], {}, "save the key set to a file"),
        ([file, "--keys", "http://[::1/keys"], {}, "save the key set to a file"),
        ([file, "--keys", "http://sesi.example/a key set"], {}, "save the key set to a file"),
    ):
        code, said = verify(*args, **env)
        assert (code, why in said) == (1, True), said
    assert world.stack.command("receipt", "verify", check=False).returncode == 2


@pytest.mark.slow
async def test_receipt_is_signed_without_anyone_asking(world: World) -> None:
    customer, _, session_id = await a_completed_session(world)
    signed = await world.until(
        lambda: world.stack.sql("SELECT body FROM session_receipts WHERE session_id = $1", session_id),
        lambda rows: rows[0]["body"] is not None,
    )
    assert json.loads(signed[0]["body"]) == (await customer.get(path_of(session_id)))["receipt"]
