"""The status columns of single messages follow the read markers of their session in bulk, once a second."""

from core.base.clock import real_sleep
from core.base.errors import Unavailable
from core.runtime.container import Runtime
from core.sessions.messages import send as message_send
from core.telemetry import logs
from realtime.feed import Feed

EVERY_S = 1.0
PARTS = 20  # parts into which the work of a second is spread, so that messages never wait behind much of it
SESSIONS = 100  # at most, in one part

log = logs.get("message_statuses")


class MessageStatuses:
    """Write the statuses of the messages whose session has moved read markers."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._behind: set[Feed] = set()

    def add(self, feed: Feed) -> None:
        """Sync the statuses of a session soon, because its stored markers have moved."""
        self._behind.add(feed)

    def forget(self) -> None:
        """Forget which sessions to sync."""
        self._behind.clear()

    async def run(self) -> None:
        """Sync statuses until cancelled."""
        while True:
            todo, self._behind = list(self._behind), set()
            size = min(SESSIONS, max(1, len(todo) // PARTS))
            parts = [todo[start : start + size] for start in range(0, len(todo), size)]
            for part in parts or ([],):
                await real_sleep(EVERY_S / max(1, len(parts)))
                if part:
                    await self._sync(part)

    async def _sync(self, part: list[Feed]) -> None:
        try:
            final = await message_send.sync_statuses(self._runtime, {feed.id: feed.synced_up_to for feed in part})
        except Exception as error:
            if not isinstance(error, Unavailable):
                log.exception("updating message statuses from the read markers failed")
            self._behind.update(part)
            return
        for feed in part:  # as stored: the markers in memory may be ahead of the database
            feed.synced_up_to = final.get(feed.id, feed.synced_up_to)
