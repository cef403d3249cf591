"""`sesi doctor` finds what is wrong with secrets, files, limits, clocks and encryption, and how it exits."""

import json
import pathlib
import resource
import time
from collections.abc import Mapping

import pytest

from core.settings.settings import Settings
from tests.stack import Stack
from tests.tools.doctor.examined import PRODUCTION, examined, ready, settings_of, texts
from tools.doctor import clocks, limits, processes, secrets, tls
from tools.doctor.findings import Result
from tools.driving.service import launched

pytestmark = pytest.mark.anyio
STRONG = "8f3c2a9b71d4e6058f3c2a9b71d4e605c0ffee1234567890abcdef9876543210"
OURS = {**PRODUCTION, "JWT_SECRETS": f"k:{STRONG}", "ALLOW_PLAINTEXT_BACKENDS": "true"}


def in_production(**variables: str) -> Settings:
    """Return settings of production."""
    return ready({**OURS, **variables})


def strength(**variables: str) -> tuple[str, str]:
    """Return the failures and the warnings about secrets of production."""
    found = secrets.check(in_production(**variables), {})
    return texts(found, "secrets", Result.FAILURE), texts(found, "secrets", Result.WARNING)


def test_strong_secrets_pass() -> None:
    assert strength() == ("", "")


def test_secrets_that_can_be_guessed_are_a_failure() -> None:
    assert "RECEIPT_SIGNING_KEYS can be guessed" in strength(RECEIPT_SIGNING_KEYS=f"k:{'ab' * 32}")[0]
    assert "JWT_SECRETS can be guessed" in strength(JWT_SECRETS=f"k:{STRONG},old:{'ab' * 20}")[0]
    assert "GATEWAY_CALLBACK_TOKEN can be guessed" in strength(GATEWAY_CALLBACK_TOKEN="aaaaaaaaaaaabbbbbbbbbbbb")[0]
    assert "GATEWAY_CALLBACK_TOKEN is empty" in strength(GATEWAY_CALLBACK_TOKEN="")[0]


def test_weak_passwords_and_tokens_of_others_are_a_warning() -> None:
    assert "OTP_HTTP_TOKEN can be guessed" in strength(OTP_HTTP_TOKEN="hello")[1]
    assert "password in DATABASE_URL" in strength(DATABASE_URL="postgresql://sesi:sesi@127.0.0.1/sesi")[1]
    assert strength(DATABASE_URL=f"postgresql://sesi:{STRONG}@127.0.0.1/sesi")[1] == ""


def test_secret_used_twice_is_a_warning() -> None:
    assert "JWT_SECRETS and OTP_HTTP_TOKEN have the same" in strength(OTP_HTTP_TOKEN=STRONG)[1]


def test_fixed_codes_in_production_are_a_warning() -> None:
    found = secrets.check(in_production(OTP_TEST_NUMBERS="+6281200000001:123456:2099-01-01"), {})
    assert "1 numbers sign in with a fixed code" in texts(found, "test numbers", Result.WARNING)


@pytest.mark.parametrize(
    ("mode", "result"), [(0o600, Result.OK), (0o640, Result.OK), (0o644, Result.WARNING), (0o660, Result.FAILURE)]
)
def test_file_of_a_secret_must_be_private(tmp_path: pathlib.Path, mode: int, result: Result) -> None:
    path = tmp_path / "secret"
    path.write_text(STRONG)
    path.chmod(mode)
    (found,) = secrets.check(ready({}), {"JWT_SECRETS_FILE": str(path)})
    assert (found.check, found.result) == ("secret files", result)
    (found,) = secrets.check(ready({"FCM_CREDENTIALS_FILE": str(path)}), {})
    assert (found.check, found.result) == ("secret files", result)


@pytest.mark.parametrize(("seconds", "result"), [(None, Result.OK), (25, Result.OK), (24, Result.FAILURE)])
def test_stop_time_below_what_a_process_may_take_is_a_failure(seconds: int | None, result: Result) -> None:
    (found,) = processes.check(ready({}), seconds)
    assert (found.check, found.result) == ("stop time", result)


