"""The two applications, public and internal: their routes, dependencies and error handlers."""

from functools import cache
from typing import Any

from litestar import Litestar
from litestar.config.cors import CORSConfig
from litestar.datastructures import State
from litestar.di import Provide

from api import errors, health
from api.auth import check_declared, provide_actor, provide_runtime
from api.documents import swagger
from api.edge.gatekeeper import Gatekeeper
from api.internal import (
    activity,
    audit_log,
    config,
    control_center,
    customers,
    dev_seed,
    failed_pairings,
    figures,
    ledger,
    mitras,
    operators,
    pricing,
    reports,
    search,
    second_factor,
    sessions,
    simulations,
    webhook_logs,
)
from api.internal import devices as device_desk
from api.internal import logins as operator_logins
from api.internal import payments as payment_desk
from api.public import (
    catalogue,
    chat,
    client_library,
    dev_identity,
    dev_inbox,
    dev_pay,
    devices,
    links,
    logins,
    mitra_desk,
    own_data,
    pairing,
    payment_webhook,
    payments,
    profile,
    try_apps,
)
from api.route_checks import admit
from core.pairing.catalogue import Availability
from core.runtime.container import Runtime
from core.sessions.absences.signs_of_life import SignsOfLife

PUBLIC = [
    *logins.ROUTES,
    *links.ROUTES,
    *profile.ROUTES,
    *own_data.ROUTES,
    *devices.ROUTES,
    *catalogue.ROUTES,
    *payments.ROUTES,
    *payment_webhook.ROUTES,
    *pairing.ROUTES,
    *mitra_desk.ROUTES,
    *chat.ROUTES,
    health.healthz,
]
INTERNAL = [
    *operator_logins.ROUTES,
    *second_factor.ROUTES,
    *simulations.ROUTES,
    *config.ROUTES,
    *mitras.ROUTES,
    *customers.ROUTES,
    *device_desk.ROUTES,
    *operators.ROUTES,
    *activity.ROUTES,
    *search.ROUTES,
    *failed_pairings.ROUTES,
    *figures.ROUTES,
    *reports.ROUTES,
    *pricing.ROUTES,
    *sessions.ROUTES,
    *payment_desk.ROUTES,
    *webhook_logs.ROUTES,
    *ledger.ROUTES,
    *audit_log.ROUTES,
    health.healthz,
    health.readyz,
    health.prometheus,
]
DEVELOPMENT = [*try_apps.ROUTES, *dev_inbox.ROUTES]
EXPOSED = ["X-Server-Time", "X-Request-Id", "Retry-After", "Deprecation", "Sunset", "Link"]
METHODS: Any = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


def interface(listener: str) -> dict[str, Any]:
    """Return a listener's OpenAPI document. No service needs to run."""
    from api.documents.openapi import document  # most processes never need it

    return document(PUBLIC if listener == "public" else INTERNAL, listener=listener)


def _cors(origins: tuple[str, ...]) -> CORSConfig | None:
    if not origins:
        return None
    return CORSConfig(allow_origins=list(origins), allow_methods=METHODS, allow_headers=["*"], expose_headers=EXPOSED)


@cache
def _documents(listener: str) -> tuple[Any, ...]:
    return tuple(swagger.routes(listener=listener, document=lambda: interface(listener)))


@cache
def _registered(routes: tuple[Any, ...], listener: str, origins: tuple[str, ...]) -> Litestar:
    """Return an application that has its routes, and no runtime yet: `_app` adds that of the process.

    Registration takes a tenth of a second. A parent of forked processes does it once for all of them.
    """
    check_declared(routes, listener=listener)
    return Litestar(
        routes,
        dependencies={
            "runtime": Provide(provide_runtime, sync_to_thread=False),
            "actor": Provide(provide_actor, sync_to_thread=False),
        },
        before_request=admit,
        exception_handlers=errors.HANDLERS,
        cors_config=_cors(origins),
        openapi_config=None,
        logging_config=None,
    )


def _app(runtime: Runtime, routes: list[Any], *, listener: str, signs: SignsOfLife | None = None) -> Gatekeeper:
    settings = runtime.settings
    origins = settings.public_cors_origins if listener == "public" else settings.internal_cors_origins
    documents = _documents(listener) if settings.docs_enabled else ()
    app = _registered((*routes, *documents), listener, origins)
    app.state = State({"runtime": runtime, "audience": listener, "availability": Availability(), "signs": signs})
    return Gatekeeper(app, runtime, listener=listener, cors=app.cors_config)


def public_app(runtime: Runtime, signs: SignsOfLife | None = None) -> Gatekeeper:
    """Return the application of the public listener: the apps' routes and the webhook.

    Each request with a valid token is noted in `signs`; None: it is not.
    """
    settings = runtime.settings
    routes = [*PUBLIC, *client_library.ROUTES, *(DEVELOPMENT if settings.development_routes else [])]
    routes += dev_pay.ROUTES if settings.development_payment_page else []
    routes += dev_identity.ROUTES if settings.development_identities else []
    return _app(runtime, routes, listener="public", signs=signs)


def internal_app(runtime: Runtime) -> Gatekeeper:
    """Return the application of the internal listener: the control center's routes."""
    development = dev_seed.ROUTES if runtime.settings.development_routes else []
    return _app(runtime, [*INTERNAL, *control_center.ROUTES, *development], listener="internal")
