"""The api process: both listeners in one loop, one stop signal, drain, close (specification, Core rules 11)."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any, cast

import msgspec
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from api import errors
from api.apps import internal_app, public_app
from api.gatekeeper import own_headers
from core.base import logs
from core.base.ids import new_id
from core.base.process import settle_memory, stop_event
from core.base.settings import Settings, SettingsError
from core.flows.process_lease import ProcessLease
from core.outages.rules import ProcessKind
from core.reactions import react
from core.runtime import Runtime, open_runtime

log = logs.get("api")


class Server(uvicorn.Server):
    """A server that leaves the signals to the process: two of them would fight over them."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Nothing is captured."""
        yield


class OneWrite:
    """A transport that sends what is written in one turn of the event loop in one call of the system.

    An answer's head and body are written one after the other; each call costs as much as a good part of the answer.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._waiting: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send with what else is written before the loop comes round."""
        if not self._waiting:
            self._loop.call_soon(self.flush)
        self._waiting.append(data)

    def flush(self) -> None:
        """Send what waits."""
        if self._waiting:
            data = b"".join(self._waiting)
            self._waiting.clear()
            self._transport.write(data)

    def close(self) -> None:
        """Send what waits, and close."""
        self.flush()
        self._transport.close()


def _protocol(runtime: Runtime) -> type[HttpToolsProtocol]:
    """HTTP/1.1, whose own refusal has the one error body and the headers of every answer, too (contract 2)."""

    class Protocol(HttpToolsProtocol):
        def connection_made(self, transport: asyncio.Transport) -> None:
            """Begin with a transport that writes an answer at once."""
            super().connection_made(cast("asyncio.Transport", OneWrite(transport, self.loop)))

        def send_400_response(self, msg: str) -> None:
            """Answer what is no HTTP request, and close."""
            content = msgspec.json.encode(errors.body("MALFORMED", "The request can't be read."))
            headers = [
                (b"content-type", b"application/json"),
                (b"content-length", str(len(content)).encode()),
                *own_headers(new_id(), runtime.now()),
                (b"connection", b"close"),
            ]
            head = b"".join(b"%s: %s\r\n" % header for header in headers)
            self.transport.write(b"HTTP/1.1 400 Bad Request\r\n" + head + b"\r\n" + content)
            self.transport.close()

    return Protocol


def listen(host: str, port: int, variable: str) -> socket.socket:
    """Open a listening socket. Raises SettingsError that names the variable when the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise SettingsError(f"{variable}: expected a free port, {host}:{port} is not ({error.strerror})") from error
    sock.listen(2048)
    sock.setblocking(False)
    return sock


def _server(app: Any, runtime: Runtime, *, proxied: bool) -> Server:
    settings = runtime.settings
    return Server(
        uvicorn.Config(
            app,
            http=_protocol(runtime),
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            date_header=True,
            proxy_headers=proxied,
            forwarded_allow_ips=list(settings.trusted_proxies) if proxied else None,
            timeout_graceful_shutdown=max(1, settings.shutdown_grace_seconds - 2),
            timeout_keep_alive=75,
        )
    )


async def serve(settings: Settings) -> int:
    """Run until SIGTERM or SIGINT; return the exit code."""
    stop = stop_event()
    sockets = [
        listen(settings.public_host, settings.public_port, "PUBLIC_PORT"),
        listen(settings.internal_host, settings.internal_port, "INTERNAL_PORT"),
    ]
    runtime = await open_runtime(settings, pool_size=20)
    runtime.react = react
    runtime.start()
    lease = ProcessLease(runtime, ProcessKind.API, port=settings.public_port)
    runtime.spawn(lease.run())
    servers = [
        _server(public_app(runtime), runtime, proxied=True),
        _server(internal_app(runtime), runtime, proxied=False),
    ]
    tasks = [asyncio.create_task(s.serve(sockets=[sock])) for s, sock in zip(servers, sockets, strict=True)]
    settle_memory()
    log.info("api listens", public=settings.public_port, internal=settings.internal_port)
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
    log.info("api stopped")
    return 0 if stop.is_set() else 1
