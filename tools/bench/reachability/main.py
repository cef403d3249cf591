"""`sesi bench reachability`: how often a mitra's status is wrong, with the row `reachability_probe` off and on.

Phones fall silent in different ways. A status is wrong while the mitra is online and a chat request can't reach the
phone, or offline and it can. The service's clock runs faster, so that four minutes of service time take one.
"""

import asyncio
import datetime as dt
import json
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

import aiohttp
import asyncpg
import attrs
from rich.console import Console
from rich.table import Table

from core.base import ids
from core.config.keys import KEYS
from tools.bench import people
from tools.bench.reachability.phones import CrowdPhone, Fate, Reached, Timetable, compare, intervals
from tools.bench.running import BenchFailed, start_service
from tools.commands import progress
from tools.driving.push_inbox import PushInbox
from tools.driving.service import Service

SCALE = 4
PHONES = 10  # of each kind
STALE_S = KEYS["mitra_stale_after_seconds"].default
FULL = Timetable(cadence_s=30, silent_at_s=31, turn_at_s=120, online_at_s=135, seconds=240)
ROW = """UPDATE app_config SET value = jsonb_build_object('value', $1::bool), updated_at = now()
  WHERE key = 'reachability_probe'"""
TOKEN = "UPDATE auth_sessions SET push_token = $2, push_token_at = now() WHERE user_id = $1::uuid"
# The processes have run for long, so that no silence is excused by their start.
STEADY = "UPDATE service_processes SET since_at = since_at - interval '1 hour'"
CHANGES = """SELECT mitra_id::text, status = 'online' AS is_online, "timestamp" AS at FROM mitra_online_logs
  WHERE mitra_id = ANY($1::uuid[]) ORDER BY "timestamp" """
SETTLE_S = 1.5  # real seconds until all processes have read the configuration


@attrs.frozen(kw_only=True)
class ReachabilityTrial:
    """The result with the row off or on."""

    probe: bool
    found: list[Reached]


async def measure(
    service: Service,
    inbox: PushInbox,
    plan: Timetable,
    *,
    probe: bool,
    phones: int = PHONES,
    kinds: Sequence[Fate] = tuple(Fate),
) -> ReachabilityTrial:
    """Let `phones` phones of each kind play the plan."""
    connection = await asyncpg.connect(service.database_url)
    try:
        await connection.execute(ROW, probe)
        await connection.execute(STEADY)
        await asyncio.sleep(SETTLE_S)
        async with aiohttp.ClientSession() as http:
            crowd = [
                CrowdPhone(
                    kind, mitra, f"device-{ids.new_id()}", http=http, addresses=service.addresses, scale=service.scale
                )
                for kind in kinds
                for mitra in await people.mitras(connection, service, phones, online=False)
            ]
            for phone in crowd:
                await connection.execute(TOKEN, phone.mitra.id, phone.token)
            return ReachabilityTrial(probe=probe, found=await _play(connection, crowd, inbox, plan))
    finally:
        await connection.close()


async def _play(
    connection: asyncpg.Connection, crowd: Sequence[CrowdPhone], inbox: PushInbox, plan: Timetable
) -> list[Reached]:
    loop, by_token = asyncio.get_running_loop(), {phone.token: phone for phone in crowd}
    inbox.answer = lambda message: by_token[message["token"]].receive(message, loop)
    try:
        await asyncio.gather(*(phone.call("POST", "/online") for phone in crowd))
        changes = await _changes(connection, crowd)
        began_at = max(at for found in changes.values() for at, _ in found)
        await asyncio.gather(*(phone.live(plan) for phone in crowd))
        changes = await _changes(connection, crowd)
    finally:
        inbox.answer = lambda _: None
        await asyncio.gather(*(phone.call("POST", "/offline") for phone in crowd))
        await asyncio.gather(*(phone.close() for phone in crowd))
    return [
        compare(
            kind,
            plan,
            [intervals(changes[phone.mitra.id], began_at, plan.seconds) for phone in crowd if phone.kind is kind],
            sum(phone.checks for phone in crowd if phone.kind is kind),
        )
        for kind in dict.fromkeys(phone.kind for phone in crowd)
    ]


