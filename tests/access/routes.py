"""All routes of both listeners, read from the two applications, so that a new route is tested without being listed."""

import types
import warnings
from typing import Any

import attrs

from api import apps
from api.auth import Access
from api.route_signatures import Signature, signature_of
from core.settings.environment import read


@attrs.frozen(kw_only=True)
class Route:
    """One method at one address of one listener."""

    listener: str
    method: str
    path: str  # with {names} in braces
    handler: Any = attrs.field(eq=False, repr=False)

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def access(self) -> Access:
        """Return the access that the route declares (api/auth.py)."""
        return self.handler.opt["access"]

    @property
    def signature(self) -> Signature:
        """Return the signature of its handler."""
        return signature_of(self.handler)

    @property
    def parameters(self) -> list[str]:
        """Return the names of its path parameters."""
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]

    def at(self, **values: str) -> str:
        """Return its path with these values filled in."""
        return self.path.format(**values)


def _routes_of(listener: str) -> list[Route]:
    # Building the applications connects to nothing: only the settings are read.
    settings = read({"ENVIRONMENT": "test", "DATABASE_URL": "postgres://nowhere/none", "REDIS_URL": "redis://nowhere"})
    make = {"public": apps.public_app, "internal": apps.internal_app}[listener]
    with warnings.catch_warnings(action="ignore"):  # Litestar's deprecation warnings
        app: Any = make(types.SimpleNamespace(settings=settings, note_overload=None, clock=None))._app  # type: ignore[arg-type]
    found = []
    for route in app.routes:
        for method, (handler, _) in route.route_handler_map.items():
            if str(method) == "OPTIONS" and "access" not in handler.opt:
                continue  # the framework's own OPTIONS handler
            found.append(Route(listener=listener, method=str(method), path=route.path_format, handler=handler))
    return sorted(found, key=str)


ROUTES = [*_routes_of("public"), *_routes_of("internal")]
OPEN = [route for route in ROUTES if not route.access.kinds]
CLOSED = [route for route in ROUTES if route.access.kinds]


def named(routes: list[Route]) -> dict[str, Any]:
    """Return the arguments for `parametrize` that make each route one case with a readable id."""
    return {"argnames": "route", "argvalues": routes, "ids": [f"{route.listener} {route}" for route in routes]}
