"""If the application fails without an answer, the listener answers."""

import json
from typing import Any

from litestar import Litestar

from api.edge.gatekeeper import Gatekeeper
from tests.flows.conftest import Harness


class Broken(Litestar):
    """An application that raises an exception."""

    async def __call__(self, *_: Any) -> None:
        raise RuntimeError("a bug")


def test_application_exception_returns_the_error_body_and_headers(harness: Harness) -> None:
    gatekeeper = Gatekeeper(Broken(openapi_config=None), harness.runtime, listener="public", cors=None)
    sent: list[dict[str, Any]] = []
    scope = {
        "type": "http", "method": "GET", "path": "/healthz", "query_string": b"", "client": ("192.0.2.9", 1),
        "headers": [(b"accept-language", b"id"), (b"x-request-id", b"mine")], "state": {},
    }  # fmt: skip

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    harness.run(gatekeeper(scope, receive, send))
    start, body = sent
    headers = dict(start["headers"])
    assert start["status"] == 500
    assert json.loads(body["body"])["error"] == {
        "code": "INTERNAL_ERROR", "message": "Terjadi kesalahan di pihak kami.", "details": {"request_id": "mine"},
    }  # fmt: skip
    assert (headers[b"x-request-id"], headers[b"content-language"], headers[b"vary"]) == (
        b"mine",
        b"id",
        b"Accept-Language",
    )
    assert headers[b"x-server-time"].endswith(b"Z")
