"""Join small writes to a socket, because each system call costs a good part of an answer."""

import asyncio
from collections.abc import Callable
from typing import Any


class CoalescingTransport:
    """A transport that joins the writes of one event loop iteration into one system call.

    The head and the body of an answer are written separately, and each system call costs a good part of the answer.
    `closes_later` is called before the transport closes; if it returns True, it will close the transport later.
    """

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, closes_later: Callable[[], bool]
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._closes_later = closes_later
        self._waiting: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send the data with the other writes of this event loop iteration."""
        if not self._waiting:
            self._loop.call_soon(self.flush)
        self._waiting.append(data)

    def flush(self) -> None:
        """Send the buffered data. A client that has disconnected since gets nothing."""
        if self._waiting:
            data = b"".join(self._waiting)
            self._waiting.clear()
            if not self._transport.is_closing():
                self._transport.write(data)

    def write_eof(self) -> None:
        """Send the buffered data, and close the transport for writing."""
        self.flush()
        self._transport.write_eof()

    def close(self) -> None:
        """Send the buffered data, and close."""
        self.flush()
        if not self._closes_later():
            self._transport.close()
