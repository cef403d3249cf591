"""Repeat the answer to a sign-in whose request ended its own access token.

docs/protocol.md#moving-from-anonymous-to-known is what a client sees of it.
An anonymous customer who signs in gets a new auth session, and the one that they called with ends. If the answer is
lost, the same request with the ended token and the same `Idempotency-Key` gets the same answer for five minutes. Tokens
are not stored: the first refresh token is derived again, from the request and a key of the server.
"""

import hashlib
import hmac
from collections.abc import Iterable

import msgspec

from core.accounts.customers import store as customers
from core.accounts.customers.store import Customer
from core.accounts.logins import tokens
from core.idempotency import store as idempotency
from core.idempotency.rules import SIGN_IN_REPEAT, KeyedRequest
from core.idempotency.run import store_answer
from core.runtime.container import Runtime
from core.security.access import Tokens
from core.storage.transaction import Tx


class Opened(msgspec.Struct):
    """The stored answer: the id of the auth session that the sign-in opened."""

    auth_session_id: str


def secret_of(keyed: KeyedRequest, *, key: bytes) -> bytes:
    """Return the secret of the first refresh token of a keyed sign-in, 32 bytes."""
    text = "\0".join((keyed.user_id, keyed.fingerprint, keyed.key))
    return hmac.new(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).digest()


async def keep(tx: Tx, keyed: KeyedRequest, auth_session_id: str) -> None:
    """Store that this sign-in opened an auth session, unless another request has the key.

    The key's lock comes before all locks of a sign-in (docs/architecture.md#lock-order), so it isn't waited for.
    """
    if await idempotency.try_hold(tx, keyed):
        await store_answer(tx, keyed, Opened(auth_session_id=auth_session_id), http_status=200)


async def find(
    runtime: Runtime, keyed: KeyedRequest | None, secrets: Iterable[bytes]
) -> tuple[Tokens, Customer] | None:
    """Return the answer to the same sign-in again; None if there was none lately, or its tokens have been refreshed.

    `secrets` are what the first refresh token's secret may be.
    """
    if keyed is None:
        return None
    async with runtime.transaction() as tx:
        stored = await idempotency.find(tx, keyed, now=tx.now)
        if stored is None or stored.answer is None or stored.fingerprint != keyed.fingerprint:
            return None
        opened = msgspec.json.decode(stored.answer, type=Opened)
        again = await tokens.first_again(runtime, tx, opened.auth_session_id, within=SIGN_IN_REPEAT, secrets=secrets)
        customer = None if again is None else await customers.get(tx, again[1])
    return None if again is None or customer is None else (again[0], customer)
