"""Access by declaration: each route says who may call it; one guard carries that out (contract 2)."""

from collections.abc import Mapping
from typing import Any

import attrs
from litestar import Request

from core.base import languages
from core.base.actor import Actor, UserType
from core.base.errors import DomainError, Unauthenticated
from core.base.languages import Language
from core.operators.rules import PasswordChangeRequired, require
from core.operators.totp import TotpEnrolmentRequired
from core.reads import people
from core.runtime import Runtime

PUBLIC = frozenset({"public"})
INTERNAL = frozenset({"internal"})
Refusal = type[DomainError]


@attrs.frozen(kw_only=True)
class Access:
    """Who may call a route, on which listener, and which refusals of its own it answers.

    No kinds: everybody; `optional`: a token is looked at when there is one. `foreign_body`: what comes in is not JSON of
    ours. `enrolling`: also for an operator who still has to set up a second factor. `password_due`: also for an operator
    who still has to replace the password that another person chose. `step_up`: an operator with a second
    factor has entered a code within 5 minutes. Refusals that follow from the declaration itself (no token, wrong kind,
    bad body) are not listed.
    """

    listeners: frozenset[str]
    kinds: frozenset[UserType] = frozenset()
    area: str | None = None
    level: str = "read"
    optional: bool = False
    foreign_body: bool = False
    enrolling: bool = False
    password_due: bool = False
    step_up: bool = False
    refusals: tuple[Refusal, ...] = ()


def _declare(access: Access) -> dict[str, Any]:
    return {"opt": {"access": access}}


def anyone(
    *refusals: Refusal,
    listeners: frozenset[str] = PUBLIC,
    optional: bool = False,
    foreign_body: bool = False,
) -> dict[str, Any]:
    """No token is asked for."""
    return _declare(Access(listeners=listeners, optional=optional, foreign_body=foreign_body, refusals=refusals))


def customers(*refusals: Refusal) -> dict[str, Any]:
    """Customers only."""
    return _declare(Access(listeners=PUBLIC, kinds=frozenset({UserType.CUSTOMER}), refusals=refusals))


def mitras(*refusals: Refusal) -> dict[str, Any]:
    """Mitras only."""
    return _declare(Access(listeners=PUBLIC, kinds=frozenset({UserType.MITRA}), refusals=refusals))


def parties(*refusals: Refusal) -> dict[str, Any]:
    """Customers and mitras; whose session it is, the query says."""
    kinds = frozenset({UserType.CUSTOMER, UserType.MITRA})
    return _declare(Access(listeners=PUBLIC, kinds=kinds, refusals=refusals))


def operators(
    area: str | None,
    level: str = "read",
    *refusals: Refusal,
    enrolling: bool = False,
    password_due: bool = False,
    step_up: bool = False,
) -> dict[str, Any]:
    """Operators with a permission; area None: any operator."""
    return _declare(
        Access(
            listeners=INTERNAL,
            kinds=frozenset({UserType.OPERATOR}),
            area=area,
            level=level,
            enrolling=enrolling,
            password_due=password_due,
            step_up=step_up,
            refusals=refusals,
        )
    )


def check_declared(routes: list[Any], *, listener: str) -> None:
    """A route that does not declare who may call it, and on this listener, does not exist. Raises RuntimeError."""
    for route in routes:
        access = (route.opt or {}).get("access")
        if not isinstance(access, Access) or listener not in access.listeners:
            raise RuntimeError(f"{sorted(route.paths)} does not declare its access on the {listener} listener")


def bearer(headers: Mapping[str, str]) -> str:
    """Return the request's access token. Raises Unauthenticated when there is none."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise Unauthenticated
    return token.strip()


async def guard(request: Request[Any, Any, Any], access: Access) -> None:
    """Let the declared users in.

    Raises Unauthenticated, Forbidden, PasswordChangeRequired, TotpEnrolmentRequired, TotpRequired.
    """
    if not access.kinds:
        return
    state = request.app.state
    actor = await people.authenticate(state.runtime, bearer(request.headers), audience=state.audience)
    people.require_kind(actor, access.kinds)
    if actor.password_change_due:
        if not access.password_due:
            raise PasswordChangeRequired
    elif actor.must_enrol and not access.enrolling:
        raise TotpEnrolmentRequired
    if access.area is not None:
        require(actor.permissions, access.area, access.level)
    if access.step_up:
        await people.require_step_up(state.runtime, actor)
    request.scope["actor"] = actor  # type: ignore[typeddict-unknown-key]


async def optional_actor(request: Request[Any, Any, Any]) -> Actor | None:
    """The caller of a route that does not need one: a token that is bad in any way counts as none (contract 3, Merge)."""
    try:
        return await people.authenticate(request.app.state.runtime, bearer(request.headers), audience="public")
    except Unauthenticated:
        return None


def provide_actor(request: Request[Any, Any, Any], runtime: Runtime) -> Actor:
    """The caller, as the guard found it.

    It names `runtime` so that the two are provided one after the other: side by side they would cost two tasks.
    """
    return request.scope["actor"]  # type: ignore[typeddict-item]


def provide_runtime(request: Request[Any, Any, Any]) -> Runtime:
    """This process's runtime."""
    return request.app.state.runtime


def device_of(request: Request[Any, Any, Any]) -> dict[str, Any]:
    """Return what the client says of its device (contract 3). `locale` is the language of its pushes."""

    def header(name: str, limit: int) -> str | None:
        value = request.headers.get(name)
        return value[:limit].replace("\0", "") if value else None

    return {
        "user_agent": header("user-agent", 300),
        "platform": header("x-platform", 40),
        "app_version": header("x-app-version", 40),
        "locale": locale_of(request),
    }


def locale_of(request: Request[Any, Any, Any]) -> Language | None:
    """Return the language that the device wants its pushes in; None when it names none of ours."""
    return languages.parse_locale(request.headers.get("x-locale"))


def client_ip(request: Request[Any, Any, Any]) -> str:
    """The client's address; behind a trusted proxy the forwarded one (specification, Core rules 2)."""
    return (request.client.host if request.client else "")[:45]
