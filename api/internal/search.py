"""The route of the control center's search."""

from litestar import get

from api.auth import operators
from core.base.actor import Actor
from core.desk import search as desk_search
from core.runtime.container import Runtime


@get("/internal/search", **operators(None))
async def search(q: str, runtime: Runtime, actor: Actor) -> desk_search.Found:
    """Search customers, mitras, sessions, payments, failed pairings and webhook calls; at most ten of each.

    `q` is a part of a name, a phone number, an e-mail address, an amount, or the id of anything, also of an invoice.
    Kinds of other areas are empty. Without `customers.pii` a whole phone number finds its customer, masked, for at most
    30 numbers an hour.
    """
    return await desk_search.search(runtime, actor, q)


ROUTES = [search]
