"""Routes for customers, as operators see them."""

import attrs
from litestar import Response, get, patch, post

from api.auth import operators
from api.parameters import path_id, query_time
from api.request_bodies import Body, optional_text, shown_text, text
from api.shared_answers import export_answer
from core.base.actor import Actor, UserType
from core.base.pages import Items, read_page
from core.desk import operator_work, people, support
from core.desk.operator_work import LONGEST_REASON
from core.desk.support import LookUp
from core.erasures.rules import RequestedBy
from core.payments.rules import SessionInProgress
from core.privacy import erase as erasure
from core.privacy import export
from core.privacy.erase import Requester
from core.privacy.export import Export
from core.runtime.container import Runtime


@attrs.frozen(kw_only=True)
class BlockBody:
    """Why you block the account, for other operators, and until when: without `until`, until you lift the block."""

    reason: str = shown_text(LONGEST_REASON)
    until: str | None = optional_text(1, 40, metadata={"schema": {"format": "date-time"}})


@attrs.frozen(kw_only=True)
class CustomerPatch:
    """The corrected name of a customer."""

    display_name: str = text(1, 400)


@get("/internal/customers/{customer_id:str}", **operators("customers"))
async def customer(customer_id: str, runtime: Runtime, actor: Actor) -> people.CustomerForOperators:
    """Return a customer.

    Phone and e-mail are masked without `customers.pii`; with it, an audit row records that they were read.
    """
    return await people.customer_for_operator(runtime, actor, path_id(customer_id))


@get("/internal/customers", **operators("customers"))
async def customers(
    runtime: Runtime, actor: Actor, q: str | None = None, cursor: str | None = None, limit: int | None = None
) -> Items[people.CustomerForOperators]:
    """List customers, newest first.

    `q` is a part of a name, a whole id or a whole phone number, and with `customers.pii` also a part of a phone number
    or e-mail. Phones and e-mails are masked without `customers.pii`, and at most 30 numbers an hour are looked up; with
    it, one audit row records whose were read.
    """
    return await support.customers(runtime, actor, read_page(cursor, limit), LookUp(q=q))


@patch(
    "/internal/customers/{customer_id:str}",
    dto=Body[CustomerPatch],
    return_dto=None,
    **operators("customers", "write"),
)
async def correct_name(
    customer_id: str, data: CustomerPatch, runtime: Runtime, actor: Actor
) -> people.CustomerForOperators:
    """Correct the name of a customer's account. The mitras of their open chats get it."""
    found = path_id(customer_id)
    await operator_work.rename_customer(runtime, actor, customer_id=found, display_name=data.display_name)
    return await people.customer_for_operator(runtime, actor, found, has_written=True)


@post(
    "/internal/customers/{customer_id:str}/block",
    status_code=200,
    dto=Body[BlockBody],
    return_dto=None,
    **operators("customers", "write"),
)
async def block(customer_id: str, data: BlockBody, runtime: Runtime, actor: Actor) -> people.CustomerForOperators:
    """Block the account of a customer, in place of an earlier block.

    It can't ask for payments, extensions or searches. Its pending payment requests are abandoned. A running chat and a
    search that is paid go on.
    """
    found, until = path_id(customer_id), query_time("until", data.until)
    await operator_work.block_customer(runtime, actor, customer_id=found, reason=data.reason, until=until)
    return await people.customer_for_operator(runtime, actor, found, has_written=True)


@post("/internal/customers/{customer_id:str}/unblock", status_code=200, **operators("customers", "write"))
async def unblock(customer_id: str, runtime: Runtime, actor: Actor) -> people.CustomerForOperators:
    """Lift the block of a customer's account. Without a block nothing changes."""
    found = path_id(customer_id)
    await operator_work.unblock_customer(runtime, actor, customer_id=found)
    return await people.customer_for_operator(runtime, actor, found)


@get("/internal/customers/{customer_id:str}/sums", **operators("payments"))
async def sums(customer_id: str, runtime: Runtime) -> people.Sums:
    """Return the money and the chats of a customer's account."""
    return await people.sums_of_customer(runtime, path_id(customer_id))


@post(
    "/internal/customers/{customer_id:str}/export",
    status_code=200,
    **operators("customers", "write", and_area="customers.pii", step_up=True),
)
async def export_customer(customer_id: str, runtime: Runtime, actor: Actor) -> Response[Export]:
    """Return everything that is stored of a customer's account, with the texts of their chats, for the customer.

    The answer comes in parts; if it ends early, its JSON is incomplete.
    """
    account_id = await export.begin_for_operator(runtime, actor, UserType.CUSTOMER, path_id(customer_id))
    return export_answer(runtime, UserType.CUSTOMER, account_id)


@post(
    "/internal/customers/{customer_id:str}/erase",
    status_code=202,
    **operators("customers", "write", SessionInProgress, step_up=True),
)
async def erase_customer(customer_id: str, runtime: Runtime, actor: Actor) -> people.CustomerForOperators:
    """Erase the personal data of a customer's account and sign all its devices out.

    The identity is erased at once, the texts within minutes. Records of money stay. This can't be undone. A repeat
    changes nothing.
    """
    found = path_id(customer_id)
    requester = Requester(by=RequestedBy.OPERATOR, operator_id=actor.user_id)
    await erasure.erase_customer(runtime, found, requester)
    return await people.customer_for_operator(runtime, actor, found, has_written=True)


ROUTES = [customers, customer, correct_name, block, unblock, sums, export_customer, erase_customer]
