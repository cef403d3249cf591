"""Benchmark of deadlines: how late chats end when 10,000 of them end within one minute.

No mitra sends heartbeats. So halfway, after `mitra_stale_after_seconds`, all mitras are due to be taken offline at the
same time, as after a network failure. That must not delay the end of any chat, and must not take long.
"""

import asyncio
import datetime as dt

import asyncpg

from core.config.keys import KEYS
from tools.bench import people
from tools.bench.figures import percentile
from tools.bench.machine import cpu_seconds
from tools.bench.running import BenchFailed
from tools.driving.service import Service

COUNT = 10_000
WITHIN_S = 60.0
LEAD_S = 15.0  # before the first end, because the rows must be inserted first
SPARE_S = 3.0
SILENCE = dt.timedelta(seconds=KEYS["mitra_stale_after_seconds"].default)
# Milliseconds from each session's end to the event that reports it. Service time runs at real speed here.
LATE = """SELECT s.expires_at, extract(epoch FROM d.created_at - s.expires_at)::float8 * 1000 AS ms FROM deliveries d
  JOIN chat_sessions s ON s.id = d.session_id
  WHERE d.event = 'session_expired' AND d.recipient_type = 'customer' AND s.id = ANY($1::uuid[])"""
# The last heartbeat of all mitras, and when the last of them was taken offline.
FALL = """SELECT max(last_heartbeat_at) AS heartbeat_at, max(last_offline_at) AS offline_at,
  count(*) FILTER (WHERE is_online) AS online FROM mitra_online_status WHERE mitra_id = ANY($1::uuid[])"""


async def expiries(service: Service, _: float) -> dict[str, float]:
    """Let chats end evenly over a minute; return figures of their lateness, and how long the mitras stay online.

    Raises BenchFailed if a chat does not end, or a mitra stays online.
    """
    connection = await asyncpg.connect(service.database_url)
    try:
        pairs = await people.pairs(
            connection, service, COUNT, minutes=LEAD_S / 60, apart_s=WITHIN_S / COUNT, online=True
        )
        before = _cpu(service)
        await asyncio.sleep(LEAD_S + WITHIN_S + SPARE_S)
        used = {name: seconds - before[name] for name, seconds in _cpu(service).items()}
        rows = await connection.fetch(LATE, [pair.session_id for pair in pairs])
        fall = await connection.fetchrow(FALL, [pair.mitra.id for pair in pairs])
    finally:
        await connection.close()
    if len(rows) != COUNT or fall is None or fall["online"]:
        raise BenchFailed(f"{COUNT} chats should have ended, {len(rows)} have; no mitra should be online: {fall}")
    late, silent_at = [row["ms"] for row in rows], fall["heartbeat_at"] + SILENCE
    in_fall = [row["ms"] for row in rows if silent_at <= row["expires_at"] <= fall["offline_at"]]
    return {
        "late p50 ms": percentile(late, 0.5),
        "late p99 ms": percentile(late, 0.99),
        "late max ms": max(late),
        "early max ms": max(0.0, -min(late)),
        "last mitra offline s": (fall["offline_at"] - silent_at).total_seconds(),
        "late p99 ms until then": percentile(in_fall, 0.99),
        **{f"CPU s per 1,000 ({name})": seconds / COUNT * 1000 for name, seconds in used.items()},
    }


def _cpu(service: Service) -> dict[str, float]:
    return {
        "jobs": cpu_seconds(service.processes["jobs"].pid),
        "PostgreSQL": cpu_seconds(service.servers.pids["postgres"], children=True),
    }
