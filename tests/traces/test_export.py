"""Off, nothing of traces runs; on, no collector can delay or break the service."""

import asyncio
import contextlib
import pathlib
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.http.gateway.simulated_gateway import CREATE, SimulatedGateway
from tests.stack import Stack, World, payment_call
from tests.traces.collector import Collector
from tools.driving.service import PROCESSES, executed, launched
from tools.driving.throwaway import free_port

pytestmark = pytest.mark.anyio
CLIENT = 3  # a kind of OTLP
SAMPLED = 1  # the flag of a traceparent
LISTED = {"PYTHONPROFILEIMPORTTIME": "1"}  # a process lists its imports in its log
ABSENT = 'raise ModuleNotFoundError("as without the extra")\n'


class Launched(Stack):
    """A service whose processes and commands are not forked from one that may have imported OpenTelemetry."""

    launch = staticmethod(launched)
    execute = staticmethod(executed)


@pytest.fixture
def collector() -> Iterator[Collector]:
    """Yield a collector."""
    made = Collector()
    yield made
    made.close()


@contextlib.asynccontextmanager
async def service(kind: type[Stack] = Stack, **env: str) -> AsyncIterator[World]:
    """Run a service and yield its users."""
    stack = await asyncio.to_thread(lambda: kind(**env))
    try:
        world = World(stack)
        yield world
        await world.leave_searches()
        await world.close()
    finally:
        await asyncio.to_thread(stack.close)


async def paid_session(world: World) -> None:
    """Play a session up to its first message."""
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    chat = await customer.open("chat")
    assert (await chat.say(session_id, "halo"))["seq"] == 1


async def figure(world: World, line: str) -> float:
    """Return a figure of the api process's metrics; 0 if it is not there."""
    operator = await world.operator()
    async with operator._http.get(f"{world.stack.addresses.internal}/metrics") as answer:
        lines = (await answer.text()).splitlines()
    return next((float(one.rpartition(" ")[2]) for one in lines if one.startswith(line)), 0.0)


async def test_service_with_traces_off_makes_no_spans_and_exports_nothing(collector: Collector) -> None:
    async with service(Launched, **{**collector.environment, **LISTED, "TRACES_ENABLED": "false"}) as world:
        await paid_session(world)
        imported = {name: world.stack.log(name) for name in PROCESSES}
        rows = await world.stack.sql(
            "SELECT traceparent FROM payment_requests UNION SELECT traceparent FROM chat_sessions"
        )
    assert collector.bodies == []
    assert [row["traceparent"] for row in rows] == [None]
    for name, log in imported.items():
        assert "core.telemetry.traces" in log, name
        # redis imports the API and the SDK's metrics if they are there, and uses neither.
        assert not any(module in log for module in ("core.telemetry.trace_export", "opentelemetry.exporter")), name


async def test_service_with_traces_off_needs_no_opentelemetry(tmp_path: pathlib.Path) -> None:
    (tmp_path / "opentelemetry.py").write_text(ABSENT)
    async with service(Launched, PYTHONPATH=str(tmp_path), **LISTED) as world:
        await paid_session(world)
        for name in PROCESSES:
            assert "core.telemetry.traces" in world.stack.log(name)
            # The names of failed imports are listed too; the package itself would import this one.
            assert "opentelemetry.context" not in world.stack.log(name)
        refused = world.stack.command("api", check=False, TRACES_ENABLED="true")
    assert refused.returncode == 1
    assert "the extra `traces` is not installed" in refused.stderr


async def test_service_with_traces_on_is_seen_to_import_them(collector: Collector) -> None:
    async with service(Launched, **collector.environment, **LISTED) as world:
        for name in PROCESSES:
            log = world.stack.log(name)
            assert "core.telemetry.trace_export" in log, name
            assert "opentelemetry.exporter" in log, name


