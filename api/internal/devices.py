"""Routes by which operators see the devices of customers and mitras, and sign them out."""

import attrs
from litestar import delete, get, post

from api.auth import operators
from api.parameters import path_id
from api.request_bodies import Body
from core.accounts.customers.rules import LastSignInMethod
from core.accounts.logins import list_devices, sign_off
from core.accounts.logins.list_devices import SignedInDevice
from core.base.actor import Actor, UserType
from core.base.pages import Items, read_page
from core.runtime.container import Runtime


@attrs.frozen(kw_only=True)
class SignOutBody:
    """With `confirm`, an anonymous customer may lose the account for good."""

    confirm: bool = False


@get("/internal/customers/{customer_id:str}/auth-sessions", **operators("customers"))
async def customer_devices(
    customer_id: str, runtime: Runtime, cursor: str | None = None, limit: int | None = None
) -> Items[SignedInDevice]:
    """List the devices on which a customer is signed in, newest first."""
    page, user_id = read_page(cursor, limit), path_id(customer_id)
    return await list_devices.devices_of(runtime, page, user_type=UserType.CUSTOMER, user_id=user_id)


@delete(
    "/internal/customers/{customer_id:str}/auth-sessions/{auth_session_id:str}",
    status_code=204,
    **operators("customers", "write", LastSignInMethod),
)
async def sign_out_customer_device(
    customer_id: str, auth_session_id: str, runtime: Runtime, actor: Actor, *, confirm: bool = False
) -> None:
    """Sign a customer out on one device.

    The last device of an anonymous customer needs `confirm=true`: the account can't be entered again.
    """
    who = sign_off.Devices(
        user_type=UserType.CUSTOMER, user_id=path_id(customer_id), auth_session_id=path_id(auth_session_id)
    )
    await sign_off.by_operator(runtime, actor, who, confirm=confirm)


@post(
    "/internal/customers/{customer_id:str}/sign-out",
    status_code=204,
    dto=Body[SignOutBody],
    return_dto=None,
    **operators("customers", "write", LastSignInMethod),
)
async def sign_out_customer(customer_id: str, data: SignOutBody, runtime: Runtime, actor: Actor) -> None:
    """Sign a customer out on all devices.

    An anonymous customer needs `confirm`: the account can't be entered again.
    """
    who = sign_off.Devices(user_type=UserType.CUSTOMER, user_id=path_id(customer_id))
    await sign_off.by_operator(runtime, actor, who, confirm=data.confirm)


@get("/internal/mitras/{mitra_id:str}/auth-sessions", **operators("mitras"))
async def mitra_devices(
    mitra_id: str, runtime: Runtime, cursor: str | None = None, limit: int | None = None
) -> Items[SignedInDevice]:
    """List the devices on which a mitra is signed in, newest first."""
    page, user_id = read_page(cursor, limit), path_id(mitra_id)
    return await list_devices.devices_of(runtime, page, user_type=UserType.MITRA, user_id=user_id)


@delete(
    "/internal/mitras/{mitra_id:str}/auth-sessions/{auth_session_id:str}",
    status_code=204,
    **operators("mitras", "write"),
)
async def sign_out_mitra_device(mitra_id: str, auth_session_id: str, runtime: Runtime, actor: Actor) -> None:
    """Sign a mitra out on one device. Without another one they go offline."""
    who = sign_off.Devices(
        user_type=UserType.MITRA, user_id=path_id(mitra_id), auth_session_id=path_id(auth_session_id)
    )
    await sign_off.by_operator(runtime, actor, who, confirm=True)


@post(
    "/internal/mitras/{mitra_id:str}/sign-out",
    status_code=204,
    dto=Body[SignOutBody],
    return_dto=None,
    **operators("mitras", "write"),
)
async def sign_out_mitra(mitra_id: str, data: SignOutBody, runtime: Runtime, actor: Actor) -> None:
    """Sign a mitra out on all devices. They go offline."""
    who = sign_off.Devices(user_type=UserType.MITRA, user_id=path_id(mitra_id))
    await sign_off.by_operator(runtime, actor, who, confirm=data.confirm)


ROUTES = [
    customer_devices,
    sign_out_customer_device,
    sign_out_customer,
    mitra_devices,
    sign_out_mitra_device,
    sign_out_mitra,
]
