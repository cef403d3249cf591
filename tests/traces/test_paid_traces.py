"""One trace leads from the gateway's webhook to the mitra's frame and the acceptance, through three processes."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.faults.proxy import When
from tests.faults.service import Service
from tests.stack import CALLBACK_TOKEN, World, payment_call
from tests.traces.collector import Collector, Received
from tools.driving.device import Device, RecordedSocket

pytestmark = pytest.mark.anyio
WEBHOOK = "POST /api/shared/payment/webhooks/gateway"
FOREIGN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"
SERVER, CLIENT, CONSUMER = 2, 3, 5  # kinds of OTLP


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    """Yield the collector."""
    made = Collector()
    yield made
    made.close()


@pytest.fixture(scope="module")
def stack(collector: Collector) -> Iterator[Service]:
    """Yield a service with traces at twenty times real speed, behind proxies."""
    made = Service(scale=20, ACCESS_TOKEN_SECONDS="86400", **collector.environment)
    yield made
    made.close()


@pytest.fixture
async def world(stack: Service) -> AsyncIterator[World]:
    """Yield the users of the test."""
    made = World(stack)
    await made.scale_silence()
    yield made
    await made.leave_searches()
    await made.close()


async def stored(world: World, payment: dict[str, Any]) -> str:
    """Return the trace's id that is stored with a payment request."""
    rows = await world.stack.sql(
        "SELECT traceparent FROM payment_requests WHERE id = $1::uuid", payment["payment_request_id"]
    )
    return rows[0]["traceparent"].split("-")[1]


async def span(world: World, collector: Collector, trace_id: str, name: str, **attributes: Any) -> Received:
    """Wait for a span of a trace with these attributes, named as `session_id` for `sesi.session_id`."""
    wanted = {f"sesi.{key}": value for key, value in attributes.items()}

    async def look() -> list[Received]:
        return [one for one in collector.of(trace_id, name) if wanted.items() <= one.attributes.items()]

    return (await world.until(look, bool))[0]


def leads_to(collector: Collector, first: Received, last: Received) -> bool:
    """Return whether the chain of parents of a span reaches another one."""
    by_id = {one.span_id: one for one in list(collector.spans)}
    while last.span_id != first.span_id:
        if last.parent not in by_id:
            return False
        last = by_id[last.parent]
    return True


async def parties(world: World) -> tuple[Device, Device, RecordedSocket]:
    """Return a customer, a mitra and the mitra's socket."""
    customer, mitra = await world.customer("Dewi Sartika"), await world.mitra("Ayu Lestari")
    return customer, mitra, await mitra.open("pairing")


@pytest.mark.parametrize("way", ["socket", "rest"])
async def test_one_trace_has_webhook_pairing_frame_and_acceptance(world: World, collector: Collector, way: str) -> None:
    customer, mitra, desk = await parties(world)
    search = await customer.open("pairing")
    payment = await world.request(customer)
    assert (await world.webhook(payment))[0] == 200
    session_id = (await desk.wait("chat_request"))["request"]["session_id"]
    if way == "socket":
        await desk.send({"type": "accept", "session_id": session_id, "ref": "1"})
        await desk.wait("accepted")
    else:
        await mitra.post(f"/api/mitra/chat-requests/{session_id}/accept")
    while (await search.wait("pairing_status"))["status"] != "paired":
        pass

    trace_id = await stored(world, payment)
    webhook = await span(world, collector, trace_id, WEBHOOK)
    start = await span(world, collector, trace_id, "pairing start", payment_request_id=payment["payment_request_id"])
    asked = await span(world, collector, trace_id, "frame chat_request", recipient_id=mitra.user["id"])
    accepted = await span(world, collector, trace_id, "pairing accept", session_id=session_id)
    paired = await span(world, collector, trace_id, "frame chat_request_closed", recipient_id=mitra.user["id"])
    # The same process exports its spans in their order, so the earlier ones have arrived.
    frames = collector.of(trace_id, "frame pairing_status")
    assert {one.attributes["sesi.recipient_id"] for one in frames} == {customer.user["id"]}

    assert (webhook.process, webhook.kind, webhook.parent) == ("sesi-api", SERVER, "")
    assert webhook.attributes["http.response.status_code"] == 200
    assert (start.process, asked.process, asked.kind) == ("sesi-api", "sesi-realtime", CONSUMER)
    assert asked.attributes["sesi.session_id"] == session_id
    assert accepted.process == ("sesi-realtime" if way == "socket" else "sesi-api")
    assert all(leads_to(collector, webhook, one) for one in (start, asked, accepted, paired))
    assert leads_to(collector, start, asked)
    assert leads_to(collector, start, accepted)
    assert leads_to(collector, accepted, paired)
    assert not leads_to(collector, accepted, asked)
    assert any(leads_to(collector, start, one) for one in collector.of(trace_id, "transaction"))
    if way == "rest":  # the request has its own trace, which the acceptance is linked to
        assert len(accepted.links) == 1
        assert accepted.links[0] != trace_id
        request = await span(world, collector, accepted.links[0], "POST /api/mitra/chat-requests/{session_id}/accept")
        assert request.attributes["http.response.status_code"] in (200, 201)