@pytest.mark.parametrize("fault", ["dead", "hanging", "refusing"])
async def test_paid_session_passes_while_the_collector_fails(collector: Collector, fault: str) -> None:
    env = collector.environment
    if fault == "dead":
        env["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{free_port()}"
    elif fault == "hanging":
        collector.hang()
    else:
        collector.status = 400
    async with service(**env) as world:
        began = time.monotonic()
        await paid_session(world)
        assert time.monotonic() - began < 20
        if fault == "refusing":
            failed = 'sesi_trace_spans_total{outcome="failed"}'
            await world.until(lambda: figure(world, failed), lambda count: count > 0)
        if fault == "hanging":
            await world.until(lambda: asyncio.sleep(0, collector.bodies), bool)
        began = time.monotonic()
        assert await asyncio.to_thread(world.stack.stop, "realtime") == 0
        assert time.monotonic() - began < 12
        world.stack.start("realtime")


async def test_spans_beyond_the_queue_are_dropped_and_counted(collector: Collector) -> None:
    collector.hang()
    async with service(**collector.environment) as world:
        customer = await world.customer()

        async def ask() -> None:
            for _ in range(50):
                await customer.get("/api/client/support-handles")

        async def count(outcome: str) -> float:
            return await figure(world, f'sesi_trace_spans_total{{outcome="{outcome}"}}')

        async def ended() -> tuple[float, float]:
            return await count("exported"), await count("failed")

        while not (dropped := await count("dropped")):
            await asyncio.gather(*(ask() for _ in range(8)))
        assert await count("exported") == 0
        collector.release()
        # An export of 512 spans fails after five seconds: one may have failed since the queue was full, and one now.
        await world.until(ended, lambda counts: sum(counts) >= 2048 and counts[0] >= 2048 - 2 * 512)
        assert await count("dropped") < dropped + 50  # there is room again


async def test_waiting_spans_are_exported_when_a_process_stops(collector: Collector) -> None:
    env = {**collector.environment, "OTEL_BSP_SCHEDULE_DELAY": "600000"}
    async with service(**env) as world:
        await world.customer()
        assert collector.bodies == []
        assert await asyncio.to_thread(world.stack.stop, "api") == 0
        assert any(one.name == "POST /api/shared/auth/anonymous" for one in collector.spans)
        world.stack.start("api")


async def test_sampler_drops_whole_traces(collector: Collector) -> None:
    env = {**collector.environment, "OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0"}
    async with service(**env) as world:
        await paid_session(world)
        rows = await world.stack.sql("SELECT traceparent FROM chat_sessions")
        flags = int(rows[0]["traceparent"].split("-")[3], 16)
        assert not flags & SAMPLED  # later flows keep to the decision
    assert collector.bodies == []


async def test_headers_reach_the_collector(collector: Collector) -> None:
    async with service(**collector.environment, OTEL_EXPORTER_OTLP_HEADERS="api-key=s3cret,x-tenant=sesi") as world:
        await world.until(lambda: asyncio.sleep(0, collector.headers), bool)
    lowered = {name.lower(): value for name, value in collector.headers[0].items()}
    assert (lowered["api-key"], lowered["x-tenant"]) == ("s3cret", "sesi")


async def test_provider_call_is_a_client_span_and_the_provider_gets_no_traceparent(collector: Collector) -> None:
    gateway = SimulatedGateway()
    try:
        async with service(**collector.environment, **gateway.environment) as world:
            customer = await world.customer()
            payment = await world.request(customer)

            async def spans(name: str) -> list[Any]:
                return [one for one in list(collector.spans) if one.name == name]

            found = await world.until(lambda: spans("POST 127.0.0.1"), bool)
            assert (found[0].kind, found[0].process) == (CLIENT, "sesi-api")
            assert found[0].attributes == {
                "http.request.method": "POST",
                "server.address": "127.0.0.1",
                "http.response.status_code": 200,
            }
            # It ends after the call in it, and may be exported later.
            requests = await world.until(lambda: spans("POST /api/client/payment/requests"), bool)
            assert {one.trace_id for one in requests} == {found[0].trace_id}
            (made,) = gateway.calls(CREATE, payment["payment_request_id"])
            assert not {name.lower() for name in made.headers} & {"traceparent", "tracestate", "baggage"}
            await world.raw_webhook(payment_call(payment, **gateway.pay(payment["payment_request_id"])))
    finally:
        gateway.close()
