"""The command line: what each command does, prints and returns as exit code."""

import asyncio
import concurrent.futures
import contextlib
import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from core.settings import settings
from core.storage.migrations import migration_ids
from core.storage.partitions import AHEAD
from tests.stack import CALLBACK_TOKEN, EMAIL, PASSWORD, Stack, World, new_id
from tools.driving.throwaway import Throwaway
from tools.embedded import programs

pytestmark = pytest.mark.anyio
ROOT = pathlib.Path(__file__).parents[2]
NO_ACCOUNT = 61_234  # of a user and a group: systemd's DynamicUser has none in /etc/passwd either
TIERS = "/internal/pricing/tiers"
PRODUCTION = {
    "ENVIRONMENT": "production",
    "GATEWAY_CALLBACK_TOKEN": CALLBACK_TOKEN,
    "PASSWORD_ROUNDS": "11",
    "REFUNDS_ENABLED": "false",
    "GATEWAY_ENABLED": "false",
    "PUSH_SENDER": "log",
    "SESI_TIME_SCALE": "1",
}


def test_migrate_can_be_repeated_and_run_concurrently(stack: Stack) -> None:
    with concurrent.futures.ThreadPoolExecutor() as pool:
        done = list(pool.map(lambda _: stack.command("migrate"), range(3)))
    assert all("0 migrations ran" in one.stdout for one in done)
    assert stack.command("migrate", "--check").returncode == 0


async def test_three_concurrent_migrations_of_an_empty_database_apply_once(stack: Stack) -> None:
    await stack.sql("CREATE DATABASE empty")
    await stack.sql("ALTER DATABASE empty SET idle_session_timeout = '150ms'")
    url = stack.url_of("empty")
    assert stack.command("migrate", "--check", check=False, DATABASE_URL=url).returncode == 1
    with concurrent.futures.ThreadPoolExecutor() as pool:
        done = list(pool.map(lambda _: stack.command("migrate", DATABASE_URL=url), range(3)))
    assert sorted(f"{len(migration_ids())} migrations ran" in one.stdout for one in done) == [False, False, True]
    assert stack.command("migrate", "--check", DATABASE_URL=url).returncode == 0


@contextlib.asynccontextmanager
async def database_of(stack: Stack, owner: str, *statements: str) -> AsyncIterator[str]:
    """Yield the URL of an empty database for an ordinary owner, after statements of an administrator in it."""
    await stack.sql(f"CREATE ROLE {owner} LOGIN")
    await stack.sql(f"CREATE DATABASE of_{owner} OWNER {owner}")
    url = stack.url_of(f"of_{owner}")
    administrator = await asyncpg.connect(url)
    try:
        for statement in statements:
            await administrator.execute(statement)
        await administrator.close()
        yield url.replace("postgres@", f"{owner}@")
    finally:
        await administrator.close()
        await stack.sql(f"DROP DATABASE of_{owner} WITH (FORCE)")
        await stack.sql(f"DROP ROLE {owner}")


