"""Valid values for every path parameter and body, so that only the caller can be the reason of a refusal.

A parameter or a field that ends in `_id` gets a new id, and other fields those of the document's examples. What needs
something else is listed here; a route that misses it fails its tests, and the failure says what to add.
"""

import random
from collections.abc import Callable
from typing import Any

import pytest

from api.documents.examples import example_of
from api.documents.schemas import Schemas
from api.internal import config, failed_pairings, mitras, operators, pricing, second_factor, simulations
from api.internal import logins as operator_logins
from api.public import devices, logins, own_data, payment_webhook, payments
from core.base import ids
from tests.access.routes import Route

HERE = "tests/access/fillers.py"

# Path parameter, but for ids -> a function that returns a well-formed value.
PATH: dict[str, Callable[[], str]] = {
    "key": lambda: "no_such_key",
    "name": lambda: "swagger-ui.css",
    "file": lambda: "app.js",
}
# Route -> the query that it needs.
QUERY = {"/internal/search": "?q=Dewi"}
# Path parameters that name an object of a customer or a mitra: another user's object is 404, which
# tests/access/test_foreign_objects.py checks.
OWNED = {"request_id", "session_id", "auth_session_id"}
# Those that are looked up within an object that is owned, so that the other one decides.
WITHIN = {"extension_id"}
# Body fields that name an object with an owner -> the path parameter of the same kind; then the fields that name no
# owned object, with the reason.
OWNED_FIELDS = {"payment_request_id": "request_id", "session_id": "session_id"}
# Further fields that a body needs before the service looks at the field.
BESIDE: dict[str, dict[str, Any]] = {"session_id": {"is_extension": True}}
FREE_FIELDS = {
    "otp_request_id": "the code proves ownership",
    "client_message_id": "made by the client",
    "event_id": "another user's event is ignored like an unknown one",
    "mitra_id": "no caller owns a mitra; it must be a previous one",
    "targeted_mitra_id": "no caller owns a mitra; it must be a previous one",
}


def a_phone() -> str:
    """Return a new phone number."""
    return f"+62811{random.SystemRandom().randrange(10**8):08d}"


# Body class -> a function that returns a body, where the example of the document would not do.
BODIES: dict[Any, Callable[[], dict[str, Any]]] = {
    logins.PhoneBody: lambda: {"phone": a_phone()},
    logins.IdentityBody: lambda: {"identity_token": "a.b.c"},
    # Half a proof, so that no call erases its caller.
    own_data.EraseBody: lambda: {"provider": "a"},
    devices.PushTokenBody: lambda: {"push_token": ids.new_id()},
    payments.PaymentBody: lambda: {"duration_minutes": 12},  # an extension takes no mode
    payment_webhook.GatewayCall: lambda: {"id": "x", "external_id": ids.new_id(), "status": "PAID", "amount": 1},
    operator_logins.LoginBody: lambda: {"email": f"{ids.new_id()}@example.test", "password": "correct horse"},
    # Refused for its shape, so these calls never count as wrong passwords.
    operator_logins.PasswordBody: lambda: {"current_password": "x", "new_password": "too short"},
    # Refused for its shape, or for the missing second factor, so no call counts as a wrong password or code.
    second_factor.BeginBody: lambda: {"password": "", "code": "000000"},
    second_factor.ConfirmBody: lambda: {"code": "000000"},
    second_factor.CodeBody: lambda: {"code": "000000"},
    second_factor.RemoveBody: lambda: {"password": "", "code": "000000"},
    second_factor.VerifyBody: lambda: {"login_token": "nobody's", "code": "000000"},
    failed_pairings.RefundBody: dict,
    mitras.MitraBody: lambda: {"phone": a_phone(), "display_name": "Ayu", "is_active": True},
    config.ConfigValue: lambda: {"value": 1},
    config.MitraPingPatch: dict,
    simulations.SimulationBody: dict,  # refused, because it tries nothing
    operators.OperatorBody: lambda: {
        "email": f"{ids.new_id()}@example.test",
        "display_name": "Sari",
        "role_id": ids.new_id(),
    },
    operators.RoleBody: lambda: {"name": f"role {ids.new_id()}", "permissions": {}},
    operators.RolePatch: lambda: {"permissions": {}},
    # No call changes a price: the mode "none" does not exist and the tokens are unknown.
    pricing.TierBody: lambda: {"mode": "none", "minutes": 7, "price_idr": 1},
    pricing.TierPatch: lambda: {"updated_at": "nobody's", "price_idr": 1},
    pricing.TokenBody: lambda: {"updated_at": "nobody's"},
    pricing.OrderBody: lambda: {"mode": "chat", "items": [{"id": ids.new_id(), "updated_at": "nobody's"}]},
    pricing.PromotionPatch: lambda: {"updated_at": "nobody's", "enabled": True},
}


def _missing(route: Route, what: str, table: str) -> Any:
    pytest.fail(f"{route}: {what} is new to these tests: add it to {table} in {HERE}", pytrace=False)


def filled(route: Route, **given: str) -> str:
    """Return the route's address with its query, and with new ids for all parameters that are not in `given`."""
    for name in route.parameters:
        if name not in PATH and not name.endswith("_id"):
            _missing(route, f"the name {name!r} in the address", "PATH")
        if name.endswith("_id") and route.listener == "public" and name not in OWNED and name not in WITHIN:
            _missing(route, f"the name {name!r} in the address", "OWNED, when it is a user's own, or WITHIN")
    values = {name: given.get(name) or PATH.get(name, ids.new_id)() for name in route.parameters}
    return route.at(**values) + QUERY.get(route.path, "")


def body_of(route: Route) -> dict[str, Any] | None:
    """Return a body of valid shape, or None if the route takes no body."""
    kind = route.signature.body
    if kind is None:
        return None
    return BODIES[kind]() if kind in BODIES else _example_of(route)


def _example_of(route: Route) -> dict[str, Any]:
    """Return the example of a route's body, with new ids."""
    schemas = Schemas()
    signature = route.signature
    schema = schemas.body(signature.body, loose=signature.loose_body, foreign=route.access.foreign_body)
    made = example_of(schema, schemas.components)
    return {name: ids.new_id() if name.endswith("_id") else value for name, value in made.items()}


def owned_fields(route: Route) -> list[str]:
    """Return the fields of the route's body that name an object with an owner."""
    body = body_of(route) or {}
    kinds = getattr(route.signature.body, "__attrs_attrs__", ())
    names = {field.name for field in kinds if field.name.endswith("_id")} | {n for n in body if n.endswith("_id")}
    if route.path == "/api/shared/payment/webhooks/gateway":
        return []  # the ids in a webhook are the gateway's
    for name in sorted(names):
        if name not in OWNED_FIELDS and name not in FREE_FIELDS:
            _missing(route, f"the body's field {name!r}", "OWNED_FIELDS or FREE_FIELDS")
    return sorted(names & OWNED_FIELDS.keys())
