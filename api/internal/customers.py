"""Routes for customers, as operators see them."""

from litestar import get

from api.auth import operators
from api.parameters import path_id
from core.base.actor import Actor
from core.base.pages import Items, read_page
from core.desk import people, support
from core.desk.support import LookUp
from core.runtime.container import Runtime


@get("/internal/customers/{customer_id:str}", **operators("customers"))
async def customer(customer_id: str, runtime: Runtime, actor: Actor) -> people.CustomerView:
    """Return a customer.

    Phone and e-mail are masked without `customers.pii`; with it, an audit row records that they were read.
    """
    return await people.customer_for_operator(runtime, actor, path_id(customer_id))


@get("/internal/customers", **operators("customers"))
async def customers(
    runtime: Runtime, actor: Actor, q: str | None = None, cursor: str | None = None, limit: int | None = None
) -> Items[people.CustomerView]:
    """List customers, newest first.

    `q` is a part of a name, a whole id or a whole phone number, and with `customers.pii` also a part of a phone number or
    e-mail. Phones and e-mails are masked without `customers.pii`, and at most 30 numbers an hour are looked up; with it,
    one audit row records whose were read.
    """
    return await support.customers(runtime, actor, read_page(cursor, limit), LookUp(q=q))


ROUTES = [customers, customer]
