"""`make deploy-proof`: follow docs/deploying.md line by line on an empty Debian 12 with a real systemd.

The commands are those of the page's blocks. A person's part is played here: what they type into the editor, and the users
of the service. The log is build/deploy-proof.log. Exit codes: 1 something is wrong, 2 it can't run here.
"""

import asyncio
import base64
import contextlib
import functools
import pathlib
import random
import re
import resource
import shutil
import ssl
import sys
import tempfile
import time
from collections.abc import AsyncIterator

import aiohttp
import attrs

from core.accounts.operators import totp
from tests.deploy.front import OnlyHere
from tests.deploy.machine import ROOT, Machine, missing
from tests.deploy.placed import NAME, write_certificate
from tests.http.gateway.simulated_gateway import SECRET_KEY, SimulatedGateway
from tests.http.operators.second_factor import login, store_tokens
from tests.stack import payment_call, within
from tools.driving.device import Addresses, Device
from tools.driving.inbox import TOKEN, CodeInbox
from tools.driving.push_inbox import PROJECT, PushInbox

PAGE = ROOT / "docs" / "deploying.md"
LOG = ROOT / "build" / "deploy-proof.log"
BLOCK = re.compile(r"^## (.+?)$|^```sh\n(.*?)^```$", re.M | re.S)
PASSWORD, OWN = "correct horse battery staple", "another horse battery staple"
EMAIL = "you@example.com"  # as on the page
CHATS = 3
MINUTES = 60  # of a chat: longer than the rest of the proof
WRITES_EVERY_S = 0.5
ASKS_EVERY_S = 1.5  # two requests, which is below the limit for a user
LATE_S = 5.0
HAPROXY_FILES = 110_000  # twice its maxconn
ADDRESSES = Addresses(public=f"https://{NAME}", internal=f"https://{NAME}:8443", realtime=f"wss://{NAME}")
# A person at the keyboard: the files that they save.
EDITOR = """#!/bin/sh
cat "/root/typed/$(basename "$1")" > "$1"
"""


def blocks() -> dict[str, str]:
    """Return the commands of the page, by heading."""
    found: dict[str, str] = {}
    heading = ""
    for title, commands in BLOCK.findall(PAGE.read_text()):
        heading = title or heading
        if commands:
            found[heading] = found.get(heading, "") + commands
    return found


class Log:
    """Prints each line with the seconds since the beginning, and keeps it in LOG."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        LOG.parent.mkdir(exist_ok=True)
        self._file = LOG.open("w")

    def __call__(self, line: str) -> None:
        text = f"{time.monotonic() - self._began:6.1f}  {line}"
        print(text, flush=True)
        print(text, file=self._file, flush=True)


@attrs.define
class Providers:
    """The three providers, on this machine."""

    gateway: SimulatedGateway = attrs.field(factory=SimulatedGateway)
    codes: CodeInbox = attrs.field(factory=CodeInbox)
    pushes: PushInbox = attrs.field(factory=PushInbox)

    def type(self, machine: Machine, certificate: pathlib.Path) -> None:
        """Lay out what a person types."""
        typed = machine.root / "root" / "typed"
        typed.mkdir()
        settings = (ROOT / "deploy" / "systemd" / "sesi.env").read_text()
        for name, value in (
            ("GATEWAY_BASE_URL", self.gateway.url),
            ("OTP_HTTP_URL", self.codes.environment["OTP_HTTP_URL"]),
            ("FCM_PROJECT_ID", PROJECT),
        ):
            settings, count = re.subn(rf"^{name}=.*$", f"{name}={value}", settings, flags=re.M)
            assert count == 1, name
        (typed / "sesi.env").write_text(f"{settings}FCM_BASE_URL={self.pushes.url}\n")
        (typed / "gateway_secret_key").write_text(f"{SECRET_KEY}\n")
        (typed / "otp_http_token").write_text(f"{TOKEN}\n")
        shutil.copy(self.pushes.environment["FCM_CREDENTIALS_FILE"], typed / "fcm_credentials")
        shutil.copy(certificate / "tls.pem", typed / "tls.pem")
        editor = machine.root / "usr" / "local" / "bin" / "editor"
        editor.write_text(EDITOR)
        editor.chmod(0o755)

    def close(self) -> None:
        """Stop them."""
        self.gateway.close()
        self.codes.close()
        self.pushes.close()


class Users:
    """The users, who reach the service through the proxy and trust its certificate."""

    def __init__(self, providers: Providers, callback_token: str, certificate: pathlib.Path) -> None:
        self._providers = providers
        self._callback_token = callback_token
        self._certificate = certificate
        self.clients: list[Device] = []
        self.late_s: list[float] = []

    def client(self) -> Device:
        """Return a device without a user."""
        trust = ssl.create_default_context(cafile=str(self._certificate / "tls.crt"))
        connector = aiohttp.TCPConnector(resolver=OnlyHere(), ssl=trust)
        made = Device(
            ADDRESSES, http=aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=15))
        )
        self.clients.append(made)
        return made

    async def operator(self, enrolment_code: str) -> Device:
        """Sign in as the first operator, who chooses a password and sets up the second factor."""
        made = self.client()
        store_tokens(made, await login(made, EMAIL, PASSWORD))
        await made.post("/internal/auth/password", {"current_password": PASSWORD, "new_password": OWN})
        begun = await made.post("/internal/auth/totp/begin", {"password": OWN, "code": enrolment_code})
        secret = base64.b32decode(begun["secret"] + "=" * (-len(begun["secret"]) % 8))
        code = totp.code_at(secret, int(time.time()) // totp.STEP_S)
        await made.post("/internal/auth/totp/confirm", {"code": code})
        return made

    async def mitra(self, operator: Device, number: int) -> Device:
        """Add an active mitra; sign them in and take them online."""
        phone = f"+62812{number:08d}"
        await operator.post("/internal/mitras", {"phone": phone, "display_name": "Ayu", "is_active": True})
        made = self.client()
        await made.sign_in_as_mitra(phone, self._providers.codes.code_of)
        await made.post("/api/mitra/status/online")
        return made

    async def session(self, customer: Device, mitra: Device) -> str:
        """Pay for a chat, and accept it; return the session's id."""
        asked = await customer.post("/api/client/payment/requests", {"duration_minutes": MINUTES})
        request_id = asked["payment_request_id"]
        self._providers.gateway.pay(request_id)
        url = f"{ADDRESSES.public}/api/shared/payment/webhooks/gateway"
        headers = {"X-Callback-Token": self._callback_token}
        call = payment_call(asked, id=self._providers.gateway.of(request_id)[-1]["id"])
        async with customer._http.post(url, json=call, headers=headers) as answer:
            assert (answer.status, (await answer.json())["processing_result"]) == (200, "confirmed")
        found: list[dict[str, str]] = []
        while not found:
            await asyncio.sleep(0.1)
            found = (await mitra.get("/api/mitra/chat-requests"))["items"]
        return (await mitra.post(f"/api/mitra/chat-requests/{found[0]['session_id']}/accept"))["id"]

    async def chat(self, one: Device, other: Device, session: str) -> None:
        """Send one message after the other, and note how late the other phone shows it."""
        while True:
            sent = time.monotonic()
            stored = await one.say(session, f"{random.random()}")
            await other.until(functools.partial(self._is_shown, other, session, stored["seq"]), timeout=30)
            self.late_s.append(time.monotonic() - sent)
            await asyncio.sleep(WRITES_EVERY_S)

    @staticmethod
    def _is_shown(phone: Device, session: str, seq: int) -> bool:
        return phone.chats.transcripts.whole(session) >= seq

    async def ask(self, mitra: Device) -> None:
        """Read and write again and again. Raises Refused."""
        while True:
            await mitra.get("/api/shared/config/app")
            await mitra.post("/api/mitra/status/heartbeat")
            await asyncio.sleep(ASKS_EVERY_S)

    @contextlib.asynccontextmanager
    async def chatting(self, operator: Device) -> AsyncIterator[None]:
        """Let CHATS pairs write to each other, and their mitras ask, while the block runs. Raises what one of them met."""
        tasks = []
        for number in range(CHATS):
            customer, mitra = self.client(), await self.mitra(operator, number)
            await customer.sign_in_anonymously("Dewi")
            session = await self.session(customer, mitra)
            one, other = [await client.start() for client in (customer, mitra)]
            work = self.chat(one, other, session), self.chat(other, one, session), self.ask(mitra)
            tasks += [asyncio.create_task(each) for each in work]
        yield
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(outcome, asyncio.CancelledError), f"a user met {outcome!r}"

    async def close(self) -> None:
        """Close all devices."""
        for client in self.clients:
            await client.close()


