"""Every route against every kind of caller, as the routes declare their access (docs/security.md)."""

from collections.abc import AsyncIterator

import aiohttp
import attrs
import pytest

from core.accounts.operators.rules import AREAS
from tests import tiers
from tests.access.callers import OperatorAccount, bad_tokens, signed_out_token, valid_token
from tests.access.fillers import body_of, filled
from tests.access.routes import CLOSED, OPEN, ROUTES, Route, named
from tests.access.wire import WEBHOOK, Answer, ask
from tests.each import for_each
from tests.stack import Stack, World
from tools.driving.device import Device

pytestmark = pytest.mark.anyio

LOGOUT = {"public": "/api/shared/auth/logout", "internal": "/internal/auth/logout"}
UNAUTHENTICATED, FORBIDDEN = (401, "UNAUTHENTICATED"), (403, "FORBIDDEN")
# The invalid tokens that are tried at open routes: fewer than all of them, because signing operators in is slow.
AT_OPEN_ROUTES = {
    "three words", "expired", "forged", "alg none", "RS256", "another audience", "an operator's", "a customer's", "signed out",
}  # fmt: skip
OPERATOR_ROUTES = [route for route in CLOSED if route.access.area is not None]


@attrs.define(kw_only=True)
class MatrixCallers:
    """The callers of these tests."""

    stack: Stack
    http: aiohttp.ClientSession
    desk: OperatorAccount
    people: dict[str, Device]
    bad: dict[str, dict[str, str]]  # listener -> name -> token

    async def token(self, kind: str) -> str:
        """Return a valid access token of a user of this kind."""
        return await valid_token(self.people[kind])

    async def call(
        self, route: Route, token: str | None, *, headers: dict[str, str] | None = None, data: bytes | None = None
    ) -> Answer:
        """Call a route with a body of valid shape, or with `data`, and return the answer."""
        addresses = self.stack.addresses
        url = (addresses.internal if route.listener == "internal" else addresses.public) + filled(route)
        if data is not None:
            return await ask(
                self.http, url, route.method, token=token, data=data, headers={"Content-Type": "application/json"}
            )
        return await ask(self.http, url, route.method, token=token, headers=headers, body=body_of(route))


@pytest.fixture(scope="module")
async def all_callers(stack: Stack) -> AsyncIterator[MatrixCallers]:
    """Sign one user of each kind in, once for all tests of this module."""
    world = World(stack)
    await world.config("otp_max_per_ip_per_hour", 1_000_000)
    customer, mitra, root = await world.customer(), await world.mitra(online=False), await world.operator()
    desk, leaving = await OperatorAccount(world).open(), await OperatorAccount(world).open()
    bad = {
        "public": bad_tokens(stack, customer.access_token or "")
        | {f"mitra's, {name}": token for name, token in bad_tokens(stack, mitra.access_token or "").items()}
        | {"an operator's": root.access_token or ""}
        | {"signed out": await signed_out_token(await world.customer(), LOGOUT["public"])},
        "internal": bad_tokens(stack, root.access_token or "")
        | {"a customer's": customer.access_token or "", "a mitra's": mitra.access_token or ""}
        | {"signed out": await signed_out_token(leaving.client, LOGOUT["internal"])},
    }
    people = {"customer": customer, "mitra": mitra, "operator": root}
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as http:
        yield MatrixCallers(stack=stack, http=http, desk=desk, people=people, bad=bad)
    await world.close()


@pytest.mark.parametrize(**named(CLOSED))
async def test_closed_route_without_valid_token_is_401(all_callers: MatrixCallers, route: Route) -> None:
    good = await all_callers.token("operator" if route.listener == "internal" else "customer")
    ways = {name: {"Authorization": f"Bearer {token}"} for name, token in all_callers.bad[route.listener].items()}
    for header in ("", "Bearer", "Bearer ", f"Basic {good}", f"{good}", f"Bearer x {good}", f"Bearer {good}x"):
        ways[f"header {header[:12]!r}"] = {"Authorization": header}
    ways["in a cookie"] = {"Cookie": f"access_token={good}"}
    seen = {"no header": (await all_callers.call(route, None)).said}
    for name, headers in tiers.share(list(ways.items()), CLOSED.index(route)):
        seen[name] = (await all_callers.call(route, None, headers=headers)).said
    assert seen == dict.fromkeys(seen, UNAUTHENTICATED)


@for_each(**named(CLOSED))
async def test_token_in_query_string_is_ignored(all_callers: MatrixCallers, route: Route) -> None:
    token = await all_callers.token("operator" if route.listener == "internal" else "customer")
    base = all_callers.stack.addresses.internal if route.listener == "internal" else all_callers.stack.addresses.public
    url = f"{base}{filled(route)}?access_token={token}&token={token}"
    assert (await ask(all_callers.http, url, route.method, body=body_of(route))).said == UNAUTHENTICATED


