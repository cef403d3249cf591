"""Before a session is completed: messages of a very long chat are brought up to its marks, a part at a time.

The transaction that completes a session brings up its messages, too. A flood of them would outlast its statement, each
time it is tried, and hold up whatever is completed with it.
"""

from core.base.clock import monotonic
from core.messages import store as messages
from core.runtime import Runtime, away_is_unavailable

FLOOD = 20_000  # messages: more are not brought up in the transaction that completes their session


async def bring_up(runtime: Runtime, session_id: str, heard: int, *, until: float) -> bool:
    """Bring up the messages of a session in which so many were heard; whoever asks again goes on from there.

    False when that is not done by a moment of the monotonic clock. Raises Unavailable.
    """
    if heard <= FLOOD:
        return True
    while (begun := runtime.brought_up.get(session_id, 0)) < heard:
        if monotonic() >= until:
            return False
        with away_is_unavailable():
            await messages.fill(runtime.db, {session_id: begun})
        runtime.brought_up[session_id] = begun + messages.FILL_MOST
    return True