def start(machine: Machine, page: dict[str, str], providers: Providers, certificate: pathlib.Path) -> str:
    """Follow the page to a service that runs; return the code for the operator's second factor."""
    machine.run(page["Install"])
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < HAPROXY_FILES:  # a container can't raise its limit of files
        machine.run("echo 'EXTRAOPTS=\"-n 5000\"' >> /etc/default/haproxy")
    machine.run(page["PostgreSQL and Redis"])
    providers.type(machine, certificate)
    machine.run(page["Settings and secrets"])
    said = machine.run(page["Start"], answers={"sesi-run operator create": f"{PASSWORD}\n"})
    found = re.search(r"One-time code to set it up.*: (\S+)$", said, re.M)
    assert found is not None, said
    return found[1]


async def use(machine: Machine, page: dict[str, str], users: Users, enrolment_code: str, say: Log) -> None:
    """Play paid sessions, and upgrade the service under them."""
    operator = await users.operator(enrolment_code)
    async with users.chatting(operator):
        await asyncio.to_thread(machine.run, page["Check"])
        say(f"{len(users.late_s)} messages, the latest after {max(users.late_s):.1f} s")
        users.late_s.clear()
        await asyncio.to_thread(machine.run, page["Upgrade"])
        say(f"{len(users.late_s)} messages during the upgrade, the latest after {max(users.late_s):.1f} s")
    assert max(users.late_s) < within(LATE_S)


async def prove(say: Log) -> None:
    """Follow the page. Raises AssertionError."""
    page = blocks()
    providers = Providers()
    with tempfile.TemporaryDirectory() as folder:
        certificate = pathlib.Path(folder)
        write_certificate(certificate)
        machine = Machine(say, NAME)
        try:
            authorities = machine.root / "usr" / "local" / "share" / "ca-certificates"
            shutil.copy(certificate / "tls.crt", authorities / "proof.crt")
            code = start(machine, page, providers, certificate)
            token = (machine.root / "etc" / "sesi" / "secrets" / "gateway_callback_token").read_text().strip()
            users = Users(providers, token, certificate)
            try:
                await use(machine, page, users, code, say)
            finally:
                await users.close()
        except Exception:
            machine.run("journalctl --no-pager --lines 200; systemctl --failed --no-pager", check=False)
            raise
        finally:
            machine.close()
            providers.close()


def main() -> int:
    """Run the proof; return the exit code."""
    if absent := missing():
        print(absent, file=sys.stderr)
        return 2
    say = Log()
    try:
        asyncio.run(prove(say))
    except AssertionError as error:
        say(f"deploy-proof: {error}")
        return 1
    say("The page leads from an empty machine to a paid session, and through an upgrade.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
