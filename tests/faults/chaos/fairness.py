"""The rows that `make chaos FAIR=1` turns on, and the check that each session had the time to talk that was paid.

A feature of fairness (docs/fairness.md) adds its rows to ROWS.
"""

import asyncio
import time
import urllib.request
from typing import Any

import attrs

from core.cluster.outages.rules import LEASE_S, RENEW_EVERY_S
from tests.faults.chaos.lives import ChaosWorld
from tests.faults.service import Service

ROWS: dict[str, Any] = {
    "fair_clock": True,
    "reachability_probe": True,
    "peer_absent_seconds": 15,
    "refuse_unservable_payments": True,
}
LOOK_S = 0.1
# A gap that every process notices. A shorter one may be within a lease, and then a realtime process counts as live.
NOTICED_S = LEASE_S + RENEW_EVERY_S
MISSING_S = 2.0
# When the session was paired, how long it was paid for, and its end. `_hurry` moves `paired_at`, but not the payment's
# time. A session that a party ended early is left out.
SESSIONS = """SELECT s.id::text, p.consumed_at AS paired, s.expires_at AS ends,
    extract(EPOCH FROM s.expires_at - s.paired_at)::float AS seconds,
    60 * (s.duration_minutes + s.extended_minutes) AS paid
  FROM chat_sessions s JOIN payment_requests p ON p.id = s.payment_request_id
  WHERE s.paired_at IS NOT NULL AND s.expires_at <= s.ended_at"""


@attrs.define
class Watch:
    """The times without a ready realtime process, as seen from outside."""

    service: Service
    out: list[tuple[float, float]] = attrs.field(factory=list)  # wall clock

    async def run(self) -> None:
        """Look until cancelled. A process whose database does not answer is not ready."""
        since: float | None = None
        while True:
            now = time.time()
            if await self._any_ready():
                if since is not None and now - since > NOTICED_S:
                    self.out.append((since, now))
                since = None
            elif since is None:
                since = now
            await asyncio.sleep(LOOK_S)

    async def _any_ready(self) -> bool:
        answers = [asyncio.to_thread(_is_ready, node.probe) for node in self.service.of("realtime")]
        return any(await asyncio.gather(*answers))


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1) as answer:
            return answer.status == 200
    except OSError:
        return False


async def check_time(crowd: ChaosWorld, watch: Watch) -> None:
    """Check that both parties of each session could talk for the time paid, less MISSING_S."""
    for row in await crowd.stack.sql(SESSIONS):
        began, ended = row["paired"].timestamp(), row["ends"].timestamp()
        lost = sum(max(0.0, min(ended, until) - max(began, since)) for since, until in watch.out)
        crowd.notes.counts["sessions with their time"] += 1
        missing = (row["paid"] - (row["seconds"] - lost)) / crowd.stack.scale
        if missing > MISSING_S:
            crowd.notes.violation(f"both could talk {missing:.1f} s less than paid in {row['id']}: {row}")
    given = await crowd.stack.sql("SELECT count(*)::int AS n FROM session_time_credits")
    crowd.notes.counts["time credits"] = given[0]["n"]
    crowd.notes.counts["outages of the chat"] = len(watch.out)
