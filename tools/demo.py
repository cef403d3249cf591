"""`sesi demo`: plays a whole paid session through the public interfaces alone, and shows it live.

A customer, two mitras and the gateway meet a throw-away service (or the one that runs). Everything is driven by what the
service says: sockets come back by themselves, calls are repeated while a process is away, so it plays on when one is killed.
"""

import asyncio
import contextlib
import json
import secrets
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
from rich.console import Console
from rich.panel import Panel

from core.base import ids
from core.base.settings import Settings
from tools import environment
from tools.client import Addresses, Client, Refused, Socket
from tools.throwaway import Throwaway

PATIENCE_S = 90.0  # real seconds for anything that should come at once
WHOLE_S = 960.0  # service seconds: longer than the session that is played
HEARTBEAT_S = 10.0  # service seconds
READING_S = 0.5  # so that a person can follow
console = Console(highlight=False)


class Stage:
    """Prints what happens, with the service's time since the curtain rose."""

    def __init__(self, scale: float) -> None:
        self.scale = scale
        self._began = time.monotonic()

    def say(self, who: str, what: str, style: str = "") -> None:
        """One line."""
        seconds = int((time.monotonic() - self._began) * self.scale)
        console.print(
            f"[dim]{seconds // 60:3d}:{seconds % 60:02d}[/]  [bold]{who:<9}[/] [{style or 'default'}]{what}[/]"
        )


async def again(work: Callable[[], Awaitable[Any]]) -> Any:
    """Repeat a call that is safe to repeat while the service is away."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await work()
        except Refused as error:
            if error.status != 503 or time.monotonic() > deadline:
                raise
        except (aiohttp.ClientError, ConnectionError, TimeoutError):
            if time.monotonic() > deadline:
                raise
        await asyncio.sleep(0.2)


class Phone:
    """One person's app: a socket that comes back, and the frames it has seen."""

    def __init__(self, client: Client, path: str, scale: float) -> None:
        self._client = client
        self._path = path
        self._patience = PATIENCE_S + WHOLE_S / scale
        self._socket: Socket | None = None

    async def socket(self) -> Socket:
        """Return the open socket; open it (again) when need be."""
        if self._socket is None or self._socket.closed:
            self._socket = await again(self._open)
        assert self._socket is not None
        return self._socket

    async def _open(self) -> Socket:
        with contextlib.suppress(Refused):
            await self._client.get("/api/shared/config/otp")
        try:
            return await self._client.open(self._path)
        except ConnectionError:
            await self._client.refresh()
            raise

    async def see(self, event: str, truth: Callable[[], Awaitable[bool]]) -> bool:
        """Wait for an event, or until the truth says that it has happened; return whether the event itself was seen."""
        deadline = time.monotonic() + self._patience
        while time.monotonic() < deadline:
            with contextlib.suppress(TimeoutError, ConnectionError):
                await (await self.socket()).wait(event, timeout=1.0)
                return True
            if await again(truth):
                with contextlib.suppress(TimeoutError, ConnectionError):
                    await (await self.socket()).wait(event, timeout=3.0)
                    return True
                return False
        raise TimeoutError(f"{event} was never seen")

    async def say(self, session_id: str, text: str) -> dict[str, Any]:
        """Send a message; the same id until it is acknowledged, so that it is stored once."""
        message_id = ids.new_id()

        async def send() -> dict[str, Any]:
            frame = await (await self.socket()).say(session_id, text, client_message_id=message_id)
            if frame["type"] == "error":
                raise Refused(503 if frame["code"] == "UNAVAILABLE" else 409, {"error": frame})
            return frame

        return await again(send)

    async def close(self) -> None:
        """Put it away."""
        if self._socket is not None:
            await self._socket.close()


