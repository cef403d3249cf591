"""A whole service for the tests: embedded servers and real processes, which tests can kill and start one by one."""

import asyncio
import contextlib
import datetime as dt
import functools
import itertools
import json
import os
import pathlib
import secrets
import shutil
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import asyncpg
import jwt
import pytest

from core.base import ids
from core.config.keys import KEYS
from core.desk.audits.rules import Depth, lease_of
from tests import plans
from tests.looks import READ, WRITE, Looks
from tests.tiers import QUICK
from tests.verdicts import NeverSeen, Violation, check_books
from tools.driving.device import Device, SignedIn
from tools.driving.inbox import CodeInbox
from tools.driving.service import OURS, Service, SourceTree
from tools.driving.sesi_client import Refused
from tools.embedded import programs

PASSWORD = "correct horse battery staple"
EMAIL = "root@example.test"
CALLBACK_TOKEN = "a-callback-token-for-the-tests"
CHEAP_PASSWORDS = {"PASSWORD_ROUNDS": "4"}  # a hash with the default of 11 costs more than most tests
CADENCE_S = 30  # seconds between heartbeats (MITRA_HEARTBEAT_CADENCE_SECONDS)
STALE_AFTER_S = KEYS["mitra_stale_after_seconds"].default
NUMBERS = itertools.count(secrets.randbelow(10**8))  # of mitras; random ones met once in a thousand runs
LEAST_MARGIN_S = 1.0  # of a time limit: a worker of the run may stall for as long
WORK = range(1_500_000)  # see _slowdown
QUIET_S = 0.025  # seconds that a sum of them takes on an idle machine
LOOK_EVERY_S = 5  # how long a look at the machine's load counts
AUDIT_EVERY_S = 6.0
# By default a connection plans each of the first five calls of a statement, and tests make few calls.
PLANS = "plan_cache_mode = force_generic_plan\n"
AUDITED = """INSERT INTO cluster_leases (name, done_real_at) VALUES ($1, now())
  ON CONFLICT (name) DO UPDATE SET done_real_at = now()"""
IS_SET = (
    "SELECT FROM app_config WHERE key = $1 AND value IN ($2::text::jsonb, jsonb_build_object('value', $2::text::jsonb))"
)
# Confirmed requests of these customers whose search for a mitra is still running.
SEARCHING = """SELECT p.id::text, p.customer_id::text FROM payment_requests p
  WHERE p.status = 'confirmed' AND NOT p.is_extension AND p.customer_id = ANY($1::uuid[])"""


