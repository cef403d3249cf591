"""Plain GET routes give the same answers without the framework's layers as with them."""

import json
import warnings
from collections.abc import MutableMapping
from typing import Any

import pytest
from litestar import Litestar

from api import apps
from api.edge.gatekeeper import Gatekeeper
from api.edge.plain_reads import PlainReads
from core.base import ids
from core.base.actor import Actor
from core.pairing import presence
from core.sessions.absences.signs_of_life import SignsOfLife
from tests.flows.conftest import Harness

pytestmark = pytest.mark.slow

CHANGING = {"now", "server_time", "generated_at", "as_of", "read_at", "at"}


def gatekeeper(harness: Harness, listener: str) -> Gatekeeper:
    """Return the application of a listener."""
    with warnings.catch_warnings(action="ignore"):  # Litestar's deprecation warnings
        if listener == "public":
            return apps.public_app(harness.runtime, SignsOfLife(harness.runtime))
        return apps.internal_app(harness.runtime)


async def answer(app: Any, path: str, headers: dict[str, str]) -> tuple[Any, ...]:
    """Return the status, the headers, the body and the noted route of a GET."""
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    path, _, query = path.partition("?")
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope: dict[str, Any] = {
        "type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "root_path": "", "headers": pairs,
        "query_string": query.encode(), "client": ("127.0.0.1", 9), "scheme": "http", "http_version": "1.1",
        "server": ("127.0.0.1", 8000), "state": {"request_id": "the-request", "body_size": 0},
    }  # fmt: skip
    await app(scope, receive, send)
    body = b"".join(message["body"] for message in sent[1:])
    noted = {name: value for name, value in scope["state"].items() if not name.startswith("_ls")}
    return sent[0]["status"], sent[0]["headers"], body, scope.get("path_template"), noted


def token(harness: Harness, actor: Actor) -> str:
    """Return an access token of a user."""
    runtime = harness.runtime
    return runtime.tokens.make(
        user_type=actor.user_type, user_id=actor.user_id, auth_session_id=actor.auth_session_id, now=runtime.now(), seconds=900
    )  # fmt: skip


def steady(body: bytes) -> Any:
    """Return a body without the fields that say when it was read."""
    value = json.loads(body)
    return {k: v for k, v in value.items() if k not in CHANGING} if isinstance(value, dict) else value


@pytest.mark.parametrize("listener", ["public", "internal"])
def test_plain_reads_answer_like_the_framework(harness: Harness, listener: str) -> None:
    async def play() -> None:
        made = gatekeeper(harness, listener)
        framework: Any = made._app
        assert isinstance(framework, Litestar)
        taken = set()

        class Noting(PlainReads):
            async def _content(self, handler: Any, request: Any) -> bytes:
                taken.add(handler)
                return await super()._content(handler, request)

        plain = Noting(framework)
        customer, mitra, operator = await harness.customer(), await harness.mitra(), await harness.operator()
        await presence.go_online(harness.runtime, mitra)
        session_id = await harness.start_session(customer, mitra)
        paid = await harness.runtime.db.fetchval(
            "SELECT payment_request_id::text FROM chat_sessions WHERE id = $1", session_id
        )
        known = {
            "session_id": session_id, "request_id": paid, "customer_id": customer.user_id, "mitra_id": mitra.user_id,
            "failure_id": ids.new_id(), "report_id": ids.new_id(), "simulation_id": ids.new_id(), "key": "require_mitra_ping",
            "log_id": await harness.runtime.db.fetchval(
                "SELECT id::text FROM webhook_logs LIMIT 1"),
        }  # fmt: skip
        people = [{"authorization": f"Bearer {token(harness, one)}"} for one in (customer, mitra, operator)]
        paths = sorted({path for handler in plain._arguments for path in handler.paths})
        assert len(plain._arguments) >= 15
        answers = 0
        for path in paths:
            for values in (known, dict.fromkeys(known, ids.new_id()), dict.fromkeys(known, "not-an-id")):
                at = "/" + "/".join(
                    values[part[1:-1].split(":")[0]] if part.startswith("{") else part for part in path[1:].split("/")
                )
                for headers in (*people, {}, {"authorization": "Bearer x.y.z", "accept-language": "id"}):
                    for form in ("{}", "{}/", "/{}", "{}?limit=x"):
                        asked = form.format(at)
                        theirs = await answer(framework, asked, {"host": "a.example", **headers})
                        ours = await answer(plain, asked, {"host": "a.example", **headers})
                        if ours[2] != theirs[2]:
                            assert (ours[0], steady(ours[2])) == (theirs[0], steady(theirs[2])), asked
                            assert [name for name, _ in ours[1]] == [name for name, _ in theirs[1]]
                            assert ours[3:] == theirs[3:]
                        else:
                            assert ours == theirs, asked
                        answers += ours[0] == 200
        assert answers > 3 * len(paths)
        assert taken == plain._arguments.keys()

    harness.run(play())


@pytest.mark.parametrize("headers", [{"host": "a b"}, {"host": "a.example", "origin": "https://b.example"}, {}])
@pytest.mark.parametrize("path", ["/api/client/mitras/availability", "/api/nothing", "/healthz"])
def test_requests_with_unusual_headers_are_answered_by_the_framework(
    harness: Harness, headers: dict[str, str], path: str
) -> None:
    async def play() -> None:
        framework: Any = gatekeeper(harness, "public")._app
        assert await answer(PlainReads(framework), path, headers) == await answer(framework, path, headers)

    harness.run(play())


def test_unexpected_error_of_a_plain_read_is_answered_like_the_frameworks(harness: Harness) -> None:
    async def play() -> None:
        framework: Any = gatekeeper(harness, "public")._app
        customer = await harness.customer()
        headers = {"authorization": f"Bearer {token(harness, customer)}"}
        db, harness.runtime.db = harness.runtime.db, None  # type: ignore[assignment]
        try:
            path = "/api/client/onboarding-state"
            ours, theirs = [await answer(app, path, headers) for app in (PlainReads(framework), framework)]
        finally:
            harness.runtime.db = db
        assert ours == theirs
        assert ours[0] == 500

    harness.run(play())
