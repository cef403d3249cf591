"""Fan-out: what this process and others have published goes to the sockets of this process.

realtime/connections.py knows which sockets are here, realtime/feeds.py the order of messages, and realtime/events.py
which events were sent.
"""

from core.base.actor import UserType
from core.base.clock import real_sleep
from core.bus import channels
from core.bus.other_hubs import OtherHubs
from core.bus.subscription import Subscription
from core.events import notices
from core.events.notices import Envelope, OwnStatusChanged, ReadMarkerMoved, SearchProgress, TypingChanged
from core.runtime.container import Runtime
from core.telemetry import metrics
from realtime import close_codes, outgoing
from realtime.budgets import Budgets
from realtime.connections import Connections
from realtime.event_trail import SentEvents
from realtime.events import Events
from realtime.feeds import Feeds
from realtime.message_queue import MessageQueue


class Hub:
    """The sockets of this process and what is sent to them."""

    def __init__(self, runtime: Runtime, queue: MessageQueue) -> None:
        self.runtime = runtime
        self.budgets = Budgets(runtime.settings)
        self.heard = Subscription(runtime.bus, self.on_frames, runtime.publisher.on_resubscribe)
        self.other_hubs = OtherHubs(runtime.bus, self.heard, node=runtime.node)
        self.sent_events = SentEvents(runtime)
        self.connections = Connections(runtime, self.heard, self.sent_events)
        self.feeds = Feeds(runtime, self.connections, self.heard, committing=queue.under_way)
        self.events = Events(self.connections, self.feeds)

    def on_frames(self, channel: str, data: bytes) -> None:
        """Send what arrived over the bus from other processes; `send` has sent our own."""
        if channel == channels.HUBS:
            self.other_hubs.note_announcement(data)
            return
        envelope = notices.decode(data, node=self.runtime.node)
        if envelope is not None:
            metrics.ENVELOPES_DECODED.inc()
            self.feeds.note_crossing(envelope.messages)
            self.send(envelope)

    def send(self, envelope: Envelope) -> None:
        """Send the frames of an envelope to the sockets here."""
        for message in envelope.messages:
            self.feeds.deliver(message)
        for moved in envelope.read_markers:
            self.send_read_marker(moved)
        for changed in envelope.typing:
            self._send_typing(changed)
        for progress in envelope.searches:
            self._send_progress(progress)
        for changed in envelope.own_statuses:
            self._send_own_status(changed)
        for notice in envelope.notices:
            self.events.send(notice)

    def send_read_marker(self, moved: ReadMarkerMoved) -> None:
        """Send a read marker to the other party, and `read` to the reader's other devices, which show it, too."""
        reader, writer = moved.customer_id, moved.mitra_id
        if moved.reader is UserType.MITRA:
            reader, writer = writer, reader
        frame = outgoing.message_status(moved)
        self.connections.put("chat", writer, frame)
        if moved.status == "read":
            self.connections.put("chat", reader, frame, skip=moved.skip)

    def _send_typing(self, changed: TypingChanged) -> None:
        frame = outgoing.typing(changed, server_time=self.connections.server_time())
        self.connections.put("chat", changed.recipient_id, frame)

    def _send_progress(self, progress: SearchProgress) -> None:
        if not self.events.search_has_ended(progress.session_id):
            frame = outgoing.pairing_status(progress, server_time=self.connections.server_time())
            self.connections.put("pairing", progress.customer_id, frame)

    def _send_own_status(self, changed: OwnStatusChanged) -> None:
        frame = outgoing.mitra_status_changed(changed, server_time=self.connections.server_time())
        self.connections.put("pairing", changed.mitra_id, frame)

    def on_new_epoch(self) -> None:
        """Forget all chat progress and close every socket.

        The database may have lost messages that were sent over them. Until its portion is closed, a socket neither
        sends nor handles frames, because its client's state is from the lost history. The clients reconnect within some
        seconds and see the new epoch.
        """
        self.feeds.clear()
        self.events.forget_sent()
        self.connections.mute()
        self.connections.spawn(self._close_muted())

    async def _close_muted(self) -> None:
        for connection in await self.connections.close_in_portions(close_codes.GOING_AWAY, real_sleep):
            connection.close(close_codes.GOING_AWAY)
