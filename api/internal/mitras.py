"""Routes for mitras, as operators see and change them."""

from typing import Any

import attrs
from litestar import Response, get, patch, post

from api.auth import operators
from api.parameters import path_id
from api.request_bodies import Body, JsonObject, no_nulls, optional_text, structure, text
from api.shared_answers import export_answer
from core.accounts.logins import callers
from core.accounts.operators.totp import TotpRequired
from core.base.actor import Actor, UserType
from core.base.pages import Items, read_page
from core.desk import operator_work, people
from core.desk.operator_work import MitraChange, PhoneTaken
from core.erasures.rules import MitraStillActive, RequestedBy
from core.privacy import erase as erasure
from core.privacy import export
from core.privacy.erase import Requester
from core.privacy.export import MitraExport
from core.runtime.container import Runtime


@attrs.frozen(kw_only=True)
class MitraBody:
    """A new mitra."""

    phone: str = text(3, 40)
    display_name: str = text(1, 400)
    is_active: bool = False


@attrs.frozen(kw_only=True)
class MitraPatch:
    """Changes of a mitra; absent fields stay unchanged."""

    phone: str | None = optional_text(3, 40)
    display_name: str | None = optional_text(1, 400)
    is_active: bool | None = None


@get("/internal/mitras", **operators("mitras"))
async def mitras(
    runtime: Runtime,
    q: str | None = None,
    is_active: bool | None = None,
    is_online: bool | None = None,
    cursor: str | None = None,
    limit: int | None = None,
) -> Items[people.MitraForOperators]:
    """List mitras, newest first.

    `q` is a part of the name or phone number.
    """
    page = read_page(cursor, limit)
    return await people.mitras_for_operator(runtime, page, q=q, is_active=is_active, is_online=is_online)


@post(
    "/internal/mitras",
    status_code=201,
    dto=Body[MitraBody],
    return_dto=None,
    **operators("mitras", "write", PhoneTaken),
)
async def add_mitra(data: MitraBody, runtime: Runtime, actor: Actor) -> people.MitraForOperators:
    """Add a mitra."""
    mitra_id = await operator_work.add_mitra(
        runtime, actor, phone=data.phone, display_name=data.display_name, is_active=data.is_active
    )
    return await people.mitra_for_operator(runtime, mitra_id)


@get("/internal/mitras/{mitra_id:str}", **operators("mitras"))
async def mitra(mitra_id: str, runtime: Runtime) -> people.MitraForOperators:
    """Return a mitra."""
    return await people.mitra_for_operator(runtime, path_id(mitra_id))


@patch(
    "/internal/mitras/{mitra_id:str}",
    dto=JsonObject,
    return_dto=None,
    body=MitraPatch,
    **operators("mitras", "write", PhoneTaken, TotpRequired),
)
async def change_mitra(mitra_id: str, data: dict[str, Any], runtime: Runtime, actor: Actor) -> people.MitraForOperators:
    """Change a mitra.

    A mitra who is deactivated goes offline and is signed out, and so does one whose phone number changes. A new number
    needs a code of the second factor within the last 5 minutes, if the operator has one.
    """
    found = path_id(mitra_id)
    no_nulls(data)
    body = structure(data, MitraPatch)
    change = MitraChange(phone=body.phone, display_name=body.display_name, is_active=body.is_active)
    stepped_up = body.phone is None or await callers.has_stepped_up(runtime, actor)
    await operator_work.change_mitra(runtime, actor, mitra_id=found, change=change, stepped_up=stepped_up)
    return await people.mitra_for_operator(runtime, found)


@post("/internal/mitras/{mitra_id:str}/force-offline", status_code=200, **operators("mitras", "write"))
async def force_offline(mitra_id: str, runtime: Runtime, actor: Actor) -> people.MitraForOperators:
    """Take a mitra offline."""
    found = path_id(mitra_id)
    await operator_work.force_offline(runtime, actor, mitra_id=found)
    return await people.mitra_for_operator(runtime, found)


@get("/internal/mitras/{mitra_id:str}/sums", **operators("payments"))
async def sums(mitra_id: str, runtime: Runtime) -> people.Sums:
    """Return the money of a mitra's chats, and how many they had."""
    return await people.sums_of_mitra(runtime, path_id(mitra_id))


@post(
    "/internal/mitras/{mitra_id:str}/export",
    status_code=200,
    **operators("mitras", "write", and_area="customers.pii", step_up=True),
)
async def export_mitra(mitra_id: str, runtime: Runtime, actor: Actor) -> Response[MitraExport]:
    """Return everything that is stored of a mitra, with the texts that they wrote, for the mitra.

    It has nothing about their customers. The answer comes in parts; if it ends early, its JSON is incomplete.
    """
    found = await export.begin_for_operator(runtime, actor, UserType.MITRA, path_id(mitra_id))
    return export_answer(runtime, UserType.MITRA, found)


@post(
    "/internal/mitras/{mitra_id:str}/erase",
    status_code=202,
    **operators("mitras", "write", MitraStillActive, step_up=True),
)
async def erase_mitra(mitra_id: str, runtime: Runtime, actor: Actor) -> people.MitraForOperators:
    """Erase the personal data of a deactivated mitra.

    Their messages belong to their customers' conversations and stay. This can't be undone. A repeat changes nothing.
    """
    found = path_id(mitra_id)
    await erasure.erase_mitra(runtime, found, Requester(by=RequestedBy.OPERATOR, operator_id=actor.user_id))
    return await people.mitra_for_operator(runtime, found)


ROUTES = [mitras, add_mitra, mitra, change_mitra, force_offline, sums, export_mitra, erase_mitra]
