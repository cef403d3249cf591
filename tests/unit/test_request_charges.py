"""Which token buckets a request without a valid token is charged to (docs/security.md#limits)."""

import types
from typing import Any

from api.edge.rate_limits import RateLimits
from core.settings.environment import read
from tests.each import for_each

ORIGIN = {"origin": "https://app.example.test"}
WEBHOOK = "/api/shared/payment/webhooks/gateway"


def charged(
    listener: str, path: str, method: str = "GET", headers: dict[str, str] | None = None
) -> list[tuple[str, str]]:
    """Return the (limit, owner) of each bucket."""
    settings = read({"DATABASE_URL": "postgres://nowhere/none", "REDIS_URL": "redis://nowhere"})
    runtime: Any = types.SimpleNamespace(settings=settings)
    scope = {"path": path, "method": method, "client": ("192.0.2.1", 1)}
    charges = RateLimits(runtime, listener=listener, browsers=True).of_request(scope, headers or {}, None)
    return [(charge.limit.name, charge.who) for charge in charges]


@for_each(
    ("listener", "path", "limit"),
    [
        ("public", "/.well-known/sesi-receipts.json", "static_files"),
        ("public", "/.well-known/anything", "static_files"),
        ("public", "/client/sesi.js", "static_files"),
        ("public", "/api/client/auth/me", "address"),
        ("public", "/nothing", "address"),
        ("public", "/.well-knownx", "address"),
        ("internal", "/internal/static/app.js", "static_files"),
        ("internal", "/internal", "internal_address"),
        ("internal", "/internal/auth/refresh", "internal_address"),
        ("internal", "/internal/customers", "internal_address"),
        ("internal", "/nothing", "internal_address"),
        ("internal", "/internal/auth/login", "operator_sign_in"),
        ("internal", "/internal/auth/totp/verify/", "operator_sign_in"),
    ],
)
def test_request_without_token_is_charged_to_its_address(listener: str, path: str, limit: str) -> None:
    assert charged(listener, path) == [(limit, "192.0.2.1")]


@for_each("listener", ["public", "internal"])
@for_each("path", ["/api/client/auth/me", "/internal/auth/login", WEBHOOK, "/healthz", "/nothing"])
def test_preflight_is_charged_to_the_bucket_of_static_files(listener: str, path: str) -> None:
    assert charged(listener, path, "OPTIONS", ORIGIN) == [("static_files", "192.0.2.1")]


def test_probes_and_the_webhook_are_charged_to_no_bucket() -> None:
    assert [charged("internal", path) for path in ("/healthz", "/readyz", "/metrics")] == [[], [], []]
    assert charged("public", "/healthz") == charged("public", WEBHOOK) == []
