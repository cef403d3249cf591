"""The api process: both listeners in one event loop, and the drain after a stop signal
(docs/architecture.md#processes)."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn

from api.apps import internal_app, public_app
from api.edge.gatekeeper import Gatekeeper
from api.edge.protocol import protocol_of
from core.accounts.logins import ask_code
from core.app.reactions import open_runtime, react
from core.base.clock import real_sleep
from core.base.process import raise_file_limit, stop_event, tune_gc
from core.cluster.outages.rules import ProcessKind
from core.cluster.process_lease import ProcessLease
from core.privacy import erase_files
from core.runtime.container import Runtime
from core.security.connections import BACKLOG, ConnectionCounts
from core.sessions.absences.signs_of_life import SignsOfLife
from core.settings.settings import Settings, SettingsError
from core.telemetry import logs

# Duplicates of a listening socket. Each one costs an idle process one more wake-up per new connection.
ACCEPTED_A_TURN = 8
POOL_SIZE = 20
LAST_REQUESTS_S = 0.3  # real time between the close of the listening sockets and that of idle connections
log = logs.get("api")


class ListenerServer(uvicorn.Server):
    """A uvicorn server that resets no new connection when it stops, and without signal handlers.

    The process handles signals, because two servers would conflict.
    """

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture no signals."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the listening sockets, and answer the requests of the last connections before all are closed.

        A proxy does not repeat a POST whose connection was reset. So connections that the kernel has accepted are taken
        over, and the requests of new ones may arrive for LAST_REQUESTS_S.
        """
        listening = sockets or []
        last = [connection for sock in listening for connection in _accepted(sock)]
        for server in self.servers:
            server.close()
        for sock in listening:
            sock.close()
        for connection in last:
            with contextlib.suppress(OSError):  # its client has gone
                await asyncio.get_running_loop().connect_accepted_socket(self._protocol, connection)
        await real_sleep(LAST_REQUESTS_S)
        await super().shutdown(sockets)

    def _protocol(self) -> asyncio.Protocol:
        kind: Any = self.config.http_protocol_class
        made: asyncio.Protocol = kind(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)
        return made


def _accepted(sock: socket.socket) -> Iterator[socket.socket]:
    """Yield the connections that wait to be accepted."""
    with contextlib.suppress(OSError):  # BlockingIOError: there are no more
        while True:
            connection, _ = sock.accept()
            connection.setblocking(False)
            yield connection


def listen(host: str, port: int, variable: str) -> socket.socket:
    """Open a listening socket.

    Raises SettingsError with the name of the setting if the port is taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise SettingsError(f"{variable}: expected a free port, can't use {host}:{port} ({error.strerror})") from error
    sock.listen(BACKLOG)
    sock.setblocking(False)
    return sock


def acceptors(sock: socket.socket) -> list[socket.socket]:
    """Return a listening socket and its duplicates, so that a server accepts ACCEPTED_A_TURN connections per iteration.

    The event loop accepts one connection per socket in each iteration. With thousands of clients in the queue, an
    iteration takes some milliseconds, and a webhook behind them would wait for seconds.
    """
    return [sock, *(sock.dup() for _ in range(ACCEPTED_A_TURN - 1))]


def server_of(app: Gatekeeper, runtime: Runtime, connections: ConnectionCounts) -> ListenerServer:
    """Return the server of one listener's application; `connections` counts its connections."""
    settings = runtime.settings
    return ListenerServer(
        uvicorn.Config(
            app,
            http=protocol_of(runtime, connections, app),
            ws="none",  # the realtime process serves WebSockets; here an upgrade is answered like a plain request
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            date_header=True,
            proxy_headers=True,
            forwarded_allow_ips=list(settings.trusted_proxies),
            timeout_graceful_shutdown=max(1, settings.shutdown_grace_seconds - 2),
            timeout_keep_alive=settings.keep_alive_seconds,
            backlog=BACKLOG,
        )
    )


async def serve(settings: Settings) -> int:
    """Run the api process until SIGTERM or SIGINT; return the exit code."""
    stop = stop_event()
    raise_file_limit()
    sockets = [
        listen(settings.public_host, settings.public_port, "PUBLIC_PORT"),
        listen(settings.internal_host, settings.internal_port, "INTERNAL_PORT"),
    ]
    runtime = await open_runtime(settings, pool_size=settings.database_pool_size or POOL_SIZE, react=react)
    ask_code.log_test_numbers(runtime)
    runtime.start()
    runtime.tasks.spawn(runtime.reports.watch())
    runtime.tasks.spawn(erase_files.keep_files_clean(runtime))
    lease = ProcessLease(runtime, ProcessKind.API, host=settings.public_host, port=settings.public_port)
    runtime.tasks.spawn(lease.run())
    signs = SignsOfLife(runtime)
    runtime.tasks.spawn(signs.run())
    servers = [
        server_of(public_app(runtime, signs), runtime, ConnectionCounts(settings)),
        server_of(internal_app(runtime), runtime, ConnectionCounts(settings, inside=True)),
    ]
    tasks = [asyncio.create_task(s.serve(sockets=acceptors(sock))) for s, sock in zip(servers, sockets, strict=True)]
    tune_gc()
    log.info("api process is listening", public=settings.public_port, internal=settings.internal_port)
    stopper = asyncio.create_task(stop.wait())
    await asyncio.wait([*tasks, stopper], return_when=asyncio.FIRST_COMPLETED)
    if stop.is_set():
        await runtime.drain(stop)
    for server in servers:
        server.should_exit = True
    await asyncio.wait(tasks)
    stopper.cancel()
    await lease.end()
    await runtime.close()
    log.info("api process stopped")
    return 0 if stop.is_set() else 1
