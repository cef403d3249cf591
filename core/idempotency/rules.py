"""Idempotency keys: a client's key for a request that must not happen twice (docs/protocol.md#idempotency)."""

import datetime as dt
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import attrs

from core.base.errors import DomainError, Repeat
from core.base.languages import Text

KEEP = dt.timedelta(hours=24)  # service time for which the first answer is repeated
SIGN_IN_REPEAT = dt.timedelta(minutes=5)  # the same for a sign-in that ends the token of the request
WAIT_S = 5.0  # real seconds that a repeat waits for the first request to end
CLAIM_S = 20.0  # real seconds after which a claim without an answer belongs to a dead process
MAX_KEY = 255


class IdempotencyMismatch(DomainError):
    """The `Idempotency-Key` was used with another body."""

    code = "IDEMPOTENCY_MISMATCH"
    message = Text(
        en="This Idempotency-Key was already used with a different body.",
        id="Idempotency-Key ini sudah dipakai dengan isi yang lain.",
    )
    advice = "Make a new key for each new request. This is a mistake in the client."


class IdempotencyInFlight(DomainError):
    """The first request with this `Idempotency-Key` is still running after 5 s."""

    code = "IDEMPOTENCY_IN_FLIGHT"
    message = Text(
        en="The first request with this Idempotency-Key is still in progress.",
        id="Permintaan pertama dengan Idempotency-Key ini masih diproses.",
    )
    repeat = Repeat.YES
    advice = "Wait a moment and repeat it with the same key."


@attrs.frozen(kw_only=True)
class KeyedRequest:
    """A request with an idempotency key; `fingerprint` is a hash of its operation and body."""

    user_id: str
    key: str
    fingerprint: str


def keyed_request(*, user_id: str, key: str, operation: str, body: Mapping[str, Any]) -> KeyedRequest:
    """Return an idempotent request. Spaces and the order of fields in the body don't change its fingerprint."""
    text = json.dumps([operation, body], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return KeyedRequest(
        user_id=user_id, key=key, fingerprint=hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    )
