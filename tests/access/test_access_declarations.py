"""What the routes' own declarations must be: without one there is no route, and none is more open than it looks."""

from typing import Any

import pytest
from litestar import delete, get, post

from api.apps import INTERNAL, PUBLIC, internal_app, public_app
from api.auth import Access, anyone, check_declared, customers, mitras, operators, parties
from core.base.actor import UserType
from core.base.settings import read
from core.operators.rules import AREAS
from tests.access.routes import CLOSED, OPEN, ROUTES, Route, named

# Whoever opens a route to everybody writes it down here, too.
OPEN_TO_ALL = {
    "public GET /healthz",
    "public GET /openapi.json",
    "public GET /docs",
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
    "public GET /dev/pay/{request_id}",
    "public POST /dev/pay/{request_id}",
    "internal GET /healthz",
    "internal GET /readyz",
    "internal GET /metrics",
    "internal GET /openapi.json",
    "internal GET /docs",
    "internal GET /",
    "internal GET /internal",
    "internal GET /internal/static/{file}",
    "internal GET /docs/{name}",
    "internal POST /internal/auth/login",
    "internal POST /internal/auth/refresh",
    "internal POST /internal/auth/totp/verify",
}
# Routes of an operator's own account: no permission is asked for.
OWN_ACCOUNT = "/internal/auth/"


@get("/undeclared")
async def undeclared() -> None:
    """Nobody said who may call it."""


@get("/declared-by-hand", opt={"access": "everybody"})
async def by_hand() -> None:
    """Says so, but not in the one way."""


@get("/of-customers", **customers())
async def of_customers() -> None:
    """A customer's."""


@post("/of-mitras", **mitras())
async def of_mitras() -> None:
    """A mitra's."""


@get("/of-both", **parties())
async def of_both() -> None:
    """A party's."""


@delete("/of-operators", status_code=200, **operators("config", "write"))
async def of_operators() -> None:
    """An operator's."""


@get("/open", **anyone())
async def of_anyone() -> None:
    """Everybody's, on the public listener."""


@pytest.mark.parametrize("listener", ["public", "internal"])
@pytest.mark.parametrize("handler", [undeclared, by_hand])
def test_a_route_that_does_not_declare_its_callers_is_refused(handler: Any, listener: str) -> None:
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
def test_a_route_on_the_listener_that_it_was_not_declared_for_is_refused(handler: Any, listener: str) -> None:
    (path,) = handler.paths
    with pytest.raises(RuntimeError, match=f"{path}.*on the {listener} listener"):
        check_declared([handler], listener=listener)
    check_declared([handler], listener="public" if listener == "internal" else "internal")


def test_the_applications_refuse_to_start_with_such_a_route(monkeypatch: pytest.MonkeyPatch) -> None:
    class Runtime:
        settings = read({})

    for table, make, wrong in ((PUBLIC, public_app, of_operators), (INTERNAL, internal_app, of_customers)):
        for handler in (undeclared, wrong):
            monkeypatch.setattr("api.apps." + ("PUBLIC" if table is PUBLIC else "INTERNAL"), [*table, handler])
            with pytest.raises(RuntimeError, match="does not declare its access"):
                make(Runtime())  # type: ignore[arg-type]


def test_in_production_the_development_routes_are_not_there() -> None:
    assert not [handler for handler in PUBLIC if any(path.startswith("/dev") for path in handler.paths)]
    assert not [handler for handler in INTERNAL if any("/_test" in path for path in handler.paths)]


def test_only_these_routes_are_open_to_everybody() -> None:
    found = {f"{route.listener} {route}" for route in OPEN}
    assert found == OPEN_TO_ALL, "open a route to everybody only on purpose, and write it down in OPEN_TO_ALL"


@pytest.mark.parametrize(**named(ROUTES))
def test_what_is_declared_is_what_is_guarded(route: Route) -> None:
    assert isinstance(route.access, Access)
    assert route.listener in route.access.listeners
    assert route.handler.before_request is None  # nothing of its own stands in the place of `admit`


@pytest.mark.parametrize(**named(CLOSED))
def test_each_closed_route_is_on_one_listener_and_for_its_own_users(route: Route) -> None:
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


@pytest.mark.parametrize(**named([route for route in CLOSED if route.listener == "internal"]))
def test_each_internal_route_names_its_permission_or_is_of_ones_own_account(route: Route) -> None:
    area, level = route.access.area, route.access.level
    if area is None:
        assert route.path.startswith(OWN_ACCOUNT)
        return
    assert area in AREAS
    assert level == ("read" if route.method == "GET" else "write")
    assert not route.path.startswith(OWN_ACCOUNT)
