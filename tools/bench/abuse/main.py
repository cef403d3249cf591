"""`sesi bench abuse`: measures one service with production defaults, in phases with and without attacks."""

import asyncio
import contextlib
import json
import pathlib
import secrets
import sys
from collections.abc import AsyncIterator

import asyncpg
import attrs
import uvloop
from rich.console import Console

from core.base import ids
from core.security import refresh
from core.security.keys import Keys
from core.settings import settings
from tools.bench import page, people
from tools.bench.abuse import report
from tools.bench.abuse.attacker import ATTACKS
from tools.bench.abuse.payers import Payers, SeenByPayers
from tools.bench.abuse.report import ALL, CONTROL, QUIET, Phase
from tools.bench.machine import describe
from tools.bench.results import Results
from tools.bench.running import BenchFailed, start_service
from tools.commands import progress
from tools.driving.service import Service

SECONDS = 8.0
LONGEST_S = 120.0
AROUND_S = 4.0  # before and after the seconds of a phase, about
REST_S = 1.0  # between phases, so that the effects of one attack don't count for the next
ACCOUNTS, DEVICES = 30, 5_000
END_S = 60.0
# Tables that attackers could write to, with the condition for their rows. Other users are created before a phase
# starts.
ATTACKER = "Mallory"
WRITABLE = {
    "customers": "true",
    "auth_sessions": "true",
    "otp_requests": "true",
    "payment_requests": f"customer_id IN (SELECT id FROM customers WHERE coalesce(display_name, '{ATTACKER}') = '{ATTACKER}')",
    "idempotency_keys": "true",
    "webhook_logs": "token_valid IS NOT TRUE",
}


@attrs.frozen(kw_only=True)
class AbuseOptions:
    """The options of the command line. `share`: factor for every count and rate, for a quick run."""

    kinds: tuple[str, ...] = ()
    seconds: float = SECONDS
    share: float = 1.0
    json: pathlib.Path | None = None
    page: pathlib.Path | None = None


def bench(asked: AbuseOptions, console: Console) -> int:
    """Measure all phases, and print and save the results; return 1 if a goal is missed. Raises BenchFailed."""
    service = start_service(**default_limits())  # type: ignore[arg-type]  # no setting is called like another argument
    try:
        phases = uvloop.run(_phases(asked, service))
    finally:
        service.close()
    console.print(report.table(phases))
    for phase in phases:
        if phase.attempts() and phase.name != ALL:
            console.print(f"{phase.name}: {phase.attempts()}", markup=False)
    found = report.as_json(phases, describe())
    if asked.json is not None:
        asked.json.write_text(json.dumps(found, indent=1) + "\n")
    if asked.page is not None:
        results = Results.read(asked.page)
        results.abuse = found
        results.write(asked.page)
        page.write(asked.page, results)
    missed = report.missed(phases)
    for line in missed:
        console.print(f"[red]missed[/] {line}")
    return 1 if missed else 0


def default_limits() -> dict[str, str]:
    """Return settings that restore the default limits: an empty value counts as unset."""
    return {name: "" for name in settings.names() if name.startswith(("RATE_LIMIT", "WS_", "OPERATOR_"))}


async def _phases(asked: AbuseOptions, service: Service) -> list[Phase]:
    """Run the phases: quiet, each attack alone, all attacks together, quiet again."""
    kinds = [kind for kind in ATTACKS if not asked.kinds or kind in asked.kinds]
    attacks = [kind for kind in kinds if kind != CONTROL]
    plan: list[tuple[str, list[str]]] = [(QUIET, []), *((kind, [kind]) for kind in kinds)]
    plan += [(ALL, attacks)] if len(attacks) > 1 else []
    plan += [(QUIET, [])]
    connection = await asyncpg.connect(service.database_url)
    try:
        payers = Payers(service, connection, share=asked.share)
        await payers.begin()
        try:
            found = []
            with progress.shown("abuse", expected_s=len(plan) * (AROUND_S + asked.seconds)) as begin:
                for number, (name, attackers) in enumerate(plan):
                    begin(number / len(plan), name)
                    found.append(await _phase(name, attackers, asked, service, connection, payers))
                    await asyncio.sleep(REST_S)
            return found
        finally:
            payers.end()
    finally:
        await connection.close()


