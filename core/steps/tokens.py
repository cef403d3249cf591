"""Open a device's auth session and make its first tokens (docs/product.md#devices)."""

import datetime as dt
from typing import Any

import attrs

from core.base import ids, logs, metrics
from core.base.actor import UserType
from core.logins import push_tokens, refresh
from core.logins import store as logins
from core.logins.access import Tokens
from core.runtime import Runtime
from core.storage.transaction import Tx

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
) -> Tokens:
    """Make a new access token and return it with the refresh token.

    `newcomer`: see `customers.store.is_newcomer`. The access token expires at `ends` at the latest; None sets no such
    limit.
    """
    now, seconds = runtime.now(), runtime.settings.access_token_seconds
    if ends is not None:
        seconds = max(1, min(seconds, int((ends - now).total_seconds())))
    access = runtime.tokens.make(
        user_type=user_type,
        user_id=user_id,
        auth_session_id=auth_session_id,
        now=now,
        seconds=seconds,
        newcomer=newcomer,
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
    )
