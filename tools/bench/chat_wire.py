"""The socket of a party of a chat, as the load generator uses it.

A message frame is a constant head, a counter in the last digits of its client message id, and a constant tail. So a
delivered message shows its number, and whether it arrived in order.
"""

import collections
import secrets

from tools.bench.light_socket import SocketTally, Wire, client_frame, clock

WORDS = "a message of ordinary length, as people write it in a chat"
CLIENT_ID = b'"client_message_id":"'
COUNTER_AT = len(CLIENT_ID) + 24  # the last 12 of a UUID's 36 characters


class ChatWire(Wire):
    """One party of a chat.

    `window`: messages in flight at a time. `marks`: mark received messages as delivered and read.
    """

    path = "/ws/chat"

    def __init__(self, token: str, session_id: str, tally: SocketTally, *, window: int, marks: bool) -> None:
        super().__init__(self.path, token, tally)
        self.other: ChatWire
        self.session_id = session_id
        self._window = window
        self._marks = marks
        self._sent = 0
        self._expected = 1
        self._acks = 0
        self._seq = 0
        self._last_marked = 0
        self.running = False
        self._acked_from: collections.deque[float] = collections.deque()
        self._delivered_from: collections.deque[float] = collections.deque()
        prefix = (
            f"{secrets.token_hex(4)}-{secrets.token_hex(2)}-4{secrets.token_hex(2)[1:]}-8{secrets.token_hex(2)[1:]}-"
        )
        fields = f'"session_id":"{session_id}","client_message_id":"{prefix}{0:012x}","content":"{WORDS}"'
        self._before, self._after = client_frame(self.message(fields).encode()).split(b"0" * 12, 1)
        self._delivered = f'{{"type":"delivered","session_id":"{session_id}","up_to":%d}}'
        self._read = f'{{"type":"read","session_id":"{session_id}","up_to":%d}}'

    def message(self, fields: str) -> str:
        """Return the packet that sends a message with these fields of JSON."""
        return f'{{"type":"send_message",{fields}}}'

    @property
    def in_flight(self) -> int:
        """Return the number of unacknowledged messages."""
        return len(self._acked_from)

    def fire(self, count: int) -> None:
        """Send `count` messages in one write."""
        now = clock()
        self._acked_from.extend([now] * count)
        self.other._delivered_from.extend([now] * count)
        first = self._sent + 1
        self._sent += count
        before, after = self._before, self._after
        self.write(b"".join([b"%b%012x%b" % (before, number, after) for number in range(first, first + count)]))

    def begin(self) -> None:
        """Send until the window is full, and then a message for each acknowledgement."""
        self.running = True
        self.fire(self._window)

    def take(self, buffer: bytes, start: int, end: int) -> None:
        if not buffer.startswith(b"message", start + 9):
            super().take(buffer, start, end)
            return
        kind = buffer[start + 16]
        if kind == 34:  # "message"
            self.take_message(buffer, start)
        elif kind == 95:
            if buffer[start + 17] == 97:  # "message_ack"
                self._acks += 1
            else:  # "message_status"
                self.tally.marks += 1

    def take_message(self, buffer: bytes, start: int) -> None:
        """Count the delivered message in the frame that begins at `start`."""
        tally = self.tally
        counter = buffer.find(CLIENT_ID, start) + COUNTER_AT
        number = int(buffer[counter : counter + 12], 16)
        if number != self._expected:
            tally.disordered += 1
        self._expected = number + 1
        at = buffer.find(b'"seq":', start) + 6
        seq = int(buffer[at : buffer.find(b",", at)])
        if seq <= self._seq:
            tally.disordered += 1
        self._seq = seq
        tally.delivered += 1
        if self._delivered_from:
            tally.delivered_s.append(clock() - self._delivered_from.popleft())
        else:  # a message was delivered twice
            tally.disordered += 1

    def read(self) -> None:
        if self._acks:
            now, count = clock(), self._acks
            self._acks = 0
            self.tally.acked += count
            for _ in range(count):
                self.tally.ack_s.append(now - self._acked_from.popleft())
            if self.running:
                self.fire(count)
        if self._marks and self._seq > self._last_marked:
            self._last_marked = self._seq
            seq = self._seq
            self.write(client_frame((self._delivered % seq).encode()) + client_frame((self._read % seq).encode()))
