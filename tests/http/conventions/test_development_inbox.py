"""The development inbox holds what the service sends and receives, whatever senders are configured."""

import asyncio
import datetime as dt
import re
from typing import Any

import msgspec
import pytest
import redis.asyncio

from core.app.reactions import open_runtime
from core.base import ids
from core.base.errors import Unavailable
from core.bus.bus import Bus
from core.bus.inbox import KEPT, LIST, DevelopmentInbox, InboxKind
from core.settings.environment import read
from tests.stack import World
from tools.driving.throwaway import free_port

pytestmark = pytest.mark.anyio


async def found(world: World, kind: str, to: str) -> dict[str, Any]:
    """Wait for an item of a kind for a receiver; return it."""

    async def look() -> list[dict[str, Any]]:
        items = (await world.client().get("/dev/inbox.json"))["items"]
        return [item for item in items if (item["kind"], item["to"]) == (kind, to)]

    return (await world.until(look, bool))[0]


async def test_codes_of_customers_and_mitras_are_shown(world: World) -> None:
    customer = world.client()
    asked = await customer.post("/api/client/auth/otp/request", {"phone": "+6281234500001"})
    item = await found(world, "code", "+6281234500001")
    assert item["text"] == await world.stack.inbox.code_of(asked["otp_request_id"])
    assert item["data"] == {"otp_request_id": asked["otp_request_id"], "channel": "sms", "ttl_seconds": 300}
    mitra = await world.mitra(online=False)
    item = await found(world, "code", mitra.user["phone"])
    assert re.fullmatch(r"\d{6}", item["text"])


@pytest.mark.slow
async def test_invoice_webhook_call_and_push_are_shown(world: World) -> None:
    mitra, customer = await world.mitra(), await world.customer()
    token = f"device-{ids.new_id()}"
    await mitra.call("PUT", "/api/shared/push-token", {"push_token": token})
    payment = await world.paid(customer)
    invoice = await found(world, "invoice", customer.user["id"])
    assert invoice["text"] == "Rp 12.000"
    assert invoice["data"]["url"] == payment["gateway_invoice_url"]
    assert invoice["data"]["payment_request_id"] == payment["payment_request_id"]
    webhook = await found(world, "webhook", payment["payment_request_id"])
    assert (webhook["text"], webhook["data"]["http_status"], webhook["data"]["token_valid"]) == ("confirmed", 200, True)
    push = await found(world, "push", token)
    assert (push["data"]["event"], push["data"]["session_id"]) == ("chat_request", payment["session_id"])
    assert push["data"]["outcome"] == "Sent"
    assert push["text"] == f"{push['data']['title']}: {push['data']['body']}"


async def test_webhook_call_without_the_token_is_shown_as_refused(world: World) -> None:
    external_id = ids.new_id()
    await world.raw_webhook({"external_id": external_id}, token="wrong")
    item = await found(world, "webhook", external_id)
    assert (item["text"], item["data"]["http_status"], item["data"]["token_valid"]) == ("unauthorized", 401, False)


async def test_newest_items_come_first_and_older_ones_are_dropped(world: World) -> None:
    first = ids.new_id()
    await world.raw_webhook({"external_id": first})
    await found(world, "webhook", first)
    async with redis.asyncio.Redis.from_url(world.stack.redis_url) as client:
        oldest = (await client.lrange(LIST, 0, 0))[0]
        old = msgspec.json.encode({**msgspec.json.decode(oldest), "at": "2020-01-01T00:00:00.000000Z", "to": "old"})
        await client.rpush(LIST, *[old] * KEPT)
        assert 0 < await client.ttl(LIST) <= 86_400
        await world.raw_webhook({"external_id": (second := ids.new_id())})
        await found(world, "webhook", second)
        assert await client.llen(LIST) == KEPT
    items = (await world.client().get("/dev/inbox.json"))["items"]
    # A push of an earlier test's session may come in between.
    assert [item["to"] for item in items if item["kind"] == "webhook"][:1] == [second]
    assert [item["at"] for item in items] == sorted((item["at"] for item in items), reverse=True)


async def test_production_has_no_inbox(world: World) -> None:
    settings = {"ENVIRONMENT": "production", "PASSWORD_ROUNDS": "10", "REFUNDS_ENABLED": "false"}
    chosen = {"GATEWAY_ENABLED": "false", "PUSH_SENDER": "log"}
    runtime = await open_runtime(read({**world.stack.env, **settings, **chosen}))
    assert runtime.inbox is None
    await runtime.close()


async def test_inbox_without_redis_loses_items_and_its_reader_is_refused() -> None:
    bus = Bus(f"redis://127.0.0.1:{free_port()}")
    async with asyncio.TaskGroup() as group:
        inbox = DevelopmentInbox(bus.client_of, now=lambda: dt.datetime.now(dt.UTC), follow=group.create_task)
        inbox.add(InboxKind.CODE, to="+6281234500001", text="123456")
    with pytest.raises(Unavailable):
        await inbox.newest()
    await bus.close()
