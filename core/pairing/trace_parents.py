"""Keep where the trace of a session's search goes on (docs/traces.md).

Without traces these functions run no statement.
"""

from core.sessions import store as sessions
from core.storage.transaction import Reader, Tx
from core.telemetry import traces


async def keep_of_session(tx: Tx, session_id: str) -> None:
    """Store the current span's traceparent with a session: its requests and its acceptance go on from here."""
    if (parent := traces.traceparent()) is not None:
        await sessions.keep_traceparent(tx, session_id, parent)


async def of_session(reader: Reader, session_id: str) -> str | None:
    """Return the traceparent of the beginning of a session's search; None if it has none."""
    return await sessions.traceparent(reader, session_id) if traces.is_on() else None