async def test_sweep_continues_the_trace_after_the_api_process_died_before_the_pairing(
    world: World, stack: Service, collector: Collector
) -> None:
    customer, mitra, desk = await parties(world)
    payment = await world.request(customer)
    held = stack.nodes["api"].postgres.park(
        "^COMMIT", when=When.AFTER, within="payment_requests SET status = 'confirmed'"
    )
    call = asyncio.create_task(world.webhook(payment))
    await held.reached()
    stack.processes["api"].kill()
    await asyncio.gather(call, return_exceptions=True)
    await asyncio.to_thread(stack.restart_cleanly, "api")

    session_id = (await desk.wait("chat_request"))["request"]["session_id"]
    await desk.send({"type": "accept", "session_id": session_id, "ref": "1"})
    await desk.wait("accepted")
    trace_id = await stored(world, payment)
    start = await span(world, collector, trace_id, "pairing start")
    asked = await span(world, collector, trace_id, "frame chat_request", recipient_id=mitra.user["id"])
    accepted = await span(world, collector, trace_id, "pairing accept", session_id=session_id)
    assert start.process == "sesi-jobs"
    assert len(start.links) == 1  # the sweep
    assert (await span(world, collector, start.links[0], "sweep announce_again")).process == "sesi-jobs"
    assert all(leads_to(collector, start, one) for one in (asked, accepted))
    assert collector.of(trace_id, WEBHOOK) == []  # it died with its process


async def test_mitra_who_comes_online_later_is_asked_in_the_same_trace(world: World, collector: Collector) -> None:
    customer, mitra = await world.customer(), await world.mitra(online=False)
    desk = await mitra.open("pairing")
    payment = await world.paid(customer)
    await mitra.post("/api/mitra/status/online")
    await desk.wait("chat_request")
    asked = await span(
        world, collector, await stored(world, payment), "frame chat_request", recipient_id=mitra.user["id"]
    )
    assert asked.attributes["sesi.session_id"] == payment["session_id"]


async def test_traceparent_of_a_client_is_ignored(world: World, collector: Collector) -> None:
    customer = await world.customer()
    route = "GET /api/client/support-handles"
    for flags in ("01", "00"):  # neither joins a foreign trace nor decides about sampling
        customer._http.headers["traceparent"] = f"{FOREIGN}-{flags}"
        await customer.get("/api/client/support-handles")
    found = await world.until(lambda: seen(collector, route), lambda spans: len(spans) == 2)
    assert {(one.parent, one.links) for one in found} == {("", ())}
    assert all(one.trace_id != FOREIGN.split("-")[1] for one in collector.spans)


async def seen(collector: Collector, name: str) -> list[Received]:
    """Return the spans with a name."""
    return [one for one in list(collector.spans) if one.name == name]


async def test_log_line_of_a_request_names_its_trace(world: World, stack: Service) -> None:
    customer = await world.customer()
    payment = await world.request(customer)
    await world.webhook(payment)
    trace_id = await stored(world, payment)

    async def events() -> set[str]:
        *whole, _ = stack.log("api").split("\n")  # the last line may still be written
        return {json.loads(line)["event"] for line in whole if trace_id in line}

    # A process answers a request before it logs it.
    await world.until(events, lambda found: found >= {"webhook", "request"})


async def test_spans_have_no_personal_data_and_no_secrets(world: World, collector: Collector) -> None:
    customer, _, desk = await parties(world)
    phone = await customer.open("chat")
    payment = await world.request(customer, topics=["work"])
    await world.raw_webhook({**payment_call(payment), "payer_email": "dewi@example.test"}, address="203.0.113.9")
    session_id = (await desk.wait("chat_request"))["request"]["session_id"]
    await desk.send({"type": "accept", "session_id": session_id, "ref": "1"})
    await phone.wait("session_started")
    await phone.say(session_id, "a secret of mine")
    await span(world, collector, await stored(world, payment), "pairing accept", session_id=session_id)
    numbers = [row["phone"] for row in await world.stack.sql("SELECT phone FROM mitras")]
    everything = collector.texts()
    assert session_id in everything
    assert numbers
    for text in (
        "Dewi", "Sartika", "Lestari", "example.test", "203.0.113.9", "10.", "secret of mine", CALLBACK_TOKEN,
        customer.access_token, *numbers, *(number.lstrip("+") for number in numbers),
    ):  # fmt: skip
        assert text not in everything, text
