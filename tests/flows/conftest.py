"""Flows called in the test's own process over real servers: no HTTP, no jobs process, no timers."""

import asyncio
import contextlib
import json
import pathlib
import shutil
from collections.abc import Coroutine, Iterator
from typing import Any

import attrs
import pytest
import uvloop

from core.accounts.customers import store as customers
from core.accounts.logins import tokens
from core.accounts.logins.tokens import Opening
from core.accounts.mitras import store as mitras
from core.app.reactions import open_runtime
from core.base import ids
from core.base.actor import Actor, UserType
from core.base.clock import Clock
from core.desk import setup
from core.pairing import answer as pairing_answer
from core.pairing import cancel as pairing_cancel
from core.pairing import request as payment_request
from core.pairing import start as pairing_start
from core.pairing.request import PaymentWish
from core.payments.webhooks import receive as webhook_receive
from core.payments.webhooks.receive import Incoming
from core.providers.gateway import Gateway
from core.runtime.container import Runtime
from core.sessions import store as sessions
from core.settings.environment import read
from tests.http.gateway.simulated_gateway import SECRET_KEY, SimulatedGateway
from tests.stack import CHEAP_PASSWORDS, Stack
from tools.embedded.ownership import EmbeddedServers
from tools.embedded.servers import Embedded

CALLBACK_TOKEN = "a-callback-token-for-the-flows"
ADDRESS = "192.0.2.1"
WISH = PaymentWish(mode="chat", duration_minutes=12, first_session_discount=False, targeted_mitra_id=None, topics=None)
WAITING = "SELECT count(*)::int FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
# The tables of users, payments and sessions, and those that refer to them; their size with all partitions, and whether
# one was analysed.
OF_USERS = """WITH RECURSIVE found (oid) AS (
    SELECT name::regclass::oid
    FROM unnest(ARRAY['customers', 'mitras', 'auth_sessions', 'chat_messages', 'deliveries']) AS t (name)
    UNION SELECT of.oid FROM found JOIN (
      SELECT conrelid, confrelid FROM pg_constraint WHERE contype = 'f'
      UNION ALL SELECT inhrelid, inhparent FROM pg_inherits
    ) AS of (oid, parent) ON of.parent = found.oid
  ) SELECT array_agg(oid::regclass::text) FILTER (WHERE NOT relispartition) AS names,
    sum(pg_relation_size(oid)) AS bytes, bool_or(relkind = 'r' AND reltuples >= 0) AS is_analysed
  FROM pg_class JOIN found USING (oid)"""
LARGE = 2**19  # bytes


