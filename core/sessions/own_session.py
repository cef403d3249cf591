"""Find a session of the caller. A session of other users is as unknown as one that does not exist."""

from core.base.actor import Actor, UserType
from core.base.errors import NotFound
from core.sessions import store as sessions
from core.sessions.store import Session
from core.storage.transaction import Reader, Tx


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