def test_production_without_drain_or_fallback_file_is_a_warning() -> None:
    found = processes.check(in_production(DRAIN_SECONDS="0"), None)
    assert "DRAIN_SECONDS is 0" in texts(found, "stop time", Result.WARNING)
    assert "WEBHOOK_FALLBACK_ENABLED" in texts(found, "webhook fallback", Result.WARNING)


def test_fallback_folder_that_is_missing_is_a_failure(tmp_path: pathlib.Path) -> None:
    used = {"WEBHOOK_FALLBACK_ENABLED": "true", "WEBHOOK_FALLBACK_DIR": str(tmp_path)}
    assert texts(processes.check(ready(used), None), "webhook fallback", Result.FAILURE) == ""
    used["WEBHOOK_FALLBACK_DIR"] = str(tmp_path / "missing")
    assert "is no folder" in texts(processes.check(ready(used), None), "webhook fallback", Result.FAILURE)


def test_forgotten_environment_is_a_warning() -> None:
    exposed = {"PUBLIC_HOST": "192.0.2.1", "ALLOW_EXPOSED_DEVELOPMENT": "true", "JWT_SECRETS": f"k:{STRONG}",
               "GATEWAY_CALLBACK_TOKEN": STRONG}  # fmt: skip
    found = processes.check(ready(exposed), None)
    assert "set ENVIRONMENT=production" in texts(found, "environment", Result.WARNING)


def machine(folder: pathlib.Path, *, used: int = 10, most: int = 1_000_000, limit: str = "20000") -> pathlib.Path:
    """Write what /proc says of a machine with one api process."""
    for path in ("sys/fs", "77"):
        (folder / path).mkdir(parents=True)
    (folder / "sys/fs/file-nr").write_text(f"{used}\t0\t{most}\n")
    (folder / "77/cmdline").write_bytes(b"/opt/sesi/bin/python\0/opt/sesi/bin/sesi\0api\0")
    (folder / "77/limits").write_text(f"Limit  Soft Limit  Hard Limit  Units\nMax open files  1024  {limit}  files\n")
    return folder


def test_limit_of_a_running_process_that_is_too_low_is_a_failure(tmp_path: pathlib.Path) -> None:
    found = limits.check(ready({}), machine(tmp_path, limit="4096"))
    assert "the running api process 77 has 4096" in texts(found, "open files", Result.FAILURE)


@pytest.mark.parametrize(("used", "most"), [(900_000, 1_000_000), (10, 9_000)])
def test_machine_with_too_few_files_is_a_warning(tmp_path: pathlib.Path, used: int, most: int) -> None:
    found = limits.check(ready({}), machine(tmp_path, used=used, most=most))
    assert "raise fs.file-max" in texts(found, "open files", Result.WARNING)


@pytest.mark.skipif(not limits.PROC.exists(), reason="reads the processes of Linux")
async def test_running_processes_are_found(stack: Stack, tmp_path: pathlib.Path) -> None:
    process = launched("jobs", {**stack.env, "DATABASE_URL": "postgresql://127.0.0.1:1/none"}, tmp_path / "log")
    try:
        found = {one.pid: one for one in limits.running()}
        while process.pid not in found and process.poll() is None:  # until it has its own command line
            found = {one.pid: one for one in limits.running()}
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert found[process.pid] == limits.Running("jobs", process.pid, hard)
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(("offset_s", "result"), [(4.9, Result.OK), (5.1, Result.FAILURE), (-5.1, Result.FAILURE)])
def test_clocks_must_not_differ_by_five_seconds(offset_s: float, result: Result) -> None:
    assert clocks.judged("the database", offset_s).result is result


async def test_clocks_of_the_database_and_of_redis_are_compared(stack: Stack) -> None:
    said = texts(await examined(stack), "clock", Result.OK)
    assert ("clock of the database" in said, "clock of Redis" in said) == (True, True)


