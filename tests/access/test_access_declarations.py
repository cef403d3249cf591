"""The access declarations of the routes themselves: no route exists without one, and none is wider than intended."""

from typing import Any

import pytest
from litestar import delete, get, post

from api.apps import INTERNAL, PUBLIC, internal_app, public_app
from api.auth import Access, anyone, check_declared, customers, mitras, operators, parties
from core.accounts.operators.rules import AREAS
from core.base.actor import UserType
from core.settings.environment import read
from tests.access.routes import CLOSED, OPEN, ROUTES, Route, named
from tests.each import for_each

# A route that is open to all callers must be listed here too.
OPEN_TO_ALL = {
    "public GET /healthz",
    "public GET /openapi.json",
    "public GET /docs",
    "public GET /docs/sockets",
    "public GET /docs/{name}",
    "public GET /api/shared/auth-providers",
    "public POST /api/shared/auth/anonymous",
    "public POST /api/shared/auth/refresh",
    "public POST /api/client/auth/otp/request",
    "public POST /api/client/auth/otp/verify",
    "public POST /api/client/auth/identity-a",
    "public POST /api/client/auth/identity-b",
    "public POST /api/mitra/auth/otp/request",
    "public POST /api/mitra/auth/otp/verify",
    "public GET /api/shared/config/otp",
    "public GET /api/shared/config/app",
    "public POST /api/shared/payment/webhooks/gateway",
    "public GET /.well-known/sesi-receipts.json",
    "public GET /client/{file}",
    "public HEAD /client/{file}",
    "public GET /try",
    "public HEAD /try",
    "public GET /try/{file}",
    "public HEAD /try/{file}",
    "public GET /try/config.json",
    "public GET /dev/inbox",
    "public GET /dev/inbox.json",
    "public GET /dev/pay/{request_id}",
    "public POST /dev/pay/{request_id}",
    "internal GET /healthz",
    "internal GET /readyz",
    "internal GET /metrics",
    "internal GET /openapi.json",
    "internal GET /docs",
    "internal GET /",
    "internal GET /internal",
    "internal HEAD /internal",
    "internal GET /internal/static/{file}",
    "internal HEAD /internal/static/{file}",
    "internal GET /docs/{name}",
    "internal POST /internal/auth/login",
    "internal POST /internal/auth/refresh",
    "internal POST /internal/auth/totp/verify",
}
# Routes of the operator's own account, which need no permission.
OWN_ACCOUNT = "/internal/auth/"
BY_AREA = (
    "/internal/search",
    "/internal/worklist",
)  # for any operator; each part of the answer needs the permission of its area


@get("/undeclared")
async def undeclared() -> None:
    """Declare no access."""


@get("/declared-by-hand", opt={"access": "everybody"})
async def by_hand() -> None:
    """Declare access by hand instead of by the decorator."""


@get("/of-customers", **customers())
async def of_customers() -> None:
    """Declare a route for customers."""


@post("/of-mitras", **mitras())
async def of_mitras() -> None:
    """Declare a route for mitras."""


@get("/of-both", **parties())
async def of_both() -> None:
    """Declare a route for customers and mitras."""


@delete("/of-operators", status_code=200, **operators("config", "write"))
async def of_operators() -> None:
    """Declare a route for operators."""


@get("/open", **anyone())
async def of_anyone() -> None:
    """Declare a route that is open to all callers of the public listener."""


@pytest.mark.parametrize("listener", ["public", "internal"])
@pytest.mark.parametrize("handler", [undeclared, by_hand])
def test_route_without_declared_access_is_refused(handler: Any, listener: str) -> None:
    with pytest.raises(RuntimeError, match=r"/(undeclared|declared-by-hand).*does not declare its access"):
        check_declared([of_anyone if listener == "public" else of_operators, handler], listener=listener)


@pytest.mark.parametrize(
    ("handler", "listener"),
    [
        (of_customers, "internal"),
        (of_mitras, "internal"),
        (of_both, "internal"),
        (of_anyone, "internal"),
        (of_operators, "public"),
    ],
)
def test_route_on_wrong_listener_is_refused(handler: Any, listener: str) -> None:
    (path,) = handler.paths
    with pytest.raises(RuntimeError, match=f"{path}.*on the {listener} listener"):
        check_declared([handler], listener=listener)
    check_declared([handler], listener="public" if listener == "internal" else "internal")


def test_applications_with_undeclared_or_misplaced_route_refuse_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    class Runtime:
        settings = read({})

    for table, make, wrong in ((PUBLIC, public_app, of_operators), (INTERNAL, internal_app, of_customers)):
        for handler in (undeclared, wrong):
            monkeypatch.setattr("api.apps." + ("PUBLIC" if table is PUBLIC else "INTERNAL"), [*table, handler])
            with pytest.raises(RuntimeError, match="does not declare its access"):
                make(Runtime())  # type: ignore[arg-type]


def test_development_routes_are_absent_in_production() -> None:
    assert not [handler for handler in PUBLIC if any(path.startswith("/dev") for path in handler.paths)]
    assert not [handler for handler in INTERNAL if any("/_test" in path for path in handler.paths)]


def test_only_listed_routes_are_open_to_all_callers() -> None:
    found = {f"{route.listener} {route}" for route in OPEN}
    assert found == OPEN_TO_ALL, "open a route to everybody only on purpose, and write it down in OPEN_TO_ALL"


@for_each(**named(ROUTES))
def test_every_route_is_guarded_as_declared(route: Route) -> None:
    assert isinstance(route.access, Access)
    assert route.listener in route.access.listeners
    assert route.handler.before_request is None  # nothing replaces `admit`


@for_each(**named(CLOSED))
def test_closed_route_is_on_one_listener_and_for_its_kinds_of_users(route: Route) -> None:
    kinds = route.access.kinds
    assert route.access.listeners == {route.listener}
    assert not route.access.optional
    assert not route.access.foreign_body
    if route.listener == "internal":
        assert kinds == {UserType.OPERATOR}
        assert route.path.startswith("/internal/")
        return
    assert route.access.area is None
    prefix = route.path.split("/")[2]
    expected = {
        "client": {UserType.CUSTOMER},
        "mitra": {UserType.MITRA},
        "shared": {UserType.CUSTOMER, UserType.MITRA},
    }
    assert kinds == expected[prefix] or (prefix == "shared" and kinds < expected["shared"])


@for_each(**named([route for route in CLOSED if route.listener == "internal"]))
def test_internal_route_requires_a_permission_unless_for_own_account(route: Route) -> None:
    area, level = route.access.area, route.access.level
    if area is None:
        assert route.path.startswith(OWN_ACCOUNT) or route.path in BY_AREA
        return
    assert area in AREAS
    assert level == ("read" if route.method == "GET" else "write")
    assert not route.path.startswith(OWN_ACCOUNT)
