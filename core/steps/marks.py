"""Before a session is completed: messages of a very long chat are brought up to its marks, a part at a time.

The transaction that completes a session brings up its messages, too. A flood of them would outlast its statement, each
time it is tried, and hold up whatever is completed with it.
"""

from core.messages import store as messages
from core.runtime import Runtime, away_is_unavailable

AT_ONCE = 20_000  # messages, in a transaction that completes sessions


async def bring_up(runtime: Runtime, heard: dict[str, int]) -> None:
    """Bring up the messages of sessions (-> how many were heard) with more than AT_ONCE. Raises Unavailable."""
    for session_id, many in heard.items():
        if many > AT_ONCE:
            for after in range(0, many, messages.FILL_MOST):
                with away_is_unavailable():
                    await messages.fill(runtime.db, {session_id: after})
