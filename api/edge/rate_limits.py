"""The token buckets that each request is charged to (docs/protocol.md#http)."""

import attrs

from api.edge.asgi import Scope, host_of, is_preflight, path_of
from api.refusals import SIGN_IN, UNLIMITED
from core.bus.buckets import Charge, Charges, Limit, charges_of_address
from core.runtime.container import Runtime
from core.security.access import AccessClaims
from core.security.exposure import PROBES

AVAILABILITY = "/api/client/mitras/availability"
REFRESH = "/api/shared/auth/refresh"
# Routes that apps poll. Without a valid token they have a separate limit per address, so that other requests from the
# same address can't use it up and take mitras offline.
POLLS = frozenset({AVAILABILITY, "/api/mitra/status/heartbeat"})
# Static files have a separate limit for each address: a page loads dozens of them, and must not use up its API calls.
# The receipts' public keys and preflights share it: they cost as little, and a full address must not block them.
STATIC = ("/.well-known/", "/client/", "/try/", "/dev/inbox")
INTERNAL_STATIC = ("/internal/static/", "/docs/")
# Per address and minute. This is enough for 180,000 phones behind one address that refresh every 15 minutes.
REFRESHES, STRAY_POLLS, STATIC_FILES = 12_000, 12_000, 12_000
# Of refreshes and static files: as many as an address may have connections, because each may be a phone after an
# outage.
BURST = 6_000


class RateLimits:
    """The rate limits of one listener. `browsers`: it answers CORS preflights."""

    def __init__(self, runtime: Runtime, *, listener: str, browsers: bool) -> None:
        self._runtime = runtime
        self._listener = listener
        self._browsers = browsers
        settings = runtime.settings
        per_minute, burst = settings.rate_limit_per_minute, settings.rate_limit_burst
        self._general = Limit(name="general", per_minute=per_minute, burst=burst)
        self._availability = Limit(name="availability", per_minute=60, burst=60)
        self._address = Limit(
            name="address",
            per_minute=settings.rate_limit_address_per_minute,
            burst=settings.rate_limit_address_burst,
        )
        self._internal_address = attrs.evolve(self._address, name="internal_address")
        self._refresh = Limit(name="refresh", per_minute=per_minute, burst=burst)
        self._refresh_address = Limit(name="refresh_address", per_minute=REFRESHES, burst=BURST)
        self._stray_polls = Limit(name="stray_polls", per_minute=STRAY_POLLS, burst=STRAY_POLLS)
        self._static = Limit(name="static_files", per_minute=STATIC_FILES, burst=BURST)
        operators = settings.operator_rate_limit_per_minute
        self._operator = Limit(name="operator", per_minute=operators, burst=max(1, operators // 2))
        sign_ins = settings.operator_sign_in_per_minute
        self._sign_in = Limit(name="operator_sign_in", per_minute=sign_ins, burst=sign_ins)

    def of_request(self, scope: Scope, headers: dict[str, str], claims: AccessClaims | None) -> Charges:
        """Return the token buckets that a request is charged to. `claims` are those of its token, if it has a valid
        one."""
        path = path_of(scope)
        if self._browsers and is_preflight(scope, headers):
            return charges_of_address(self._static, host_of(scope))
        if self._listener == "internal":
            return self._of_internal(scope, path, claims)
        if path in UNLIMITED:
            return ()
        if f"{path}/".startswith(STATIC):
            return charges_of_address(self._static, host_of(scope))
        if claims is None:
            return charges_of_address(self._stray_polls if path in POLLS else self._address, host_of(scope))
        if path == AVAILABILITY:
            return (Charge(self._availability, claims.user_id),)
        own = (Charge(self._general, claims.user_id),)
        if path in POLLS or not claims.newcomer or claims.user_id in self._runtime.caches.paid:
            return own
        return own + charges_of_address(self._address, host_of(scope))

    def _of_internal(self, scope: Scope, path: str, claims: AccessClaims | None) -> Charges:
        if path in PROBES:  # a monitor may have the address of users, who share the limits of all listeners
            return ()
        if path in SIGN_IN:
            return charges_of_address(self._sign_in, host_of(scope))
        if claims is not None:
            return (Charge(self._operator, claims.user_id),)
        stranger = self._static if f"{path}/".startswith(INTERNAL_STATIC) else self._internal_address
        return charges_of_address(stranger, host_of(scope))

    def of_refresh(self, scope: Scope, auth_session_id: str) -> Charges:
        """Return the token buckets of a refresh with one of our tokens."""
        return (Charge(self._refresh, auth_session_id), *charges_of_address(self._refresh_address, host_of(scope)))

    def of_stranger(self, scope: Scope) -> Charges:
        """Return the token bucket of a request without a token."""
        return charges_of_address(self._address, host_of(scope))
