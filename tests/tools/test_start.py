"""The processes of a service as operators start them: each by its command, in its own interpreter."""

import asyncio
import json
import pathlib
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from core.settings.environment import read as read_settings
from tests.stack import Stack
from tools.commands import environment, up
from tools.driving.service import PORT_OF, PROCESSES, Service
from tools.driving.throwaway import Throwaway
from tools.embedded.processes import begun_at, command_of

DEADLINE_S = 30.0
# What costs memory and time, and is of no use to a process: tools of development, other commands, and other processes.
NEVER = {
    *("black", "httpx", "rich.console", "api.documents.openapi", "realtime.asyncapi"),
    *("tools.bench", "tools.commands.running", "tools.commands.data", "tools.commands.restore_proof", "tools.doctor"),
}
LEFT_OUT = {
    "api": NEVER | {"realtime", "jobs"},
    "realtime": NEVER | {"litestar", "uvicorn", "api", "jobs", "core.desk.figures"},
    "jobs": NEVER | {"litestar", "uvicorn", "api", "realtime", "core.desk.support"},
}


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    """Yield a service whose processes are not started."""
    made = Service(durable=False, template=Stack.template(), prefix="sesi-test-")
    yield made
    made.close()


@pytest.mark.parametrize("name", PROCESSES)
def test_each_process_starts_by_its_command_and_stops_gracefully(service: Service, name: str) -> None:
    service.start(name)
    assert service.stop(name) == 0, service.log(name)


@pytest.mark.parametrize("name", PROCESSES)
def test_each_process_leaves_out_what_only_others_need(name: str, tmp_path: pathlib.Path) -> None:
    """Without a URL of the database it ends when all is imported."""
    env = {**environment.without_settings(), "SESI_DATA_DIR": str(tmp_path)}
    command = [sys.executable, "-X", "importtime", "-m", "tools.cli", name]
    said = subprocess.run(command, env=env, capture_output=True, text=True, check=False).stderr
    imported = {module.strip() for module in re.findall(r"^import time:[^|]*\|[^|]*\|(.*)$", said, re.M)}
    assert "DATABASE_URL" in said
    assert "core.app.reactions" in imported
    assert LEFT_OUT[name] & imported == set()


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """Yield a service whose processes are not started, and are forked when they are."""
    made = Stack(only_database=True)
    yield made
    made.close()


def probe(stack: Stack, name: str, path: str) -> int:
    """Return the status of one request over a new connection."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{stack.ports[PORT_OF[name]]}{path}", timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def wait_unready(stack: Stack, name: str) -> None:
    """Wait until a process reports that it is not ready. Raises OSError if it accepts no connection."""
    deadline = time.monotonic() + DEADLINE_S
    while probe(stack, name, "/readyz") != 503:
        assert time.monotonic() < deadline, stack.log(name)
        time.sleep(0.02)


@pytest.mark.parametrize("name", PROCESSES)
def test_stopping_process_is_unready_and_serves_until_the_drain_ends(stack: Stack, name: str) -> None:
    stack.start(name, DRAIN_SECONDS="300")
    stack.processes[name].terminate()
    wait_unready(stack, name)
    assert probe(stack, name, "/healthz") == 200
    assert stack.processes[name].poll() is None
    stack.processes[name].terminate()  # a second signal ends the drain
    assert stack.processes[name].wait(DEADLINE_S) == 0, stack.log(name)


def test_drain_ends_after_its_time_limit(stack: Stack) -> None:
    stack.start("api", DRAIN_SECONDS="2")
    began = time.monotonic()
    stack.processes["api"].terminate()
    assert stack.processes["api"].wait(DEADLINE_S) == 0, stack.log("api")
    assert time.monotonic() - began >= 2


def children(demo: Throwaway) -> dict[str, int]:
    """Return the processes of the running `sesi up`."""
    noted = json.loads((pathlib.Path(demo.env["SESI_DATA_DIR"]) / "up.json").read_text())
    return {name: pid for name, (pid, _) in noted.items()}


def wait_until_gone(pids: dict[str, int]) -> None:
    """Wait until none of these processes is left."""
    deadline = time.monotonic() + DEADLINE_S
    while left := {name: pid for name, pid in pids.items() if command_of(pid) is not None}:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


@pytest.fixture
def terminal() -> Iterator[None]:
    """Let SIGHUP end the processes started here, even if the tests run under nohup, which ignores it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("terminal")
def test_service_whose_up_was_killed_restarts_and_ends_with_its_terminal() -> None:
    async def play() -> None:
        demo = Throwaway(60)
        try:
            await demo.start()
            first = children(demo)
            assert set(first) == set(PROCESSES)
            assert demo._process is not None
            demo._process.kill()
            await demo._process.wait()
            assert all(command_of(pid) for pid in first.values())  # they hold the ports
            await demo.start()
            wait_until_gone(first)
            second = children(demo)
            demo._process.send_signal(signal.SIGHUP)
            assert await demo._process.wait() == 0
            wait_until_gone(second)
        finally:
            await demo.stop()

    asyncio.run(play())


def test_unrelated_process_with_a_leftover_id_is_not_ended(tmp_path: pathlib.Path) -> None:
    """The id is in the notes of a killed service; since then the machine may have been restarted."""
    service, note = read_settings({"SESI_DATA_DIR": str(tmp_path)}), tmp_path / "up.json"
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        for written in ("", "[]", "{", '{"api": 7}', f'{{"api": [{sleeper.pid}, "another start"], "jobs": [1, null]}}'):
            note.write_text(written)
            up.end_orphans(service)
            assert sleeper.poll() is None, written
        note.write_text(json.dumps({"api": [sleeper.pid, begun_at(sleeper.pid)]}))
        up.end_orphans(service)
        assert sleeper.wait(0) == -signal.SIGTERM


def test_closed_terminal_ends_processes_without_nohup() -> None:
    code = "import signal; from core.base.process import endings; print(signal.SIGHUP in endings())"
    for ignored in (False, True):
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
        try:
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        finally:
            signal.signal(signal.SIGHUP, before)
        assert done.stdout.strip() == str(not ignored)


def test_processes_of_up_read_urls_from_secret_files_once(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "redis"
    path.write_text("redis://localhost:1\n")
    environ = {"REDIS_URL_FILE": str(path), "SESI_DATA_DIR": str(tmp_path), "PATH": "/bin"}
    found = read_settings(environ)
    passed_on = up.child_environment(found, environ)
    assert passed_on["PATH"] == "/bin"
    assert read_settings(passed_on) == found
