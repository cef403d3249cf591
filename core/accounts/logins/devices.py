"""Refresh tokens, log out, and manage devices and their push tokens (docs/product.md#devices)."""

import attrs

from core.accounts.customers import store as customers
from core.accounts.logins import failed_sign_ins, push_tokens, sign_off, tokens
from core.accounts.logins import store as logins
from core.accounts.logins.failed_sign_ins import NotedAttempt
from core.base.actor import Actor, UserType
from core.base.errors import NotFound, Unauthenticated
from core.base.languages import Language
from core.bus.rate_limit import RateLimited
from core.runtime.container import Runtime
from core.security import refresh
from core.security.access import Tokens
from core.security.refresh import RefreshInvalid, StoredTokens, TokenVerdict
from core.telemetry import metrics


@attrs.frozen(kw_only=True)
class Refreshed:
    """New tokens and the user they belong to."""

    tokens: Tokens
    user_type: UserType
    user_id: str


async def refresh_tokens(
    runtime: Runtime, *, refresh_token: str, operators: bool, ip_address: str, locale: Language | None = None
) -> Refreshed:
    """Rotate a refresh token (docs/protocol.md#refresh).

    A reused token revokes its auth session; that is committed before the refusal. `operators` says that the request
    came over the internal listener; a token of the other listener's users is refused without any effect. `locale` is
    the new language of the device's pushes; None keeps the present one. Raises RefreshInvalid, and RateLimited after
    ten rotations in a minute.
    """
    with failed_sign_ins.noted(runtime, way="refresh", address=ip_address) as attempt:
        return await _refresh(runtime, refresh_token, attempt, operators=operators, locale=locale)


async def _refresh(
    runtime: Runtime, refresh_token: str, attempt: NotedAttempt, *, operators: bool, locale: Language | None
) -> Refreshed:
    keys = runtime.keys.refresh
    auth_session_id = attempt.auth_session_id = refresh.auth_session_of(refresh_token, keys=keys)
    reused = False
    came_at = runtime.now()  # taken before the wait for the lock, so that a retry that arrives in time counts as one
    async with runtime.transaction() as tx:
        found = await logins.lock_auth_session(tx, auth_session_id)
        if found is None:
            raise RefreshInvalid
        attempt.account = found.user_id
        user_type = UserType(found.user_type)
        is_over = found.revoked_at is not None or found.expires_at <= came_at
        if is_over or (user_type is UserType.OPERATOR) != operators:
            raise RefreshInvalid
        held = StoredTokens(
            present_hash=found.refresh_token_hash,
            previous_hash=found.previous_token_hash,
            rotated_at=found.rotated_at,
            used=found.used_tokens,
            generation=found.refresh_generation,
        )
        verdict = refresh.judge(refresh_token, held, now=came_at)
        following = ""
        if verdict is TokenVerdict.STALE:
            raise RefreshInvalid
        if verdict is TokenVerdict.REUSED:
            reused = True
            await sign_off.revoke(tx, auth_session_id=auth_session_id)
        elif verdict is TokenVerdict.RETRY:
            following = refresh.repeated_successor(refresh_token, held, keys=keys)
        else:
            if wait := refresh.wait_before_rotation(held, now=came_at):
                metrics.LIMITED.labels("refresh_rotations").inc()
                raise RateLimited(retry_after_seconds=wait)
            following = refresh.successor(key=keys[0], token=refresh_token)
            await logins.rotate(
                tx,
                auth_session_id,
                before=held.present_hash,
                presented=refresh.hash_of(refresh_token),
                after=refresh.hash_of(following),
                generation=refresh.generation_of(following),
                used=held.used_after_rotation(tx.now, by_newer=verdict is TokenVerdict.NEWER),
                expires_at=tokens.end_after_rotation(runtime, user_type, ends=found.expires_at, now=tx.now),
                locale=locale,
            )
        newcomer = user_type is UserType.CUSTOMER and await customers.is_newcomer(tx, found.user_id)
    if reused:
        raise RefreshInvalid
    issued = tokens.with_access(
        runtime,
        user_type=user_type,
        user_id=found.user_id,
        auth_session_id=auth_session_id,
        refresh_token=following,
        newcomer=newcomer,
        ends=found.expires_at if user_type is UserType.OPERATOR else None,
    )
    return Refreshed(tokens=issued, user_type=user_type, user_id=found.user_id)


async def log_out(runtime: Runtime, actor: Actor) -> None:
    """Revoke the caller's auth session. Within a second its sockets are closed and its access token is refused.

    A mitra without another device goes offline.
    """
    async with runtime.transaction() as tx:
        await sign_off.revoke(tx, auth_session_id=actor.auth_session_id)


async def revoke_device(runtime: Runtime, actor: Actor, *, auth_session_id: str) -> None:
    """Revoke one of the caller's own devices, which may be this one. A mitra without any device left goes offline.

    Raises NotFound for revoked devices and those of other users.
    """
    async with runtime.transaction() as tx:
        found = await logins.lock_auth_session(tx, auth_session_id)
        if found is None or (found.user_type, found.user_id) != (actor.user_type.value, actor.user_id):
            raise NotFound
        if not await sign_off.revoke(tx, auth_session_id=auth_session_id):
            raise NotFound


async def set_push_token(runtime: Runtime, actor: Actor, *, push_token: str | None, locale: Language | None) -> None:
    """Register this device for pushes, or remove it with None. Other devices lose the same token.

    `locale` is the language of the pushes; None keeps the present one. Raises Unauthenticated if the device's auth
    session has been revoked.
    """
    async with runtime.transaction() as tx:
        owners = await push_tokens.move(tx, actor.auth_session_id, push_token, locale=locale)
        if owners is None:
            raise Unauthenticated
        for owner in owners:
            await push_tokens.refresh_push_token(tx, *owner)
