"""Access by declaration: each route says who may call it; one guard carries that out (contract 2)."""

from typing import Any

import attrs
import structlog
from litestar import Request
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from core.base.actor import Actor, UserType
from core.base.errors import Unauthenticated
from core.operators.rules import require
from core.reads import people
from core.runtime import Runtime


@attrs.frozen(kw_only=True)
class Access:
    """Who may call a route. No kinds: everybody, with or without a token."""

    kinds: frozenset[UserType] = frozenset()
    area: str | None = None
    level: str = "read"


def _declare(access: Access) -> dict[str, Any]:
    return {"guards": [guard] if access.kinds else [], "opt": {"access": access}}


def anyone() -> dict[str, Any]:
    """No token is asked for."""
    return _declare(Access())


def customers() -> dict[str, Any]:
    """Customers only."""
    return _declare(Access(kinds=frozenset({UserType.CUSTOMER})))


def mitras() -> dict[str, Any]:
    """Mitras only."""
    return _declare(Access(kinds=frozenset({UserType.MITRA})))


def parties() -> dict[str, Any]:
    """Customers and mitras; whose session it is, the query says."""
    return _declare(Access(kinds=frozenset({UserType.CUSTOMER, UserType.MITRA})))


def operators(area: str | None, level: str = "read") -> dict[str, Any]:
    """Operators with a permission; area None: any operator."""
    return _declare(Access(kinds=frozenset({UserType.OPERATOR}), area=area, level=level))


def bearer(connection: ASGIConnection[Any, Any, Any, Any]) -> str:
    """Return the request's access token. Raises Unauthenticated when there is none."""
    scheme, _, token = connection.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise Unauthenticated
    return token.strip()


async def guard(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Let the declared users in. Raises Unauthenticated or Forbidden."""
    access: Access = handler.opt["access"]
    runtime: Runtime = connection.app.state.runtime
    actor = await people.authenticate(runtime, bearer(connection), audience=connection.app.state.audience)
    people.require_kind(actor, access.kinds)
    if access.area is not None:
        require(actor.permissions, access.area, access.level)
    structlog.contextvars.bind_contextvars(user_type=actor.user_type.value, auth_session_id=actor.auth_session_id)
    connection.scope["actor"] = actor  # type: ignore[typeddict-unknown-key]


def provide_actor(request: Request[Any, Any, Any]) -> Actor:
    """The caller, as the guard found it."""
    return request.scope["actor"]  # type: ignore[typeddict-item]


def provide_runtime(request: Request[Any, Any, Any]) -> Runtime:
    """This process's runtime."""
    return request.app.state.runtime


def device_of(request: Request[Any, Any, Any]) -> dict[str, Any]:
    """What the client says of its device (contract 3)."""

    def header(name: str, limit: int) -> str | None:
        value = request.headers.get(name)
        return value[:limit].replace("\0", "") if value else None

    return {
        "user_agent": header("user-agent", 300),
        "platform": header("x-platform", 40),
        "app_version": header("x-app-version", 40),
    }


def client_ip(request: Request[Any, Any, Any]) -> str:
    """The client's address; behind a trusted proxy the forwarded one (specification, Core rules 2)."""
    return (request.client.host if request.client else "")[:45]
