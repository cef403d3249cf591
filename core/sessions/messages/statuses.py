"""Write the statuses of a very long chat's messages before the session is completed, a batch at a time.

Completing a session also writes the status of each message from the session's read markers. For a very long chat that
would exceed the statement timeout on every attempt, and hold up the sessions completed with it.
"""

from core.base.clock import monotonic
from core.runtime.container import Runtime
from core.sessions.messages import store as messages

VERY_LONG_CHAT = 20_000  # messages; a longer chat is synced in batches before its session is completed


async def sync_statuses(runtime: Runtime, session_id: str, delivered: int, *, until: float) -> bool:
    """Sync the message statuses of a very long chat. Return False if it is not done at `until` (monotonic seconds).

    `delivered` is the number of delivered messages, all of which are synced. The progress is kept in the runtime, so
    the next call continues there. Raises Unavailable.
    """
    if delivered <= VERY_LONG_CHAT:
        return True
    while (begun := runtime.synced_up_to.get(session_id, 0)) < delivered:
        if monotonic() >= until:
            return False
        await messages.sync_statuses(runtime.db, {session_id: begun})
        runtime.synced_up_to[session_id] = begun + messages.SYNC_AT_ONCE
    return True