async def test_migrate_needs_only_an_ordinary_owner_and_no_home(stack: Stack) -> None:
    env = {name: value for name, value in stack.env.items() if name not in ("HOME", "USER", "LOGNAME")}
    stranger: dict[str, Any] = {"user": NO_ACCOUNT, "group": NO_ACCOUNT, "extra_groups": []}
    folders = (ROOT, pathlib.Path(sys.executable).resolve().parent)
    may_be = os.geteuid() == 0 and all(
        programs._may_enter(folder, programs.Account(NO_ACCOUNT, NO_ACCOUNT)) for folder in folders
    )
    async with database_of(stack, "ordinary") as url:
        done = await asyncio.to_thread(
            subprocess.run, [sys.executable, "-m", "tools.cli", "migrate"], env={**env, "DATABASE_URL": url}, cwd=ROOT,
            capture_output=True, text=True, timeout=60, check=False, **(stranger if may_be else {}),
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        assert f"{len(migration_ids())} migrations ran" in done.stdout
        assert stack.command("migrate", "--check", DATABASE_URL=url).returncode == 0


async def test_migrate_without_rights_names_the_statements_of_an_administrator(stack: Stack) -> None:
    closed = ("REVOKE CREATE ON SCHEMA public FROM pg_database_owner", "ALTER DATABASE of_poor OWNER TO postgres")
    async with database_of(stack, "poor", *closed) as url:
        done = stack.command("migrate", check=False, DATABASE_URL=url)
        needed = "GRANT USAGE, CREATE ON SCHEMA public TO poor; CREATE EXTENSION pg_trgm"
        assert done.returncode == 1
        assert done.stderr == (
            f"sesi: the role poor lacks rights in the database of_poor: run there, as an administrator: {needed}\n"
        )
        administrator = await asyncpg.connect(stack.url_of("of_poor"))
        for statement in needed.split("; "):
            await administrator.execute(statement)
        await administrator.close()
        assert stack.command("migrate", DATABASE_URL=url).returncode == 0


async def test_failed_migration_names_its_file_and_the_words_of_the_server(stack: Stack) -> None:
    async with database_of(stack, "late", "CREATE TABLE chat_sessions (id INT)") as url:
        done = stack.command("migrate", check=False, DATABASE_URL=url)
        assert done.returncode == 1
        assert done.stderr.startswith("sesi: the migration 0001 failed: ")
        assert "chat_sessions" in done.stderr


def test_version_is_printed(stack: Stack) -> None:
    assert stack.command("--version").stdout == f"sesi {importlib.metadata.version('sesi')}\n"


async def test_doctor_reports_missing_partitions_and_migrate_makes_them(stack: Stack) -> None:
    await stack.sql("CREATE DATABASE bare")
    url = stack.url_of("bare")
    sick = stack.command("doctor", check=False, DATABASE_URL=url)
    assert "there are none: use `sesi migrate`" in " ".join(sick.stdout.split())
    stack.command("migrate", DATABASE_URL=url)
    assert f"made {AHEAD} months ahead" in stack.command("doctor", check=False, DATABASE_URL=url).stdout


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PUBLIC_PORT", "eighty"),
        ("PUBLIC_PORT", "70000"),
        ("JWT_SECRETS", "k:short"),
        ("DATABASE_URL", "mysql://nope"),
        ("DATABASE_URL", "postgresql://u@127.0.0.1:abc/d"),
        ("REDIS_URL", "redis://127.0.0.1:abc/0"),
        ("SESI_TIME_SCALE", "fast"),
        ("TRUSTED_PROXIES", "somewhere"),
        ("OTP_SENDER", "pigeon"),
        ("ENVIRONMENT", "staging"),
        ("SESI_TIME_ANCHOR", "yesterday"),
    ],
)
def test_invalid_setting_stops_the_start_with_one_line_that_names_it(stack: Stack, variable: str, value: str) -> None:
    done = stack.command("api", check=False, **{variable: value})
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if not line.startswith("{")]
    assert len(lines) == 1
    assert variable in lines[0]
    assert "expected" in lines[0]


def test_two_listeners_on_one_address_are_refused(stack: Stack) -> None:
    done = stack.command("up", check=False, INTERNAL_PORT=stack.env["PUBLIC_PORT"])
    assert (done.returncode, done.stderr) == (1, "sesi: PUBLIC_PORT and INTERNAL_PORT: expected different ports\n")
    done = stack.command("up", check=False, JOBS_HOST="0.0.0.0", JOBS_PORT=stack.env["REALTIME_PORT"])
    assert (done.returncode, done.stderr) == (1, "sesi: REALTIME_PORT and JOBS_PORT: expected different ports\n")


@pytest.mark.parametrize(
    "env",
    [
        {"JWT_SECRETS": ""},
        {"GATEWAY_CALLBACK_TOKEN": "development-callback-token"},
        {"SESI_TIME_SCALE": "60"},
    ],
)
def test_production_refuses_development_secrets_and_scaled_time(stack: Stack, env: dict[str, str]) -> None:
    done = stack.command("settings", check=False, **{**PRODUCTION, **env})
    assert done.returncode == 1
    assert "production" in done.stderr
    assert stack.command("settings", **PRODUCTION).returncode == 0


def test_commands_for_test_users_and_payments_are_refused_in_production(stack: Stack) -> None:
    for command in (("seed", "demo"), ("gateway", "pay", new_id()), ("demo", "--running")):
        done = stack.command(*command, check=False, **PRODUCTION)
        assert done.returncode == 1, command
        assert done.stderr.startswith("sesi: ENVIRONMENT: expected development or test"), command


def test_blank_or_invalid_heartbeat_cadence_is_thirty(stack: Stack) -> None:
    for value in ("", "soon"):
        shown = stack.command("settings", MITRA_HEARTBEAT_CADENCE_SECONDS=value).stdout
        line = next(line for line in shown.splitlines() if "MITRA_HEARTBEAT" in line)
        assert line.split("│")[3].strip() == "30"


def test_settings_command_masks_secrets(stack: Stack) -> None:
    shown = stack.command("settings").stdout
    assert CALLBACK_TOKEN not in shown
    assert stack.env["JWT_SECRETS"] not in shown
    lines = [line.split("│") for line in shown.splitlines() if line.startswith("│")]
    assert {line[1].strip() for line in lines} == settings.names()  # complete also when the output goes to a program


def test_throwaway_service_does_not_inherit_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in settings.names() | settings.file_names():
        monkeypatch.setenv(name, "https://gateway.example.test")
    demo = Throwaway(60)
    try:
        assert [name for name, value in demo.env.items() if value == "https://gateway.example.test"] == []
    finally:
        asyncio.run(demo.stop())


