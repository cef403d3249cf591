"""A whole service for the tests: embedded servers and real processes, which can be killed and started one by one."""

import asyncio
import os
import pathlib
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Awaitable
from typing import Any

import asyncpg
import pytest

from core.base import ids
from tools.client import Addresses, Client, Refused
from tools.embedded import Embedded
from tools.inbox import CodeInbox
from tools.throwaway import free_port

PROCESSES = ("api", "realtime", "jobs")
PASSWORD = "correct horse battery staple"
EMAIL = "root@example.test"
CALLBACK_TOKEN = "a-callback-token-for-the-tests"


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


class Stack:
    """One service. `scale` is SESI_TIME_SCALE; more settings come as `env`."""

    template: pathlib.Path | None = None

    def __init__(self, *, scale: float = 1, only_database: bool = False, **env: str) -> None:
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="sesi-test-"))
        self.inbox = CodeInbox()
        self.servers = Embedded(self.root, durable=False, template=self.template)
        started = self.servers.start()
        self.database_url, self.redis_url = started.database_url, started.redis_url
        self.ports = {name: free_port() for name in ("PUBLIC", "INTERNAL", "REALTIME", "JOBS")}
        self.scale = scale
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("SESI_")},
            **self.inbox.environment,
            "ENVIRONMENT": "test",
            "DATABASE_URL": self.database_url,
            "REDIS_URL": self.redis_url,
            "SESI_DATA_DIR": str(self.root),
            "SESI_TIME_SCALE": str(scale),
            "JWT_SECRETS": "test:" + secrets.token_hex(32),
            "GATEWAY_CALLBACK_TOKEN": CALLBACK_TOKEN,
            "SHUTDOWN_GRACE_SECONDS": "5",
            # Everybody here comes from one address; the tests of the limit have services of their own.
            "RATE_LIMIT_PER_MINUTE": "1000000",
            "RATE_LIMIT_BURST": "1000000",
            **{f"{name}_PORT": str(port) for name, port in self.ports.items()},
            **env,
        }
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        if self.template is None:
            self._fill_database()
        if not only_database:
            for name in PROCESSES:
                self.start(name, wait=False)
            for name in PROCESSES:
                self.wait_ready(name)

    def _fill_database(self) -> None:
        self.command("migrate")
        self.command("seed", "tiers")
        self.command(
            "operator", "create", "--email", EMAIL, "--display-name", "Root", "--role", "administrator",
            "--password-stdin", stdin=PASSWORD,
        )  # fmt: skip

    @property
    def addresses(self) -> Addresses:
        """Where it is."""
        return Addresses(
            public=f"http://127.0.0.1:{self.ports['PUBLIC']}",
            internal=f"http://127.0.0.1:{self.ports['INTERNAL']}",
            realtime=f"ws://127.0.0.1:{self.ports['REALTIME']}",
        )

    def command(self, *args: str, stdin: str = "", check: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a `sesi` command against this service."""
        done = subprocess.run(
            [sys.executable, "-m", "tools.cli", *args],
            input=stdin, env={**self.env, **env}, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        if check and done.returncode != 0:
            raise AssertionError(f"sesi {' '.join(args)}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def start(self, name: str, *, wait: bool = True, key: str | None = None, **env: str) -> None:
        """Start a process; a second one of a kind gets a `key` of its own (and ports in `env`)."""
        log = open(self.root / f"{key or name}.log", "ab")  # noqa: SIM115 - it is the child's
        self.processes[key or name] = subprocess.Popen(
            [sys.executable, "-m", "tools.cli", name], env={**self.env, **env}, stdout=log, stderr=log
        )
        log.close()
        if wait and key is None:
            self.wait_ready(name)

    def wait_ready(self, name: str, *, port: int | None = None) -> None:
        """Wait until a process answers its probe."""
        known = {"api": "INTERNAL", "realtime": "REALTIME", "jobs": "JOBS"}
        url = f"http://127.0.0.1:{port or self.ports[known[name]]}/readyz"
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(url, timeout=2) as answer:
                    if answer.status == 200:
                        return
            except OSError:
                time.sleep(0.03)
        raise AssertionError(f"{name} is not ready:\n{self.log(name)[-3000:]}")

    def kill(self, name: str) -> None:
        """SIGKILL a process."""
        self.processes[name].kill()
        self.processes[name].wait()

    def stop(self, name: str) -> int:
        """SIGTERM a process; return its exit code."""
        self.processes[name].send_signal(signal.SIGTERM)
        return self.processes[name].wait(timeout=20)

    def restart(self, name: str) -> None:
        """SIGKILL a process and start it again."""
        self.kill(name)
        self.start(name)

    def log(self, name: str) -> str:
        """A process's log."""
        return (self.root / f"{name}.log").read_text(errors="replace")

    async def sql(self, statement: str, *args: Any) -> list[Any]:
        """Look into the database."""
        connection = await asyncpg.connect(self.database_url)
        try:
            return await connection.fetch(statement, *args)
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
        undocumented = self.undocumented_answers()
        self._stop_all()
        assert undocumented == [], "\n".join(["answers that no interface document knows:", *undocumented])

    def _stop_all(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.terminate()
        for process in self.processes.values():
            try:
                process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.servers.stop()
        self.inbox.close()
        shutil.rmtree(self.root, ignore_errors=True)
        if self.servers.postgres_dir is not None:
            shutil.rmtree(self.servers.postgres_dir, ignore_errors=True)


class World:
    """The people of one test. Its mitras go offline when it ends, so that no other test's blast finds them."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
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
        """The administrator, signed in once for the test."""
        if self._operator is None:
            self._operator = self.client()
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
        return made

    async def config(self, key: str, value: Any) -> None:
        """Set a configuration row."""
        operator = await self.operator()
        await operator.call("PUT", f"/internal/config/{key}", {"value": value})

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

    async def raw_webhook(self, body: Any, *, token: str | None = CALLBACK_TOKEN) -> tuple[int, Any]:
        """Any call to the webhook: bytes as they are, everything else as JSON."""
        client = self.client()
        headers = {} if token is None else {"X-Callback-Token": token}
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
            for mitra in self.mitras:
                operator = await self.operator()
                await operator.post(f"/internal/mitras/{mitra.user['id']}/force-offline")
            books = await self.audit()
            assert books["violations"] == []
        finally:
            for client in self.clients:
                await client.close()


new_id = ids.new_id
