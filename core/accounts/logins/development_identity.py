"""Sign in at the development identity provider, with any e-mail address (docs/product.md#identity-providers)."""

import re
from typing import Any

from core.base import field_messages, ids
from core.base.errors import NotFound, ValidationFailed
from core.base.languages import Text
from core.providers.development_identity import DevelopmentIdentity
from core.runtime.container import Runtime
from core.settings.settings import Settings

EMAIL = re.compile(r"[^@\s\x00-\x1f\ud800-\udfff]{1,64}@[^@\s\x00-\x1f\ud800-\udfff]{1,190}")
NONCE = re.compile(r"[^\x00\ud800-\udfff]{1,500}")


def provider(runtime: Runtime, letter: str) -> DevelopmentIdentity:
    """Return the development provider A or B. Raises NotFound if a real one takes its place."""
    found = runtime.identity_providers.get(letter)
    if found is None or not isinstance(found.keys, DevelopmentIdentity):
        raise NotFound
    return found.keys


def published_keys(runtime: Runtime, letter: str) -> dict[str, Any]:
    """Return the provider's JWK set. Raises NotFound."""
    return {"keys": [provider(runtime, letter).published]}


def check_origin(settings: Settings, origin: str | None, *, host: str) -> str | None:
    """Return the origin that may receive the token: the service's own, or one of PUBLIC_CORS_ORIGINS.

    `host` is the host and port by which the browser reaches the service. None, or a blank text, means no receiver.
    Raises ValidationFailed about `origin`.
    """
    if not origin:
        return None
    if origin not in (f"http://{host}", f"https://{host}", *settings.public_cors_origins):
        rule = Text(
            en="must be this service's own origin or one of PUBLIC_CORS_ORIGINS",
            id="harus berupa origin layanan ini sendiri atau salah satu dari PUBLIC_CORS_ORIGINS",
        )
        raise ValidationFailed.of("origin", rule)
    return origin


def sign_token(runtime: Runtime, letter: str, *, email: str, nonce: str | None) -> str:
    """Return an identity token for a person. Raises NotFound, ValidationFailed."""
    signer = provider(runtime, letter)
    person = email.strip().lower()
    if not EMAIL.fullmatch(person):
        raise ValidationFailed.of("email", field_messages.EMAIL)
    if nonce is not None and not NONCE.fullmatch(nonce):
        raise ValidationFailed.of("nonce", field_messages.length(1, 500))
    return signer.token(token_id=ids.new_id(), email=person, nonce=nonce, now=runtime.clock.real_now())