async def _phase(
    name: str, kinds: list[str], asked: AbuseOptions, service: Service, connection: asyncpg.Connection, payers: Payers
) -> Phase:
    """Run one phase: create users, count rows, start the attack, measure the paying users, count rows again."""
    payments = await payers.payments(asked.seconds)
    attackers = await people.customers(connection, service, ACCOUNTS) if kinds else []
    await connection.execute(
        "UPDATE customers SET display_name = $2 WHERE id = ANY($1::uuid[])", [one.id for one in attackers], ATTACKER
    )
    devices = max(10, round(DEVICES * asked.share)) if "refresh" in kinds else 0
    plan = {
        "kinds": kinds,
        "seconds": asked.seconds + 1,  # longer than the measurement
        "public": service.ports["PUBLIC"],
        "realtime": service.ports["REALTIME"],
        "tokens": [one.token for one in attackers],
        "refresh": await _devices(connection, service, devices),
        "share": asked.share,
    }
    rows, written = await _written(connection)
    phase = Phase(name=name, seen=SeenByPayers(), seconds=asked.seconds + 1, devices=devices)
    async with _attackers(plan, phase):
        phase.seen = await payers.watch(asked.seconds, payments)
    rows_after, written_after = await _written(connection)
    phase.rows, phase.written = rows_after - rows, written_after - written
    await payers.forget(payments)
    return phase


@contextlib.asynccontextmanager
async def _attackers(plan: dict[str, object], phase: Phase) -> AsyncIterator[None]:
    """Run the attackers' process during the block. Raises BenchFailed if it fails."""
    if not plan["kinds"]:
        yield
        return
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tools.bench.abuse.attacker",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=2**24,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(plan).encode() + b"\n")
        if await process.stdout.readline() != b"begun\n":
            raise BenchFailed("the attackers' process did not start")
        yield
        async with asyncio.timeout(END_S):
            done = await process.stdout.readline()
            if await process.wait() != 0:
                raise BenchFailed("the attackers' process failed")
        found = json.loads(done)
        phase.attackers, phase.attacker_cpu_s = found["kinds"], found["cpu_seconds"]
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _devices(connection: asyncpg.Connection, service: Service, count: int) -> list[str]:
    """Sign in `count` devices, each of another customer; return their refresh tokens."""
    if not count:
        return []
    _, _, secret = service.env["JWT_SECRETS"].partition(":")
    key = Keys([secret.encode()]).refresh[0]
    customers = [one.id for one in await people.customers(connection, service, count)]
    sessions = [ids.new_id() for _ in customers]
    tokens = [
        refresh.make(key=key, auth_session_id=one, generation=0, secret=secrets.token_bytes(refresh.SECRET_BYTES))
        for one in sessions
    ]
    await connection.execute(
        """INSERT INTO auth_sessions (id, user_type, user_id, refresh_token_hash, created_at, last_used_at, expires_at)
           SELECT i, 'customer', u, h, now(), now(), now() + interval '30 days'
           FROM unnest($1::uuid[], $2::uuid[], $3::text[]) AS x(i, u, h)""",
        sessions, customers, [refresh.hash_of(token) for token in tokens],
    )  # fmt: skip
    return tokens


async def _written(connection: asyncpg.Connection) -> tuple[int, int]:
    """Return (rows, bytes) of what attackers could have written."""
    rows = written = 0
    for name, theirs in WRITABLE.items():
        found = await connection.fetchrow(
            f"SELECT count(*) AS rows, coalesce(sum(pg_column_size(t.*)), 0)::bigint AS bytes FROM {name} t WHERE {theirs}"
        )
        assert found is not None
        rows, written = rows + found["rows"], written + found["bytes"]
    return rows, written
