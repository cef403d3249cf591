"""A small server that simulates the payment gateway (invoice style): it keeps invoices, and fails on demand.

`before_create`, `after_create` and `on_look` see each call before it is answered and may replace the answer; `made` holds
the invoices that the server really has.
"""

import base64
import contextlib
import itertools
import json
import threading
import urllib.parse
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import attrs

from tests.http.gateway.simulated_refunds import Reply, SimulatedRefunds, now

SECRET_KEY = "xnd_development_for_the_tests"
AUTHORIZATION = "Basic " + base64.b64encode(f"{SECRET_KEY}:".encode()).decode()
CREATE, FIND, LIST, READ, VOID = "create", "find", "list", "read", "void"
PAID = ("PAID", "SETTLED")


class NoReply(Exception):
    """Close the connection without an answer."""


@attrs.frozen(kw_only=True)
class RecordedCall:
    """A recorded call."""

    kind: str
    about: str  # the external id, or the invoice's id
    body: dict[str, Any]
    headers: dict[str, str]


def _paid_at(invoice: dict[str, Any]) -> str:
    return invoice.get("paid_at") or invoice["updated"]


def error_reply(status: int, code: str) -> Reply:
    """Return an error in the gateway's format."""
    return Reply(status=status, body={"error_code": code, "message": code.lower()})


class SimulatedGateway:
    """Creates, finds, lists, reads and voids invoices. Their times are all in one form, so that texts compare."""

    def __init__(self) -> None:
        self.made: dict[str, dict[str, Any]] = {}
        self.heard: list[RecordedCall] = []
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self.refunds = SimulatedRefunds()
        self.answer_normally()
        gateway = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self._serve("POST")

            def do_GET(self) -> None:
                self._serve("GET")

            def _serve(self, method: str) -> None:
                content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                try:
                    said = gateway._answer(method, self.path, dict(self.headers), content)
                except NoReply:
                    self.close_connection = True
                    return
                body = said.body if isinstance(said.body, bytes) else json.dumps(said.body).encode()
                with contextlib.suppress(OSError):  # the client may have disconnected
                    self.send_response(said.status)
                    for name, value in {"Content-Type": "application/json", **said.headers}.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        # `close` waits for the next poll.
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def environment(self) -> dict[str, str]:
        """Return the settings with which a service uses this server."""
        return {"GATEWAY_ENABLED": "true", "GATEWAY_BASE_URL": self.url, "GATEWAY_SECRET_KEY": SECRET_KEY}

    def answer_normally(self) -> None:
        """Answer all calls normally again."""
        # nothing is created if it returns an answer or raises
        self.before_create: Callable[[int], Reply | None] = lambda _: None
        self.after_create: Callable[[int, dict[str, Any]], Reply | None] = lambda _, __: None
        self.on_look: Callable[[RecordedCall], Reply | None] = lambda _: None
        self.refunds.answer_normally()
        self._creates = 0
        self.most_listed = 100  # invoices in a page of the list

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()

    # -- what a test does and reads

    def make(self, external_id: str, amount: int, **more: Any) -> dict[str, Any]:
        """Create an invoice; the first invoice of an external id gets its id from it."""
        with self._lock:
            number = next(self._numbers)
            name = f"inv-{external_id}"
            name = name if name not in self.made else f"{name}-{number}"
            self.made[name] = {
                "id": name,
                "external_id": external_id,
                "status": "PENDING",
                "amount": amount,
                "currency": "IDR",
                "invoice_url": f"https://pay.example.test/{name}",
                "expiry_date": "2027-01-01T00:00:00.000Z",
                "created": now(),
                "updated": now(),
                **more,
            }
            return self.made[name]

    def of(self, external_id: str) -> list[dict[str, Any]]:
        """Return the invoices of an external id, oldest first."""
        return [invoice for invoice in list(self.made.values()) if invoice["external_id"] == external_id]

    def pay(self, external_id: str, /, **more: Any) -> dict[str, Any]:
        """Pay the newest invoice; no webhook is sent."""
        invoice = self.of(external_id)[-1]
        invoice.update({"status": "PAID", "paid_amount": invoice["amount"], "updated": now(), **more})
        return invoice

    def calls(self, kind: str, about: str | None = None) -> list[RecordedCall]:
        """Return the calls of a kind."""
        return [call for call in list(self.heard) if call.kind == kind and about in (None, call.about)]

    # -- HTTP

    def _answer(self, method: str, path: str, headers: dict[str, str], content: bytes) -> Reply:
        if headers.get("Authorization") != AUTHORIZATION:
            return error_reply(401, "INVALID_API_KEY")
        where, _, query = path.partition("?")
        if where.startswith("/refunds"):
            return self.refunds.answer(method, where, query, headers, content)
        if (method, where) == ("POST", "/v2/invoices"):
            return self._create(headers, json.loads(content))
        if (method, where) == ("GET", "/v2/invoices"):
            asked = {name: value for name, (value,) in urllib.parse.parse_qs(query).items()}
            if "external_id" not in asked:
                return self._look(LIST, query, headers) or Reply(status=200, body=self._page(asked))
            external_id = asked["external_id"]
            return self._look(FIND, external_id, headers) or Reply(status=200, body=self.of(external_id))
        name = where.removeprefix("/v2/invoices/").removeprefix("/invoices/").removesuffix("/expire!")
        said = self._look(READ if method == "GET" else VOID, name, headers)
        if said is not None:
            return said
        if name not in self.made:
            return error_reply(404, "INVOICE_NOT_FOUND_ERROR")
        if method == "POST":
            if self.made[name]["status"] != "PENDING":
                return error_reply(400, "INVALID_INVOICE_STATUS_ERROR")
            self.made[name].update({"status": "EXPIRED", "updated": now()})
        return Reply(status=200, body=self.made[name])

    def _page(self, asked: dict[str, str]) -> list[dict[str, Any]]:
        """Return a page of the list, newest first, that follows the invoice `last_invoice`."""
        found = sorted(self.made.values(), key=lambda invoice: invoice["created"], reverse=True)
        if "created_after" in asked:
            found = [one for one in found if one["created"] > asked["created_after"]]
        if "paid_after" in asked:
            found = [one for one in found if one["status"] in PAID and _paid_at(one) > asked["paid_after"]]
        if "last_invoice" in asked:
            found = found[[one["id"] for one in found].index(asked["last_invoice"]) + 1 :]
        return found[: min(int(asked.get("limit", "10")), self.most_listed)]

    def _look(self, kind: str, about: str, headers: dict[str, str]) -> Reply | None:
        heard = RecordedCall(kind=kind, about=about, body={}, headers=headers)
        self.heard.append(heard)
        return self.on_look(heard)

    def _create(self, headers: dict[str, str], body: dict[str, Any]) -> Reply:
        with self._lock:
            self._creates += 1
            nth = self._creates
            self.heard.append(RecordedCall(kind=CREATE, about=body["external_id"], body=body, headers=headers))
        said = self.before_create(nth)
        if said is not None:
            return said
        invoice = self.make(body["external_id"], body["amount"], metadata=body["metadata"])
        return self.after_create(nth, invoice) or Reply(status=200, body=invoice)
