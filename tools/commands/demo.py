"""`sesi demo`: plays a customer's sessions through the public interfaces only, and prints what happens.

A customer, two mitras and the gateway use a temporary service, or the running one. Each step waits for what the service
reports. Sockets reconnect, and requests are repeated while a process is down, so the demo continues if one is killed.
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
from core.base.addresses import host_and_port
from core.settings.settings import Settings
from tools.commands import environment
from tools.driving.device import Addresses, Device
from tools.driving.push_inbox import PushInbox
from tools.driving.sesi_client import Refused
from tools.driving.throwaway import Throwaway

PATIENCE_S = 90.0  # real seconds to wait for something that should come at once
BIMA_TOKEN = "a-push-token-of-bimas-phone"
WHOLE_S = 960.0  # service seconds; longer than the session in the demo
HEARTBEAT_S = 10.0  # service seconds
LATE_S = 3.0  # real seconds by which an event may come later than what it reports
READING_S = 0.5  # real seconds between messages, so that a reader can follow
console = Console(highlight=False)


class DemoStage:
    """Print what happens, with the service time since the start."""

    def __init__(self, scale: float) -> None:
        self.scale = scale
        self._began = time.monotonic()

    def say(self, who: str, what: str, style: str = "") -> None:
        """Print one line."""
        seconds = int((time.monotonic() - self._began) * self.scale)
        console.print(
            f"[dim]{seconds // 60:3d}:{seconds % 60:02d}[/]  [bold]{who:<9}[/] [{style or 'default'}]{what}[/]"
        )


async def again(work: Callable[[], Awaitable[Any]]) -> Any:
    """Make a request, and repeat it while the service is unavailable. It must be safe to repeat."""
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


class Play:
    """The demo: payment, blast, chat, extension, goodbyes; a targeted request, its rejection, a push; the audit."""

    def __init__(
        self, addresses: Addresses, stage: DemoStage, code_of: Callable[[str], Any], pushes: PushInbox | None
    ) -> None:
        self._stage = stage
        self._code_of = code_of
        self._pushes = pushes
        self._customer, self._ayu, self._bima = (Device(addresses) for _ in range(3))
        self._patience = PATIENCE_S + WHOLE_S / stage.scale
        self._devices = {"dewi": self._customer, "ayu": self._ayu, "bima": self._bima}

    async def close(self) -> None:
        """Close all devices."""
        for device in self._devices.values():
            await device.close()

    async def run(self, numbers: tuple[str, str], operator: Device | None) -> bool:
        """Play the demo; return whether the ledger audit found no violation."""
        await self._arrive(numbers)
        beats = asyncio.create_task(self._heartbeats())
        try:
            session_id, payment_id = await self._pay_and_pair()
            await self._talk(session_id)
            await self._extend(session_id)
            await self._time_passes(session_id)
            await self._goodbyes(session_id)
            await self._come_back()
            return await self._books(session_id, payment_id, operator)
        finally:
            beats.cancel()

    async def _arrive(self, numbers: tuple[str, str]) -> None:
        customer, ayu, bima, say = self._customer, self._ayu, self._bima, self._stage.say
        await again(lambda: customer.sign_in_anonymously("Dewi"))
        say("Dewi", "opens the app and is asked for nothing but a name")
        for name, client, number in (("Ayu", ayu, numbers[0]), ("Bima", bima, numbers[1])):
            await again(lambda client=client, number=number: client.sign_in_as_mitra(number, self._code_of))
            await again(lambda client=client: client.post("/api/mitra/status/online"))
            say(name, "signs in with a code and goes online")
        await again(lambda: bima.call("PUT", "/api/shared/push-token", {"push_token": BIMA_TOKEN}))
        for device in self._devices.values():
            await device.start()

    async def _heartbeats(self) -> None:
        while True:
            for client in (self._ayu, self._bima):
                with contextlib.suppress(Refused, aiohttp.ClientError, ConnectionError, TimeoutError):
                    await self._beat(client)
            await asyncio.sleep(max(0.2, HEARTBEAT_S / self._stage.scale))

    async def _beat(self, client: Device) -> None:
        try:
            await client.post("/api/mitra/status/heartbeat")
        except Refused as refused:
            if refused.code == "MITRA_OFFLINE":  # the machine was too busy for heartbeats
                await client.post("/api/mitra/status/online")

    async def _see(self, name: str, event: str, truth: Callable[[], Awaitable[bool]]) -> bool:
        """Wait for an event; return False if it has not come LATE_S after `truth` returned True. Raises TimeoutError."""
        deadline, happened = time.monotonic() + self._patience, False
        while time.monotonic() < deadline:
            with contextlib.suppress(TimeoutError):
                await self._devices[name].wait(event, timeout=LATE_S)
                return True
            if happened:
                return False
            happened = await again(truth)
        raise TimeoutError(f"no {event} in {self._patience:.0f} s")

    async def _pay(self, what: str, wish: dict[str, Any], path: str = "/api/client/payment/requests") -> dict[str, Any]:
        """Create a payment request and pay it on the development payment page; return the request."""
        key = {"Idempotency-Key": ids.new_id()}
        payment = await again(lambda: self._customer.call("POST", path, wish, headers=key))
        self._stage.say("service", f"asks for {rupiah(payment['amount'])} for {what}")
        await again(lambda: pay(payment["gateway_invoice_url"]))
        self._stage.say("gateway", "reports: PAID", "green")
        return payment

    async def _requests(self, client: Device) -> list[dict[str, Any]]:
        return (await client.get("/api/mitra/chat-requests"))["items"]

    async def _payment(self, payment_id: str) -> dict[str, Any]:
        return await again(lambda: self._customer.get(f"/api/client/payment/requests/{payment_id}"))

    async def _pay_and_pair(self) -> tuple[str, str]:
        customer, ayu, say = self._customer, self._ayu, self._stage.say
        availability = await again(lambda: customer.get("/api/client/mitras/availability"))
        pricing = await again(lambda: customer.get("/api/client/chat/pricing"))
        tier = pricing["chat"]["tiers"][0]
        say(
            "Dewi",
            f"sees {availability['available']} mitras and {tier['minutes']} minutes for {rupiah(tier['price_idr'])}",
        )
        payment = await self._pay("a session", {"duration_minutes": tier["minutes"], "topics": ["work"]})
        payment_id = payment["payment_request_id"]

        async def asked() -> bool:
            return bool(await self._requests(ayu))

        await self._see("ayu", "chat_request", asked)
        await self._see("bima", "chat_request", asked)
        say("service", "asks Ayu and Bima at once")
        session_id = (await self._payment(payment_id))["session_id"]
        winner = await again(lambda: ayu.post(f"/api/mitra/chat-requests/{session_id}/accept"))
        say("Ayu", "accepts first", "green")
        try:
            await again(lambda: self._bima.post(f"/api/mitra/chat-requests/{session_id}/accept"))
        except Refused as refused:
            say("Bima", f"is a moment too late: {refused.code}", "yellow")
        say("Dewi", f"is paired with {winner['mitra']['display_name']}; the money is earned now")
        return session_id, payment_id

    async def _talk(self, session_id: str) -> None:
        for name, text in (
            ("Dewi", "Halo Kak, aku butuh teman bicara."),
            ("Ayu", "Halo Dewi, aku di sini. Ceritakan pelan-pelan."),
            ("Dewi", "Pekerjaanku terasa berat sekali minggu ini."),
            ("Ayu", "Itu pasti melelahkan. Apa yang paling berat?"),
        ):
            ack = await self._devices[name.lower()].say(session_id, text)
            self._stage.say(name, f"“{text}”  [dim]stored as {ack['seq']}[/]", "cyan")
            await asyncio.sleep(READING_S)
        dewi = self._devices["dewi"]
        await dewi.until(lambda: len(dewi.transcript(session_id)) == 4, timeout=self._patience)
        await dewi.mark_read(session_id)
        self._stage.say("Dewi", "has read everything")

    async def _state(self, session_id: str) -> dict[str, Any]:
        return await self._customer.get(f"/api/shared/chat/sessions/{session_id}")

    async def _extend(self, session_id: str) -> None:
        """Let the customer pay for an extension three minutes before the end, and let the mitra accept it."""

        async def over() -> bool:
            return (await self._state(session_id))["status"] != "active"

        seen = await self._see("dewi", "session_warning", over)
        self._stage.say("service", "warns both: 3 minutes left" if seen else "(the warning was missed)", "yellow")
        await again(
            lambda: self._ayu.call(
                "PATCH", f"/api/shared/chat/sessions/{session_id}/topic", {"topic_sensitivity": "sensitive"}
            )
        )
        self._stage.say("Ayu", "marks the topic as sensitive; Dewi's app shows no notice")
        await self._pay("12 more minutes", {"duration_minutes": 12, "is_extension": True, "session_id": session_id})
        asked = await self._devices["ayu"].wait("extension_requested", timeout=self._patience)
        path = f"/api/shared/chat/sessions/{session_id}/extensions/{asked['extension']['id']}/answer"
        try:
            await again(lambda: self._ayu.post(path, {"accept": True}))
        except Refused as refused:
            if (
                refused.code != "EXTENSION_RESOLVED"
            ):  # the response was lost, or the service accepted after the answer time
                raise

        async def resumed() -> bool:
            return (await self._state(session_id))["extended_minutes"] == 12

        await self._see("dewi", "session_resumed", resumed)
        self._stage.say("Ayu", "accepts the extension; the session continues", "green")

    async def _time_passes(self, session_id: str) -> None:
        async def expired() -> bool:
            return (await self._state(session_id))["status"] != "active"

        seen = await self._see("dewi", "session_warning", expired)
        self._stage.say("service", "warns again, before the new end" if seen else "(the warning was missed)", "yellow")
        await self._see("dewi", "session_expired", expired)
        self._stage.say("service", "ends the paid time; the chat takes no more messages", "yellow")
        try:
            await self._devices["dewi"].say(session_id, "Satu lagi...")
        except Refused as refused:
            self._stage.say("Dewi", f"tries to write once more: {refused.code}")

    async def _goodbyes(self, session_id: str) -> None:
        path = f"/api/shared/chat/sessions/{session_id}/closure"

        async def leave(client: Device, text: str) -> None:
            try:
                await again(lambda: client.post(path, {"message": text}))
            except Refused as refused:
                if refused.code != "CLOSURE_EXISTS":  # the response was lost; the goodbye is stored
                    raise

        dewis, ayus = "Terima kasih, Kak Ayu.", "Sama-sama, Dewi. Jaga diri."
        await leave(self._customer, dewis)
        self._stage.say("Dewi", f"says goodbye: “{dewis}”", "cyan")
        await leave(self._ayu, ayus)
        self._stage.say("Ayu", f"says goodbye: “{ayus}”", "cyan")

        async def completed() -> bool:
            return (await self._state(session_id))["status"] == "completed"

        await self._see("dewi", "session_completed", completed)
        self._stage.say("service", "completes the session", "green")
        await self._see("ayu", "session_completed", completed)
        for name, client, other in (("Dewi", self._customer, "mitra"), ("Ayu", self._ayu, "customer")):
            shown = self._devices[name.lower()].sessions[session_id]
            if shown["status"] != "completed":  # the event did not arrive
                shown = await again(lambda client=client: client.get(f"/api/shared/chat/sessions/{session_id}"))
            text = next(closure["message"] for closure in shown["closures"] if closure["user_type"] == other)
            self._stage.say(name, f"reads on the phone: “{text}”", "magenta")

    async def _come_back(self) -> None:
        """Send a targeted request, which is rejected; fall back to a blast; push to the mitra who is not connected."""
        customer, say = self._customer, self._stage.say
        row = (await again(lambda: customer.get("/api/client/chat/history")))["items"][0]
        say("Dewi", f"comes back and picks {row['display_name']} from the history")
        wish = {"mitra_id": row["mitra_id"], "mode": "chat", "duration_minutes": 12}
        payment = await self._pay("a session with Ayu", wish, "/api/client/chat/returning")
        payment_id = payment["payment_request_id"]

        async def asked() -> bool:
            return bool(await self._requests(self._ayu)) or (await self._payment(payment_id))["failure"] is not None

        await self._see("ayu", "chat_request", asked)
        session_id = (await self._payment(payment_id))["session_id"]
        with contextlib.suppress(Refused):  # the round is over, with the same result
            await again(lambda: self._ayu.post(f"/api/mitra/chat-requests/{session_id}/reject"))
        failure = (await self._payment(payment_id))["failure"]
        say("Ayu", f"rejects: {failure['cause_tag'] if failure else 'no answer'}; Dewi keeps the payment", "yellow")
        await self._bima.stop()
        say("Bima", "closes the app")
        await again(lambda: customer.post("/api/client/chat/fallback-to-blast", {"payment_request_id": payment_id}))
        say("Dewi", "asks all mitras instead, with the same payment")
        if self._pushes is not None:
            push = await self._pushes.wait(lambda m: m["data"]["event"] == "chat_request" and m["token"] == BIMA_TOKEN)
            say("push", f"“{push['data']['title']}” on Bima's phone, to {push['data']['action']}", "magenta")
        session_id = (await self._payment(payment_id))["session_id"]
        await again(lambda: self._bima.post(f"/api/mitra/chat-requests/{session_id}/accept"))
        say("Bima", "opens the app from the push and accepts", "green")
        ack = await self._devices["dewi"].say(session_id, "Halo Kak Bima!")
        say("Dewi", f"“Halo Kak Bima!”  [dim]stored as {ack['seq']}; this session continues[/]", "cyan")

    async def _books(self, session_id: str, payment_id: str, operator: Device | None) -> bool:
        view = await again(lambda: self._state(session_id))
        payment = await self._payment(payment_id)
        stored = await again(lambda: self._customer.get(f"/api/shared/chat/sessions/{session_id}/messages"))
        shown = [message["id"] for message in self._devices["dewi"].transcript(session_id)]
        lines = [
            f"session {view['status']}, ended by {view['ended_by']}, {view['last_seq']} messages without gaps",
            f"payment {payment['status']}, {rupiah(payment['amount'])}",
        ]
        well = payment["status"] == "consumed" and [m["seq"] for m in stored["items"]] == [1, 2, 3, 4]
        well = well and shown == [m["id"] for m in stored["items"]]
        if operator is not None:
            books = await again(lambda: operator.get("/internal/ledger/audit"))
            well = well and not books["violations"]
            count = len(books["violations"])
            lines.append(f"{books['sessions']} sessions, {books['payments']} payments, {count} violations")
        console.print(
            Panel("\n".join(lines), title="ledger audit", border_style="green" if well else "red", expand=False)
        )
        return well


def rupiah(amount: int) -> str:
    """Return an amount as Indonesian apps show it, such as Rp 12.000."""
    return "Rp " + f"{amount:,}".replace(",", ".")


async def pay(url: str) -> None:
    """Pay on the development payment page. Raises Refused."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as http, http.post(url) as answer:
        if answer.status >= 500:
            raise Refused(503, {})


