"""The checks of Redis or Valkey."""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

from core.bus.bus import DEADLINE_S, Bus
from core.bus.server import LOST
from core.settings.settings import Settings
from tools.doctor.findings import Finding, failure, ok, or_start, problems_or

OLDEST_VERSION = 7


async def check(settings: Settings) -> list[Finding]:
    """Check that Redis answers, and the settings of each server that takes writes."""
    bus = Bus(settings.redis_url)
    found: list[Finding] = []
    try:
        await bus.find()
        if not await bus.ping():
            return [failure("Redis", f"does not answer: check REDIS_URL{or_start(settings)}")]
        for server in bus.present():
            found += await _server(server.client, "" if server.address is None else f"{server.address}: ")
    finally:
        await bus.close()
    return found


async def _server(client: Any, place: str) -> list[Finding]:
    try:
        async with asyncio.timeout(DEADLINE_S):
            info = await client.info()
    except LOST as error:
        return [failure("Redis", f"{place}refuses INFO ({type(error).__name__}): allow it for the user of REDIS_URL")]
    saves = ""
    with contextlib.suppress(*LOST):  # some hosted servers have no CONFIG
        async with asyncio.timeout(DEADLINE_S):
            saves = (await client.config_get("save")).get("save", "")
    return judged(info, saves=saves, place=place)


def judged(info: Mapping[str, Any], *, saves: str, place: str = "") -> list[Finding]:
    """Return the findings about a server: its INFO, and its rule for snapshots (an empty text: none)."""
    name = "Valkey" if "valkey_version" in info else "Redis"
    version = str(info.get("valkey_version", info["redis_version"]))
    failures, warnings = [], []
    if int(version.partition(".")[0]) < OLDEST_VERSION:
        failures.append(f"{place}is {name} {version}: use Redis {OLDEST_VERSION} or newer, or Valkey")
    if info.get("maxmemory", 0) and info.get("maxmemory_policy") == "noeviction":
        warnings.append(
            f"{place}refuses writes when its memory is full, and then the rate limits count in each process alone: "
            "set maxmemory-policy volatile-ttl"
        )
    if saves or info.get("aof_enabled"):
        warnings.append(
            f"{place}saves data to disk, which the service does not need, and a full disk stops its writes: "
            'set save "" and appendonly no'
        )
    return problems_or(ok("Redis", f"{place}{name} {version}"), failures=failures, warnings=warnings)
