"""Customers, as operators see them (contract 8)."""

from litestar import get

from api.auth import operators
from api.bodies import path_id
from core.base.actor import Actor
from core.base.pages import Items, read_page
from core.reads import people, support
from core.reads.support import LookUp
from core.runtime import Runtime


@get("/internal/customers/{customer_id:str}", **operators("customers"))
async def customer(customer_id: str, runtime: Runtime, actor: Actor) -> people.CustomerView:
    """One customer; phone and e-mail are masked without `customers.pii`. Reading them leaves an audit row."""
    return await people.customer_for_operator(runtime, actor, path_id(customer_id))


@get("/internal/customers", **operators("customers"))
async def customers(
    runtime: Runtime, actor: Actor, q: str | None = None, cursor: str | None = None, limit: int | None = None
) -> Items[people.CustomerView]:
    """Customers, newest first; `q` is part of a name or an id, with `customers.pii` of a phone or e-mail too.

    Phones and e-mails that the caller may see leave one audit row with the ids of their customers.
    """
    return await support.customers(runtime, actor, read_page(cursor, limit), LookUp(q=q))


ROUTES = [customers, customer]
