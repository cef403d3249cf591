"""Publish committed frames and signals, and receive the signals of other processes (docs/architecture.md#signals)."""

from collections.abc import Awaitable, Callable

import attrs

from core.base.clock import monotonic
from core.bus import channels
from core.bus.bus import Bus
from core.bus.other_hubs import OtherHubs
from core.events import notices, signals
from core.events.notices import Envelope
from core.events.signals import Signal
from core.security.caches import Accounts, RevokedLogins
from core.telemetry import metrics

PAID_KEPT = 50_000
# The fields of an envelope that go to sessions' channels, and those that go to recipients', whose ids they name.
SESSION_FIELDS = ("messages", "read_markers", "typing")
RECIPIENT_FIELDS = {"notices": "recipient_id", "searches": "customer_id", "own_statuses": "mitra_id"}


def by_channel(envelope: Envelope) -> dict[str, Envelope]:
    """Split an envelope into one for each channel: what concerns a session, and what concerns one recipient."""
    split: dict[str, Envelope] = {}
    for field in SESSION_FIELDS:
        for one in getattr(envelope, field):
            getattr(split.setdefault(channels.of_session(one.session_id), Envelope()), field).append(one)
    for field, recipient in RECIPIENT_FIELDS.items():
        for one in getattr(envelope, field):
            channel = channels.of_recipient(getattr(one, recipient))
            getattr(split.setdefault(channel, Envelope()), field).append(one)
    return split


@attrs.frozen(kw_only=True)
class Caches:
    """What this process keeps in memory because of signals."""

    revoked: RevokedLogins
    accounts: Accounts = attrs.field(factory=Accounts)
    # Customers who paid lately, whose access tokens may still say that they are newcomers. Cleared at PAID_KEPT.
    paid: set[str] = attrs.field(factory=set)

    def apply(self, signal: Signal) -> None:
        """Apply a signal of this process or another."""
        if isinstance(signal, signals.LoginsRevoked):
            self.revoked.add(signal.auth_session_ids, now=monotonic(), replaced=signal.replaced)
        if isinstance(signal, signals.AccountJoined):
            self.accounts.forget(signal.customer_id)
        if isinstance(signal, signals.PaymentConfirmed) and signal.customer_id is not None:
            if len(self.paid) >= PAID_KEPT:
                self.paid.clear()
            self.paid.add(signal.customer_id)


@attrs.frozen(kw_only=True)
class Subscriber:
    """What a part of this process does with what it receives."""

    # Called with the frames that this process publishes, for its own sockets.
    on_frames: Callable[[Envelope], None] | None = None
    # Called with each signal of another process, and with those that the poll for changes finds.
    on_signal: Callable[[Signal], Awaitable[None] | None] | None = None
    # Called after a new subscription to the signals, because some may have been lost before.
    on_resubscribe: Callable[[], None] | None = None


class Publisher:
    """Publishes frames and signals to all processes, and passes those that it receives to subscribers."""

    def __init__(self, *, bus: Bus, node: str, caches: Caches, react: Callable[[Signal], None]) -> None:
        """`node` is this process's id; `react` starts the flow that follows a signal of this process."""
        self._bus = bus
        self._node = node
        self._caches = caches
        self._react = react
        self._subscribers: list[Subscriber] = []
        self.other_hubs: OtherHubs | None = None  # set in a realtime process

    def subscribe(self, subscriber: Subscriber) -> None:
        """Add a subscriber."""
        self._subscribers.append(subscriber)

    def publish_frames(self, envelope: Envelope) -> None:
        """Send committed events and frames to users' sockets, in this process and in all others.

        A realtime process that is the only one does not publish them.
        """
        if envelope.empty:
            return
        for subscriber in self._subscribers:
            if subscriber.on_frames is not None:
                subscriber.on_frames(envelope)
        if self.other_hubs is not None and self.other_hubs.absent():
            metrics.ENVELOPES_SKIPPED.inc()
            return
        split = by_channel(envelope)
        metrics.ENVELOPES_PUBLISHED.inc(len(split))
        self._bus.publish((channel, notices.encode(part, node=self._node)) for channel, part in split.items())

    def publish_signal(self, signal: Signal) -> None:
        """Publish a signal to all processes and start the flow that follows it here."""
        self._caches.apply(signal)
        self._bus.publish([(channels.SIGNALS, signals.encode(signal))])
        self._react(signal)

    async def receive(self, signal: Signal) -> None:
        """Pass on a signal that this process did not publish. Its subscribers get it after the caches."""
        self._caches.apply(signal)
        for subscriber in self._subscribers:
            result = subscriber.on_signal(signal) if subscriber.on_signal is not None else None
            if result is not None:
                await result

    def on_resubscribe(self) -> None:
        """Inform the subscribers that signals may have been lost."""
        if self.other_hubs is not None:
            self.other_hubs.note_sign()
        for subscriber in self._subscribers:
            if subscriber.on_resubscribe is not None:
                subscriber.on_resubscribe()