def test_time_anchor_other_than_the_databases_is_refused(stack: Stack) -> None:
    done = stack.command("audit", check=False, SESI_TIME_ANCHOR="2020-01-01T00:00:00+00:00")
    assert done.returncode == 1
    assert "SESI_TIME_ANCHOR" in done.stderr


def test_invalid_usage_exits_with_two(stack: Stack) -> None:
    assert stack.command("dance", check=False).returncode == 2
    assert stack.command("gateway", "pay", check=False).returncode == 2
    assert stack.command("operator", "create", check=False).returncode == 2


def test_repeated_seed_changes_nothing(stack: Stack) -> None:
    assert "0 added" in stack.command("seed", "tiers").stdout


TIER = {"mode": "call", "minutes": 91, "price_idr": 1}
DISCOUNT = {"enabled": True, "price_idr": 1, "gimmick_price_idr": 2, "duration_minutes": 12, "modes": ["chat"]}
BAD_TIERS: tuple[tuple[Any, str], ...] = (
    ([], "not a valid tiers file"),
    ({"tier": []}, "tier: unknown"),
    ({"tiers": [{"mode": "call", "hours": 1}]}, "hours"),
    ({"tiers": [TIER, TIER | {"minutes": 100_000}]}, "tiers, number 2: minutes"),
    ({"tiers": [TIER | {"minutes": "13"}]}, "tiers, number 1: minutes"),
    ({"tiers": [TIER | {"mode": "video"}]}, "tiers, number 1: mode"),
    ({"tiers": [TIER | {"price_idr": -1}]}, "tiers, number 1: price_idr"),
    ({"tiers": [TIER | {"tag": ""}]}, "tiers, number 1: tag"),
    ({"first_session_discount": DISCOUNT | {"modes": ["chta"]}}, "first_session_discount: modes"),
    ({"first_session_discount": DISCOUNT | {"duration_minutes": True}}, "first_session_discount: duration_minutes"),
    ({"first_session_discount": DISCOUNT | {"enabled": "yes"}}, "first_session_discount: enabled"),
)


async def test_tiers_are_read_from_a_file_and_an_invalid_file_is_refused(world: World, tmp_path: pathlib.Path) -> None:
    stack, root = world.stack, await world.operator()
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps({"tiers": [{"mode": "call", "minutes": 90, "price_idr": 100000, "tag": "long"}]}))
    assert "call 90 min: Rp 100.000" in stack.command("seed", "tiers", str(good)).stdout
    assert "0 added" in stack.command("seed", "tiers", str(good)).stdout
    for document, named in BAD_TIERS:
        bad.write_text(json.dumps(document))
        done = stack.command("seed", "tiers", str(bad), check=False)
        assert (done.returncode, named in done.stderr, "Traceback" in done.stderr) == (1, True, False), (
            document,
            done.stderr,
        )
    (made,) = [tier for tier in (await root.get(TIERS))["items"] if (tier["mode"], tier["minutes"]) == ("call", 90)]
    gone = {"updated_at": made["updated_at"]}  # other tests expect the usual prices
    await root.call("DELETE", f"{TIERS}/{made['id']}", params=gone)


def test_operator_is_created_once(stack: Stack) -> None:
    args = ("operator", "create", "--email", "One@Example.test", "--display-name", "One", "--password-stdin")
    assert stack.command(*args, "--role", "administrator", stdin="a good long password").returncode == 0
    again = stack.command(*args, "--role", "administrator", stdin="a good long password", check=False)
    assert (again.returncode, "already" in again.stderr) == (1, True)
    other = stack.command(*args, "--role", "clown", stdin="a good long password", check=False)
    assert (other.returncode, "role" in other.stderr) == (1, True)
    short = stack.command(*args, "--role", "administrator", stdin="short", check=False)
    assert short.returncode == 1


def test_doctor_passes_and_names_what_fails(stack: Stack) -> None:
    assert stack.command("doctor").returncode == 0
    sick = stack.command("doctor", check=False, REDIS_URL="redis://127.0.0.1:1/0")
    assert (sick.returncode, "REDIS_URL" in sick.stdout) == (1, True)


@pytest.mark.parametrize(
    ("env", "named"),
    [
        ({"OTP_SENDER": "http", "OTP_HTTP_URL": "http://127.0.0.1:1/otp"}, "check OTP_HTTP_URL"),
        ({"PUSH_SENDER": "fcm", "FCM_PROJECT_ID": "x", "FCM_CREDENTIALS_FILE": "/nowhere"}, "FCM_CREDENTIALS_FILE"),
        (
            {"PUBLIC_HOST": "192.0.2.1", "ALLOW_EXPOSED_DEVELOPMENT": "true"},
            "PUBLIC_HOST: expected an address to listen on",
        ),
        ({**PRODUCTION, "OTP_SENDER": "log"}, "set OTP_SENDER"),
        ({**PRODUCTION}, "customers can't pay: set GATEWAY_ENABLED"),
    ],
)
def test_doctor_fails_for_what_cannot_work(stack: Stack, env: dict[str, str], named: str) -> None:
    sick = stack.command("doctor", check=False, **env)
    assert sick.returncode == 1
    assert any(named in line for line in sick.stdout.splitlines() if line.startswith("bad")), sick.stdout


