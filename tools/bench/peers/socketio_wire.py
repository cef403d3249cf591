"""One party of a chat over Socket.IO: Engine.IO 4 and Socket.IO 5 over a WebSocket, for the load of chat-a.

Protocols: socketio/engine.io-protocol (v4) and socketio/socket.io-protocol (v5).
"""

import json

from tools.bench.chat_wire import ChatWire
from tools.bench.light_socket import client_frame


class SocketioWire(ChatWire):
    """A socket that sends each message as the event `message`, with an acknowledgement.

    All messages have the acknowledgement's id 0: the server returns it, and acknowledges them in order.
    """

    path = "/socket.io/?EIO=4&transport=websocket"

    def upgraded(self) -> None:
        """Wait for the server's first packet, because Engine.IO's handshake begins with it."""

    def message(self, fields: str) -> str:
        """Return the packet that sends a message with these fields of JSON."""
        return f'420["message",{{{fields}}}]'

    def take(self, buffer: bytes, start: int, end: int) -> None:
        """Handle the packet in `buffer[start:end]`."""
        if buffer.startswith(b"42", start):
            self.take_message(buffer, start)
        elif buffer.startswith(b'430[{"id"', start):
            self._acks += 1
        elif buffer.startswith(b"2", start):  # ping
            self.write(client_frame(b"3"))
        elif buffer.startswith(b"0", start):  # open
            self.write(client_frame(b"40" + json.dumps({"token": self._token}).encode()))
        elif buffer.startswith(b"40", start):  # connected
            self.authenticated()
        else:
            self.tally.errors.append(buffer[start:end])