def payment_call(payment: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the body of the gateway's PAID webhook about a payment; the value None removes a field."""
    body = {
        "id": f"inv-{payment['payment_request_id']}",
        "external_id": payment["payment_request_id"],
        "status": "PAID",
        "amount": payment["amount"],
        "currency": "IDR",
        "metadata": {"app": "sesi"},
        **more,
    }
    return {name: value for name, value in body.items() if value is not None}


def open_failure(cause_tag: str, sub_cause: str | None = None) -> dict[str, Any]:
    """Return the `failure` field of a payment request that no operator has acted on."""
    return {
        "cause_tag": cause_tag,
        "sub_cause": sub_cause,
        "operator_action": None,
        "actioned_at": None,
        "refund_status": None,
    }


def within(seconds: float) -> float:
    """Return how long, in seconds, a promise of `seconds` may take on this machine under its present load.

    The margin is half a second, multiplied by the slowdown of a fixed piece of work compared with an idle machine, and at
    least a second: the load of the next second may be another one.
    """
    return seconds + max(LEAST_MARGIN_S, 0.5 * _slowdown(int(time.monotonic() / LOOK_EVERY_S)))


@functools.lru_cache(maxsize=1)
def _slowdown(_: int) -> float:
    """Return the slowdown, measured once for each span of LOOK_EVERY_S: it takes some 30 ms of CPU time."""
    began = time.monotonic()
    sum(WORK)
    return max(1.0, (time.monotonic() - began) / QUIET_S)


async def refused(call: Any, status: int, code: str) -> Any:
    """Check that the call is refused with this status and code; return the error."""
    with pytest.raises(Refused) as caught:
        await call
    assert (caught.value.status, caught.value.code) == (status, code)
    return caught.value.body["error"]


async def outcome(call: Awaitable[Any]) -> str:
    """Return "ok" or the refusal's code. Any other outcome (a 5xx, a timeout) raises and fails the test."""
    try:
        await call
    except Refused as refused:
        if refused.status >= 500:
            raise
        return str(refused.code)
    return "ok"


async def at_once(*calls: Awaitable[Any]) -> list[str]:
    """Run all calls concurrently; return their outcomes in order."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(outcome(call)) for call in calls]
    return [task.result() for task in tasks]


def make_template(folder: pathlib.Path, *, grown: bool = False) -> None:
    """Create a migrated and seeded database cluster with its administrator in a folder, from which stacks are copied.

    The full audit of its ledger is done for today: else each service would begin with one.

    `grown`: with a history, and a role whose statements are explained (tests/plans.py).
    """
    made = Unfilled(only_database=True)
    if grown:
        made.command(*plans.GROWTH)
        asyncio.run(plans.make_role(made.database_url))
    asyncio.run(made.sql(AUDITED, lease_of(Depth.FULL)))
    made.servers.stop()
    assert made.servers.postgres_dir is not None
    programs.run(["cp", "-a", made.servers.postgres_dir / "cluster", folder], None)
    if not grown:  # there the plans are looked at, and shall be those of a service
        with (folder / "postgresql.conf").open("a") as conf:
            conf.write(PLANS)
    made.close()


class Stack(Service):
    """One service. `scale` is SESI_TIME_SCALE, `code` the source tree that it runs; `env` adds further settings."""

    def __init__(self, *, scale: float = 1, only_database: bool = False, code: SourceTree = OURS, **env: str) -> None:
        self.inbox = CodeInbox()
        # Signing in takes two calls, so all tests share the administrator's sign-in.
        self.signed_in: SignedIn | None = None
        self.unaudited: list[str] = []  # the tests since the last ledger audit
        self.audit_due = 0.0  # by time.monotonic
        template = self.template() if code.folder is None else None  # it has the schema of our version
        super().__init__(
            durable=False, scale=scale, template=template, prefix="sesi-test-", code=code,
            **{**self.inbox.environment, "GATEWAY_CALLBACK_TOKEN": CALLBACK_TOKEN, **CHEAP_PASSWORDS, **env},
        )  # fmt: skip
        self._looks = Looks(self.database_url)
        if self.kept_logs is not None and template is not None:
            self.env["DATABASE_URL"] = plans.of_role(self.database_url)
        try:
            if template is None:
                self._fill_database()
            if not only_database:
                self.start_all()
        except BaseException:  # stop what runs already: the caller has no object to close
            self._stop_all()
            raise

    @staticmethod
    def template() -> pathlib.Path | None:
        """Return the database cluster from which the service's is copied; None to migrate an empty database."""
        return None

    kept_logs: pathlib.Path | None = None  # where the logs of servers with a grown database are kept

    def _fill_database(self) -> None:
        self.command("migrate")
        self.command("seed", "tiers")
        self.command(
            "operator", "create", "--email", EMAIL, "--display-name", "Root", "--role", "administrator",
            "--password-stdin", stdin=PASSWORD,
        )  # fmt: skip

    def url_of(self, database: str) -> str:
        """Return the URL of another database of the service's server, with the same parameters."""
        return urlsplit(self.database_url)._replace(path=f"/{database}").geturl()

    async def sql(self, statement: str, *args: Any) -> list[Any]:
        """Run a statement on the service's database and return its rows."""
        if self.database_url == self._looks.url and (READ.match(statement) or WRITE.match(statement)):
            return await self._looks.fetch(statement, *args)
        connection = await asyncpg.connect(self.database_url)
        try:
            return await connection.fetch(statement, *args)
        finally:
            await connection.close()

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[asyncpg.Connection]:
        """Open a transaction of the test's own; it holds the locks of its statements until it ends."""
        connection = await asyncpg.connect(self.database_url)
        try:
            async with connection.transaction():
                yield connection
        finally:
            await connection.close()

    def undocumented_answers(self) -> list[str]:
        """Return the answers of the api process that its OpenAPI documents do not declare.

        Empty if the process is gone."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports['INTERNAL']}/metrics", timeout=5) as answer:
                figures = answer.read().decode()
        except OSError:
            return []
        return [line for line in figures.splitlines() if line.startswith("sesi_undocumented_answers_total{")]

    def close(self) -> None:
        """Stop all processes, and check that the OpenAPI documents declare every answer that was given."""
        try:
            undocumented = self.undocumented_answers()
        finally:
            self._stop_all()
        if undocumented:
            raise Violation("\n".join(["answers that no interface document knows:", *undocumented]))

    def _stop_all(self) -> None:
        self._looks.close()
        if self.kept_logs is not None:
            for name in [name for name, process in self.processes.items() if process.poll() is None]:
                self.stop(name)
            shutil.copy(self.root / "log" / "postgres.log", self.kept_logs / f"{self.root.name}.log")
        super().close()
        self.inbox.close()


class Unfilled(Stack):
    """A service whose database is not copied from the template."""

    @staticmethod
    def template() -> None:
        """Return None: the database is migrated."""


def _is_half_used(client: Device) -> bool:
    """Return whether half of the life of a client's access token is over.

    Tests also copy the token into other calls, which would fail if it expired in the middle of a test.
    """
    claims = jwt.decode(client.access_token or "", options={"verify_signature": False})
    return client.clock.now().timestamp() > (claims["iat"] + claims["exp"]) / 2


class World:
    """The users of one test. Its mitras go offline when it ends, so that no other test's blast finds them."""

    is_last = True  # whether the test is the last one of its file (tests/conftest.py)

    def __init__(self, stack: Stack, *, heartbeats: bool = True) -> None:
        """Create a world. With `heartbeats`, each mitra's phone sends heartbeats over REST until the test ends."""
        self.stack = stack
        self._has_heartbeats = heartbeats
        self._cadence_s = CADENCE_S / stack.scale  # real seconds
        self._heartbeats: dict[str, asyncio.Task[None]] = {}
        self.clients: list[Device] = []
        self.mitras: list[Device] = []
        self._accounts: list[str] = []  # ids of the mitras, also of those whose phone is an app in a browser
        self._operator: Device | None = None

    def client(self) -> Device:
        """Return a device without a user."""
        made = Device(self.stack.addresses)
        self.clients.append(made)
        return made

    async def customer(self, name: str = "Dewi") -> Device:
        """Create a customer with a name."""
        made = self.client()
        await made.sign_in_anonymously(name)
        return made

    async def operator(self) -> Device:
        """Return the administrator, signed in once for all tests of the service unless a test ended the sign-in."""
        if self._operator is None:
            self._operator = self.client()
            goes_on = await self._operator.go_on_as_operator(self.stack.signed_in)
            if goes_on and _is_half_used(self._operator):
                goes_on = await outcome(self._operator.refresh()) == "ok"
                self.stack.signed_in = self._operator.signed_in if goes_on else None
            if not goes_on:
                self._operator.forget()
                await self._operator.sign_in_as_operator(EMAIL, PASSWORD)
        return self._operator

    def hand_over(self) -> None:
        """Leave the administrator's sign-in to other worlds on the same service, until this one needs it again.

        Two worlds that use it at the same time would refresh the same token.
        """
        if self._operator is not None:
            self.stack.signed_in, self._operator = self._operator.signed_in, None

    async def mitra(self, name: str = "Ayu", *, online: bool = True) -> Device:
        """Create a mitra who signs in by code and goes online unless `online` is false."""
        phone = await self.mitra_account(name)
        made = self.client()
        made._http.headers["X-Forwarded-For"] = self.new_address()
        await made.sign_in_as_mitra(phone, self.stack.inbox.code_of)
        self.mitras.append(made)
        if online:
            await made.post("/api/mitra/status/online")
        if self._has_heartbeats:
            self._heartbeats[made.user["id"]] = asyncio.create_task(self._send_heartbeats(made))
        return made

    async def mitra_account(self, name: str) -> str:
        """Create the account of a mitra and return the phone number."""
        operator = await self.operator()
        phone = f"+62812{next(NUMBERS) % 10**8:08d}"
        made = await operator.post("/internal/mitras", {"phone": phone, "display_name": name, "is_active": True})
        self._accounts.append(made["id"])
        return phone

    def new_address(self) -> str:
        """Return an address for one mitra's phone, so that no test reaches the limit of codes for an address."""
        return f"10.{secrets.randbelow(256)}.{secrets.randbelow(256)}.7"

    async def _send_heartbeats(self, mitra: Device) -> None:
        """Send a heartbeat at the app's cadence, online or not: the service refuses it while the mitra is offline."""
        while True:
            await asyncio.sleep(self._cadence_s)
            if mitra._http.closed:
                return
            with contextlib.suppress(OSError, aiohttp.ClientError, TimeoutError, Refused):
                await mitra.post("/api/mitra/status/heartbeat")

    def stop_heartbeats(self, mitra: Device) -> None:
        """Stop the heartbeats of a mitra's phone."""
        self._heartbeats.pop(mitra.user["id"]).cancel()

    async def scale_silence(self) -> None:
        """Let mitras of a fast service be silent for as many real seconds as in production.

        Heartbeats, restarts and the leases of processes take real time, so at sixty times the speed a phone would count
        as silent after one late heartbeat.
        """
        self._cadence_s = CADENCE_S
        await self.config("mitra_stale_after_seconds", int(STALE_AFTER_S * self.stack.scale))

    async def config(self, key: str, value: Any) -> None:
        """Set a configuration value, unless it is set: a change costs each process a look at all of them."""
        if await self.stack.sql(IS_SET, key, json.dumps(value)):
            return
        operator = await self.operator()
        await operator.call("PUT", f"/internal/config/{key}", {"value": value})

    @contextlib.asynccontextmanager
    async def estimate(self, *, p50: int, p90: int) -> AsyncIterator[None]:
        """Promise these waits inside the `async with` block, whatever the jobs process estimates."""
        later = (await self.operator()).clock.now() + dt.timedelta(hours=1)
        await self.stack.sql("DELETE FROM wait_estimates")
        await self.stack.sql(
            "INSERT INTO wait_estimates (hour, searches, p50_seconds, p90_seconds, judged, missed, estimated_at) "
            "SELECT hour, 100, $1, $2, 100, 0, $3 FROM generate_series(0, 23) AS h (hour)",
            p50,
            p90,
            later,
        )
        try:
            yield
        finally:
            await self.stack.sql("DELETE FROM wait_estimates")

    @contextlib.asynccontextmanager
    async def setting(self, **values: Any) -> AsyncIterator[None]:
        """Set configuration values inside the `async with` block and restore them afterwards."""
        for key, value in values.items():
            await self.config(key, value)
        try:
            yield
        finally:
            for key in values:
                await self.config(key, KEYS[key].default)

    async def promotion(self, *, enabled: bool) -> None:
        """Switch the first-session discount on or off, as an operator does."""
        path = "/internal/pricing/promotions/first-session"
        operator = await self.operator()
        seen = await operator.get(path)
        await operator.call("PATCH", path, {"updated_at": seen["updated_at"], "enabled": enabled})

    async def request(self, customer: Device, **wish: Any) -> dict[str, Any]:
        """Create a pending payment request and return it."""
        return await customer.post("/api/client/payment/requests", {"duration_minutes": 12, **wish})

    async def webhook(self, payment: dict[str, Any], *, token: str = CALLBACK_TOKEN, **more: Any) -> tuple[int, Any]:
        """Send the gateway's PAID webhook about a payment; return status and body."""
        return await self.raw_webhook(payment_call(payment, **more), token=token)

    async def raw_webhook(
        self, body: Any, *, token: str | None = CALLBACK_TOKEN, address: str | None = None
    ) -> tuple[int, Any]:
        """Send any call to the webhook; return status and body.

        Bytes are sent unchanged, everything else as JSON. `address` is the client's address as a trusted proxy reports
        it.
        """
        client = self.client()
        headers = {} if token is None else {"X-Callback-Token": token}
        if address is not None:
            headers["X-Forwarded-For"] = address
        payload = {"data": body} if isinstance(body, bytes) else {"json": body}
        url = self.stack.addresses.public + "/api/shared/payment/webhooks/gateway"
        async with client._http.post(url, headers=headers, **payload) as answer:
            return answer.status, await answer.json(content_type=None)

    async def paid(self, customer: Device, **wish: Any) -> dict[str, Any]:
        """Create a confirmed payment whose search has begun; the returned request has a `session_id`."""
        payment = await self.request(customer, **wish)
        status, answer = await self.webhook(payment)
        expected = {"confirmed"}
        if status == 500:  # a busy machine did not answer in time: the gateway calls again
            status, answer = await self.until(lambda: self.webhook(payment), lambda seen: seen[0] != 500)
            expected.add("duplicate")
        assert status == 200
        assert answer["processing_result"] in expected
        return await self.until(
            lambda: customer.get(f"/api/client/payment/requests/{payment['payment_request_id']}"),
            lambda found: found["session_id"] is not None or found["status"] != "confirmed",
        )

    async def session(self, customer: Device, mitra: Device, **wish: Any) -> str:
        """Create an active session between the two and return its id."""
        payment = await self.paid(customer, **wish)
        await self.until(
            lambda: mitra.get("/api/mitra/chat-requests"),
            lambda found: any(item["session_id"] == payment["session_id"] for item in found["items"]),
        )
        view = await mitra.post(f"/api/mitra/chat-requests/{payment['session_id']}/accept")
        return view["id"]

    async def leave_searches(self) -> None:
        """Cancel the searches of this world's customers, which other tests' mitras would find."""
        customers = {client.user["id"]: client for client in self.clients if "is_anonymous" in client.user}
        if not customers:
            return
        for request_id, customer_id in await self.stack.sql(SEARCHING, list(customers)):
            await customers[customer_id].post("/api/client/chat/cancel", {"payment_request_id": request_id})

    async def service_time(self) -> dt.datetime:
        """Return the time by the api process's clock, which differs from the database's by milliseconds."""
        async with self.client()._http.get(self.stack.addresses.public + "/healthz") as answer:
            return dt.datetime.fromisoformat(answer.headers["X-Server-Time"])

    async def until(self, look: Any, good: Any, *, timeout: float = 20) -> Any:
        """Call `look` until `good(result)` holds and return the result. Fails after `timeout` seconds."""
        seen, pause_s = None, 0.03
        try:
            async with asyncio.timeout(timeout):
                while True:
                    seen = await look()
                    if good(seen):
                        return seen
                    await asyncio.sleep(pause_s)
                    pause_s = min(0.15, pause_s * 1.25)  # a look costs the service and the test some milliseconds
        except TimeoutError:
            raise NeverSeen(f"last: {seen}") from None

    async def audit(self) -> dict[str, Any]:
        """Return the report of the ledger audit."""
        return await (await self.operator()).get("/internal/ledger/audit")

    async def close(self) -> None:
        """Take all mitras offline and close all clients; the ledger audit must find nothing.

        An audit takes 20 ms of CPU time, so `make test` has one for each file, and every AUDIT_EVERY_S. A grown
        database is not audited, because that takes long.
        """
        self.stack.unaudited.append(os.environ.get("PYTEST_CURRENT_TEST", ""))
        try:
            for task in self._heartbeats.values():
                task.cancel()
            if self._accounts:
                operator = await self.operator()
                offline = [f"/internal/mitras/{mitra_id}/force-offline" for mitra_id in self._accounts]
                await asyncio.gather(*map(operator.post, offline))
            is_due = self.is_last or QUICK not in os.environ or time.monotonic() > self.stack.audit_due
            if is_due and self.stack.kept_logs is None:
                tests, self.stack.unaudited = self.stack.unaudited, []
                check_books(await self.audit(), after=tests)
                self.stack.audit_due = time.monotonic() + AUDIT_EVERY_S
        finally:
            self.hand_over()
            for client in self.clients:
                await client.close()


new_id = ids.new_id
