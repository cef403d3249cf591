"""Open a device's auth session and make its first tokens (docs/product.md#devices)."""

import datetime as dt
from collections.abc import Iterable
from typing import Any

import attrs

from core.accounts.logins import push_tokens
from core.accounts.logins import store as logins
from core.base import ids
from core.base.actor import UserType
from core.runtime.container import Runtime
from core.security import refresh
from core.security.access import Tokens
from core.storage.transaction import Tx
from core.telemetry import logs, metrics

log = logs.get("logins")


def lifetime(runtime: Runtime, user_type: UserType) -> dt.timedelta:
    """Return how long a new auth session lasts. Each refresh extends it, except for operators."""
    if user_type is UserType.OPERATOR:
        return dt.timedelta(hours=runtime.settings.operator_refresh_token_hours)
    return dt.timedelta(days=runtime.settings.refresh_token_days)


def end_after_rotation(runtime: Runtime, user_type: UserType, *, ends: dt.datetime, now: dt.datetime) -> dt.datetime:
    """Return when an auth session that ends at `ends` will end after a refresh. An operator's end stays the same."""
    return ends if user_type is UserType.OPERATOR else now + lifetime(runtime, user_type)


def with_access(
    runtime: Runtime,
    *,
    user_type: UserType,
    user_id: str,
    auth_session_id: str,
    refresh_token: str,
    newcomer: bool = False,
    ends: dt.datetime | None = None,
    opened_at: dt.datetime | None = None,
) -> Tokens:
    """Make a new access token and return it with the refresh token.

    `newcomer`: see `customers.store.is_newcomer`. The access token expires at `ends` at the latest; None sets no such
    limit. With `opened_at`, when the auth session began, it is the first one of the auth session.
    """
    now, seconds = opened_at or runtime.now(), runtime.settings.access_token_seconds
    if ends is not None:
        seconds = max(1, min(seconds, int((ends - now).total_seconds())))
    access = runtime.tokens.make(
        user_type=user_type,
        user_id=user_id,
        auth_session_id=auth_session_id,
        now=now,
        seconds=seconds,
        newcomer=newcomer,
        jti=auth_session_id if opened_at is not None else None,
    )
    return Tokens(access_token=access, refresh_token=refresh_token, expires_in=seconds)


@attrs.frozen(kw_only=True)
class Opening:
    """The id of a new auth session and the random part of its first refresh token."""

    auth_session_id: str = attrs.field(factory=ids.new_id)
    secret: bytes = attrs.field(factory=ids.new_secret, repr=False)


async def issue(
    runtime: Runtime,
    tx: Tx,
    *,
    user_type: UserType,
    user_id: str,
    device: dict[str, Any],
    newcomer: bool = False,
    opening: Opening | None = None,
) -> Tokens:
    """Open an auth session for a device and return its tokens."""
    opening = opening or Opening()
    auth_session_id = opening.auth_session_id
    token = refresh.make(
        key=runtime.keys.refresh[0], auth_session_id=auth_session_id, generation=0, secret=opening.secret
    )
    await logins.create_auth_session(
        tx,
        auth_session_id=auth_session_id,
        user_type=user_type.value,
        user_id=user_id,
        refresh_token_hash=refresh.hash_of(token),
        device=device,
        expires_at=tx.now + lifetime(runtime, user_type),
    )
    if user_type is not UserType.OPERATOR and (dropped := await push_tokens.make_room(tx, user_id)):
        tx.count(metrics.LIMITED.labels("push_devices"), dropped)
    log.info("signed in", user_type=user_type.value, user_id=user_id, auth_session_id=auth_session_id)
    return with_access(
        runtime,
        user_type=user_type,
        user_id=user_id,
        auth_session_id=auth_session_id,
        refresh_token=token,
        newcomer=newcomer,
        opened_at=tx.now,
    )


async def first_again(
    runtime: Runtime, tx: Tx, auth_session_id: str, *, within: dt.timedelta, secrets: Iterable[bytes]
) -> tuple[Tokens, str] | None:
    """Return the first tokens of a customer's auth session again, with the time that is left, and the customer's id.

    `secrets` are what the first refresh token's secret may be. None if the auth session began longer ago than `within`,
    has ended, or has refreshed its tokens since, so that its device has had the answer.
    """
    login = await logins.lock_auth_session(tx, auth_session_id)
    if login is None or login.revoked_at is not None or tx.now >= login.created_at + within:
        return None
    firsts = (
        refresh.make(key=seal, auth_session_id=login.id, generation=0, secret=secret)
        for secret in secrets
        for seal in runtime.keys.refresh
    )
    first = next((token for token in firsts if refresh.hash_of(token) == login.refresh_token_hash), None)
    if first is None:
        return None
    issued = with_access(
        runtime,
        user_type=UserType.CUSTOMER,
        user_id=login.user_id,
        auth_session_id=login.id,
        refresh_token=first,
        opened_at=login.created_at,
    )
    left = issued.expires_in - int((tx.now - login.created_at).total_seconds())
    return attrs.evolve(issued, expires_in=max(0, left)), login.user_id
