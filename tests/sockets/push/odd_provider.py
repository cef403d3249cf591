"""A provider that answers with arbitrary bytes or hangs up, which a normal HTTP server never does."""

import asyncio
import contextlib
from collections.abc import AsyncIterator


@contextlib.asynccontextmanager
async def odd_provider(*answers: bytes, last_again: bool = True) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Serve the answers one after the other, then the last one repeatedly; yield the address and the received requests.

    An empty answer closes the connection.
    """
    heard: list[bytes] = []
    waiting = list(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            size = next(
                int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-l")
            )
            heard.append(await reader.readexactly(size))
            writer.write(waiting[0] if len(waiting) == 1 and last_again else waiting.pop(0))
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", heard
    finally:
        server.close()


def said(status: int, body: bytes, *headers: str) -> bytes:
    """Return an HTTP answer as bytes."""
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
