"""Blank the texts of completed sessions (docs/product.md#blanked-sessions).

A session is marked first. From then on no reader gets a text of it, and the database lets its texts be blanked. Its
messages are blanked in bounded parts, by this process or by the jobs process if this one dies. The digest of its chat
is stored before the first text is removed, because it can't be computed afterwards.
"""

import datetime as dt
from collections.abc import Sequence

from core.sessions import blanking
from core.sessions.messages import digests
from core.sessions.messages import store as messages
from core.storage.transaction import Tx
from core.telemetry import logs

SESSIONS_AT_ONCE = 200  # in a transaction
MESSAGES_AT_ONCE = 5_000  # in a transaction: a tenth of what a statement has time for

log = logs.get("blanking")


async def blank_sessions(tx: Tx, session_ids: Sequence[str]) -> list[str]:
    """Hide the texts of completed sessions from everyone, and blank their goodbyes; return the ids of these sessions.

    Sessions in other states and those blanked before are left out. The caller then repeats `blank_messages`, each time
    in a further transaction.
    """
    return await blanking.begin(tx, session_ids)


async def blank_due(tx: Tx, *, before: dt.datetime) -> list[str]:
    """Do what `blank_sessions` does for the next sessions that ended before a time.

    Sessions that another transaction has locked are left out.
    """
    return await blank_sessions(tx, await blanking.claim_due(tx, before=before, limit=SESSIONS_AT_ONCE))


async def blank_messages(tx: Tx, session_ids: Sequence[str] | None = None) -> bool:
    """Blank up to MESSAGES_AT_ONCE messages of sessions that `blank_sessions` has marked. False: none was left.

    Without ids, of any sessions that no other transaction has locked.
    """
    left, unread = MESSAGES_AT_ONCE, digests.AT_ONCE
    claimed = await blanking.claim_unfinished(tx, session_ids, limit=SESSIONS_AT_ONCE)
    for session in claimed:
        if left == 0 or unread == 0:
            break
        if session.blanked_seq == 0:
            found = await digests.advance(tx, session.id, up_to=session.last_seq, at_most=unread)
            if found.goes_on:
                break  # the next transaction goes on with the digest
            if found.digest is not None and found.seq != session.last_seq:
                log.error("a chat is blanked without its digest: messages are missing", session_id=session.id)
            unread = max(0, unread - session.last_seq)
            await digests.forget(tx, session.id, before=session.last_seq)
        up_to = min(session.last_seq, session.blanked_seq + left)
        left -= up_to - session.blanked_seq
        await messages.blank(tx, session.id, after=session.blanked_seq, up_to=up_to)
        await blanking.save(tx, session.id, blanked_seq=up_to if up_to < session.last_seq else None)
    return bool(claimed)
