"""Rolling deploys behind HAProxy: the processes of one version are replaced by another, one by one, under load."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

from tests.faults.failover.load import CONFIRMED
from tests.ha import previous, programs
from tests.ha.measure import all_served, gaps, recovery_s, violations
from tests.ha.replicas import Replicas
from tests.ha.report import Outcome
from tests.ha.traffic import Traffic, traffic
from tests.stack import within
from tools.driving.service import OURS, SourceTree

ENGINE = "Sesi"
LATE_S = 5.0  # from the acknowledgement of a message until the other phone shows it
PAIRS = 4
FORTH = ("realtime", "api", "jobs")  # the order of docs/operating.md
BACK = tuple(reversed(FORTH))
STORED = "SELECT id::text, client_message_id::text FROM chat_messages WHERE session_id = ANY($1::uuid[])"
WENT_OFFLINE = "SELECT count(*) FROM mitra_online_logs WHERE status = 'offline' AND mitra_id = ANY($1::uuid[])"


async def measure(
    replicas: Replicas, name: str, roll: Callable[[Traffic], Awaitable[None]], *, pairs: int, worst: bool = False
) -> Outcome:
    """Replace processes under load. `pairs` and `worst` are those of `traffic`."""
    async with traffic(replicas, pairs=pairs, worst=worst) as load:
        await all_served(load.record.moments, load.senders)
        began = time.monotonic()
        await roll(load)
        await all_served(load.record.moments, load.senders)
        await load.end()
        await load.phones_show_what_is_stored()
        found = gaps(load.record.moments, began)
        lost = await _lost(load)
        broken = await _broken(load)
    await load.world.leave_searches()
    await load.world.close()
    record = load.record
    return Outcome(
        engine=ENGINE,
        fault=name,
        connection="HAProxy",
        acknowledged=len(record.messages) + len(record.payments),
        lost=lost,
        longest_gap_s=max(length for length, _ in found),
        latest_delivery_s=max(record.late_s),
        recovery_s=recovery_s(found),
        violations=violations(replicas.stack),
        failures=len(broken),
        seen=f"{record.requests} requests; the latest timer {max(record.timers_s):.1f} s"
        + "".join(f"; {line}" for line in broken[:3]),
    )


async def _lost(load: Traffic) -> int:
    """Return how many acknowledged messages and payments are not stored exactly once."""
    stack, record = load.world.stack, load.record
    stored = Counter((row[1], row[0]) for row in await stack.sql(STORED, load.sessions))
    confirmed = {row[0] for row in await stack.sql(CONFIRMED)}
    wrong = [mine for mine, (its, _) in record.messages.items() if stored[mine, its] != 1]
    return len(wrong) + len(stored) - len(record.messages) + len(set(record.payments) - confirmed)


async def _broken(load: Traffic) -> list[str]:
    """Return what else users would have noticed: failed requests, late messages, mitras offline, odd ends of sockets."""
    record, mitras = load.record, [mitra.user["id"] for mitra in load.world.mitras]
    offline = (await load.world.stack.sql(WENT_OFFLINE, mitras))[0][0]
    limit = within(LATE_S)
    late = [seconds for seconds in record.late_s if seconds > limit]
    return [
        *record.failed,
        *record.offline,
        *load.odd_ends(),
        *["a mitra went offline"] * offline,
        *[f"a message was shown after {seconds:.1f} s" for seconds in late],
    ]


class Deployment:
    """A service of the previous release on several processes, which is upgraded in steps."""

    def __init__(self, code: SourceTree, *, pairs: int, worst: bool) -> None:
        """`code` is the previous release; `pairs` and `worst` are those of `traffic`."""
        self._previous = code
        self._pairs, self._worst = pairs, worst
        self.replicas = Replicas(code)

    async def roll(self, name: str, *kinds: str, back: bool = False) -> Outcome:
        """Replace the processes of these kinds by this version, or with `back` by the previous one."""
        code = self._previous if back else OURS

        async def replace(load: Traffic) -> None:
            if not back:
                await asyncio.to_thread(self.replicas.migrate, OURS)
            for kind in kinds:
                async for _ in self.replicas.replace(code, kind):
                    await load.change_network()
            self.replicas.stack.use(OURS)  # for the audit

        return await measure(self.replicas, name, replace, pairs=self._pairs, worst=self._worst)

    def close(self) -> None:
        """Stop everything."""
        self.replicas.close()


@contextlib.contextmanager
def deployed(*, pairs: int = PAIRS, worst: bool = False) -> Iterator[Deployment]:
    """Run the previous release; `pairs` and `worst` are those of `traffic`."""
    with previous.checked_out() as code:
        made = Deployment(code, pairs=pairs, worst=worst)
        try:
            yield made
        finally:
            made.close()


def missing() -> str:
    """Return what is missing and how to install it; an empty text if nothing is."""
    return programs.missing_packages("haproxy") or previous.missing()


def note(*, quick: bool) -> str:
    """Return how the rolling deploys are set up."""
    return (
        f"Rolling deploys: two processes of each kind behind HAProxy, replaced in the order of "
        f"[rolling deploys](operating.md#rolling-deploys), with {_pairs(quick=quick)} chats in which both parties write, "
        "and further users who sign in, read, pay and search."
    )


def _pairs(*, quick: bool) -> int:
    return PAIRS // 2 if quick else PAIRS


async def run(*, quick: bool) -> AsyncIterator[Outcome]:
    """Yield the outcome of each roll; `quick` has fewer users."""
    with deployed(pairs=_pairs(quick=quick)) as deployment:
        version = previous.VERSION
        for kind in FORTH:
            yield await deployment.roll(f"roll {kind} from {version}", kind)
        yield await deployment.roll("roll all to the same version", *FORTH)
        yield await deployment.roll(f"roll all back to {version}", *BACK, back=True)
