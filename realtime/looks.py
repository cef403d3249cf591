"""Which sockets are checked in which tick (realtime/watch.py): most have nothing due for seconds."""

from realtime.connection import Connection

NEXT_TICK = -1
NONE = 0


class Looks:
    """The sockets that are checked next, by tick."""

    def __init__(self) -> None:
        self._planned: dict[int, set[Connection]] = {}

    def plan(self, connection: Connection, tick: int) -> None:
        """Check a socket in this tick, and not in the one that was planned before."""
        if connection.next_look != tick:
            self.drop(connection)
            connection.next_look = tick
            self._planned.setdefault(tick, set()).add(connection)

    def drop(self, connection: Connection) -> None:
        """Do not check a socket again."""
        planned = self._planned.get(connection.next_look)
        if planned is not None:
            planned.discard(connection)
        connection.next_look = NONE

    def take(self, first: int, last: int) -> list[Connection]:
        """Return the sockets of these ticks, the last one included, and of NEXT_TICK; they are no longer planned."""
        taken: list[Connection] = []
        for tick in (NEXT_TICK, *range(first, last + 1)):
            taken.extend(self._planned.pop(tick, ()))
        for connection in taken:
            connection.next_look = NONE
        return taken
