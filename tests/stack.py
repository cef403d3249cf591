"""A whole service for the tests: embedded servers and real processes, which can be killed and started one by one."""

import asyncio
import contextlib
import pathlib
import secrets
import shutil
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import aiohttp
import asyncpg
import pytest

from core.base import ids
from core.config.keys import KEYS
from tools.bench.machine import yardstick
from tools.client import Client, Refused, SignedIn
from tools.inbox import CodeInbox
from tools.service import Service

PASSWORD = "correct horse battery staple"
EMAIL = "root@example.test"
CALLBACK_TOKEN = "a-callback-token-for-the-tests"
CADENCE_S = 30  # of heartbeats (MITRA_HEARTBEAT_CADENCE_SECONDS)
STALE_AFTER_S = KEYS["mitra_stale_after_seconds"].default
QUIET_S = 0.06  # for the yardstick, with nobody else on the machine
# Paid requests of these customers that still look for a mitra.
SEARCHING = """SELECT p.id::text, p.customer_id::text FROM payment_requests p
  WHERE p.status = 'confirmed' AND NOT p.is_extension AND p.customer_id = ANY($1::uuid[])"""


def payment_call(payment: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The body of the gateway's PAID call about a payment; None leaves a field out."""
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


def open_failure(cause_tag: str) -> dict[str, Any]:
    """A payment request's `failure` that no operator has acted on."""
    return {"cause_tag": cause_tag, "operator_action": None, "actioned_at": None}


def within(seconds: float) -> float:
    """How long what the contract gives so many seconds may take on this machine as it is now.

    Half a second more, as many times as a fixed piece of work takes longer than on a quiet machine.
    """
    began = time.monotonic()
    yardstick()
    return seconds + 0.5 * max(1.0, (time.monotonic() - began) / QUIET_S)


async def refused(call: Any, status: int, code: str) -> Any:
    """The call is refused with this status and code; returns the error."""
    with pytest.raises(Refused) as caught:
        await call
    assert (caught.value.status, caught.value.code) == (status, code)
    return caught.value.body["error"]


async def outcome(call: Awaitable[Any]) -> str:
    """Return "ok" or the refusal's code. Anything else (a 5xx, a time-out) is the test's failure."""
    try:
        await call
    except Refused as refused:
        if refused.status >= 500:
            raise
        return str(refused.code)
    return "ok"


async def at_once(*calls: Awaitable[Any]) -> list[str]:
    """Let all calls go together; return their outcomes in order."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(outcome(call)) for call in calls]
    return [task.result() for task in tasks]


def make_template(folder: pathlib.Path) -> None:
    """Put a migrated and seeded cluster with its administrator into a folder: stacks begin as copies of it."""
    made = Stack(only_database=True)
    made.servers.stop()
    assert made.servers.postgres_dir is not None
    shutil.copytree(made.servers.postgres_dir / "cluster", folder, symlinks=True)
    made.close()


class Stack(Service):
    """One service. `scale` is SESI_TIME_SCALE; more settings come as `env`."""

    template: pathlib.Path | None = None

    def __init__(self, *, scale: float = 1, only_database: bool = False, **env: str) -> None:
        self.inbox = CodeInbox()
        # Hashing a password costs more than most tests: the administrator's signing in is passed on from test to test.
        self.signed_in: SignedIn | None = None
        super().__init__(
            durable=False, scale=scale, template=self.template, prefix="sesi-test-",
            **{**self.inbox.environment, "GATEWAY_CALLBACK_TOKEN": CALLBACK_TOKEN, **env},
        )  # fmt: skip
        try:
            if self.template is None:
                self._fill_database()
            if not only_database:
                self.start_all()
        except BaseException:  # nobody else could stop what runs already
            self._stop_all()
            raise

    def _fill_database(self) -> None:
        self.command("migrate")
        self.command("seed", "tiers")
        self.command(
            "operator", "create", "--email", EMAIL, "--display-name", "Root", "--role", "administrator",
            "--password-stdin", stdin=PASSWORD,
        )  # fmt: skip

    async def sql(self, statement: str, *args: Any) -> list[Any]:
        """Look into the database."""
        connection = await asyncpg.connect(self.database_url)
        try:
            return await connection.fetch(statement, *args)
        finally:
            await connection.close()

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[asyncpg.Connection]:
        """A transaction beside those of the service: what its statements lock is held until it ends."""
        connection = await asyncpg.connect(self.database_url)
        try:
            async with connection.transaction():
                yield connection
        finally:
            await connection.close()

    def undocumented_answers(self) -> list[str]:
        """What the api process has answered that its interface documents do not know; nothing when it is gone."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports['INTERNAL']}/metrics", timeout=5) as answer:
                figures = answer.read().decode()
        except OSError:
            return []
        return [line for line in figures.splitlines() if line.startswith("sesi_undocumented_answers_total{")]

    def close(self) -> None:
        """Stop everything; the documents must have known every answer of this service's life."""
        try:
            undocumented = self.undocumented_answers()
        finally:
            self._stop_all()
        assert undocumented == [], "\n".join(["answers that no interface document knows:", *undocumented])

    def _stop_all(self) -> None:
        super().close()
        self.inbox.close()


