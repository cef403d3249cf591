"""Send one HTTP request and check what every answer must have: the headers and the error body (docs/errors.md)."""

import asyncio
import json
import re
from typing import Any

import aiohttp
import attrs
from yarl import URL

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
SECURITY = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
WEBHOOK = "/api/shared/payment/webhooks/gateway"


@attrs.frozen(kw_only=True)
class Answer:
    """One HTTP answer. `seconds` is the time until it was complete."""

    status: int
    headers: Any
    raw: bytes
    seconds: float

    @property
    def body(self) -> Any:
        """Return the body parsed as JSON."""
        return json.loads(self.raw)

    @property
    def code(self) -> str | None:
        """Return the error code, or None if the body is not one of our errors."""
        try:
            return self.body["error"]["code"]
        except (ValueError, KeyError, TypeError):
            return None

    @property
    def said(self) -> tuple[int, str | None]:
        """Return the status and the error code."""
        return self.status, self.code


def check_headers(answer: Answer) -> None:
    """Check the headers that every answer carries."""
    assert REQUEST_ID.fullmatch(answer.headers.get("X-Request-Id", "")), answer
    assert answer.headers.get("X-Server-Time", "").endswith("Z"), answer
    for name, value in SECURITY.items():
        assert answer.headers.get(name) == value, (name, answer)
    policy = answer.headers["Content-Security-Policy"]
    # Only development pages may be shown in a frame, and only in one of the service's own pages.
    frames = "SAMEORIGIN" if "frame-ancestors 'self'" in policy else "DENY"
    assert answer.headers.get("X-Frame-Options") == frames, answer
    assert "Server" not in answer.headers, answer


def check_error(answer: Answer) -> None:
    """Check that the body is an error body and has no further fields."""
    assert answer.status >= 400, answer
    assert len(answer.raw) <= 8_192, answer
    assert answer.headers["Content-Type"].split(";")[0] == "application/json", answer
    body = answer.body
    assert set(body) == {"error"}, answer
    error = body["error"]
    assert {"code", "message"} <= set(error) <= {"code", "message", "details", "retry_after_seconds"}, answer
    assert re.fullmatch(r"[A-Z][A-Z0-9_]+", error["code"]), answer
    assert isinstance(error["message"], str), answer
    assert answer.headers.getall("Content-Language") in (["en"], ["id"]), answer
    assert "Accept-Language" in answer.headers["Vary"], answer
    assert error["message"], answer
    if "retry_after_seconds" in error:
        assert isinstance(error["retry_after_seconds"], int), answer
        assert error["retry_after_seconds"] >= 1, answer
    assert answer.headers.get("Retry-After") == (
        str(error["retry_after_seconds"]) if "retry_after_seconds" in error else None
    ), answer
    if answer.status == 422:
        assert error["details"]["fields"], answer
        assert len(error["details"]["fields"]) <= 20, answer
        assert all(set(field) == {"field", "message"} for field in error["details"]["fields"]), answer


async def ask(
    http: aiohttp.ClientSession,
    url: str,
    method: str = "GET",
    *,
    token: str | None = None,
    headers: dict[str, str] | None = None,
    body: Any = None,
    data: Any = None,
) -> Answer:
    """Send one request, check its answer and return it.

    `body` is sent as JSON. `data` is sent unchanged, with the Content-Type in `headers`.
    """
    sent = {} if token is None else {"Authorization": f"Bearer {token}"}
    if body is not None:
        data = json.dumps(body).encode()
        sent["Content-Type"] = "application/json"
    sent |= headers or {}
    skip = ["Content-Type"] if "Content-Type" not in sent else []
    began = asyncio.get_running_loop().time()
    async with http.request(
        method, URL(url, encoded=True), data=data, headers=sent, skip_auto_headers=skip, allow_redirects=False
    ) as got:
        raw = await got.read()
        answer = Answer(
            status=got.status, headers=got.headers, raw=raw, seconds=asyncio.get_running_loop().time() - began
        )
    check_headers(answer)
    if answer.status >= 400 and method != "HEAD" and WEBHOOK not in url and not url.endswith("/readyz"):
        check_error(answer)
    return answer