def test_clock_without_time_servers_is_a_warning() -> None:
    assert [one.result for one in clocks.synchronized(clocks.NOT_SYNCHRONIZED)] == [Result.WARNING]
    assert [one.result for one in clocks.synchronized(0)] == [Result.OK]
    assert clocks.synchronized(None) == []


@pytest.mark.parametrize(
    ("variables", "check", "said"),
    [
        ({"REDIS_URL": "redis://:word@redis:6379/0"}, "Redis encryption", "use rediss://"),
        ({"REDIS_URL": "redis+sentinel://:word@one,two/main"}, "Redis encryption", "use rediss://"),
        ({"REDIS_URL": "rediss://:word@redis:6379/0?ssl_cert_reqs=none"}, "Redis encryption", "remove ssl_cert_reqs"),
        ({"REDIS_URL": "rediss://:word@redis:6379/0"}, "Redis encryption", ""),
        ({"REDIS_URL": "redis+cluster://[::1]:7000,127.0.0.1"}, "Redis encryption", ""),
        ({"OTP_HTTP_URL": "http://codes.example"}, "provider encryption", "OTP_HTTP_URL is sent unencrypted"),
        ({"OTP_HTTP_URL": "https://codes.example"}, "provider encryption", ""),
        (OURS, "plain text", "ALLOW_PLAINTEXT_BACKENDS is true"),
    ],
)  # fmt: skip
def test_unencrypted_or_unverified_connections_are_a_warning(
    variables: Mapping[str, str], check: str, said: str
) -> None:
    found = texts(tls.check_urls(ready(variables)), check, Result.WARNING)
    assert said in found
    assert bool(said) == bool(found)


@pytest.mark.parametrize(
    ("url", "result"),
    [
        ("postgresql://sesi@db/sesi?sslmode=require", Result.WARNING),
        ("postgresql://sesi@db/sesi?sslmode=verify-ca", Result.WARNING),
        ("postgresql://sesi@db/sesi", Result.WARNING),
        ("postgresql://sesi@db/sesi?sslmode=verify-full", Result.OK),
        ("postgresql://sesi@127.0.0.1/sesi", Result.OK),
        ("postgresql:///sesi?host=/run/postgresql", Result.OK),
    ],
)
def test_database_that_is_not_verified_is_a_warning(url: str, result: Result) -> None:
    assert tls.asked("DATABASE_URL", url).result is result


async def test_replica_that_is_not_verified_is_a_warning(stack: Stack) -> None:
    found = await tls.check_database(settings_of(stack, DATABASE_READ_URL="postgresql://sesi@replica/sesi"))
    assert "DATABASE_READ_URL has sslmode=prefer" in texts(found, "database encryption", Result.WARNING)


def test_exit_code_is_1_for_failures_and_with_strict_for_warnings(stack: Stack) -> None:
    # The lease of a process that an earlier test killed counts for some seconds.
    end = time.monotonic() + 30
    while "(1 api, 1 realtime, 1 jobs)" not in stack.command("doctor").stdout:
        assert time.monotonic() < end
    assert stack.command("doctor", DATABASE_POOL_SIZE="60").returncode == 0
    strict = stack.command("doctor", "--strict", check=False, DATABASE_POOL_SIZE="60")
    assert strict.returncode == 1
    assert "warn database connections" in strict.stdout
    assert stack.command("doctor", "--stop-seconds", "1", check=False).returncode == 1


def test_findings_are_printed_as_json(stack: Stack) -> None:
    shown = stack.command("doctor", "--json", "--stop-seconds", "1", check=False)
    found = json.loads(shown.stdout)
    assert (shown.returncode, found["bad"]) == (1, 1)
    assert [one["check"] for one in found["findings"] if one["result"] == "failure"] == ["stop time"]


def test_wrong_setting_is_the_only_finding(stack: Stack) -> None:
    shown = stack.command("doctor", "--json", check=False, PUBLIC_PORT="eighty")
    (only,) = json.loads(shown.stdout)["findings"]
    assert (only["check"], only["result"], "PUBLIC_PORT" in only["text"]) == ("settings", "failure", True)