async def _changes(
    connection: asyncpg.Connection, crowd: Iterable[CrowdPhone]
) -> dict[str, list[tuple[dt.datetime, bool]]]:
    """Return when each mitra went online or offline, in order."""
    found: dict[str, list[tuple[dt.datetime, bool]]] = {phone.mitra.id: [] for phone in crowd}
    for row in await connection.fetch(CHANGES, list(found)):
        found[row["mitra_id"]].append((row["at"], row["is_online"]))
    return found


def lines(trials: Sequence[ReachabilityTrial]) -> list[list[str]]:
    """Return the cells of the table: for each kind of phone the figures with the row off and on."""
    off, on = sorted(trials, key=lambda trial: trial.probe)
    return [
        [
            f"{before.phones} {before.kind}",
            *(f"{one.false_online_s:,.0f} s ({one.false_online})" for one in (before, after)),
            *(f"{one.false_offline_s:,.0f} s ({one.false_offline})" for one in (before, after)),
            str(after.checks),
        ]
        for before, after in zip(off.found, on.found, strict=True)
    ]


HEADINGS = ("phones", "false online, off", "false online, on", "false offline, off", "false offline, on", "checks, on")


def missed(trials: Sequence[ReachabilityTrial], *, scale: float = SCALE, stale_s: float = STALE_S) -> list[str]:
    """Return what the row should do but did not."""
    off, on = sorted(trials, key=lambda trial: trial.probe)
    found: list[str] = []
    for before, after in zip(off.found, on.found, strict=True):
        slack = before.phones * (2.0 + scale)  # a deadline and a push take some real time
        answered = before.phones * stale_s if after.kind is Fate.FADING else 0.0  # online after the last answer
        if after.false_online_s > before.false_online_s + answered + slack:
            found.append(f"{after.kind}: longer falsely online with the row on")
        if after.false_offline_s > before.false_offline_s + slack:
            found.append(f"{after.kind}: longer falsely offline with the row on")
        if after.kind in (Fate.AWAKE, Fate.BACKGROUND, Fate.FADING) and after.false_offline:
            found.append(f"{after.kind}: {after.false_offline} phones were falsely offline")
        if before.kind is Fate.BACKGROUND and before.false_offline < before.phones:
            found.append(f"{before.kind}: not all were falsely offline with the row off")
    return found


def bench(console: Console, *, target: pathlib.Path | None) -> int:
    """Measure with the row off and on; print the table. Return 1 if the row did not do what it should."""
    inbox = PushInbox()
    scale: dict[str, Any] = {"scale": SCALE}  # a parameter of Service, no setting
    try:
        service = start_service(
            **{"MITRA_HEARTBEAT_CADENCE_SECONDS": f"{FULL.cadence_s:.0f}", **inbox.environment},
            **scale,
        )
        try:
            trials = []
            with progress.shown("reachability", expected_s=2 * FULL.seconds / SCALE) as report:
                for number, probe in enumerate((False, True)):
                    report(number / 2, f"probe {'on' if probe else 'off'}")
                    trials.append(asyncio.run(measure(service, inbox, FULL, probe=probe)))
        finally:
            service.close()
    except (aiohttp.ClientError, OSError) as error:
        raise BenchFailed(f"a phone failed: {error}") from error
    finally:
        inbox.close()
    table = Table(*HEADINGS)
    for line in lines(trials):
        table.add_row(*line)
    console.print(table)
    if target is not None:
        target.write_text(json.dumps([attrs.asdict(trial) for trial in trials], indent=1) + "\n")
    for line in missed(trials):
        console.print(f"[red]missed[/] {line}")
    return 1 if missed(trials) else 0
