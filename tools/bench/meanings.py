"""What the figures of the benchmarks mean for a product, in the words of its owner.

A chat has a message a minute on average and three a minute at its peak (docs/scale.md), so a rate of 1,000 messages a
second is 20,000 chats at once in the busiest hour.
"""

from collections.abc import Callable

from tools.bench import fan_out

Meaning = Callable[[float], str]
CHATS_BUSY = 20  # chats for each message a second, in the busiest hour
POLL_S = 10  # between two looks of an app at the availability


def _chats(rate: float) -> str:
    """Return how many chats a rate of messages is."""
    return f"{_about(rate * CHATS_BUSY)} chats at once"


def _about(count: float) -> str:
    """Return a count as text, to two digits."""
    return f"{float(f'{count:.2g}'):,.0f}"


def _said(text: str) -> Meaning:
    return lambda _: text


def _busiest(count: int) -> Meaning:
    return lambda share: (
        f"{count} realtime processes: the busiest reads {share:.2f} times its even share of what all publish"
    )


MEANINGS: dict[tuple[str, str], Meaning] = {
    ("chat-a", "stored/s"): lambda rate: f"the most that two processors take: {_chats(rate)} in the busiest hour",
    ("chat-a", "CPU s per 1,000"): lambda cost: f"{_chats(1_000)} at this price keep {cost:.3f} cores busy",
    ("chat-a", "delivered p99 ms at 3,700/s"): _said(f"{_chats(3_700)}: how long the slowest of 100 messages takes, the network apart"),
    ("chat-a", "stored/s: ratio to ws"): _said("throughput, compared with Node's `ws` and `pg`"),
    ("chat-a", "stored/s: ratio to socket.io"): _said("throughput, compared with Node's socket.io and `pg`"),
    ("chat-b", "stored/s"): lambda rate: f"both parties write, and read receipts are on: {_chats(rate)}",
    ("chat-b", "CPU s per 1,000"): lambda cost: f"{_chats(1_000)} with read receipts keep {cost:.3f} cores busy",
    ("chat-b", "delivered p99 ms at 10,000/s"): _said(f"{_chats(10_000)} with read receipts: the slowest of 100 messages"),
    ("chat-c", "stored/s"): _said("4,000 people write at once, and each waits for the acknowledgement"),
    ("chat-c", "CPU s per 1,000"): lambda cost: f"the same, for {_chats(1_000)}: {cost:.3f} cores",
    ("chat-c", "delivered p99 ms at 2,500/s"): _said(f"{_chats(2_500)} over 4,000 sockets: the slowest of 100 messages"),
    ("chat-d", "stored/s"): lambda rate: f"customers and mitras on different processes: {_chats(rate)}",
    ("chat-d", "CPU s per 1,000"): lambda cost: f"the same, for {_chats(1_000)}: {cost:.3f} cores",
    ("quiet-1000", "CPU s per 1,000: ratio to ws"): _said(f"{_chats(1_000)}: processor time, compared with Node's `ws` and `pg`"),
    ("quiet-1000", "delivered p50 ms"): _said(f"{_chats(1_000)}: how long a message takes"),
    ("quiet-1000", "delivered p99 ms"): _said(f"{_chats(1_000)}: the slowest of 100 messages"),
    ("quiet-100", "CPU s per 1,000"): lambda cost: f"{_chats(100)} take {cost * 10:.0f} % of one core",
    ("session", "CPU s per 1,000 (api)"): lambda cost: f"one core answers {_about(1_000 / cost)} apps a second that open their chat",
    ("session", "answers/s: ratio to FastAPI + SQLAlchemy"): _said("answers a second, compared with FastAPI and SQLAlchemy"),
    ("availability", "answers/s"): lambda rate: f"{_about(rate * POLL_S)} waiting apps that ask every {POLL_S} s",
    ("pairing-20", "first frame p99 ms"): _said("20 mitras online: from the payment to the first phone that rings"),
    ("pairing-1000", "first frame p99 ms"): _said("1,000 mitras online: the same"),
    ("pairing-10000", "first frame p99 ms"): _said("10,000 mitras online: the same"),
    ("pairing-10000", "last frame p99 ms"): _said("10,000 mitras online: until the last phone rings"),
    ("fan-out", "hub CPU, 8 to 1"): _said("the same messages on eight realtime processes cost this many times as much as on one"),
    **{("fan-out", f"most decoded, times the share, {count} hubs"): _busiest(count) for count in fan_out.COUNTS[1:]},
    ("deadlines", "late p99 ms"): _said("10,000 chats end within a minute: the latest of 100 ends this late"),
    ("deadlines", "early max ms"): _said("no paid time is cut off"),
    ("deadlines", "last mitra offline s"): _said("the network of 10,000 mitras fails at once: from their time limit until the last one is offline"),
    ("idle", "connects/s"): lambda rate: f"after a restart, 10,000 phones are back in {10_000 / rate:.1f} s",
    ("idle", "CPU ms a connect (hub)"): lambda cost: f"1,000 phones that come back at once take {cost:.2f} s of one core",
    ("idle", "KiB a socket, 5,000 sockets"): lambda kib: f"1 GiB of memory holds {_about(2**20 / kib)} open apps",
    ("idle", "hub CPU ms/s, 5,000 sockets"): lambda cost: f"5,000 open apps without traffic take {cost / 10:.1f} % of one core",
    ("soak", "realtime growth %"): _said("memory after ten minutes of load, compared with that after three"),
}  # fmt: skip
