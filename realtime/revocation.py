"""Closing the sockets of auth sessions that have ended, and of anonymous customers who joined an account."""

import asyncio
from collections.abc import Iterable

from core.base.actor import UserType
from core.base.errors import Unavailable
from core.events.signals import AccountJoined, LoginsRevoked, Signal
from core.pairing.events import MitraStatusChanged
from core.sessions import deliver
from core.telemetry import logs
from realtime import close_codes
from realtime.connection import Connection
from realtime.hub import Hub

REASON_S = 0.4  # for reading the reason, because a socket of an ended auth session closes within a second

log = logs.get("revocation")


class Revocation:
    """Close the sockets of a hub when their user's auth session ends or joins an account."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def on_signal(self, signal: Signal) -> None:
        """Close the sockets of ended auth sessions, and those of an account that an anonymous customer joined.

        The latter reconnect, and their new snapshot has the sessions of the anonymous customer.
        """
        if isinstance(signal, AccountJoined):
            for connection in self._hub.connections.of_user(signal.customer_id):
                if connection.actor is not None and not connection.actor.owns(signal.joined_id):
                    connection.close(close_codes.GOING_AWAY)
        if isinstance(signal, LoginsRevoked):
            for login in signal.auth_session_ids:
                self.close(self._hub.connections.of_login(login))

    def close(self, connections: Iterable[Connection]) -> None:
        """Close sockets whose auth session has ended. Mitras' pairing sockets are sent the reason first.

        With 4401 if their device has the tokens of the next auth session, because 4403 signs an app out.
        """
        waiting = []
        for connection in connections:
            actor = connection.actor
            assert actor is not None
            if connection.leaving:
                continue
            if connection.path == "pairing" and actor.user_type is UserType.MITRA and connection.listens:
                connection.leaving = True
                waiting.append(connection)
            elif self._hub.runtime.caches.revoked.is_replaced(actor.auth_session_id):
                connection.close(close_codes.NOT_AUTHENTICATED)
            else:
                connection.close(close_codes.REVOKED)
        if waiting:
            self._hub.connections.spawn(self._close_with_reason(waiting))

    async def _close_with_reason(self, connections: list[Connection]) -> None:
        """Send the reason, then close.

        It is read from the database, because the bus may bring it after the end of the auth session, or never.
        """
        recipients = list({connection.actor.user_id for connection in connections if connection.actor is not None})
        try:
            async with asyncio.timeout(REASON_S):
                for unacknowledged in (await deliver.unacknowledged(self._hub.runtime, recipients)).values():
                    for notice in unacknowledged:
                        if notice.event == MitraStatusChanged.type_name():
                            self._hub.events.send(notice)
        except (Unavailable, TimeoutError):
            log.warning("closing websockets of ended auth sessions without the reason")
        finally:
            for connection in connections:
                connection.close(close_codes.REVOKED)
