"""The routes of both listeners, read off the two applications: a new route is in these tests by being there."""

import types
import warnings
from typing import Any

import attrs

from api import apps
from api.auth import Access
from api.signatures import Signature, signature_of
from core.base.settings import read


@attrs.frozen(kw_only=True)
class Route:
    """One method at one address."""

    listener: str
    method: str
    path: str  # with {names}
    handler: Any = attrs.field(eq=False, repr=False)

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def access(self) -> Access:
        """What it declares."""
        return self.handler.opt["access"]

    @property
    def signature(self) -> Signature:
        """What it takes."""
        return signature_of(self.handler)

    @property
    def parameters(self) -> list[str]:
        """The names in its address."""
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]

    def at(self, **values: str) -> str:
        """Its address with these values."""
        return self.path.format(**values)


def _routes_of(listener: str) -> list[Route]:
    # To write the route table down nothing has to run: the applications only look at the settings.
    settings = read({"DATABASE_URL": "postgres://nowhere/none", "REDIS_URL": "redis://nowhere"})
    make = {"public": apps.public_app, "internal": apps.internal_app}[listener]
    with warnings.catch_warnings(action="ignore"):  # the framework's, of what its next version will want
        app: Any = make(types.SimpleNamespace(settings=settings, note_overload=None))._app  # type: ignore[arg-type]
    found = []
    for route in app.routes:
        for method, (handler, _) in route.route_handler_map.items():
            if str(method) == "OPTIONS" and "access" not in handler.opt:
                continue  # the framework's own answer to a question about methods
            found.append(Route(listener=listener, method=str(method), path=route.path_format, handler=handler))
    return sorted(found, key=str)


ROUTES = [*_routes_of("public"), *_routes_of("internal")]
OPEN = [route for route in ROUTES if not route.access.kinds]
CLOSED = [route for route in ROUTES if route.access.kinds]


def named(routes: list[Route]) -> dict[str, Any]:
    """Arguments for `parametrize`: each route is one case, by its name."""
    return {"argnames": "route", "argvalues": routes, "ids": [f"{route.listener} {route}" for route in routes]}
