"""Routes by which a party of a session blocks the other one (docs/product.md#blocks)."""

from litestar import Response, delete, get, post

from api.auth import parties
from api.parameters import path_id
from core.accounts.blocks.views import BlockView
from core.base.actor import Actor
from core.base.pages import Items, read_page
from core.pairing import block as pairing_block
from core.runtime.container import Runtime


@post(
    "/api/shared/chat/sessions/{session_id:str}/block",
    status_code=201,
    also={200: BlockView},
    **parties(),
)
async def block(session_id: str, runtime: Runtime, actor: Actor) -> Response[BlockView]:
    """Block the other party of a session: the two are never paired again.

    A running chat goes on. The other party gets no event. A repeat is answered with 200 and the first block.
    """
    made, is_new = await pairing_block.block(runtime, actor, session_id=path_id(session_id))
    return Response(made, status_code=201 if is_new else 200)


@delete("/api/shared/chat/sessions/{session_id:str}/block", status_code=204, **parties())
async def unblock(session_id: str, runtime: Runtime, actor: Actor) -> None:
    """Lift the caller's block of the other party, by any session of the two.

    A block of the other party stays. Without a block nothing changes.
    """
    await pairing_block.unblock(runtime, actor, session_id=path_id(session_id))


@get("/api/shared/blocks", **parties())
async def blocks(
    runtime: Runtime, actor: Actor, cursor: str | None = None, limit: int | None = None
) -> Items[BlockView]:
    """List the blocks that the caller has made, newest first."""
    return await pairing_block.blocked(runtime, actor, read_page(cursor, limit))


ROUTES = [block, unblock, blocks]