@attrs.define(kw_only=True)
class Harness:
    """A runtime and the event loop in which all its work runs."""

    runtime: Runtime
    loop: asyncio.AbstractEventLoop
    people: int = 0

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine in the loop."""
        return self.loop.run_until_complete(work)

    async def customer(self) -> Actor:
        """Return a new customer."""
        async with self.runtime.transaction() as tx:
            made = await customers.create_anonymous(tx, ids.new_id())
            await customers.set_display_name(tx, made.id, "Dewi")
        return _actor(UserType.CUSTOMER, made.id)

    async def mitra(self) -> Actor:
        """Return a new mitra, who is signed in and offline."""
        self.people += 1
        async with self.runtime.transaction() as tx:
            made = await mitras.create(
                tx, phone=f"+628{self.people:09d}", display_name=f"Mitra {self.people}", is_active=True
            )
        assert made is not None
        return await self.sign_in(_actor(UserType.MITRA, made.id))

    async def sign_in(self, user: Actor) -> Actor:
        """Open the auth session of a user, and return the user."""
        opening = Opening(auth_session_id=user.auth_session_id)
        async with self.runtime.transaction() as tx:
            await tokens.issue(
                self.runtime, tx, user_type=user.user_type, user_id=user.user_id, device={}, opening=opening
            )
        return user

    async def report_paid(self, request_id: str, amount: int, *, invoice: str | None = None, **more: Any) -> str:
        """Let the gateway report a request as paid; return the processing result."""
        body = {"id": invoice or f"inv-{request_id}", "external_id": request_id, "status": "PAID", "amount": amount}
        return await self.call({**body, **more})

    async def paid(self, customer: Actor, wish: PaymentWish = WISH) -> str:
        """Create a request that the gateway reports as paid; no pairing starts. Return its id."""
        request = await payment_request.request_payment(self.runtime, customer, wish, address=ADDRESS)
        assert await self.report_paid(request.payment_request_id, request.amount) == "confirmed"
        return request.payment_request_id

    async def failed(self, *, channel: str | None = "QRIS") -> str:
        """Create a failed pairing: the customer pays an invoice and cancels. Return its id."""
        customer = await self.customer()
        request = await payment_request.request_payment(self.runtime, customer, WISH, address=ADDRESS)
        more = {} if channel is None else {"payment_channel": channel}
        assert await self.report_paid(request.payment_request_id, request.amount, **more) == "confirmed"
        await pairing_cancel.cancel(self.runtime, customer, payment_request_id=request.payment_request_id)
        sql = "SELECT id::text FROM pairing_failures WHERE payment_request_id = $1"
        return await self.runtime.db.fetchval(sql, request.payment_request_id)

    async def operator(self) -> Actor:
        """Return a new operator."""
        role_id, operator_id = ids.new_id(), ids.new_id()
        db = self.runtime.db
        await db.fetch("INSERT INTO roles (id, name, created_at) VALUES ($1::uuid, $1::uuid::text, now())", role_id)
        await db.fetch(
            """INSERT INTO control_center_users (id, email, display_name, role_id, created_at)
               VALUES ($1::uuid, $1::uuid::text, 'Root', $2, now())""",
            operator_id,
            role_id,
        )
        return _actor(UserType.OPERATOR, operator_id)

    async def call(self, body: dict[str, Any]) -> str:
        """Let the gateway call the webhook; return the processing result."""
        headers = {"x-callback-token": CALLBACK_TOKEN}
        call = Incoming(body=json.dumps(body).encode(), headers=headers, source_ip="127.0.0.1")
        return (await webhook_receive.receive(self.runtime, call)).processing_result

    async def session_of(self, request_id: str) -> sessions.Session:
        """Return the newest session of a request."""
        found = await sessions.of_payment(self.runtime.db, request_id)
        assert found is not None
        return found

    async def start_session(self, customer: Actor, mitra: Actor) -> str:
        """Create a session that a customer paid for and an online mitra accepted; return its id."""
        request_id = await self.paid(customer)
        await pairing_start.start(self.runtime, payment_request_id=request_id)
        session = await self.session_of(request_id)
        await pairing_answer.accept(self.runtime, mitra, session_id=session.id)
        return session.id

    async def clear(self) -> None:
        """Delete all users, payments and sessions, and what the planner knows about them."""
        (found,) = await self.runtime.db.fetch(OF_USERS)
        await self.empty(*found["names"], by_truncate=found["bytes"] > LARGE or found["is_analysed"])

    async def empty(self, *tables: str, by_truncate: bool = False) -> None:
        """Delete all rows of tables, with the triggers that forbid deletion switched off.

        TRUNCATE costs a millisecond for each table, and all connections then plan their statements again.
        """
        statement = (
            f"TRUNCATE {', '.join(tables)}" if by_truncate else ";".join(f"DELETE FROM {name}" for name in tables)
        )
        async with self.runtime.db.pool.acquire() as connection, connection.transaction():
            await connection.execute("SET LOCAL session_replication_role = replica")
            await connection.execute(statement)

    async def until(self, sql: str, count: int) -> None:
        """Wait until a statement returns this count."""
        async with asyncio.timeout(20):
            while True:
                if await self.runtime.db.fetchval(sql) >= count:
                    return
                await asyncio.sleep(0.01)


@contextlib.contextmanager
def rows(runtime: Runtime, **values: int | str) -> Iterator[None]:
    """Set configuration rows of this process for a while."""
    before = runtime.config.values
    runtime.config.values = {**before, **values}
    try:
        yield
    finally:
        runtime.config.values = before


def _actor(user_type: UserType, user_id: str) -> Actor:
    return Actor(user_type=user_type, user_id=user_id, auth_session_id=ids.new_id(), expires_at=2**40, ids=(user_id,))


# An operator without rights, as reads for operators see them: they hide what people wrote.
READER = _actor(UserType.OPERATOR, ids.new_id())


@pytest.fixture(scope="session")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """Yield a new, migrated and seeded database with a runtime over it; nothing runs in the background."""
    yield from _harness(tmp_path_factory.mktemp("flows"))


@pytest.fixture
def clean_harness(harness: Harness) -> Harness:
    """Empty the database before the test."""
    harness.run(harness.clear())
    return harness


@pytest.fixture
def simulated() -> Iterator[SimulatedGateway]:
    """Yield the simulated gateway."""
    made = SimulatedGateway()
    yield made
    made.close()


@pytest.fixture
def with_gateway(clean_harness: Harness, simulated: SimulatedGateway) -> Iterator[Harness]:
    """Yield a runtime with a gateway; nothing reacts to commits."""
    clean_harness.runtime.gateway = Gateway(clean_harness.runtime.http, base_url=simulated.url, secret_key=SECRET_KEY)
    yield clean_harness
    clean_harness.runtime.gateway = None


@pytest.fixture
def refunding(with_gateway: Harness) -> Iterator[Harness]:
    """Yield a runtime with a gateway that refunds."""
    runtime = with_gateway.runtime
    before = runtime.settings
    runtime.settings = attrs.evolve(before, refunds_enabled=True)
    yield with_gateway
    runtime.settings = before


@pytest.fixture
def empty_harness(tmp_path: pathlib.Path) -> Iterator[Harness]:
    """Yield a database for one test only, for tests that change the clock or run the audit."""
    yield from _harness(tmp_path)


def _harness(folder: pathlib.Path) -> Iterator[Harness]:
    servers, loop = Embedded(folder, durable=False, template=Stack.template()), uvloop.new_event_loop()
    try:
        made = Harness(runtime=loop.run_until_complete(_open(servers.start())), loop=loop)
        yield made
        made.run(made.runtime.close())
    finally:
        servers.stop()
        if servers.postgres_dir is not None:
            shutil.rmtree(servers.postgres_dir, ignore_errors=True)
        loop.close()


async def _open(found: EmbeddedServers) -> Runtime:
    runtime = await open_runtime(
        read(
            {
                "ENVIRONMENT": "test",
                "DATABASE_URL": found.database_url,
                "REDIS_URL": found.redis_url,
                "GATEWAY_CALLBACK_TOKEN": CALLBACK_TOKEN,
                **CHEAP_PASSWORDS,
            }
        )
    )
    # The clock that the database server, on this machine, has as well. A clock that is set by the server's answers differs
    # by milliseconds if they were slow, and unlike those of processes this one would never be set again.
    runtime.clock = Clock(anchor=runtime.clock.anchor, scale=runtime.clock.scale)
    await setup.seed_defaults(runtime)
    await setup.seed_prices(runtime, setup.TIERS, setup.PROMOTION)
    await runtime.changes.refresh_config()
    return runtime
