"""The child processes of `sesi up`: started, restarted, stopped, and found again after it was killed."""

import asyncio
import contextlib
import json
import os
import pathlib
import signal
import sys
import time
from collections.abc import Callable, Mapping

from rich.console import Console

from core.settings.settings import Settings
from tools.embedded.processes import begun_at

KILL_AFTER_S = 15.0  # in addition to the grace period: closing sockets in portions takes 10 s
RESTART_PAUSE_S = 0.5
console = Console(stderr=False, highlight=False)


class Child:
    """One process of the service, restarted when it dies."""

    def __init__(self, name: str, env: Mapping[str, str], log: "os.PathLike[str]") -> None:
        self.name = name
        self._env = dict(env)
        self._log = log
        self.process: asyncio.subprocess.Process | None = None
        self.restarts = 0

    async def start(self) -> None:
        """Start the process, with output to its log file."""
        with open(self._log, "ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tools.cli", self.name,
                env=self._env, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    async def keep(self, stopping: asyncio.Event, started: Callable[[], None]) -> None:
        """Restart the process whenever it ends, until `stopping` is set; call `started` after each restart."""
        while not stopping.is_set():
            assert self.process is not None
            code = await self.process.wait()
            if stopping.is_set():
                return
            self.restarts += 1
            console.print(f"[yellow]{self.name} ended ({code}); restarting it[/]")
            await asyncio.sleep(RESTART_PAUSE_S if self.restarts < 5 else 5.0)
            if not stopping.is_set():
                await self.start()
                started()

    async def stop(self, grace: float) -> int:
        """Send SIGTERM, and SIGKILL if the process does not end in time; return its exit code."""
        if self.process is None or self.process.returncode is not None:
            return 0 if self.process is None else self.process.returncode or 0
        self.process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(grace + KILL_AFTER_S):
                return await self.process.wait()
        except TimeoutError:
            self.process.kill()
            return await self.process.wait()


def note_file(settings: Settings) -> pathlib.Path:
    """Return the file that records the processes."""
    return settings.sesi_data_dir / "up.json"


def note_children(settings: Settings, children: list[Child]) -> None:
    """Record our processes for the next `sesi up`, in case this one is killed."""
    pids = {child.name: child.process.pid for child in children if child.process is not None}
    note_file(settings).write_text(json.dumps({name: [pid, begun_at(pid)] for name, pid in pids.items()}))


def end_orphans(settings: Settings) -> None:
    """End the processes that a killed `sesi up` left behind, because they hold its ports.

    The caller must hold the lock.
    """
    try:
        noted = {
            str(name): (int(pid), str(at)) for name, (pid, at) in json.loads(note_file(settings).read_text()).items()
        }
    except (OSError, ValueError, AttributeError, TypeError):
        return
    left = {name: one for name, one in noted.items() if begun_at(one[0]) == one[1]}
    for number in (signal.SIGTERM, signal.SIGKILL):
        for name, (pid, _) in left.items():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
                console.print(f"stopping {name}, which a killed `sesi up` left behind")
        deadline = time.monotonic() + settings.drain_seconds + settings.shutdown_grace_seconds + KILL_AFTER_S
        while left and time.monotonic() < deadline:
            time.sleep(0.05)
            left = {name: one for name, one in left.items() if begun_at(one[0]) == one[1]}
