"""The checks of the providers: codes, pushes, the gateway and the identity keys."""

import asyncio
import datetime as dt
import urllib.parse

from core.base.clock import Clock
from core.base.errors import GatewayUnavailable, Unavailable
from core.providers.gateway import make_gateway
from core.providers.http_client import HttpClient
from core.providers.identity_keys import IdentityProvider, make_identity_providers
from core.providers.push_sender import make_push_sender
from core.settings.settings import Settings, SettingsError
from tools.doctor.findings import Finding, failure, ok, warning


async def check(settings: Settings) -> list[Finding]:
    """Check the senders, the identity providers and the gateway."""
    http = HttpClient()
    try:
        providers = make_identity_providers(settings, http)
        found = [await _identity(letter, provider) for letter, provider in providers.items()]
        return [await _otp_sender(settings), *found, _push_sender(settings, http), await _gateway(settings, http)]
    finally:
        await http.close()


async def _otp_sender(settings: Settings) -> Finding:
    """Check that codes can be sent; a sender with a URL must accept a connection."""
    if settings.otp_sender == "log" and settings.production:
        return failure("OTP sender", "log, which hides codes in production: set OTP_SENDER")
    url = {"http": settings.otp_http_url, "twilio_verify": settings.twilio_verify_base_url}.get(settings.otp_sender)
    if url is not None:
        where = urllib.parse.urlsplit(url)
        try:
            async with asyncio.timeout(3):
                _, writer = await asyncio.open_connection(
                    where.hostname, where.port or {"https": 443}.get(where.scheme, 80)
                )
            writer.close()
        except (OSError, TimeoutError) as error:
            variable = "OTP_HTTP_URL" if settings.otp_sender == "http" else "TWILIO_VERIFY_BASE_URL"
            return failure("OTP sender", f"accepts no connection ({type(error).__name__}): check {variable}")
    return ok("OTP sender", settings.otp_sender)


def _push_sender(settings: Settings, http: HttpClient) -> Finding:
    try:
        make_push_sender(settings, Clock(anchor=dt.datetime.now(dt.UTC), scale=1), http)
    except SettingsError as error:
        return failure("push sender", str(error))
    if settings.push_sender == "log" and settings.production:
        return warning("push sender", "log, so no phone gets a push in production: set PUSH_SENDER=fcm")
    return ok("push sender", settings.push_sender)


async def _gateway(settings: Settings, http: HttpClient) -> Finding:
    """Look up an invoice that doesn't exist, to check that the gateway answers and accepts our key."""
    gateway = make_gateway(settings, http)
    if gateway is None:
        if settings.production:
            return failure(
                "gateway",
                "disabled, so customers can't pay: set GATEWAY_ENABLED, GATEWAY_BASE_URL, GATEWAY_SECRET_KEY",
            )
        return ok("gateway", "disabled: payments use the development page")
    try:
        await gateway.find("sesi-doctor")
    except GatewayUnavailable:
        return failure("gateway", "does not answer or refuses the key: check GATEWAY_BASE_URL and GATEWAY_SECRET_KEY")
    return ok("gateway", "answers")


async def _identity(letter: str, provider: IdentityProvider) -> Finding:
    """Check that the provider's published keys can be read."""
    check = f"identity provider {letter.upper()}"
    try:
        await provider.keys.get("any")
    except Unavailable:
        return failure(check, f"its keys can't be read: check IDENTITY_{letter.upper()}_JWKS_URL")
    return ok(check, "publishes its keys")
