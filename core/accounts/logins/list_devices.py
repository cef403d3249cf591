"""Reads of the devices on which a user is signed in (docs/product.md#devices)."""

import datetime as dt
from typing import Any

import attrs

from core.base.actor import Actor
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
class Device:
    """A device on which the caller is signed in. `current` is true for the device that sent the request."""

    id: Id
    device_info: DeviceInfo
    created_at: dt.datetime
    last_used_at: dt.datetime | None
    expires_at: dt.datetime
    current: bool


def _device(row: Any, actor: Actor) -> Device:
    values = as_dict(row)
    info = DeviceInfo(**(values.pop("device_info") or {}))
    return Device(**values, device_info=info, current=values["id"] == actor.auth_session_id)


async def devices(runtime: Runtime, actor: Actor, page: Page) -> Items:
    """List the devices on which the caller is signed in, newest first."""
    rows = await runtime.db.fetch(
        PAGE,
        actor.user_type.value,
        actor.user_id,
        runtime.now(),
        page.before_at,
        page.before_id,
        page.limit + 1,
    )
    return cut([_device(row, actor) for row in rows], page, at="created_at")


async def device(runtime: Runtime, actor: Actor, auth_session_id: str) -> Device:
    """Return one of the devices on which the caller is signed in.

    Raises NotFound for an unknown id.
    """
    row = await runtime.db.fetchrow(ONE, actor.user_type.value, actor.user_id, runtime.now(), auth_session_id)
    if row is None:
        raise NotFound
    return _device(row, actor)
