"""The benchmarks of `sesi bench`: their loads, the processes they need, and their goals."""

from collections.abc import Callable, Coroutine
from typing import Any

import attrs

from tools.bench import chat, deadlines, fan_out, pairing, rates, rest, sockets
from tools.bench.chat_loads import ALWAYS, LOADS, Load
from tools.bench.figures import Goal
from tools.bench.peers.colocated import ColocatedPeer
from tools.bench.target import Target, of_service
from tools.driving.service import Service

Figures = dict[str, float]
Run = Callable[[Service, float], Coroutine[Any, Any, Figures]]
RunPeer = Callable[[ColocatedPeer, float], Coroutine[Any, Any, Figures]]


@attrs.frozen(kw_only=True)
class Bench:
    """One benchmark: its load in words, the processes it needs, and its goals.

    `peers` are measured in turn with the service, by `run_peer`. `ratios` are the figures that are compared with each.
    `fresh`: each run needs a process that has had no sockets.
    """

    name: str
    load: str
    run: Run
    goals: tuple[Goal, ...]
    apis: int = 1
    hubs: int = 1
    seconds: float = 5.0
    takes_s: float = 0.0  # a run's time if it doesn't depend on `seconds`
    runs: int = 5
    hot: str = "realtime"  # the process that --profile samples
    peers: tuple[str, ...] = ()
    run_peer: RunPeer | None = None
    ratios: tuple[str, ...] = ()
    fresh: bool = False
    in_all: bool = True

    def prepare(self, service: Service) -> None:
        """Prepare the service for a run."""
        if self.fresh:
            service.restart("realtime")

    def cost_s(self, seconds: float) -> float:
        """Return how long a run takes, about, if each load is measured for this time."""
        return self.takes_s or AROUND_S + seconds


AROUND_S = 6.0  # before and after the seconds of a run, for its people and its paced load
WS, SOCKETIO = ("ws",), ("ws", "socketio")


def _chat(load: Load) -> Bench:
    async def run(service: Service, seconds: float) -> Figures:
        return await chat.run(load, of_service(service, hubs=load.hubs), seconds)

    async def run_peer(peer: ColocatedPeer, seconds: float) -> Figures:
        return await chat.full_speed(load, peer.target(), seconds)

    return Bench(
        name=load.name,
        load=load.words,
        run=run,
        goals=(*load.goals, *ALWAYS),
        hubs=load.hubs,
        peers=SOCKETIO if load.name == "chat-a" else (),
        run_peer=run_peer,
        ratios=("stored/s",),
    )


def _on_both(run: Callable[[Target, float], Coroutine[Any, Any, Figures]]) -> tuple[Run, RunPeer]:
    """Return a load as it runs on the service and on a chat peer."""

    async def ours(service: Service, seconds: float) -> Figures:
        return await run(of_service(service), seconds)

    async def theirs(peer: ColocatedPeer, seconds: float) -> Figures:
        return await run(peer.target(), seconds)

    return ours, theirs


def _quiet(rate: int, goals: tuple[Goal, ...]) -> Bench:
    async def at_rate(target: Target, seconds: float) -> Figures:
        return await rates.quiet(target, rate, seconds)

    run, run_peer = _on_both(at_rate)
    return Bench(
        name=f"quiet-{rate}",
        load=f"one direction, 200 pairs, {rate:,} messages a second of all of them, {rates.SETTLE_S:.0f} s after the first",
        run=run,
        goals=goals,
        peers=WS,
        run_peer=run_peer,
        ratios=("CPU s per 1,000",),
    )


_idle, _idle_peer = _on_both(sockets.idle)
_curve, _curve_peer = _on_both(rates.curve)


