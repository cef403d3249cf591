"""Benchmark of deadlines: how late chats end when 10,000 of them end within one minute.

No mitra sends heartbeats. So halfway, after `mitra_stale_after_seconds`, all mitras are due to be taken offline at the
same time, as after a network failure. That work takes the rest of the minute and must not delay the end of any chat.
"""

import asyncio

import asyncpg

from tools.bench import people
from tools.bench.figures import percentile
from tools.bench.machine import cpu_seconds
from tools.bench.running import BenchFailed
from tools.service import Service

COUNT = 10_000
WITHIN_S = 60.0
LEAD_S = 15.0  # before the first end, because the rows must be inserted first
SPARE_S = 3.0
# Milliseconds from each session's end to the event that reports it. Service time runs at real speed here.
LATE = """SELECT extract(epoch FROM d.created_at - s.expires_at)::float8 * 1000 AS ms FROM deliveries d
  JOIN chat_sessions s ON s.id = d.session_id
  WHERE d.event = 'session_expired' AND d.recipient_type = 'customer' AND s.id = ANY($1::uuid[])"""


async def expiries(service: Service, _: float) -> dict[str, float]:
    """Let chats end evenly over a minute; return figures of their lateness.

    Raises BenchFailed if a chat does not end.
    """
    connection = await asyncpg.connect(service.database_url)
    try:
        pairs = await people.pairs(
            connection, service, COUNT, minutes=LEAD_S / 60, apart_s=WITHIN_S / COUNT, online=True
        )
        jobs = service.processes["jobs"].pid
        used = cpu_seconds(jobs)
        await asyncio.sleep(LEAD_S + WITHIN_S + SPARE_S)
        used = cpu_seconds(jobs) - used
        late = [row["ms"] for row in await connection.fetch(LATE, [pair.session_id for pair in pairs])]
    finally:
        await connection.close()
    if len(late) != COUNT:
        raise BenchFailed(f"{COUNT} chats should have ended, {len(late)} have")
    return {
        "late p50 ms": percentile(late, 0.5),
        "late p99 ms": percentile(late, 0.99),
        "late max ms": max(late),
        "early max ms": max(0.0, -min(late)),
        "CPU s per 1,000 (jobs)": used / COUNT * 1000,
    }
