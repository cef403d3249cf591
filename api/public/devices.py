"""Routes for the caller's devices and their push tokens."""

from typing import Any

import attrs
from attrs import validators
from litestar import Request, delete, get, post, put

from api.auth import locale_of, parties
from api.parameters import path_id
from api.request_bodies import Body
from core.accounts.logins import devices as login_devices
from core.accounts.logins import list_devices
from core.base.actor import Actor
from core.base.field_types import Id
from core.base.pages import Items, read_page
from core.deliveries import note_trail
from core.runtime.container import Runtime


@attrs.frozen(kw_only=True)
class PushTokenBody:
    """The push token of this device. Null ends its pushes."""

    push_token: str | None = attrs.field(
        repr=False, validator=validators.optional([validators.min_len(1), validators.max_len(255)])
    )


@get("/api/shared/auth/sessions", **parties())
async def devices(
    runtime: Runtime, actor: Actor, cursor: str | None = None, limit: int | None = None
) -> Items[list_devices.Device]:
    """List the devices on which the caller is signed in, newest first."""
    return await list_devices.devices(runtime, actor, read_page(cursor, limit))


@delete("/api/shared/auth/sessions/{auth_session_id:str}", status_code=200, **parties())
async def revoke_device(auth_session_id: str, runtime: Runtime, actor: Actor) -> list_devices.Device:
    """Sign out one of the caller's devices.

    Its tokens are refused and its sockets are closed within a second.
    """
    found = path_id(auth_session_id)
    device = await list_devices.device(runtime, actor, found)
    await login_devices.revoke_device(runtime, actor, auth_session_id=found)
    return device


@put(
    "/api/shared/push-token",
    status_code=204,
    dto=Body[PushTokenBody],
    return_dto=None,
    headers=("X-Locale",),
    **parties(),
)
async def set_push_token(data: PushTokenBody, request: Request[Any, Any, Any], runtime: Runtime, actor: Actor) -> None:
    """Register this device for pushes.

    The push token is removed from any other device. `X-Locale` is the language of the pushes from now on.
    """
    await login_devices.set_push_token(runtime, actor, push_token=data.push_token, locale=locale_of(request))


@attrs.frozen(kw_only=True)
class PushOpenedBody:
    """The `event_id` of the push by which the user opened the app."""

    event_id: Id


@post("/api/shared/push-opened", status_code=204, dto=Body[PushOpenedBody], return_dto=None, **parties())
async def push_opened(data: PushOpenedBody, runtime: Runtime, actor: Actor) -> None:
    """Report that the user opened the app by a push.

    It is kept in the event's delivery trail, once for a device. An unknown `event_id`, such as that of a push about a
    message, and one of another user are ignored: an app can do nothing about them.
    """
    await note_trail.note_opened(runtime, actor, event_id=data.event_id)


ROUTES = [devices, revoke_device, set_push_token, push_opened]
