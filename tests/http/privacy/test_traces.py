"""After an erasure no table, log or file has any of the customer's personal data: markers planted everywhere are gone.

The markers are planted through the interfaces, and looked for in a dump of all tables.
"""

import base64
import json
import pathlib
import secrets

import pytest

from core.providers.webhook_sink import WebhookSink
from core.settings.environment import read
from tests.http.privacy.steps import completed, erase, finish, money_of, phone_customer, say
from tests.http.sign_in.outside import IdentityServer
from tests.http.sign_in.people import anonymous, by_identity, by_phone, device, new_number
from tests.stack import CALLBACK_TOKEN, Stack, World, new_id, payment_call
from tests.verdicts import check_books
from tools.driving.device import Device

pytestmark = pytest.mark.anyio
TABLES = """SELECT relname::text AS name FROM pg_class
  WHERE relkind IN ('r', 'p') AND NOT relispartition AND relnamespace = 'public'::regnamespace ORDER BY 1"""
PROCESSES = ("api", "realtime", "jobs")


class Markers:
    """Unique words, by the name of the place in which they are planted."""

    def __init__(self) -> None:
        self.words: dict[str, str] = {}

    def __call__(self, place: str) -> str:
        return self.words.setdefault(place, f"zq{secrets.token_hex(6)}")

    def found_in(self, text: str) -> set[str]:
        """Return the places whose words are in a text, plain, in hex as PostgreSQL shows bytes, or in base64."""
        lower = text.lower()
        return {place for place, word in self.words.items() if word.lower() in lower or word.encode().hex() in lower}


async def dump(stack: Stack) -> dict[str, str]:
    """Return table -> all of its rows as text."""
    return {
        row["name"]: "\n".join(line["t"] for line in await stack.sql(f'SELECT t::text AS t FROM "{row["name"]}" AS t'))
        for row in await stack.sql(TABLES)
    }


async def places(stack: Stack, markers: Markers) -> dict[str, set[str]]:
    """Return table or process -> the markers that it still has."""
    texts = {**await dump(stack), **{f"log of {name}": stack.log(name) for name in PROCESSES}}
    return {name: found for name, text in texts.items() if (found := markers.found_in(text))}


async def talk(world: World, customer: Device, mitra: Device, markers: Markers) -> None:
    """Pay for a session and talk, with markers in everything that people write and the gateway sends."""
    wish = {"duration_minutes": 12, "mode": "chat", "topics": [markers("topic")]}
    payment = await customer.call(
        "POST", "/api/client/payment/requests", wish, headers={"Idempotency-Key": markers("idempotency key")}
    )
    status, _ = await world.webhook(
        payment, payer_email=f"{markers('payer e-mail')}@example.test", customer={"given_names": markers("payer name")}
    )
    assert status == 200
    found = await world.until(lambda: mitra.get("/api/mitra/chat-requests"), lambda seen: seen["items"])
    session_id = (await mitra.post(f"/api/mitra/chat-requests/{found['items'][0]['session_id']}/accept"))["id"]
    for client, side in ((customer, "customer"), (mitra, "mitra")):
        await say(client, session_id, markers(f"message of the {side}"), {"note": markers(f"metadata of the {side}")})
    sockets = [await one.open("chat", ack=False) for one in (customer, mitra)]
    await finish(customer, mitra, session_id, markers("goodbye of the customer"), markers("goodbye of the mitra"))
    for socket in sockets:
        await socket.close()


async def complain(world: World, customer: Device, mitra: Device, markers: Markers) -> None:
    """Let both parties report a session and the customer block the mitra; one report is resolved, the account blocked."""
    session_id = (await customer.get("/api/client/chat/history"))["items"][0]["last_session_id"]
    path = f"/api/shared/chat/sessions/{session_id}"
    for client, side in ((customer, "customer"), (mitra, "mitra")):
        report = await client.post(f"{path}/report", {"reason": "rude", "message": markers(f"report of the {side}")})
    await customer.post(f"{path}/block")
    operator = await world.operator()
    done = {"resolution": "warned", "note": markers("note about a report")}
    await operator.call("PATCH", f"/internal/reports/{report['id']}", done)
    block = {"reason": markers("reason of a block")}
    await operator.post(f"/internal/customers/{customer.user['id']}/block", block)


