"""A temporary service for the demo: free ports, temporary data, scaled time."""

import asyncio
import contextlib
import pathlib
import shutil
import socket
import sys
import tempfile

from tools.commands import environment
from tools.driving.device import Addresses
from tools.driving.inbox import CodeInbox
from tools.driving.push_inbox import PushInbox
from tools.embedded import ports

PORTS = range(12_000, 20_000)


def free_port() -> int:
    """Return a port that is free now, and that this function does not return again for a while. Raises OSError.

    Ports of the system's ephemeral range could be taken by an outgoing connection before the caller binds them, so
    PORTS is below that range.
    """

    def is_free(port: int) -> bool:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return True
        return False

    return ports.in_turn(PORTS, name="sesi-ports", is_free=is_free)


class Throwaway:
    """A temporary service that runs by `sesi up`, with free ports, temporary data and scaled time."""

    def __init__(self, scale: float) -> None:
        self.inbox = CodeInbox()
        self.pushes = PushInbox()
        self._dir = pathlib.Path(tempfile.mkdtemp(prefix="sesi-demo-"))
        self._dir.chmod(0o711)  # under root, PostgreSQL runs as another user, who must be able to enter its folder
        self._ports = {name: free_port() for name in ("PUBLIC", "INTERNAL", "REALTIME", "JOBS")}
        self.env = {
            **environment.without_settings(),
            **self.inbox.environment,
            **self.pushes.environment,
            "PUSH_ACK_SECONDS": "1",
            **{f"{name}_PORT": str(port) for name, port in self._ports.items()},
            **{f"{name}_HOST": "127.0.0.1" for name in self._ports},
            "SESI_DATA_DIR": str(self._dir),
            "SESI_TIME_SCALE": str(scale),
        }
        self.addresses = Addresses(
            public=f"http://127.0.0.1:{self._ports['PUBLIC']}",
            internal=f"http://127.0.0.1:{self._ports['INTERNAL']}",
            realtime=f"ws://127.0.0.1:{self._ports['REALTIME']}",
        )
        self._process: asyncio.subprocess.Process | None = None

    async def command(self, *args: str, stdin: str = "") -> None:
        """Run a `sesi` command against the service. Raises RuntimeError if it fails."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tools.cli", *args,
            env=self.env, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        out, _ = await process.communicate(stdin.encode())
        if process.returncode:
            raise RuntimeError(out.decode())

    async def start(self) -> None:
        """Start the service and wait until it is ready.

        Raises RuntimeError if `sesi up` ends, TimeoutError after 90 s.
        """
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tools.cli", "up",
            env=self.env, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        said = b""
        async with asyncio.timeout(90):
            while b"stops everything" not in said:
                line = await self._process.stdout.readline()
                if not line:
                    raise RuntimeError(said.decode(errors="replace").strip().removeprefix("sesi: "))
                said += line
        self._drain = asyncio.create_task(self._process.stdout.read())

    async def stop(self) -> None:
        """Stop the service and delete its data."""
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()
            await self._process.wait()
        self.inbox.close()
        self.pushes.close()
        shutil.rmtree(self._dir, ignore_errors=True)
