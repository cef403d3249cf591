"""A set of channels that a process listens to, on the servers that have them now.

Channels come and go with the sockets of a process. Each server has one connection, and messages of before its
confirmation may have been missed: `resubscribed` says so.
"""

import asyncio
from collections.abc import Callable, Iterable

from core.bus.bus import Bus
from core.bus.link import Handler, Link
from core.bus.server import BusServer

CONFIRM_S = 0.5  # real seconds to wait for the confirmation of a subscription


class Subscription:
    """The channels of one purpose, such as the frames for sockets."""

    def __init__(self, bus: Bus, handle: Handler, resubscribed: Callable[[], None], *channels: str) -> None:
        self._handle = handle
        self._resubscribed = resubscribed
        self._bus = bus
        self._channels = set(channels)
        self._links: dict[BusServer, Link] = {}
        self._moved = asyncio.Event()
        bus.watch(self._moved.set)

    def __contains__(self, channel: str) -> bool:
        return channel in self._channels

    def add(self, names: Iterable[str]) -> None:
        """Listen to more channels; those that are listened to already are left out."""
        for name in names:
            if name not in self._channels:
                self._channels.add(name)
                link = self._link_of(name)
                if link is not None:
                    link.add(name)

    def remove(self, names: Iterable[str]) -> None:
        """Stop listening to channels."""
        for name in names:
            if name in self._channels:
                self._channels.remove(name)
                link = self._link_of(name)
                if link is not None:
                    link.remove(name)

    def is_confirmed(self, name: str) -> bool:
        """Return whether the channel's server has confirmed that it sends what is published there."""
        link = self._link_of(name)
        return link is not None and name in link.confirmed

    async def confirmed(self, names: Iterable[str]) -> None:
        """Wait until the servers send what is published on these channels.

        Do not wait for a server that is away, and for others CONFIRM_S at most. If a confirmation comes later, it
        counts as a new subscription.
        """
        waited: list[tuple[Link, str, asyncio.Future[None]]] = []
        for name in names:
            link = self._link_of(name)
            if link is not None and link.connected and name not in link.confirmed:
                waited.append((link, name, link.wait_for(name)))
        if waited:
            await asyncio.wait({future for _, _, future in waited}, timeout=CONFIRM_S)
        for link, name, future in waited:
            if not future.done():  # a removed channel's is cancelled
                link.late.add(name)

    async def unheard(self, names: Iterable[str]) -> set[str]:
        """Return those of these channels to which no process is subscribed.

        A channel is left out if its server does not answer, or has not been connected to for some seconds.
        """
        by_link: dict[Link, list[str]] = {}
        for name in names:
            link = self._link_of(name)
            if link is not None and name not in self._channels:
                by_link.setdefault(link, []).append(name)
        return {name for link, asked in by_link.items() for name in await link.unheard(asked)}

    async def run(self) -> None:
        """Listen until cancelled."""
        try:
            while True:
                self._moved.clear()
                await self._follow()
                await self._moved.wait()
        finally:
            for link in self._links.values():
                await link.stop()

    def _link_of(self, name: str) -> Link | None:
        server = self._bus.of(name)
        return self._links.get(server) if server is not None else None

    async def _follow(self) -> None:
        """Have one connection for each present server, and each channel on its own."""
        present = self._bus.present()
        for server in set(self._links) - present:
            await self._links.pop(server).stop()
        for server in present - set(self._links):
            self._links[server] = Link(self._bus, server, self._channels, self._handle, self._resubscribed)
            self._links[server].start()
        for name in self._channels:
            link = self._link_of(name)
            if link is not None:
                link.take_over(name)
