"""Replace what is new in each recording: ids, times, tokens and hashes."""

import datetime as dt
import math
import re
from typing import Any

from tests.vectors.names import USERS

BEGINS_AT = dt.datetime(2026, 11, 21, 6, 30, tzinfo=dt.UTC)
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
FIXED: dict[str, Any] = {
    "access_token": "A2",
    "refresh_token": "R2",
    "gateway_invoice_url": "https://pay.example.test/019aa4b6",
    "epoch": "86d9a77de846a836",
    "digest": None,  # the digest of other messages than those of a vector
    "request_id": "01HZX3J9M7Q8W2",
    "retry_after_seconds": 1,
    "added_seconds": 90,
}


class Renaming:
    """The fixed values of one recording."""

    def __init__(self, *, customer: str, mitra: str, session: str, phone: str) -> None:
        self._ids = {customer: USERS["customer"], mitra: USERS["mitra"], session: "$s"}
        self._phone = phone

    def apply(self, value: dict[str, Any]) -> dict[str, Any]:
        """Return a frame or a body with fixed values; its other ids are numbered, and `ref` is left out.

        A past time becomes the beginning of a vector; a future one is rounded up to whole minutes after that.
        """
        others: dict[str, str] = {}
        return self._any({key: item for key, item in value.items() if key != "ref"}, others, dt.datetime.now(dt.UTC))

    def _any(self, value: Any, others: dict[str, str], now: dt.datetime) -> Any:
        if isinstance(value, dict):
            return {
                key: FIXED[key] if item is not None and key in FIXED else self._any(item, others, now)
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [self._any(item, others, now) for item in value]
        return self._text(value, others, now) if isinstance(value, str) else value

    def _text(self, value: str, others: dict[str, str], now: dt.datetime) -> str:
        if UUID.fullmatch(value):
            number = len(others) + 1
            return self._ids.get(value) or others.setdefault(value, f"019aa4b6-5f00-7000-8000-{number:012x}")
        if TIME.fullmatch(value):
            ahead_s = (dt.datetime.fromisoformat(value) - now).total_seconds()
            fixed = BEGINS_AT + dt.timedelta(minutes=max(0, math.ceil(ahead_s / 60)))
            return fixed.isoformat().replace("+00:00", "Z")
        return "+6281200000001" if value == self._phone else value