class Play:
    """The piece: payment, blast, chat, warning, expiry, goodbyes, the books."""

    def __init__(self, addresses: Addresses, stage: Stage, code_of: Callable[[str], Any]) -> None:
        self._stage = stage
        self._code_of = code_of
        self._customer, self._ayu, self._bima = (Client(addresses) for _ in range(3))

    async def close(self) -> None:
        """Close every connection."""
        for client in (self._customer, self._ayu, self._bima):
            await client.close()

    async def run(self, phones: tuple[str, str], operator: Client | None) -> bool:
        """Play it; return whether the books are right."""
        customer, ayu, bima, say = self._customer, self._ayu, self._bima, self._stage.say
        await again(lambda: customer.sign_in_anonymously("Dewi"))
        say("Dewi", "opens the app and is asked for nothing but a name")
        for name, client, phone in (("Ayu", ayu, phones[0]), ("Bima", bima, phones[1])):
            await again(lambda client=client, phone=phone: client.sign_in_as_mitra(phone, self._code_of))
            await again(lambda client=client: client.post("/api/mitra/status/online"))
            say(name, "signs in with a code and goes online")
        beats = asyncio.create_task(self._heartbeats())
        scale = self._stage.scale
        desks = [Phone(client, "pairing", scale) for client in (ayu, bima)]
        search, dewi = Phone(customer, "pairing", scale), Phone(customer, "chat", scale)
        mitra = Phone(ayu, "chat", scale)
        for phone in (*desks, search, dewi, mitra):
            await phone.socket()
        try:
            session_id, payment_id = await self._pay_and_pair(desks, search)
            await self._talk(dewi, mitra, session_id)
            await self._time_passes(dewi, session_id)
            await self._goodbyes(dewi, session_id)
            return await self._books(session_id, payment_id, operator)
        finally:
            beats.cancel()
            for phone in (*desks, search, dewi, mitra):
                await phone.close()

    async def _heartbeats(self) -> None:
        while True:
            for client in (self._ayu, self._bima):
                with contextlib.suppress(Refused, aiohttp.ClientError, ConnectionError, TimeoutError):
                    await client.post("/api/mitra/status/heartbeat")
            await asyncio.sleep(max(0.2, HEARTBEAT_S / self._stage.scale))

    async def _pay_and_pair(self, desks: list[Phone], search: Phone) -> tuple[str, str]:
        customer, ayu, say = self._customer, self._ayu, self._stage.say
        availability = await again(lambda: customer.get("/api/client/mitras/availability"))
        pricing = await again(lambda: customer.get("/api/client/chat/pricing"))
        tier = pricing["chat"]["tiers"][0]
        say(
            "Dewi",
            f"sees {availability['available']} mitras and {tier['minutes']} minutes for {rupiah(tier['price_idr'])}",
        )
        wish = {"duration_minutes": tier["minutes"], "topics": ["work"]}
        payment = await again(lambda: customer.post("/api/client/payment/requests", wish))
        payment_id = payment["payment_request_id"]
        say("service", f"wants {rupiah(payment['amount'])} and gives the address where it is paid")
        await again(lambda: pay(payment["gateway_invoice_url"]))
        say("gateway", "calls: PAID", "green")
        path = f"/api/client/payment/requests/{payment_id}"

        async def asked() -> bool:
            return bool((await ayu.get("/api/mitra/chat-requests"))["items"])

        await desks[0].see("chat_request", asked)
        await desks[1].see("chat_request", asked)
        say("service", "asks Ayu and Bima at once")
        session_id = (await again(lambda: customer.get(path)))["session_id"]
        winner = await again(lambda: ayu.post(f"/api/mitra/chat-requests/{session_id}/accept"))
        say("Ayu", "accepts first", "green")
        try:
            await again(lambda: self._bima.post(f"/api/mitra/chat-requests/{session_id}/accept"))
        except Refused as refused:
            say("Bima", f"is a moment too late: {refused.code}", "yellow")
        say("Dewi", f"is paired with {winner['mitra']['display_name']}; the money is earned now")
        return session_id, payment_id

    async def _talk(self, dewi: Phone, mitra: Phone, session_id: str) -> None:
        for name, phone, text in (
            ("Dewi", dewi, "Halo Kak, aku butuh teman bicara."),
            ("Ayu", mitra, "Halo Dewi, aku di sini. Ceritakan pelan-pelan."),
            ("Dewi", dewi, "Pekerjaanku terasa berat sekali minggu ini."),
            ("Ayu", mitra, "Itu pasti melelahkan. Apa yang paling berat?"),
        ):
            ack = await phone.say(session_id, text)
            self._stage.say(name, f"“{text}”  [dim]stored as {ack['seq']}[/]", "cyan")
            await asyncio.sleep(READING_S)
        last = ack["seq"]
        await (await dewi.socket()).send({"type": "read", "session_id": session_id, "up_to": last})
        self._stage.say("Dewi", f"has read everything up to {last}")

    async def _state(self, session_id: str) -> dict[str, Any]:
        return await self._customer.get(f"/api/shared/chat/sessions/{session_id}")

    async def _time_passes(self, dewi: Phone, session_id: str) -> None:
        async def expired() -> bool:
            return (await self._state(session_id))["status"] != "active"

        seen = await dewi.see("session_warning", expired)
        self._stage.say("service", "warns both: 3 minutes left" if seen else "(the warning went by)", "yellow")
        await dewi.see("session_expired", expired)
        self._stage.say("service", "the paid time is over; the chat is frozen", "yellow")
        try:
            await dewi.say(session_id, "Satu lagi...")
        except Refused as refused:
            self._stage.say("Dewi", f"writes once more: {refused.code}")

    async def _goodbyes(self, dewi: Phone, session_id: str) -> None:
        path = f"/api/shared/chat/sessions/{session_id}/closure"

        async def leave(client: Client, text: str) -> None:
            try:
                await again(lambda: client.post(path, {"message": text}))
            except Refused as refused:
                if refused.code != "CLOSURE_EXISTS":  # an answer that was lost: the goodbye itself was not
                    raise

        await leave(self._customer, "Terima kasih, Kak Ayu.")
        self._stage.say("Dewi", "says goodbye")
        await leave(self._ayu, "Sama-sama, Dewi. Jaga diri.")
        self._stage.say("Ayu", "says goodbye")

        async def completed() -> bool:
            return (await self._state(session_id))["status"] == "completed"

        await dewi.see("session_completed", completed)
        self._stage.say("service", "the session is completed", "green")

    async def _books(self, session_id: str, payment_id: str, operator: Client | None) -> bool:
        view = await again(lambda: self._state(session_id))
        payment = await again(lambda: self._customer.get(f"/api/client/payment/requests/{payment_id}"))
        stored = await again(lambda: self._customer.get(f"/api/shared/chat/sessions/{session_id}/messages"))
        lines = [
            f"session {view['status']}, ended by {view['ended_by']}, {view['last_seq']} messages without a gap",
            f"payment {payment['status']}, {rupiah(payment['amount'])}",
        ]
        well = payment["status"] == "consumed" and [m["seq"] for m in stored["items"]] == [1, 2, 3, 4]
        if operator is not None:
            books = await again(lambda: operator.get("/internal/ledger/audit"))
            well = well and not books["violations"]
            count = len(books["violations"])
            lines.append(f"{books['sessions']} sessions, {books['payments']} payments, {count} violations")
        console.print(Panel("\n".join(lines), title="the books", border_style="green" if well else "red", expand=False))
        return well


