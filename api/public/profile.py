"""Routes for the caller's own profile."""

import attrs
from litestar import get, patch

from api.auth import customers, mitras
from api.request_bodies import Body, text
from core.accounts.customers import edit as customer_edit
from core.base.actor import Actor
from core.desk import people
from core.runtime.container import Runtime


@attrs.frozen(kw_only=True)
class ProfileBody:
    """The name that mitras see: 1 to 100 characters after trimming white space."""

    display_name: str = text(1, 400)


@get("/api/client/auth/me", **customers())
async def customer_me(runtime: Runtime, actor: Actor) -> people.CustomerView:
    """Return the calling customer."""
    return await people.customer_me(runtime, actor.user_id)


@get("/api/mitra/auth/me", **mitras())
async def mitra_me(runtime: Runtime, actor: Actor) -> people.MitraView:
    """Return the calling mitra."""
    return await people.mitra_me(runtime, actor.user_id)


@patch("/api/client/auth/profile", dto=Body[ProfileBody], return_dto=None, **customers())
async def edit_profile(data: ProfileBody, runtime: Runtime, actor: Actor) -> people.CustomerView:
    """Set the caller's display name."""
    customer = await customer_edit.set_display_name(runtime, actor, display_name=data.display_name)
    return people.customer_view(customer)


ROUTES = [customer_me, mitra_me, edit_profile]
