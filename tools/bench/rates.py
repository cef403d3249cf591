"""Benchmarks of chat messages at rates below the highest: what a quiet hour costs, and latency against offered load."""

from tools.bench import chat
from tools.bench.chat_loads import Load
from tools.bench.target import Target

OFFERED = (100, 1_000, 3_700, 10_000, 20_000)  # messages a second
# A realtime process that has just started publishes what it sends, until it knows that no other one listens.
SETTLE_S = 6.0
ONE_WAY = Load(name="one way", words="", pairs=200, in_flight=8, both=False, paced=0, goals=())


async def quiet(target: Target, rate: int, seconds: float) -> dict[str, float]:
    """Measure the cost and latency of a message at one rate, SETTLE_S after the first messages."""
    async with chat.chatting(ONE_WAY, target) as (wires, tally):
        figures, _ = await chat.offer(rate, wires, tally, seconds, target, settle_s=SETTLE_S)
    return figures


async def curve(target: Target, seconds: float) -> dict[str, float]:
    """Measure latency and cost at each rate, up to the first one that the target does not keep up with."""
    found: dict[str, float] = {}
    async with chat.chatting(ONE_WAY, target) as (wires, tally):
        for rate in OFFERED:
            settle_s = SETTLE_S if rate == OFFERED[0] else 0.0
            try:
                figures, kept_up = await chat.offer(rate, wires, tally, seconds, target, settle_s=settle_s)
            except chat.Overloaded:
                break
            if not kept_up:
                break
            found |= {
                f"{name} at {rate:,}/s": figures[name]
                for name in ("delivered p50 ms", "delivered p99 ms", "CPU s per 1,000")
            }
    return found