class World:
    """The people of one test. Its mitras go offline when it ends, so that no other test's blast finds them."""

    def __init__(self, stack: Stack, *, heartbeats: bool = True) -> None:
        """Make a world; with `heartbeats` the phone of each mitra sends them over REST until the test ends."""
        self.stack = stack
        self._has_heartbeats = heartbeats
        self._cadence_s = CADENCE_S / stack.scale  # real seconds
        self._heartbeats: dict[str, asyncio.Task[None]] = {}
        self.clients: list[Client] = []
        self.mitras: list[Client] = []
        self._operator: Client | None = None

    def client(self) -> Client:
        """A device without a user."""
        made = Client(self.stack.addresses)
        self.clients.append(made)
        return made

    async def customer(self, name: str = "Dewi") -> Client:
        """A customer with a name."""
        made = self.client()
        await made.sign_in_anonymously(name)
        return made

    async def operator(self) -> Client:
        """The administrator, signed in once for all tests of the service, unless one ended that."""
        if self._operator is None:
            self._operator = self.client()
            if not await self._operator.go_on_as_operator(self.stack.signed_in):
                await self._operator.sign_in_as_operator(EMAIL, PASSWORD)
        return self._operator

    async def mitra(self, name: str = "Ayu", *, online: bool = True) -> Client:
        """A new mitra, signed in by code, online unless told otherwise."""
        operator = await self.operator()
        phone = f"+62812{secrets.randbelow(10**8):08d}"
        await operator.post("/internal/mitras", {"phone": phone, "display_name": name, "is_active": True})
        made = self.client()
        # A mitra's phone has an address of its own, so that no test meets the limit of codes for an address.
        made._http.headers["X-Forwarded-For"] = f"10.{secrets.randbelow(256)}.{secrets.randbelow(256)}.7"
        await made.sign_in_as_mitra(phone, self.stack.inbox.code_of)
        self.mitras.append(made)
        if online:
            await made.post("/api/mitra/status/online")
        if self._has_heartbeats:
            self._heartbeats[made.user["id"]] = asyncio.create_task(self._send_heartbeats(made))
        return made

    async def _send_heartbeats(self, mitra: Client) -> None:
        """Send a heartbeat at the app's cadence, whether the mitra is online or not: the service refuses those offline."""
        while True:
            await asyncio.sleep(self._cadence_s)
            if mitra._http.closed:
                return
            with contextlib.suppress(OSError, aiohttp.ClientError, TimeoutError, Refused):
                await mitra.post("/api/mitra/status/heartbeat")

    def stop_heartbeats(self, mitra: Client) -> None:
        """Let a mitra's phone send no heartbeats from now on."""
        self._heartbeats.pop(mitra.user["id"]).cancel()

    async def scale_silence(self) -> None:
        """Let mitras of a fast service be silent for as many real seconds as in production.

        Heartbeats, restarts and the leases of processes take real time, so at sixty times the speed a phone would count as
        silent after one late heartbeat.
        """
        self._cadence_s = CADENCE_S
        await self.config("mitra_stale_after_seconds", int(STALE_AFTER_S * self.stack.scale))

    async def config(self, key: str, value: Any) -> None:
        """Set a configuration row."""
        operator = await self.operator()
        await operator.call("PUT", f"/internal/config/{key}", {"value": value})

    @contextlib.asynccontextmanager
    async def setting(self, **values: Any) -> AsyncIterator[None]:
        """Configure something for a while."""
        for key, value in values.items():
            await self.config(key, value)
        try:
            yield
        finally:
            for key in values:
                await self.config(key, KEYS[key].default)

    async def promotion(self, *, enabled: bool) -> None:
        """Switch the first-session discount, as an operator does."""
        path = "/internal/pricing/promotions/first-session"
        operator = await self.operator()
        seen = await operator.get(path)
        await operator.call("PATCH", path, {"updated_at": seen["updated_at"], "enabled": enabled})

    async def request(self, customer: Client, **wish: Any) -> dict[str, Any]:
        """A pending payment request."""
        return await customer.post("/api/client/payment/requests", {"duration_minutes": 12, **wish})

    async def webhook(self, payment: dict[str, Any], *, token: str = CALLBACK_TOKEN, **more: Any) -> tuple[int, Any]:
        """The gateway calls about a payment; returns its status and answer."""
        return await self.raw_webhook(payment_call(payment, **more), token=token)

    async def raw_webhook(
        self, body: Any, *, token: str | None = CALLBACK_TOKEN, address: str | None = None
    ) -> tuple[int, Any]:
        """Any call to the webhook: bytes as they are, everything else as JSON. `address`: as a trusted proxy names it."""
        client = self.client()
        headers = {} if token is None else {"X-Callback-Token": token}
        if address is not None:
            headers["X-Forwarded-For"] = address
        payload = {"data": body} if isinstance(body, bytes) else {"json": body}
        url = self.stack.addresses.public + "/api/shared/payment/webhooks/gateway"
        async with client._http.post(url, headers=headers, **payload) as answer:
            return answer.status, await answer.json(content_type=None)

    async def paid(self, customer: Client, **wish: Any) -> dict[str, Any]:
        """A paid request whose search has begun; carries `session_id`."""
        payment = await self.request(customer, **wish)
        status, answer = await self.webhook(payment)
        assert (status, answer["processing_result"]) == (200, "confirmed")
        return await self.until(
            lambda: customer.get(f"/api/client/payment/requests/{payment['payment_request_id']}"),
            lambda found: found["session_id"] is not None or found["status"] != "confirmed",
        )

    async def session(self, customer: Client, mitra: Client, **wish: Any) -> str:
        """An active session's id."""
        payment = await self.paid(customer, **wish)
        await self.until(
            lambda: mitra.get("/api/mitra/chat-requests"),
            lambda found: any(item["session_id"] == payment["session_id"] for item in found["items"]),
        )
        view = await mitra.post(f"/api/mitra/chat-requests/{payment['session_id']}/accept")
        return view["id"]

    async def leave_searches(self) -> None:
        """Cancel what these customers still search for: other tests' mitras would find it."""
        customers = {client.user["id"]: client for client in self.clients if "is_anonymous" in client.user}
        for request_id, customer_id in await self.stack.sql(SEARCHING, list(customers)):
            await customers[customer_id].post("/api/client/chat/cancel", {"payment_request_id": request_id})

    async def until(self, look: Any, good: Any, *, timeout: float = 20) -> Any:
        """Look again and again until what is seen is good."""
        seen = None
        try:
            async with asyncio.timeout(timeout):
                while True:
                    seen = await look()
                    if good(seen):
                        return seen
                    await asyncio.sleep(0.03)
        except TimeoutError:
            raise AssertionError(f"never seen; last: {seen}") from None

    async def audit(self) -> dict[str, Any]:
        """The books."""
        return await (await self.operator()).get("/internal/ledger/audit")

    async def close(self) -> None:
        """Send everybody home; the books must be right."""
        try:
            for task in self._heartbeats.values():
                task.cancel()
            for mitra in self.mitras:
                operator = await self.operator()
                await operator.post(f"/internal/mitras/{mitra.user['id']}/force-offline")
            books = await self.audit()
            assert books["violations"] == [], books["violations"]
        finally:
            if self._operator is not None:
                self.stack.signed_in = self._operator.signed_in
            for client in self.clients:
                await client.close()


new_id = ids.new_id
