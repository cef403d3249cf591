"""The health that operators see is true within 15 s of each fault, and of its end."""

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.faults.proxy import Mode
from tests.faults.service import Service
from tests.http.operators.steps import an_operator
from tests.http.sign_in.outside import Server
from tests.stack import World, new_id, refused, within

pytestmark = pytest.mark.anyio

HEALTH = "/internal/health"
TRUE_WITHIN_S = 15
NAMES = [
    "api", "realtime", "jobs", "database", "replica", "redis", "gateway", "code_provider", "push_provider", "webhooks",
]  # fmt: skip


class Provider(Server):
    """A third party that takes each call, fails at each (`status`), fails at those with a body, or is away (None)."""

    status: int | None = 200
    fails_at_bodies = False

    def answer(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes, dict[str, str]] | None:
        """Answer a call."""
        if self.status is None:
            return None
        return (500 if self.fails_at_bodies and body else self.status), b'{"reference": "r"}', {}


@pytest.fixture(scope="module")
def codes() -> Iterator[Provider]:
    """Yield the provider of codes."""
    made = Provider()
    yield made
    made.close()


@pytest.fixture(scope="module")
def gateway() -> Iterator[Provider]:
    """Yield the gateway."""
    made = Provider()
    yield made
    made.close()


@pytest.fixture(scope="module")
def stack(codes: Provider, gateway: Provider) -> Iterator[Service]:
    """Yield a service at real speed with two realtime processes."""
    made = Service(
        counts={"realtime": 2}, GATEWAY_ENABLED="true", GATEWAY_BASE_URL=gateway.url, GATEWAY_SECRET_KEY="for-tests",
        OTP_SENDER="http", OTP_HTTP_URL=f"{codes.url}/codes", OTP_HTTP_TOKEN="for-tests",
    )  # fmt: skip
    yield made
    made.close()


@pytest.fixture
async def world(stack: Service) -> AsyncIterator[World]:
    """Yield the users of the test."""
    made = World(stack)
    yield made
    await made.close()


async def parts(world: World) -> dict[str, dict[str, Any]]:
    """Return the parts by name."""
    found = await (await world.operator()).get(HEALTH)
    assert [part["name"] for part in found["parts"]] == NAMES
    statuses = {part["status"] for part in found["parts"]}
    assert found["status"] == next(one for one in ("down", "degraded", "ok") if one in statuses)
    return {part["name"]: part for part in found["parts"]}


async def until(world: World, **wanted: str) -> dict[str, dict[str, Any]]:
    """Wait until parts have a status, at most as long as the health may be untrue; the others are well."""
    expected = dict.fromkeys(NAMES, "ok") | {"replica": "off", "push_provider": "off"} | wanted

    def is_true(found: dict[str, dict[str, Any]]) -> bool:
        return {name: part["status"] for name, part in found.items()} == expected

    return await world.until(lambda: parts(world), is_true, timeout=within(TRUE_WITHIN_S))


async def test_all_parts_are_well_and_operators_without_the_area_are_refused(world: World) -> None:
    found = await until(world)
    assert {part["message"] for part in found.values()} == {None}
    await refused((await an_operator(world, {"payments": "read"})).client.get(HEALTH), 403, "FORBIDDEN")


async def test_frozen_jobs_process_is_down(world: World, stack: Service) -> None:
    await until(world)
    stack.freeze("jobs")
    try:
        found = await until(world, jobs="down")
        assert found["jobs"]["message"] == "No process of this kind is alive."
        assert found["jobs"]["since"] is not None
    finally:
        stack.thaw("jobs")
    await until(world)


async def test_one_of_two_frozen_realtime_processes_is_degraded_and_both_are_down(world: World, stack: Service) -> None:
    await until(world)
    try:
        stack.freeze("realtime2")
        found = await until(world, realtime="degraded")
        assert found["realtime"]["message"] == "1 of 2 processes do not report."
        stack.freeze("realtime")
        await until(world, realtime="down")
    finally:
        stack.thaw("realtime")
        stack.thaw("realtime2")
    await until(world)


@pytest.mark.parametrize(("status", "message"), [(None, "It can't be reached."), (503, "It answers with errors.")])
async def test_gateway_that_is_away_or_fails_is_down(
    world: World, gateway: Provider, status: int | None, message: str
) -> None:
    await until(world)
    gateway.status = status
    try:
        found = await until(world, gateway="down")
        assert found["gateway"]["message"] == message
        assert found["gateway"]["since"] is not None
    finally:
        gateway.status = 200
    await until(world)


async def test_failing_code_provider_is_down_until_it_delivers(world: World, stack: Service, codes: Provider) -> None:
    def ask() -> Any:
        phone = f"+62811{int(new_id()[-7:], 16) % 10**8:08d}"
        return world.client().post("/api/client/auth/otp/request", {"phone": phone})

    await until(world)
    codes.fails_at_bodies = True
    try:
        await refused(ask(), 502, "OTP_DELIVERY_FAILED")
        await until(world, code_provider="down")
    finally:
        codes.fails_at_bodies = False
    await ask()
    await until(world, code_provider="degraded")  # some codes of the last ten minutes were not delivered
    await stack.sql("DELETE FROM otp_requests")
    await until(world)


async def test_redis_that_does_not_answer_is_down(world: World, stack: Service) -> None:
    await until(world)
    await stack.network("redis", Mode.CUT)
    try:
        await until(world, redis="down")
    finally:
        await stack.network("redis", Mode.PASS)
    await until(world)


@contextlib.asynccontextmanager
async def read_only(stack: Service) -> AsyncIterator[None]:
    """Let the database refuse writes."""
    await stack.sql("ALTER SYSTEM SET default_transaction_read_only = on")
    await stack.sql("SELECT pg_reload_conf()")
    try:
        yield
    finally:
        await stack.sql("ALTER SYSTEM RESET default_transaction_read_only")
        await stack.sql("SELECT pg_reload_conf()")


async def test_read_only_database_is_down_and_the_processes_are_unknown(world: World, stack: Service) -> None:
    await until(world)
    async with read_only(stack):
        found = await until(world, database="down", api="degraded", realtime="degraded", jobs="degraded")
        assert found["database"]["message"] == "The database takes no writes."
    await until(world)


async def test_part_that_the_database_does_not_tell_in_time_fails_no_other(world: World, stack: Service) -> None:
    await until(world)
    async with stack.transaction() as connection:
        await connection.execute("LOCK TABLE webhook_logs, otp_requests IN ACCESS EXCLUSIVE MODE")
        found = await parts(world)
    judged = {name: part["status"] for name, part in found.items() if part["status"] not in ("ok", "off")}
    assert judged == {"code_provider": "degraded", "webhooks": "degraded"}
    assert found["webhooks"]["message"] == "Unknown: the database does not answer in time."
    await until(world)
