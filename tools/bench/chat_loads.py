"""The chat loads, and their goals."""

import attrs

from tools.bench.figures import Goal


@attrs.frozen(kw_only=True)
class Load:
    """A chat load. `in_flight`: unacknowledged messages of each sender. `both`: both parties send, and mark messages as
    delivered and read. `paced`: the rate for measuring latency, in messages a second."""

    name: str
    words: str
    pairs: int
    in_flight: int
    both: bool
    hubs: int = 1
    paced: int
    goals: tuple[Goal, ...]


LOADS = (
    Load(
        name="chat-a",
        words="one direction, 200 pairs, 8 in flight a pair",
        pairs=200,
        in_flight=8,
        both=False,
        paced=3_700,
        goals=(
            Goal(figure="stored/s", at_least=32_000),
            Goal(figure="CPU s per 1,000", at_most=0.040),
            Goal(figure="delivered p99 ms at 3,700/s", at_most=9),
            Goal(figure="stored/s: ratio to ws", at_least=5),
            Goal(figure="stored/s: ratio to socket.io", at_least=5),
        ),
    ),
    Load(
        name="chat-b",
        words="both directions, 200 pairs, 8 in flight a socket, all marked delivered and read",
        pairs=200,
        in_flight=8,
        both=True,
        paced=10_000,
        goals=(
            Goal(figure="stored/s", at_least=25_000),
            Goal(figure="CPU s per 1,000", at_most=0.045),
            Goal(figure="delivered p99 ms at 10,000/s", at_most=50),
        ),
    ),
    Load(
        name="chat-c",
        words="both directions, 2,000 pairs, 1 in flight a socket, all marked delivered and read",
        pairs=2_000,
        in_flight=1,
        both=True,
        paced=2_500,
        goals=(
            Goal(figure="stored/s", at_least=10_000),
            Goal(figure="CPU s per 1,000", at_most=0.13),
            Goal(figure="delivered p99 ms at 2,500/s", at_most=15),
        ),
    ),
    Load(
        name="chat-d",
        words="as chat-b, two realtime processes, every message crossing them",
        pairs=200,
        in_flight=8,
        both=True,
        hubs=2,
        paced=10_000,
        goals=(Goal(figure="stored/s", at_least=20_000), Goal(figure="CPU s per 1,000", at_most=0.06)),
    ),
)
ALWAYS = tuple(
    Goal(figure=figure, at_most=0, in_every_run=True) for figure in ("out of order", "acknowledged and not stored")
)
