"""What the apps show before anybody pays: prices, availability, switches, contacts, onboarding (contract 3 and 4)."""

from typing import Any

from litestar import Request, get, post

from api.auth import anyone, customers
from core.base.actor import Actor
from core.flows import customer_edit
from core.reads import catalogue
from core.runtime import Runtime


@get(["/api/client/chat/pricing", "/api/client/chat-pricing"], **customers())
async def pricing(runtime: Runtime, actor: Actor) -> catalogue.Pricing:
    """The price list, with the caller's eligibility for the discount."""
    return await catalogue.pricing(runtime, actor)


@get("/api/client/mitras/availability", **customers())
async def availability(request: Request[Any, Any, Any], runtime: Runtime) -> catalogue.Available:
    """How many mitras could take a request; at most 2 s old."""
    counter: catalogue.Availability = request.app.state.availability
    return catalogue.Available(available=await counter.count(runtime))


@get("/api/client/onboarding-state", **customers())
async def onboarding_state(runtime: Runtime, actor: Actor) -> catalogue.Onboarding:
    """What the app asks itself before it shows its first screen."""
    return await catalogue.onboarding(runtime, actor)


@post("/api/client/usp-seen", status_code=204, **customers())
async def usp_seen(runtime: Runtime, actor: Actor) -> None:
    """The caller has seen the intro."""
    await customer_edit.mark_usp_seen(runtime, actor)


@get("/api/client/support-handles", **customers())
async def support_handles(runtime: Runtime) -> catalogue.SupportHandles:
    """The contacts of the admin-help sheet."""
    return catalogue.support_handles(runtime)


@get("/api/shared/config/otp", **anyone())
async def otp_config(runtime: Runtime) -> catalogue.OtpConfig:
    """What clients need to know of the limits of codes."""
    return catalogue.otp_config(runtime)


@get("/api/shared/config/app", **anyone())
async def app_config(runtime: Runtime) -> catalogue.AppConfig:
    """The client switches."""
    return catalogue.app_config(runtime)


ROUTES = [pricing, availability, onboarding_state, usp_seen, support_handles, otp_config, app_config]