def _pairing(count: int, limit_ms: float, *, last_ms: float | None = None, trials: int = pairing.TRIALS) -> Bench:
    async def run(service: Service, _: float) -> dict[str, float]:
        return await pairing.pairing(service, count, trials)

    goals = (Goal(figure="first frame p99 ms", at_most=limit_ms),)
    if last_ms is not None:
        goals = (*goals, Goal(figure="last frame p99 ms", at_most=last_ms))

    return Bench(
        name=f"pairing-{count}",
        load=f"a paid request, {count:,} mitras online: the gateway's call to the first `chat_request` frame",
        run=run,
        goals=goals,
        runs=3,
        hot="api",
        takes_s=trials * 3.0 if count > 1_000 else 12.0,
    )


BENCHES = (
    *map(_chat, LOADS),
    _quiet(
        1_000,
        (
            Goal(figure="CPU s per 1,000: ratio to ws", at_most=0.85),
            Goal(figure="delivered p50 ms", at_most=5),
            Goal(figure="delivered p99 ms", at_most=10),
        ),
    ),
    _quiet(100, (Goal(figure="delivered p50 ms", at_most=1.6),)),
    Bench(
        name="curve",
        load="one direction, 200 pairs, at " + ", ".join(f"{rate:,}" for rate in rates.OFFERED) + " messages a second",
        run=_curve,
        goals=(),
        seconds=4.0,
        takes_s=30.0,
        runs=3,
        peers=WS,
        run_peer=_curve_peer,
    ),
    Bench(
        name="session",
        load="GET of a session by its parties, 32 connections, one api process",
        run=rest.session_view,
        goals=(Goal(figure="CPU s per 1,000 (api)", at_most=0.26),),
        hot="api",
    ),
    Bench(
        name="availability",
        load="GET of the availability, 2,000 customers over 32 connections, two api processes",
        run=rest.availability,
        goals=(Goal(figure="answers/s", at_least=8_000),),
        apis=2,
        hot="api",
    ),
    _pairing(20, 100),
    _pairing(1_000, 500),
    _pairing(10_000, 500, last_ms=3_000, trials=15),
    Bench(
        name="fan-out",
        load=f"{fan_out.PAIRS} pairs send {fan_out.RATE:,} messages a second, all marked; parties on 1, 2, 4 and 8 realtime "
        "processes at random",
        run=fan_out.fan_out,
        goals=(
            Goal(figure="hub CPU, 8 to 1", at_most=1.5),
            *(Goal(figure=f"most decoded, times the share, {count} hubs", at_most=1.5) for count in fan_out.COUNTS[1:]),
        ),
        hubs=fan_out.COUNTS[-1],
        runs=3,
        takes_s=40.0,
    ),
    Bench(
        name="deadlines",
        load="10,000 chats end within one minute; halfway all their mitras stop their heartbeats",
        run=deadlines.expiries,
        goals=(
            Goal(figure="late p99 ms", at_most=100),
            Goal(figure="early max ms", at_most=50),
            Goal(figure="last mitra offline s", at_most=3),
        ),
        runs=3,
        takes_s=82.0,
        hot="jobs",
    ),
    Bench(
        name="idle",
        load=" and ".join(f"{count:,}" for count in sockets.COUNTS)
        + " authenticated sockets without traffic, on a process that has just started",
        run=_idle,
        goals=(
            Goal(figure="connects/s", at_least=2_000),
            Goal(figure="CPU ms a connect (hub)", at_most=0.38),
            Goal(figure="KiB a socket, 5,000 sockets", at_most=8),
            Goal(figure="hub CPU ms/s, 5,000 sockets", at_most=15),
        ),
        runs=3,
        takes_s=90.0,
        fresh=True,
        peers=WS,
        run_peer=_idle_peer,
    ),
    Bench(
        name="soak",
        load="200 pairs send 2,000 messages a second for 10 minutes, all marked",
        run=sockets.soak,
        goals=(
            Goal(figure="realtime growth %", at_most=5),
            Goal(figure="api growth %", at_most=5),
            Goal(figure="jobs growth %", at_most=5),
        ),
        runs=1,
        seconds=600,
        in_all=False,
    ),
    Bench(
        name="connects",
        load=f"{sockets.FEW_SOCKETS:,} sockets connect and authenticate, as fast as the service accepts them",
        run=sockets.connects,
        goals=(),
        in_all=False,
    ),
)
