"""Another user's object is answered like an object that does not exist: the same 404 (docs/product.md#the-callers-ids)."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import attrs
import pytest

from core.base import ids
from tests.access.callers import valid_token
from tests.access.fillers import BESIDE, OWNED, OWNED_FIELDS, body_of, filled, owned_fields
from tests.access.routes import CLOSED, Route, named
from tests.access.wire import Answer, ask
from tests.sockets.plain_socket import end_early
from tests.stack import Stack, World
from tools.driving.device import Device
from tools.driving.sesi_client import Refused

pytestmark = pytest.mark.anyio

NOT_FOUND, FORBIDDEN = (404, "NOT_FOUND"), (403, "FORBIDDEN")
PUBLIC = [route for route in CLOSED if route.listener == "public"]
IN_PATH = [route for route in PUBLIC if OWNED & set(route.parameters)]
IN_BODY = [route for route in PUBLIC if owned_fields(route)]
# Routes that end an object come last, because the other routes need the object in its present state.
ENDING = ("DELETE", "/cancel", "/abandon", "/end", "/closure")


@attrs.define(kw_only=True)
class OwnersAndStrangers:
    """Two owners with objects of each kind, and two strangers of the same kinds as the owners."""

    stack: Stack
    http: aiohttp.ClientSession
    owners: dict[str, list[Device]]
    strangers: dict[str, Device]
    objects: dict[str, list[str]]  # path parameter -> ids of that kind, in several states
    within: dict[str, str]  # path parameter or body field -> id of the object in the first session

    async def call(self, route: Route, client: Device, *, body: dict[str, Any] | None, **given: str) -> Answer:
        """Call a route as `client` and return the answer."""
        inside = {name: self.within[name] for name in route.parameters if name in self.within}
        url = self.stack.addresses.public + filled(route, **inside, **given)
        return await ask(self.http, url, route.method, token=await valid_token(client), body=body)

    async def call_with_id(self, route: Route, client: Device, name: str, value: str) -> Answer:
        """Call a route with this id in its address and return the answer."""
        return await self.call(route, client, body=self.body(route), **{name: value})

    def body(self, route: Route, **given: str) -> dict[str, Any] | None:
        """Return a body of valid shape.

        If the address names the session, the ids in the body belong to the first session.
        """
        body = body_of(route)
        if "session_id" in route.parameters:
            body = body and {name: self.within.get(name, value) for name, value in body.items()}
        for field, value in given.items():
            body = {**(body or {}), **BESIDE.get(field, {}), field: value}
        return body


@pytest.fixture(scope="module")
async def parties(stack: Stack) -> AsyncIterator[OwnersAndStrangers]:
    """Create a pending request, an active chat, one that is over, an open invitation, two devices, and two strangers."""
    world = World(stack)
    await world.config("otp_max_per_ip_per_hour", 1_000_000)
    mitra, stranger = await world.mitra(), await world.mitra("Sari", online=False)
    chatting, searching, paying, done = [await world.customer() for _ in range(4)]
    active = await world.session(chatting, mitra)
    over = await world.session(done, mitra)
    await end_early(world, done, over)
    for party in (done, mitra):
        await party.post(f"/api/shared/chat/sessions/{over}/closure", {"message": "bye"})
    waiting = await world.paid(searching)
    await world.until(
        lambda: mitra.get("/api/mitra/chat-requests"),
        lambda found: any(item["session_id"] == waiting["session_id"] for item in found["items"]),
    )
    pending = await world.request(paying)
    longer = await world.request(chatting, session_id=active, is_extension=True)
    await world.webhook(longer)
    desk = await mitra.open("chat")
    [asked] = [one["extension"] for one in desk.frames[0]["sessions"] if one["id"] == active]
    if asked is None:
        asked = (await desk.wait("extension_requested"))["extension"]
    second_device = await world.stack.sql(  # so that the first one stays when this one is revoked
        """INSERT INTO auth_sessions SELECT (jsonb_populate_record(a, jsonb_build_object('id', $2::text,
             'refresh_token_hash', $2::text))).* FROM auth_sessions a WHERE user_id = $1::uuid RETURNING id::text""",
        paying.user["id"], ids.new_id(),
    )  # fmt: skip
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as http:
        yield OwnersAndStrangers(
            stack=stack,
            http=http,
            owners={"customer": [chatting, searching, paying, done], "mitra": [mitra]},
            strangers={"customer": await world.customer("Rina"), "mitra": stranger},
            objects={
                "session_id": [active, over, waiting["session_id"]],
                "request_id": [one["payment_request_id"] for one in (pending, waiting, longer)],
                "auth_session_id": [second_device[0]["id"]],
            },
            within={"extension_id": asked["id"], "payment_request_id": longer["payment_request_id"]},
        )
        with contextlib.suppress(Refused):  # already accepted in an earlier test
            await searching.post("/api/client/chat/cancel", {"payment_request_id": waiting["payment_request_id"]})
    await world.close()


def objects_of(parties: OwnersAndStrangers, route: Route, name: str) -> list[str]:
    """Return the ids that a path parameter may have on this route."""
    if name not in parties.objects:
        pytest.fail(f"{route}: give `place` in {__file__} an object for {name!r}", pytrace=False)
    return parties.objects[name]


@pytest.mark.parametrize(**named(IN_PATH))
async def test_foreign_object_in_address_is_404(parties: OwnersAndStrangers, route: Route) -> None:
    [name] = OWNED & set(route.parameters)
    for kind in route.access.kinds:
        stranger = parties.strangers[kind.value]
        unknown = await parties.call_with_id(route, stranger, name, ids.new_id())
        assert unknown.said == NOT_FOUND
        for value in objects_of(parties, route, name):
            answer = await parties.call_with_id(route, stranger, name, value)
            assert (answer.said, answer.raw) == (NOT_FOUND, unknown.raw)
            assert (await parties.call_with_id(route, stranger, name, value.upper())).raw == unknown.raw


@pytest.mark.parametrize(**named(IN_PATH))
async def test_wrong_kind_of_user_gets_403_for_known_and_unknown_ids(parties: OwnersAndStrangers, route: Route) -> None:
    [name] = OWNED & set(route.parameters)
    for kind in parties.strangers.keys() - {kind.value for kind in route.access.kinds}:
        for value in (ids.new_id(), "no-id", *objects_of(parties, route, name)):
            assert (await parties.call_with_id(route, parties.strangers[kind], name, value)).said == FORBIDDEN


@pytest.mark.parametrize(**named(IN_BODY))
async def test_foreign_object_in_body_is_404(parties: OwnersAndStrangers, route: Route) -> None:
    for kind in route.access.kinds:
        stranger = parties.strangers[kind.value]
        for field in owned_fields(route):
            unknown = await parties.call(route, stranger, body=parties.body(route, **{field: ids.new_id()}))
            assert unknown.said == NOT_FOUND
            for value in objects_of(parties, route, OWNED_FIELDS[field]):
                answer = await parties.call(route, stranger, body=parties.body(route, **{field: value}))
                assert (answer.said, answer.raw) == (NOT_FOUND, unknown.raw)


async def test_lists_contain_no_foreign_objects(parties: OwnersAndStrangers) -> None:
    foreign = [value for values in parties.objects.values() for value in values]
    for route in PUBLIC:
        if route.method != "GET" or route.parameters:
            continue
        for kind in route.access.kinds:
            answer = await parties.call(route, parties.strangers[kind.value], body=None)
            assert answer.status == 200, route
            assert not [value for value in foreign if value in answer.raw.decode()], route


def late(route: Route) -> bool:
    """Return whether a call ends what others still read."""
    return route.method == "DELETE" or route.path.endswith(ENDING)


async def test_owner_still_sees_unchanged_objects_after_foreign_calls(parties: OwnersAndStrangers) -> None:
    """Check that the owners' same calls succeed, so that the refusals in this module were for the caller alone."""
    session, *_ = parties.objects["session_id"]
    chat = parties.owners["customer"][0]
    assert (await chat.get(f"/api/shared/chat/sessions/{session}"))["status"] == "active"
    assert (await chat.get(f"/api/shared/chat/sessions/{session}/messages"))["items"] == []
    pending = parties.objects["request_id"][0]
    payment = await parties.owners["customer"][2].get(f"/api/client/payment/requests/{pending}")
    assert payment["status"] == "pending"

    for route in sorted(IN_PATH, key=late):
        [name] = OWNED & set(route.parameters)
        seen = [
            (await parties.call_with_id(route, owner, name, value)).said
            for kind in route.access.kinds
            for owner in parties.owners[kind.value]
            for value in parties.objects[name]
        ]
        assert any(said[0] != 404 for said in seen), (str(route), seen)


async def test_owner_may_name_their_own_objects_in_a_body(parties: OwnersAndStrangers) -> None:
    """Check that the owners' same calls with an id in the body find it."""

    def in_path(route: Route) -> dict[str, str]:
        return {name: parties.objects[name][0] for name in OWNED & set(route.parameters)}

    for route in sorted(IN_BODY, key=late):
        [field] = owned_fields(route)
        seen = [
            (await parties.call(route, owner, body=parties.body(route, **{field: value}), **in_path(route))).said
            for owner in parties.owners["customer"]
            for value in parties.objects[OWNED_FIELDS[field]]
        ]
        assert any(said[0] != 404 for said in seen), (str(route), seen)
