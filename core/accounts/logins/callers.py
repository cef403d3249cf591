"""Who a token's caller is, and what they must have done first."""

import datetime as dt
import functools

from core.accounts.customers import store as customers
from core.accounts.logins import store as logins
from core.accounts.operators import store as operators
from core.accounts.operators.store import Operator
from core.accounts.operators.totp import TotpRequired
from core.base.actor import Actor, UserType
from core.base.batch_loader import PAUSE_S, BatchLoader
from core.base.errors import DomainError, Forbidden, Kind, Repeat, Unauthenticated
from core.base.languages import Text
from core.runtime.container import Runtime
from core.security.access import AccessClaims

RECENT = dt.timedelta(minutes=10)  # service time since the sign-in; a refresh does not count


class RecentSignInRequired(DomainError):
    """The caller signed in on this device more than 10 minutes ago."""

    kind = Kind.FORBIDDEN
    code = "RECENT_SIGN_IN_REQUIRED"
    message = Text(en="Sign in again to continue.", id="Silakan masuk lagi untuk melanjutkan.")
    repeat = Repeat.LATER
    advice = "Let the person sign in again, then repeat the request."


async def authenticate(runtime: Runtime, token: str, *, audience: str) -> Actor:
    """Return the actor of an access token.

    Raises Unauthenticated if the token is invalid, expired or revoked. Permissions are checked elsewhere.
    """
    claims = runtime.tokens.check(token, audience=audience, now=runtime.now())
    if claims.auth_session_id in runtime.caches.revoked:
        raise Unauthenticated
    operator: Operator | None = None
    if claims.user_type is UserType.OPERATOR:
        operator = await operators.get(runtime.db, claims.user_id)
        if operator is None or operator.disabled:
            raise Unauthenticated
    caller_ids = await _ids_of(runtime, claims)
    if claims.auth_session_id in runtime.caches.revoked:  # revoked during the reads above
        raise Unauthenticated
    return Actor(
        user_type=claims.user_type,
        user_id=claims.user_id,
        auth_session_id=claims.auth_session_id,
        expires_at=claims.expires_at,
        ids=caller_ids,
        permissions={} if operator is None else operator.permissions,
        has_totp=operator is not None and operator.has_totp,
        password_change_due=operator is not None and operator.password_change_due,
        must_enrol=operator is not None and operator.must_enrol(production=runtime.settings.production),
    )


async def has_stepped_up(runtime: Runtime, actor: Actor) -> bool:
    """Return whether a caller has entered a code within the last 5 minutes of real time, or has no second factor."""
    if not actor.has_totp:
        return True
    until = await logins.stepped_up_until(runtime.db, actor.auth_session_id)
    return until is not None and until > runtime.clock.real_now()


async def require_step_up(runtime: Runtime, actor: Actor) -> None:
    """Check that a caller has stepped up. Raises TotpRequired if not."""
    if not await has_stepped_up(runtime, actor):
        raise TotpRequired


async def require_recent_sign_in(runtime: Runtime, actor: Actor) -> None:
    """Check that the caller signed in on this device within the last 10 minutes. Raises RecentSignInRequired."""
    at = await logins.signed_in_at(runtime.db, actor.auth_session_id)
    if at is None or at <= runtime.now() - RECENT:
        raise RecentSignInRequired


def _loader(runtime: Runtime) -> BatchLoader[tuple[str, ...]]:
    """Return what reads the ids of several callers in one statement."""
    return BatchLoader(functools.partial(customers.ids_of_all, runtime.db), nothing=(), pause_s=PAUSE_S)


async def _ids_of(runtime: Runtime, claims: AccessClaims) -> tuple[str, ...]:
    """Return the caller's ids, cached per auth session."""
    if claims.user_type is not UserType.CUSTOMER:
        return (claims.user_id,)
    known = runtime.caches.accounts.get(claims.user_id, claims.auth_session_id)
    if known is None:
        known = await runtime.part(_loader).of(claims.user_id) or (claims.user_id,)
        runtime.caches.accounts.put(claims.user_id, claims.auth_session_id, known)
    return known


def require_kind(actor: Actor, kinds: frozenset[UserType]) -> None:
    """Check that the actor is one of these kinds of user.

    Raises Forbidden if not.
    """
    if actor.user_type not in kinds:
        raise Forbidden