async def operators_reasons(world: World, customer: Device, mitra: Device, markers: Markers) -> None:
    """Let an operator write a marker into the audit log about a session of the customer."""
    session_id = await world.session(customer, mitra)
    operator = await world.operator()
    await operator.post(f"/internal/sessions/{session_id}/end", {"reason": markers("reason of an operator")})
    await mitra.post(f"/api/shared/chat/sessions/{session_id}/closure", {"message": "dadah"})
    await customer.post(f"/api/shared/chat/sessions/{session_id}/closure", {"message": markers("second goodbye")})


def to_file(stack: Stack, files: pathlib.Path, markers: Markers, request_id: str) -> tuple[pathlib.Path, WebhookSink]:
    """Write a closed fallback file with a call about a request and one about no request."""
    sink, day = WebhookSink(read(stack.env)), "2026-01-02"
    path = files / f"kept-{day}.jsonl"
    lines = []
    for name, external in (("payer in the file", request_id), ("payer of another", new_id())):
        call = payment_call({"payment_request_id": external, "amount": 1000}, payer_email=markers(name))
        body = base64.b64encode(json.dumps(call).encode()).decode()
        lines.append(sink.sealed({"received_at": f"{day}T00:00:00Z", "raw_body": body, "external_id": external}))
    path.write_bytes(b"".join(lines) + b"not a line\n")
    return path, sink


def bodies(path: pathlib.Path) -> str:
    """Return the bodies of a fallback file."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines() if line.startswith(b"{")]
    return "\n".join(base64.b64decode(line["raw_body"]).decode() for line in lines)


async def test_no_marker_of_a_customer_is_left(world: World, files: pathlib.Path) -> None:
    markers, number, mitra = Markers(), new_number(), await world.mitra()
    markers.words["phone"] = number
    headers = {"User-Agent": markers("user agent"), "X-Platform": markers("platform"), "X-App-Version": markers("app")}
    customer = await phone_customer(world, number, name=markers("name"), **headers)
    joining = await anonymous(world, markers("name of a joined customer"))
    joining._keep(await by_phone(world, joining, number))
    await customer.call("PUT", "/api/shared/push-token", {"push_token": markers("push token")})
    await talk(world, customer, mitra, markers)
    await operators_reasons(world, customer, mitra, markers)
    await world.request(customer, topics=[markers("topic of a pending request")])
    customer_id = customer.user["id"]
    await complain(world, customer, mitra, markers)
    (request,) = await world.stack.sql(
        "SELECT id::text FROM payment_requests WHERE customer_id = $1 ORDER BY id LIMIT 1", customer_id
    )
    path, sink = to_file(world.stack, files, markers, request["id"])
    before = await places(world.stack, markers)
    planted = set().union(*before.values())
    assert planted == markers.words.keys() - {"payer in the file", "payer of another"}
    assert not any(name.startswith("log of") for name in before)
    money = [row for row in await money_of(world, customer_id) if "abandoned" not in row and "pending" not in row]

    await erase(world, customer, number)
    await completed(world, customer_id)
    assert await places(world.stack, markers) == {}
    assert await world.stack.sql("SELECT 1 FROM blocks WHERE customer_id = $1", customer_id) == []
    assert [row for row in await money_of(world, customer_id) if "abandoned" not in row] == money
    check_books(await world.audit())

    world.stack.restart("api")  # it looks at the files when it starts
    await world.until(_later(lambda: markers.found_in(bodies(path))), lambda found: found == {"payer of another"})
    lines = path.read_bytes().splitlines()
    assert [sink.is_sealed(line) for line in lines] == [True, True, False]
    assert lines[2] == b"not a line"
    assert CALLBACK_TOKEN not in path.read_text()


def _later(call: object) -> object:
    async def look() -> object:
        return call()  # type: ignore[operator]

    return look


async def test_no_marker_of_an_identity_is_left(world: World, provider_a: IdentityServer) -> None:
    markers = Markers()
    subject = markers("subject")
    customer = device(world)
    answer = await by_identity(
        customer, provider_a, subject, email=f"{markers('e-mail')}@example.test", email_verified=True
    )
    customer._keep(answer)
    customer_id = customer.user["id"]
    await world.stack.sql("UPDATE customers SET legacy_uid = $2 WHERE id = $1", customer_id, markers("old id"))
    assert set().union(*(await places(world.stack, markers)).values()) == markers.words.keys()
    await customer.post("/api/client/auth/me/erase", {"provider": "a", "identity_token": provider_a.token(subject)})
    await completed(world, customer_id)
    assert await places(world.stack, markers) == {}
