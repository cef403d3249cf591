"""Find a session of the caller. A session of other users is as unknown as one that does not exist.

Views are read for many callers at once: those of the same moment share a statement.
"""

import asyncio
import functools

from core.base.actor import Actor, UserType
from core.base.batch_loader import BatchLoader
from core.base.errors import NotFound
from core.runtime.container import Runtime
from core.sessions import store as sessions
from core.sessions.store import Session
from core.sessions.views import VIEW, SessionView, two_sided
from core.storage.database import DEADLINE_S
from core.storage.errors import as_unavailable
from core.storage.transaction import Reader, Tx

STATEMENTS = 4  # of each side at the same time
# $1 and $2 are pairs: a session's id, and an id of the caller.
ASKED = f"""{VIEW}
JOIN unnest($1::uuid[], $2::uuid[]) AS asked (session_id, party_id) ON asked.session_id = s.id"""
OF_CUSTOMERS = f"""{ASKED}
  AND asked.party_id = s.customer_id"""
OF_MITRAS = f"""{ASKED}
  AND asked.party_id = s.mitra_id"""


async def get(reader: Reader, actor: Actor, *, session_id: str) -> tuple[Session, str]:
    """Return a session of the caller, and the id with which they are its party. Raises NotFound."""
    return _own(await sessions.get(reader, session_id), actor)


async def lock(tx: Tx, actor: Actor, *, session_id: str) -> tuple[Session, str]:
    """Lock a session of the caller. Return it, and the id with which they are its party. Raises NotFound."""
    return _own(await sessions.lock(tx, session_id), actor)


def _own(session: Session | None, actor: Actor) -> tuple[Session, str]:
    if session is None:
        raise NotFound
    party = session.mitra_id if actor.user_type is UserType.MITRA else session.customer_id
    if party is None or not actor.owns(party):
        raise NotFound
    return session, party


async def session_of(runtime: Runtime, actor: Actor, session_id: str) -> SessionView | None:
    """Return a session in any state as the caller sees it; None if it is not theirs. Raises Unavailable."""
    side = actor.user_type
    name = f"session views of the {side.value}"
    loader: BatchLoader[SessionView | None] | None = runtime.loaders.get(name)
    if loader is None:
        read = functools.partial(each_of, runtime, side)
        loader = runtime.loaders[name] = BatchLoader(read, nothing=None, statements=STATEMENTS)
    with as_unavailable():
        async with asyncio.timeout(DEADLINE_S):  # over the wait for a statement, too
            return await loader.of(" ".join((session_id, *actor.ids)))


async def each_of(runtime: Runtime, side: UserType, asked: list[str]) -> dict[str, SessionView]:
    """Return the sessions of callers by key. A key is the id of a session, and after spaces the ids of the caller.

    A session that is not the caller's is left out.
    """
    callers = {key: [(session_id, one) for one in ids] for key in asked for session_id, *ids in [key.split(" ")]}
    sessions, parties = map(list, zip(*{pair for pairs in callers.values() for pair in pairs}, strict=True))
    of_mitras = side is UserType.MITRA
    statement, party = (OF_MITRAS, "mitra_id") if of_mitras else (OF_CUSTOMERS, "customer_id")
    rows = await runtime.db.fetch(statement, sessions, parties)
    views = {(str(row["id"]), str(row[party])): two_sided(row).seen_by(side) for row in rows}
    return {key: views[pair] for key, pairs in callers.items() for pair in pairs if pair in views}