def rupiah(amount: int) -> str:
    """Rp 12.000."""
    return "Rp " + f"{amount:,}".replace(",", ".")


async def pay(url: str) -> None:
    """Press the button of the development payment page. Raises Refused."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as http, http.post(url) as answer:
        if answer.status >= 500:
            raise Refused(503, {})


def addresses_of(settings: Settings) -> Addresses:
    """Where a service listens."""
    return Addresses(
        public=f"http://{settings.public_host}:{settings.public_port}",
        internal=f"http://{settings.internal_host}:{settings.internal_port}",
        realtime=f"ws://{settings.realtime_host}:{settings.realtime_port}",
    )


async def demo(*, scale: float, running: bool) -> int:
    """Play it; 0 when the books are right."""
    if running:
        return await _against_running()
    service = Throwaway(scale)
    operator = Client(service.addresses)
    try:
        console.print("[dim]A throw-away service starts: api, realtime and jobs over PostgreSQL and Valkey …[/]")
        await service.start()
        await service.command("seed", "demo")
        password = secrets.token_urlsafe(16)
        await service.command(
            "operator", "create", "--email", "demo@sesi.local", "--display-name", "Demo", "--role", "administrator",
            "--password-stdin", stdin=password,
        )  # fmt: skip
        await again(lambda: operator.sign_in_as_operator("demo@sesi.local", password))
        console.print(f"[dim]It is ready. A minute of the service passes in {60 / scale:.3g} s.[/]\n")
        play = Play(service.addresses, Stage(scale), service.inbox.code_of)
        try:
            well = await play.run(("+6281200000001", "+6281200000002"), operator)
        finally:
            await play.close()
    finally:
        await operator.close()
        await service.stop()
    return 0 if well else 1


async def _against_running() -> int:
    """Play against the service that runs, whose log carries the codes (OTP_SENDER=log)."""
    settings = environment.read()
    log = settings.sesi_data_dir / "log" / "api.log"

    async def code_of(otp_request_id: str) -> str:
        async with asyncio.timeout(15):
            while True:
                for line in log.read_text(errors="replace").splitlines() if log.exists() else []:
                    if otp_request_id in line and '"code"' in line:
                        return json.loads(line)["code"]
                await asyncio.sleep(0.1)

    minutes = 12 / settings.sesi_time_scale
    console.print(f"[dim]The running service's time is used: this takes {minutes:.3g} minutes.[/]\n")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tools.cli", "seed", "demo", stdout=asyncio.subprocess.DEVNULL
    )
    await process.wait()
    play = Play(addresses_of(settings), Stage(settings.sesi_time_scale), code_of)
    try:
        well = await play.run(("+6281200000001", "+6281200000002"), None)
    finally:
        await play.close()
    console.print("`sesi audit` shows the books of the running service.")
    return 0 if well else 1
