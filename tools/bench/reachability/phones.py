"""Fake phones of mitras that fall silent in different ways, while the service's processes are real."""

import asyncio
import contextlib
import datetime as dt
import enum
import time
from collections.abc import Iterable
from typing import Any

import aiohttp
import attrs

from core.deliveries.pushes.rules import Action
from tools.bench.people import SignedInPerson
from tools.driving.client import Addresses
from tools.driving.push_inbox import Answer

ARRIVAL_S = 0.2  # real seconds from the provider's answer to the phone
UNREGISTERED: Answer = (
    404,
    {
        "error": {
            "code": 404,
            "status": "NOT_FOUND",
            "details": [{"@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": "UNREGISTERED"}],
        }
    },
    {},
)


class Fate(enum.StrEnum):
    """What happens to a phone after it was in use for a while."""

    AWAKE = "in use"  # nothing: it stays connected and sends its heartbeats
    BACKGROUND = "in the background"  # its timers and sockets are suspended; a push wakes it for a moment
    DEAD = "dead"
    FADING = "in the background, later dead"
    FLIGHT = "in flight mode"  # nothing arrives; it comes back later
    REVOKED = "without a valid push token"  # the app was removed: the provider refuses its token


@attrs.frozen(kw_only=True)
class Timetable:
    """The timetable of all phones, in service seconds from the start."""

    cadence_s: float  # of heartbeats
    silent_at_s: float
    turn_at_s: float  # when flight mode ends, and when a phone in the background dies
    online_at_s: float  # when the mitra of that phone sees the status and goes online again, if need be
    seconds: float

    def reachable(self, kind: Fate) -> list[tuple[float, float]]:
        """Return when a chat request can reach a phone: over a socket that it reads, or by a push that wakes it."""
        match kind:
            case Fate.AWAKE | Fate.BACKGROUND:
                return [(0, self.seconds)]
            case Fate.FLIGHT:
                return [(0, self.silent_at_s), (self.turn_at_s, self.seconds)]
            case Fate.FADING:
                return [(0, self.turn_at_s)]
            case _:
                return [(0, self.silent_at_s)]


class CrowdPhone:
    """One phone. It is connected while in use, and suspended without a word when it falls silent."""

    def __init__(
        self,
        kind: Fate,
        mitra: SignedInPerson,
        token: str,
        *,
        http: aiohttp.ClientSession,
        addresses: Addresses,
        scale: float,
    ) -> None:
        self.kind = kind
        self.mitra = mitra
        self.token = token
        self.checks = 0  # that arrived at the phone
        self._http = http
        self._addresses = addresses
        self._scale = scale
        self._gone = False
        self._suspended: list[aiohttp.ClientWebSocketResponse] = []

    async def call(self, method: str, action: str = "") -> dict[str, Any]:
        """Call a route of the mitra's status; return its answer, also a refusal."""
        url = f"{self._addresses.public}/api/mitra/status{action}"
        async with self._http.request(method, url, headers={"Authorization": f"Bearer {self.mitra.token}"}) as answer:
            return await answer.json()

    async def live(self, plan: Timetable) -> None:
        """Play the plan. It begins online and in use."""
        if self.kind is Fate.AWAKE:
            await self._use(plan.cadence_s, plan.seconds)
            return
        await self._use(plan.cadence_s, plan.silent_at_s)
        self._gone = self.kind not in (Fate.BACKGROUND, Fate.FADING)
        await self._pass(plan.turn_at_s - plan.silent_at_s)
        if self.kind is Fate.FADING:
            self._gone = True
        elif self.kind is Fate.FLIGHT:
            self._gone = False
            async with asyncio.TaskGroup() as group:
                group.create_task(self._use(plan.cadence_s, plan.seconds - plan.turn_at_s))
                await self._pass(plan.online_at_s - plan.turn_at_s)
                if not (await self.call("GET"))["is_online"]:
                    await self.call("POST", "/online")

    async def close(self) -> None:
        """Close the sockets that were suspended."""
        for socket in self._suspended:
            await socket.close()

    def receive(self, message: dict[str, Any], loop: asyncio.AbstractEventLoop) -> Answer | None:
        """Take a push from the provider, in its thread; return the provider's answer, None for an acceptance."""
        if self._gone:
            return UNREGISTERED if self.kind is Fate.REVOKED else None
        if message["data"]["action"] == Action.PRESENCE_CHECK:
            asyncio.run_coroutine_threadsafe(self._answer(), loop)
        return None

    async def _answer(self) -> None:
        await asyncio.sleep(ARRIVAL_S)
        self.checks += 1
        with contextlib.suppress(aiohttp.ClientError, TimeoutError):
            await self.call("POST", "/heartbeat")

    async def _use(self, cadence_s: float, seconds: float) -> None:
        """Keep a socket open and send heartbeats over it; then leave it open and read it no more."""
        socket = await self._http.ws_connect(f"{self._addresses.realtime}/ws/pairing", autoping=True)
        self._suspended.append(socket)
        await socket.send_json({"type": "auth", "token": self.mitra.token})
        reading = asyncio.create_task(self._read(socket))
        until = time.monotonic() + seconds / self._scale
        while (left := until - time.monotonic()) > 0:
            await socket.send_json({"type": "heartbeat"})
            await asyncio.sleep(min(left, cadence_s / self._scale))
        reading.cancel()

    async def _read(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        async for message in socket:
            frame = message.json()
            if "event_id" in frame:
                await socket.send_json({"type": "ack", "event_id": frame["event_id"]})

    async def _pass(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self._scale)


@attrs.frozen(kw_only=True)
class Reached:
    """How long phones of one kind had the wrong status, in service seconds of all of them, and how many had it."""

    kind: Fate
    phones: int
    false_online_s: float
    false_offline_s: float
    false_online: int
    false_offline: int
    checks: int


Interval = tuple[float, float]
SHORT_S = 2.0  # shorter differences are the time that events and requests take


def compare(kind: Fate, plan: Timetable, online: Iterable[list[Interval]], checks: int) -> Reached:
    """Compare when each phone's mitra was online with when the phone could be reached."""
    reachable = plan.reachable(kind)
    false_online = [_length(one) - _overlap(one, reachable) for one in online]
    false_offline = [_length(reachable) - _overlap(one, reachable) for one in online]
    return Reached(
        kind=kind,
        phones=len(false_online),
        false_online_s=sum(false_online),
        false_offline_s=sum(false_offline),
        false_online=sum(seconds > SHORT_S for seconds in false_online),
        false_offline=sum(seconds > SHORT_S for seconds in false_offline),
        checks=checks,
    )


def intervals(changes: Iterable[tuple[dt.datetime, bool]], began_at: dt.datetime, seconds: float) -> list[Interval]:
    """Return when a mitra was online between `began_at` and `seconds` later, in seconds from `began_at`."""
    found: list[Interval] = []
    since: float | None = None
    for at, is_online in changes:
        moment = min(max((at - began_at).total_seconds(), 0.0), seconds)
        if is_online and since is None:
            since = moment
        elif not is_online and since is not None:
            found.append((since, moment))
            since = None
    if since is not None:
        found.append((since, seconds))
    return found


def _length(parts: Iterable[Interval]) -> float:
    return sum(end - begin for begin, end in parts)


def _overlap(some: Iterable[Interval], others: Iterable[Interval]) -> float:
    others = list(others)
    return sum(
        max(0.0, min(end, other_end) - max(begin, other_begin))
        for begin, end in some
        for other_begin, other_end in others
    )