@for_each(**named([route for route in CLOSED if route.method != "GET"]))
async def test_caller_is_checked_before_the_body(all_callers: MatrixCallers, route: Route) -> None:
    for data in (b"{", b"[]", b'{"no such field": 1}', b"\xff\0", b"[" * 5_000):
        assert (await all_callers.call(route, None, data=data)).said == UNAUTHENTICATED
    answer = await all_callers.call(route, None, headers={"Content-Type": "text/plain"})
    assert answer.said == UNAUTHENTICATED
    for kind in all_callers.people:
        if kind not in {known.value for known in route.access.kinds} and (kind == "operator") == (
            route.listener == "internal"
        ):
            assert (await all_callers.call(route, await all_callers.token(kind), data=b"{")).said == FORBIDDEN


@for_each(**named(CLOSED))
async def test_wrong_kind_of_user_is_refused(all_callers: MatrixCallers, route: Route) -> None:
    kinds = {kind.value for kind in route.access.kinds}
    for kind in all_callers.people:
        if kind in kinds:
            continue
        other_listener = (kind == "operator") != (route.listener == "internal")
        answer = await all_callers.call(route, await all_callers.token(kind))
        assert answer.said == (UNAUTHENTICATED if other_listener else FORBIDDEN), kind


@pytest.mark.parametrize(**named(OPERATOR_ROUTES))
async def test_operator_without_permission_is_403(all_callers: MatrixCallers, route: Route) -> None:
    area, level = route.access.area, route.access.level
    assert area is not None
    others = {name: "write" for name in AREAS if name not in {area, route.access.or_area}}
    almost = [others] if level == "read" else [{**others, area: "read"}]
    also = {route.access.and_area: "read"} if route.access.and_area else {}
    if also:
        almost += [{area: "write"}, also]
    odd = [{}, {area: "none"}, {area: ""}, {area.upper(): "write"}, {"": "write"}, {"**": "write"}]
    if level == "write":
        odd += [others, {area: "read"}, {"*": "read"}]
    for permissions in (*almost, *tiers.share(odd, OPERATOR_ROUTES.index(route))):
        assert (await all_callers.call(route, await all_callers.desk.may(permissions))).said == FORBIDDEN, permissions
    for permissions in ({area: level, **also}, {area: "write", **also}, {"*": level}):
        answer = await all_callers.call(route, await all_callers.desk.may(permissions))
        assert answer.said not in {UNAUTHENTICATED, FORBIDDEN}, (permissions, answer)
        assert answer.status < 500, answer


@for_each(**named([route for route in CLOSED if route.listener == "internal"]))
async def test_disabled_operator_is_401_at_once(all_callers: MatrixCallers, route: Route) -> None:
    token = await all_callers.desk.may({"*": "write"})
    await all_callers.desk.disable(True)
    try:
        assert (await all_callers.call(route, token)).said == UNAUTHENTICATED
    finally:
        await all_callers.desk.disable(False)


@for_each(**named([route for route in CLOSED if route.path not in LOGOUT.values()]))
async def test_declared_caller_is_admitted(all_callers: MatrixCallers, route: Route) -> None:
    for kind in route.access.kinds:
        answer = await all_callers.call(route, await all_callers.token(kind.value))
        assert answer.said not in {UNAUTHENTICATED, FORBIDDEN}, answer
        assert answer.status < 500, answer
        if route.method == "GET" and not route.parameters:
            assert answer.status == 200, answer


@pytest.mark.parametrize(**named(OPEN))
async def test_token_at_open_route_changes_nothing(all_callers: MatrixCallers, route: Route) -> None:
    plain = await all_callers.call(route, None)
    assert plain.code not in {"UNAUTHENTICATED", "FORBIDDEN"}, plain
    assert plain.status < 500, plain
    tokens = {name: token for name, token in all_callers.bad[route.listener].items() if name in AT_OPEN_ROUTES}
    assert len(tokens) >= 8
    if not route.access.optional:  # on those routes a customer's valid token counts
        tokens |= {kind: await all_callers.token(kind) for kind in all_callers.people}
    seen = {name: (await all_callers.call(route, token)).said for name, token in tokens.items()}
    assert seen == dict.fromkeys(seen, plain.said)


async def test_access_matrix_covers_every_route() -> None:
    assert len(OPEN) + len(CLOSED) == len(ROUTES) > 70
    assert WEBHOOK in {route.path for route in OPEN}
    assert {route.listener for route in CLOSED} == {"public", "internal"}
