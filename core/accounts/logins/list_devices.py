"""Reads of the devices on which a user is signed in (docs/product.md#devices)."""

import datetime as dt
from typing import Any

import attrs

from core.accounts.logins import store as logins
from core.base.actor import Actor, UserType
from core.base.errors import NotFound
from core.base.field_types import Id
from core.base.pages import Items, Page, cut
from core.runtime.container import Runtime
from core.storage import sql_files
from core.storage.records import as_dict

SQL = sql_files.load(__file__)
PAGE = f"""{SQL["devices"]}
  AND ($4::timestamptz IS NULL OR (created_at, id) < ($4, $5::uuid))
ORDER BY created_at DESC, id DESC
LIMIT $6"""
ONE = f"""{SQL["devices"]}
  AND id = $4"""


@attrs.frozen(kw_only=True)
class DeviceInfo:
    """What the app reported about its device at sign-in."""

    user_agent: str | None = None
    platform: str | None = None
    app_version: str | None = None


@attrs.frozen(kw_only=True)
class SignedInDevice:
    """A device on which a user is signed in, as operators see it."""

    id: Id
    device_info: DeviceInfo
    created_at: dt.datetime
    last_used_at: dt.datetime | None
    expires_at: dt.datetime


@attrs.frozen(kw_only=True)
class Device(SignedInDevice):
    """A device on which the caller is signed in. `current` is true for the device that sent the request."""

    current: bool


def _values(row: Any) -> dict[str, Any]:
    values = as_dict(row)
    return {**values, "device_info": DeviceInfo(**(values["device_info"] or {}))}


def _device(row: Any, actor: Actor) -> Device:
    values = _values(row)
    return Device(**values, current=values["id"] == actor.auth_session_id)


async def devices(runtime: Runtime, actor: Actor, page: Page) -> Items:
    """List the devices on which the caller is signed in, newest first."""
    rows = await _page(runtime, actor.user_type, actor.user_id, page)
    return cut([_device(row, actor) for row in rows], page, at="created_at")


async def _page(runtime: Runtime, user_type: UserType, user_id: str, page: Page) -> list[Any]:
    """Return the rows of a page and one more."""
    before = (page.before_at, page.before_id)
    return await runtime.db.fetch(PAGE, user_type.value, user_id, runtime.now(), *before, page.limit + 1)


async def devices_of(runtime: Runtime, page: Page, *, user_type: UserType, user_id: str) -> Items[SignedInDevice]:
    """List the devices on which a customer or mitra is signed in, newest first. Raises NotFound for an unknown user."""
    if not await logins.user_exists(runtime.db, user_type, user_id):
        raise NotFound
    rows = await _page(runtime, user_type, user_id, page)
    return cut([SignedInDevice(**_values(row)) for row in rows], page, at="created_at")


async def device(runtime: Runtime, actor: Actor, auth_session_id: str) -> Device:
    """Return one of the devices on which the caller is signed in.

    Raises NotFound for an unknown id.
    """
    row = await runtime.db.fetchrow(ONE, actor.user_type.value, actor.user_id, runtime.now(), auth_session_id)
    if row is None:
        raise NotFound
    return _device(row, actor)
