"""One party of a session blocks the other one: the two are never paired again (docs/product.md#blocks).

An acceptance and a block both lock the mitra, so of two at the same moment the second one sees what the first did:
either the chat exists before the block, or it never does.
"""

import attrs

from core.accounts.blocks import store as blocks
from core.accounts.blocks import views as block_views
from core.accounts.blocks.store import Pair
from core.accounts.blocks.views import BlockView
from core.accounts.customers import erasing
from core.accounts.customers import store as customers
from core.accounts.mitras import store as mitras
from core.base.actor import Actor, UserType
from core.base.errors import NotFound
from core.base.pages import Items, Page
from core.pairing import presence
from core.pairing import store as pairing
from core.runtime.container import Runtime
from core.sessions import own_session, views
from core.sessions import store as sessions
from core.sessions.extensions import extend
from core.sessions.extensions import store as extensions
from core.sessions.extensions.states import ExtensionStatus
from core.sessions.states import SessionStatus
from core.storage.transaction import Tx


@attrs.frozen(kw_only=True)
class _Together:
    """The two parties of a session of the caller: the ids of the customer's account, and the mitra."""

    mitra_id: str
    account: tuple[str, ...]
    pair: Pair


async def block(runtime: Runtime, actor: Actor, *, session_id: str) -> tuple[BlockView, bool]:
    """Block the other party of a session. Return the block, and whether it is new.

    A running chat and its goodbyes go on. An open invitation of the two is closed as if the mitra were offline, and an
    open extension is rejected. The other party gets no event about the block itself. Raises NotFound, also for a
    session of an erased customer.
    """
    async with runtime.transaction() as tx:
        together = await _lock(tx, actor, session_id)
        if await erasing.is_erased(tx, together.pair.customer_id):
            raise NotFound
        is_new = await blocks.add(tx, together.pair, session_id=session_id)
        if is_new:
            await _part(runtime, tx, together)
        made_in, blocked_at = await blocks.made(tx, together.pair)
        two = (await views.by_ids(tx, [session_id]))[0].seen_by(actor.user_type)
    other = two.customer if actor.user_type is UserType.MITRA else two.mitra
    name = None if other is None else other.display_name
    return BlockView(session_id=made_in, display_name=name, blocked_at=blocked_at), is_new


async def unblock(runtime: Runtime, actor: Actor, *, session_id: str) -> None:
    """Lift the caller's own block of the other party of a session; without one nothing changes. Raises NotFound."""
    async with runtime.transaction() as tx:
        together = await _lock(tx, actor, session_id)
        await blocks.remove(tx, together.pair)


async def blocked(runtime: Runtime, actor: Actor, page: Page) -> Items[BlockView]:
    """List the blocks that the caller has made, newest first."""
    return await block_views.own(runtime.db, actor, page)


async def _lock(tx: Tx, actor: Actor, session_id: str) -> _Together:
    """Lock the account and the mitra of a session of the caller. Raises NotFound, also for a session without a mitra.

    Lock order: account, mitra, sessions, payments. The parties of a paired session never change.
    """
    session, _ = await own_session.get(tx, actor, session_id=session_id)
    if session.mitra_id is None:
        raise NotFound
    account = await customers.lock_account(tx, session.customer_id)
    await mitras.lock(tx, session.mitra_id)
    pair = Pair(customer_id=account[0], mitra_id=session.mitra_id, blocked_by=actor.user_type)
    return _Together(mitra_id=session.mitra_id, account=account, pair=pair)


async def _part(runtime: Runtime, tx: Tx, together: _Together) -> None:
    """Close the open invitations of the two, and reject the open extension of their chat.

    The sessions stay locked, so a search that asks more mitras sees the block. No session is locked after the first
    payment.
    """
    mitra_id = together.mitra_id
    ids = await sessions.searching_or_held(tx, customer_ids=together.account, mitra_id=mitra_id)
    locked = [session for one in ids if (session := await sessions.lock(tx, one)) is not None]
    asking = await pairing.open_invitations(tx, [mitra_id])
    for session in locked:
        if session.status is SessionStatus.SEARCHING and session.id in asking:
            await presence.ignore(tx, [mitra_id], session)
        elif session.mitra_id == mitra_id and (pending := await extensions.pending_of(tx, session.id)) is not None:
            await extend.resolve(runtime, tx, session, pending, ExtensionStatus.REJECTED)
