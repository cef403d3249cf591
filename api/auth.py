"""Access control: each route declares who may call it, and one guard enforces it (docs/invariants.md#rule-9)."""

from collections.abc import Iterable, Mapping
from typing import Any

import attrs
from litestar import Request

from core.accounts.logins import callers
from core.accounts.operators.rules import PasswordChangeRequired, allows, require
from core.accounts.operators.totp import TotpEnrolmentRequired
from core.base import languages
from core.base.actor import Actor, UserType
from core.base.errors import DomainError, Unauthenticated
from core.base.languages import Language
from core.runtime.container import Runtime

PUBLIC = frozenset({"public"})
INTERNAL = frozenset({"internal"})
Refusal = type[DomainError]


@attrs.frozen(kw_only=True)
class Access:
    """The kinds of callers of a route, its listeners, and its own refusals.

    Without `kinds` the route is public. `optional`: a token is read if there is one. `foreign_body`: the body is not in
    our format. `enrolling`: operators who have yet to set up a second factor may call it. `password_due`: operators who
    have yet to replace a password that another person chose may call it. `step_up`: an operator with a second factor
    must have entered a code within the last 5 minutes. `or_area`: this area admits like `area`; the handler decides
    about each object by its own area. `and_area`: reading this area is needed as well. `by_itself`: a phone calls it without a human, so the handler decides whether the
    request is a sign of life (`note_sign`). `refusals` leaves out those that follow from the rest (no token, wrong
    kind, invalid body).
    """

    listeners: frozenset[str]
    kinds: frozenset[UserType] = frozenset()
    area: str | None = None
    level: str = "read"
    or_area: str | None = None
    and_area: str | None = None
    optional: bool = False
    foreign_body: bool = False
    enrolling: bool = False
    password_due: bool = False
    step_up: bool = False
    by_itself: bool = False
    refusals: tuple[Refusal, ...] = ()


def _declare(access: Access) -> dict[str, Any]:
    return {"opt": {"access": access}}


def anyone(
    *refusals: Refusal,
    listeners: frozenset[str] = PUBLIC,
    optional: bool = False,
    foreign_body: bool = False,
) -> dict[str, Any]:
    """Declare a route that needs no token."""
    return _declare(Access(listeners=listeners, optional=optional, foreign_body=foreign_body, refusals=refusals))


def customers(*refusals: Refusal) -> dict[str, Any]:
    """Declare a route for customers."""
    return _declare(Access(listeners=PUBLIC, kinds=frozenset({UserType.CUSTOMER}), refusals=refusals))


def mitras(*refusals: Refusal, by_itself: bool = False) -> dict[str, Any]:
    """Declare a route for mitras."""
    kinds = frozenset({UserType.MITRA})
    return _declare(Access(listeners=PUBLIC, kinds=kinds, by_itself=by_itself, refusals=refusals))


def parties(*refusals: Refusal) -> dict[str, Any]:
    """Declare a route for customers and mitras. Its queries check whether the session is the caller's."""
    kinds = frozenset({UserType.CUSTOMER, UserType.MITRA})
    return _declare(Access(listeners=PUBLIC, kinds=kinds, refusals=refusals))


def operators(
    area: str | None,
    level: str = "read",
    *refusals: Refusal,
    enrolling: bool = False,
    password_due: bool = False,
    step_up: bool = False,
    or_area: str | None = None,
    and_area: str | None = None,
) -> dict[str, Any]:
    """Declare a route for operators with a permission; without an `area`, for any operator."""
    return _declare(
        Access(
            listeners=INTERNAL,
            kinds=frozenset({UserType.OPERATOR}),
            area=area,
            level=level,
            or_area=or_area,
            and_area=and_area,
            enrolling=enrolling,
            password_due=password_due,
            step_up=step_up,
            refusals=refusals,
        )
    )


def check_declared(routes: Iterable[Any], *, listener: str) -> None:
    """Check that every route declares its access and belongs to this listener.

    Raises RuntimeError if one does not.
    """
    for route in routes:
        access = (route.opt or {}).get("access")
        if not isinstance(access, Access) or listener not in access.listeners:
            raise RuntimeError(f"{sorted(route.paths)} does not declare its access on the {listener} listener")


def bearer(headers: Mapping[str, str]) -> str:
    """Return the request's access token.

    Raises Unauthenticated without one.
    """
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise Unauthenticated
    return token.strip()


async def guard(request: Request[Any, Any, Any], access: Access) -> None:
    """Check that the caller may call a route, and store the actor in the request's scope.

    Raises Unauthenticated, Forbidden, PasswordChangeRequired, TotpEnrolmentRequired or TotpRequired.
    """
    if not access.kinds:
        return
    state = request.app.state
    headers = request.scope["state"].get("headers")  # as the gatekeeper has read them
    token = bearer(request.headers if headers is None else headers)
    actor = await callers.authenticate(state.runtime, token, audience=state.audience)
    callers.require_kind(actor, access.kinds)
    if actor.password_change_due:
        if not access.password_due:
            raise PasswordChangeRequired
    elif actor.must_enrol and not access.enrolling:
        raise TotpEnrolmentRequired
    _require_areas(actor, access)
    if access.step_up:
        await callers.require_step_up(state.runtime, actor)
    if not access.by_itself:
        note_sign(request, actor)
    request.scope["actor"] = actor  # type: ignore[typeddict-unknown-key]


def _require_areas(actor: Actor, access: Access) -> None:
    if access.area is not None and not (access.or_area and allows(actor.permissions, access.or_area, access.level)):
        require(actor.permissions, access.area, access.level)
    if access.and_area is not None:
        require(actor.permissions, access.and_area, "read")


def note_sign(request: Request[Any, Any, Any], actor: Actor) -> None:
    """Note a sign of life of the caller, on the public listener."""
    signs = request.app.state.signs
    if signs is not None:
        signs.note(actor.ids)


async def optional_actor(request: Request[Any, Any, Any]) -> Actor | None:
    """Return the caller of a route with an optional token.

    None without a valid one (docs/product.md#merging-accounts).
    """
    try:
        return await callers.authenticate(request.app.state.runtime, bearer(request.headers), audience="public")
    except Unauthenticated:
        return None


def provide_actor(request: Request[Any, Any, Any], runtime: Runtime) -> Actor:
    """Return the actor that the guard has stored.

    The unused `runtime` makes the framework resolve the two dependencies in sequence; in parallel they would cost two
    tasks.
    """
    return request.scope["actor"]  # type: ignore[typeddict-item]


def provide_runtime(request: Request[Any, Any, Any]) -> Runtime:
    """Return this process's runtime."""
    return request.app.state.runtime


def device_of(request: Request[Any, Any, Any]) -> dict[str, Any]:
    """Return what the client reports about its device: `user_agent`, `platform`, `app_version` and `locale` (of its
    pushes)."""

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
    """Return the language for the device's pushes; None if the header is missing or names no supported one."""
    return languages.parse_locale(request.headers.get("x-locale"))


def client_ip(request: Request[Any, Any, Any]) -> str:
    """Return the client's address, at most 45 characters. Behind a trusted proxy it is the forwarded one."""
    return (request.client.host if request.client else "")[:45]