def addresses_of(settings: Settings) -> Addresses:
    """Return the base URLs of the service with these settings."""
    return Addresses(
        public=f"http://{host_and_port(settings.public_host, settings.public_port)}",
        internal=f"http://{host_and_port(settings.internal_host, settings.internal_port)}",
        realtime=f"ws://{host_and_port(settings.realtime_host, settings.realtime_port)}",
    )


async def demo(*, scale: float, running: bool) -> int:
    """Play the demo; return the exit code: 0 if the ledger audit found no violation."""
    if running:
        return await _against_running()
    service = Throwaway(scale)
    operator = Device(service.addresses)
    try:
        console.print("[dim]Starting a temporary service: api, realtime and jobs on PostgreSQL and Valkey …[/]")
        await service.start()
        await service.command("seed", "demo")
        password = secrets.token_urlsafe(16)
        await service.command(
            "operator", "create", "--email", "demo@sesi.local", "--display-name", "Demo", "--role", "administrator",
            "--password-stdin", stdin=password,
        )  # fmt: skip
        await again(lambda: operator.sign_in_as_operator("demo@sesi.local", password))
        console.print(f"[dim]Ready. A minute of service time takes {60 / scale:.3g} s.[/]\n")
        play = Play(service.addresses, DemoStage(scale), service.inbox.code_of, service.pushes)
        try:
            well = await play.run(("+6281200000001", "+6281200000002"), operator)
        finally:
            await play.close()
    finally:
        await operator.close()
        await service.stop()
    return 0 if well else 1


async def _against_running() -> int:
    """Play against the running service, which must log its codes (OTP_SENDER=log)."""
    settings = environment.read()
    environment.not_in_production(settings)
    log = settings.sesi_data_dir / "log" / "api.log"

    async def code_of(otp_request_id: str) -> str:
        async with asyncio.timeout(15):
            while True:
                for line in log.read_text(errors="replace").splitlines() if log.exists() else []:
                    if otp_request_id in line and '"code"' in line:
                        return json.loads(line)["code"]
                await asyncio.sleep(0.1)

    minutes = 25 / settings.sesi_time_scale
    console.print(f"[dim]At the speed of the running service, this takes {minutes:.3g} minutes.[/]\n")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tools.cli", "seed", "demo", stdout=asyncio.subprocess.DEVNULL
    )
    await process.wait()
    play = Play(addresses_of(settings), DemoStage(settings.sesi_time_scale), code_of, None)
    try:
        well = await play.run(("+6281200000001", "+6281200000002"), None)
    finally:
        await play.close()
    console.print("Run `sesi audit` to check the ledger of the running service.")
    return 0 if well else 1