async def test_development_gateway_pays(world: World) -> None:
    customer = await world.customer()
    payment = await world.request(customer)
    done = world.stack.command("gateway", "pay", payment["payment_request_id"], "--repeat", "2")
    assert ["confirmed" in line or "duplicate" in line for line in done.stdout.splitlines()] == [True, True]
    assert world.stack.command("gateway", "pay", "nonsense", check=False).returncode == 1
    audit = world.stack.command("audit")
    assert "0 violations" in audit.stdout
    await customer.post("/api/client/chat/cancel", {"payment_request_id": payment["payment_request_id"]})


async def test_audit_command_finds_a_payment_without_a_session_or_failure(stack: Stack) -> None:
    await stack.sql("CREATE DATABASE sick")
    url = stack.url_of("sick")
    stack.command("migrate", DATABASE_URL=url)
    broken = """
      ALTER TABLE payment_requests DISABLE TRIGGER ALL;
      INSERT INTO customers (id) VALUES ('00000000-0000-7000-8000-000000000001');
      INSERT INTO payment_requests (id, customer_id, amount, duration_minutes, status, confirmed_at, consumed_at, expires_at)
      VALUES ('00000000-0000-7000-8000-000000000002', '00000000-0000-7000-8000-000000000001', 12000, 12, 'consumed',
        now(), now(), now());"""
    connection = await asyncpg.connect(url)
    await connection.execute(broken)
    await connection.close()
    done = stack.command("audit", check=False, DATABASE_URL=url)
    assert done.returncode == 1
    assert "00000000-0000-7000-8000-000000000002" in done.stdout
    assert "0 violations" not in done.stdout
    await accepts_it(stack, url)


async def accepts_it(stack: Stack, url: str) -> None:
    """Accept the violation of a payment, and see that it counts again when the row breaks the rule in another way."""
    row = "00000000-0000-7000-8000-000000000002"

    def accept(*options: str, email: str = EMAIL) -> subprocess.CompletedProcess[str]:
        options = (*options, "--reason", " the clock was wrong ", "--operator", email)
        return stack.command("audit", "accept", *options, check=False, DATABASE_URL=url)

    broken = [line for line in stack.command("audit", check=False, DATABASE_URL=url).stdout.splitlines() if row in line]
    rule = broken[0].partition(f": {row}")[0]
    create = ("operator", "create", "--email", EMAIL, "--display-name", "Root", "--role", "administrator")
    stack.command(*create, "--password-stdin", stdin=PASSWORD, DATABASE_URL=url)
    for options, email, words in (
        (("no rule", row), EMAIL, "rule must be the name of a rule"),
        ((rule, new_id()), EMAIL, "breaks no rule"),
        ((rule,), EMAIL, "use --all"),
        ((rule, row, "--all"), EMAIL, "use --all"),
        ((rule, row), "other@example.test", "no operator has the e-mail address other@example.test"),
    ):
        done = accept(*options, email=email)
        assert (done.returncode, words in done.stderr) == (1, True), done.stderr
    assert accept(rule, row).stdout == "1 violations accepted.\n"
    assert accept(rule, "--all").stdout == "0 violations accepted.\n"
    assert accept("confirmed money is earned, failed or in flight", "--all").stdout == "1 violations accepted.\n"
    done = stack.command("audit", DATABASE_URL=url)
    assert done.stdout.splitlines()[-1].endswith(" 1 payments, 0 violations")
    [line] = [line for line in done.stdout.splitlines() if row in line]
    assert line.startswith(f"{rule}: {row}: ")
    assert f"(accepted by {EMAIL} at 20" in line
    assert line.endswith("Z: the clock was wrong)")
    connection = await asyncpg.connect(url)
    try:
        entries = await connection.fetch(
            "SELECT * FROM operator_audit_log WHERE action = 'violations.accepted' ORDER BY created_at"
        )
        found = [(entry["object_id"], json.loads(entry["after"])) for entry in entries]
        assert found[0] == (rule, {"violations": 1, "reason": "the clock was wrong"})
        await connection.execute("UPDATE accepted_violations SET detail = 'another way' WHERE rule = $1", rule)
    finally:
        await connection.close()
    assert stack.command("audit", check=False, DATABASE_URL=url).stdout.splitlines()[-1].endswith(" 1 violations")
