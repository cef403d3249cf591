"""Routes for the screens before a payment: prices, availability, client switches, support contacts, onboarding."""

from typing import Any

from litestar import Request, get, post

from api.auth import anyone, customers
from core.accounts import app_settings
from core.accounts.customers import edit as customer_edit
from core.base.actor import Actor
from core.pairing import catalogue
from core.runtime.container import Runtime


@get(["/api/client/chat/pricing", "/api/client/chat-pricing"], **customers())
async def pricing(runtime: Runtime, actor: Actor) -> catalogue.Pricing:
    """Return the price list, with the caller's eligibility for the first-session discount."""
    return await catalogue.pricing(runtime, actor)


@get("/api/client/mitras/availability", **customers())
async def availability(request: Request[Any, Any, Any], runtime: Runtime, actor: Actor) -> catalogue.Available:
    """Return how many mitras could take a chat request of the caller now, and how long customers usually wait for one.

    The answer is at most 2 s old.
    """
    known: catalogue.Availability = request.app.state.availability
    return await known.answer(runtime, actor)


@get("/api/client/onboarding-state", **customers())
async def onboarding_state(runtime: Runtime, actor: Actor) -> catalogue.Onboarding:
    """Return the flags by which the app chooses its first screen."""
    return await catalogue.onboarding(runtime, actor)


@post("/api/client/usp-seen", status_code=204, **customers())
async def usp_seen(runtime: Runtime, actor: Actor) -> None:
    """Record that the caller has seen the introduction."""
    await customer_edit.mark_usp_seen(runtime, actor)


@get("/api/client/support-handles", **customers())
async def support_handles(runtime: Runtime) -> catalogue.SupportHandles:
    """Return the support contacts."""
    return catalogue.support_handles(runtime)


@get("/api/shared/config/otp", **anyone())
async def otp_config(runtime: Runtime) -> app_settings.OtpConfig:
    """Return the limits of phone codes."""
    return app_settings.otp_config(runtime)


@get("/api/shared/config/app", **anyone())
async def app_config(runtime: Runtime) -> app_settings.AppConfig:
    """Return the switches that change how apps behave, the oldest usable versions, and the maintenance notice.

    Apps read this at their start and when they come to the foreground.
    """
    return app_settings.app_config(runtime)


ROUTES = [pricing, availability, onboarding_state, usp_seen, support_handles, otp_config, app_config]
