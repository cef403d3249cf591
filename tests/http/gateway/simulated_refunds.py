"""The refunds of the simulated gateway: one for each idempotency key, as the real one makes them.

`before_refund` and `after_refund` see each call and may replace the answer; `made` holds the refunds that the gateway
really has.
"""

import datetime as dt
import itertools
import json
import threading
import urllib.parse
from collections.abc import Callable
from typing import Any

import attrs


def now() -> str:
    """Return the time as the gateway writes it."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


@attrs.frozen(kw_only=True)
class Reply:
    """An answer; `body` is sent as JSON, or as it is if it is bytes."""

    status: int
    body: Any = attrs.field(factory=dict)
    headers: dict[str, str] = attrs.field(factory=dict)


class SimulatedRefunds:
    """Makes, finds and reads refunds. They are pending until `settle`."""

    def __init__(self) -> None:
        self.made: dict[str, dict[str, Any]] = {}
        self.asked: list[dict[str, Any]] = []  # the bodies of all calls that would make one, with their keys
        self.looks = 0
        self.most_listed, self.newest_first = 100, True
        self._keys: dict[str, str] = {}
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self.answer_normally()

    def answer_normally(self) -> None:
        """Answer all calls normally again."""
        # nothing is made if it returns an answer or raises
        self.before_refund: Callable[[dict[str, Any]], Reply | None] = lambda _: None
        self.after_refund: Callable[[dict[str, Any]], Reply | None] = lambda _: None
        self.on_refund_look: Callable[[str], Reply | None] = lambda _: None

    def of(self, reference: str) -> list[dict[str, Any]]:
        """Return the refunds with a reference, oldest first."""
        return [one for one in list(self.made.values()) if one["reference_id"] == reference]

    def settle(self, reference: str, status: str = "SUCCEEDED", **more: Any) -> dict[str, Any]:
        """Decide about the refund with a reference; return the call that the gateway makes then."""
        (refund,) = self.of(reference)
        refund.update({"status": status, "updated": now(), **more})
        return self.call(refund)

    @staticmethod
    def call(refund: dict[str, Any], **more: Any) -> dict[str, Any]:
        """Return the gateway's call about a refund."""
        data = {**refund, **more}
        event = {"SUCCEEDED": "refund.succeeded", "FAILED": "refund.failed"}.get(data["status"], "refund.pending")
        return {"event": event, "business_id": "b-1", "created": "2026-11-26T00:00:00Z", "data": data}

    def answer(self, method: str, where: str, query: str, headers: dict[str, str], content: bytes) -> Reply:
        """Answer a call below /refunds."""
        if method == "POST":
            return self._make({name.lower(): value for name, value in headers.items()}, json.loads(content))
        self.looks += 1
        name = urllib.parse.unquote(where.removeprefix("/refunds").removeprefix("/"))
        said = self.on_refund_look(name or query)
        if said is not None:
            return said
        if name:
            found = self.made.get(name)
            return Reply(status=200, body=found) if found else _refusal(404, "DATA_NOT_FOUND")
        asked = {name: value for name, (value,) in urllib.parse.parse_qs(query).items()}
        if "invoice_id" not in asked:
            return Reply(status=200, body=self._page(asked))
        listed = [one for one in list(self.made.values()) if one["invoice_id"] == asked["invoice_id"]]
        return Reply(status=200, body={"data": listed, "has_more": False})

    def _page(self, asked: dict[str, str]) -> dict[str, Any]:
        """Return a page of the list of all refunds, newest first, that follows the refund `after_id`."""
        found = sorted(self.made.values(), key=lambda refund: refund["created"], reverse=self.newest_first)
        if "after_id" in asked:
            found = found[[one["id"] for one in found].index(asked["after_id"]) + 1 :]
        page = found[: min(int(asked["limit"]), self.most_listed)]
        return {"data": page, "has_more": len(page) < len(found)}

    def _make(self, headers: dict[str, str], body: dict[str, Any]) -> Reply:
        key = headers["idempotency-key"]
        self.asked.append({**body, "key": key})
        said = self.before_refund(body)
        if said is not None:
            return said
        with self._lock:
            if key not in self._keys:
                refund = {**body, "id": f"rfd-{next(self._numbers)}-{key}", "status": "PENDING", "failure_code": None}
                refund |= {"created": now(), "updated": now()}
                self._keys[key] = refund["id"]
                self.made[refund["id"]] = refund
        refund = self.made[self._keys[key]]
        return self.after_refund(refund) or Reply(status=200, body=refund)


def _refusal(status: int, code: str) -> Reply:
    return Reply(status=status, body={"error_code": code, "message": code.lower()})
