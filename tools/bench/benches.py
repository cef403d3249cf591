"""The benchmarks of `sesi bench`: their loads, the processes they need, and their goals."""

from collections.abc import Callable, Coroutine
from typing import Any

import attrs

from tools.bench import chat, deadlines, fan_out, pairing, rest, sockets
from tools.bench.figures import Goal
from tools.service import Service

Run = Callable[[Service, float], Coroutine[Any, Any, dict[str, float]]]


@attrs.frozen(kw_only=True)
class Bench:
    """One benchmark: its load in words, the processes it needs, and its goals."""

    name: str
    load: str
    run: Run
    goals: tuple[Goal, ...]
    apis: int = 1
    hubs: int = 1
    seconds: float = 6.0
    runs: int = 5
    hot: str = "realtime"  # the process that --profile samples
    peer: str | None = None  # measured in turn in the same run
    in_all: bool = True


def _chat(load: chat.Load) -> Bench:
    async def run(service: Service, seconds: float) -> dict[str, float]:
        return await chat.run(load, service, seconds)

    peer = "socketio" if load.name == "chat-a" else None
    goals = (*load.goals, *chat.ALWAYS)
    if peer is not None:
        goals = (*goals, Goal(figure="times the peer's stored/s", at_least=8))
    return Bench(name=load.name, load=load.words, run=run, goals=goals, hubs=load.hubs, peer=peer)


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
    )


BENCHES = (
    *map(_chat, chat.LOADS),
    Bench(
        name="session",
        load="GET of a session by its parties, 32 connections, one api process",
        run=rest.session_view,
        goals=(Goal(figure="times the peer's answers/s", at_least=3),),
        peer="fastapi",
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
            Goal(figure="hub CPU, 8 to 1", at_most=1.2),
            *(Goal(figure=f"most decoded, times the share, {count} hubs", at_most=1.5) for count in fan_out.COUNTS[1:]),
        ),
        hubs=fan_out.COUNTS[-1],
        runs=3,
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
        hot="jobs",
    ),
    Bench(
        name="idle",
        load="10,000 authenticated and subscribed sockets without traffic",
        run=sockets.idle,
        goals=(Goal(figure="connects/s", at_least=2_000), Goal(figure="KiB a socket", at_most=20)),
        runs=3,
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
        name="quiet",
        load=f"50 pairs talk at {chat.QUIET_RATE} messages a second, all marked delivered and read",
        run=chat.quiet,
        goals=(),
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
