"""Routes with which customers link phones and identities to their account (docs/product.md#ways-to-sign-in)."""

from typing import Any

from litestar import Request, delete, post

from api.auth import client_ip, customers
from api.public.logins import VERIFYING, CodeBody, IdentityBody
from api.request_bodies import Body
from core.accounts.customers.rules import (
    AccountBlocked,
    IdentityInUse,
    LastSignInMethod,
    PhoneInUse,
    Provider,
    VerifiedAccountRequired,
)
from core.accounts.logins import link
from core.accounts.logins.callers import RecentSignInRequired
from core.base.actor import Actor
from core.desk import people
from core.desk.people import CustomerView
from core.runtime.container import Runtime
from core.security.identity import IdentityTokenInvalid, ProviderDisabled

NEEDS = (VerifiedAccountRequired, RecentSignInRequired, AccountBlocked)
LINKING: dict[str, Any] = {
    "status_code": 200, "dto": Body[IdentityBody], "return_dto": None,
    **customers(*NEEDS, IdentityTokenInvalid, ProviderDisabled, IdentityInUse),
}  # fmt: skip
UNLINKING: dict[str, Any] = {"status_code": 204, **customers(*NEEDS, LastSignInMethod)}


async def _link(
    provider: Provider, data: IdentityBody, request: Request[Any, Any, Any], runtime: Runtime, actor: Actor
) -> CustomerView:
    customer = await link.link_identity(
        runtime,
        actor,
        provider=provider,
        identity_token=data.identity_token,
        nonce=data.nonce,
        ip_address=client_ip(request),
    )
    return people.customer_view(customer)


@post("/api/client/auth/link/identity-a", **LINKING)
async def link_identity_a(
    data: IdentityBody, request: Request[Any, Any, Any], runtime: Runtime, actor: Actor
) -> CustomerView:
    """Link an identity of provider A to the caller's account.

    It replaces another one of this provider. The caller must have signed in on this device within the last 10 minutes.
    """
    return await _link("a", data, request, runtime, actor)


@post("/api/client/auth/link/identity-b", **LINKING)
async def link_identity_b(
    data: IdentityBody, request: Request[Any, Any, Any], runtime: Runtime, actor: Actor
) -> CustomerView:
    """Link an identity of provider B to the caller's account.

    It replaces another one of this provider. The caller must have signed in on this device within the last 10 minutes.
    """
    return await _link("b", data, request, runtime, actor)


@post(
    "/api/client/auth/link/phone",
    status_code=200,
    dto=Body[CodeBody],
    return_dto=None,
    **customers(*NEEDS, *VERIFYING, PhoneInUse),
)
async def link_phone(data: CodeBody, request: Request[Any, Any, Any], runtime: Runtime, actor: Actor) -> CustomerView:
    """Link a phone to the caller's account, with a code that was sent to it.

    If it replaces another phone, all other devices are signed out. The caller must have signed in on this device within
    the last 10 minutes.
    """
    customer = await link.link_phone(
        runtime, actor, otp_request_id=data.otp_request_id, code=data.code, ip_address=client_ip(request)
    )
    return people.customer_view(customer)


@delete("/api/client/auth/link/identity-a", **UNLINKING)
async def unlink_identity_a(runtime: Runtime, actor: Actor) -> None:
    """Unlink the identity of provider A, unless it is the only way to sign in.

    If none is linked, nothing changes. The caller must have signed in on this device within the last 10 minutes.
    """
    await link.unlink_identity(runtime, actor, provider="a")


@delete("/api/client/auth/link/identity-b", **UNLINKING)
async def unlink_identity_b(runtime: Runtime, actor: Actor) -> None:
    """Unlink the identity of provider B, unless it is the only way to sign in.

    If none is linked, nothing changes. The caller must have signed in on this device within the last 10 minutes.
    """
    await link.unlink_identity(runtime, actor, provider="b")


ROUTES = [link_identity_a, link_identity_b, link_phone, unlink_identity_a, unlink_identity_b]
