"""The steps of an extension: requested by the customer, paid, offered to the mitra, answered."""

import datetime as dt
from collections.abc import Awaitable
from typing import Any

from tests.http.pairing.steps import read_payment
from tests.stack import World, open_failure
from tools.driving.device import Device, RecordedSocket


async def chatting(world: World, **wish: Any) -> tuple[Device, Device, str]:
    """Create an active session; return the customer, the mitra and the session's id."""
    customer, mitra = await world.customer(), await world.mitra()
    return customer, mitra, await world.session(customer, mitra, **wish)


def create_extension_payment(customer: Device, session_id: str, /, **wish: Any) -> Awaitable[Any]:
    """Create the payment request of an extension as the customer."""
    body = {"duration_minutes": 12, "is_extension": True, "session_id": session_id, **wish}
    return customer.post("/api/client/payment/requests", {k: v for k, v in body.items() if v is not None})


def request_extension(customer: Device, session_id: str, payment: dict[str, Any]) -> Awaitable[Any]:
    """Ask the mitra for a paid extension over the explicit route."""
    path = f"/api/shared/chat/sessions/{session_id}/extensions"
    return customer.post(path, {"payment_request_id": payment["payment_request_id"]})


def answer_extension(mitra: Device, extension: dict[str, Any], *, accept: bool) -> Awaitable[Any]:
    """Approve or reject an extension as the mitra."""
    path = f"/api/shared/chat/sessions/{extension['session_id']}/extensions/{extension['id']}/answer"
    return mitra.post(path, {"accept": accept})


async def deactivating(world: World, mitra: Device) -> None:
    """Deactivate a mitra as an operator."""
    operator = await world.operator()
    await operator.call("PATCH", f"/internal/mitras/{mitra.user['id']}", {"is_active": False})


async def extension_of(world: World, payment: dict[str, Any]) -> dict[str, Any] | None:
    """Return the extension of a payment from the database, None before the mitra was asked."""
    rows = await world.stack.sql(
        "SELECT id::text, session_id::text, status, answer_by, requested_at FROM session_extensions WHERE payment_request_id = $1",
        payment["payment_request_id"],
    )
    return dict(rows[0]) if rows else None


async def ask_for_extension(
    world: World, customer: Device, session_id: str, **wish: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Create a paid extension that waits for the mitra's answer; return the payment and the extension."""
    payment = await create_extension_payment(customer, session_id, **wish)
    status, answer = await world.webhook(payment)
    assert (status, answer["processing_result"]) == (200, "confirmed")
    extension = await world.until(lambda: extension_of(world, payment), lambda found: found is not None)
    return payment, extension


async def wait_for_status(world: World, payment: dict[str, Any], status: str) -> dict[str, Any]:
    """Wait until the payment's extension has a status; return the extension."""
    return await world.until(
        lambda: extension_of(world, payment), lambda found: found is not None and found["status"] == status
    )


async def check_safeguard_tripped(
    world: World, customer: Device, payment: dict[str, Any], why: str = "session_ended"
) -> None:
    """Check that the extension is safeguard_tripped and that an operator must decide about its payment."""
    await wait_for_status(world, payment, "safeguard_tripped")
    view = await read_payment(customer, payment)
    assert (view["status"], view["failure"]) == ("failed_pairing", open_failure("extension_safeguard_tripped", why))


def ends_at(session: dict[str, Any]) -> dt.datetime:
    """Return when the session's paid time ends."""
    return dt.datetime.fromisoformat(session["expires_at"])


async def wait_for_event(socket: RecordedSocket, kind: str, session_id: str, **more: Any) -> dict[str, Any]:
    """Wait for an event of a session."""

    def ours(frame: dict[str, Any]) -> bool:
        inner = frame.get("extension") or frame.get("session") or frame
        return session_id in (inner.get("session_id"), inner.get("id"))

    return await socket.wait(kind, where=ours, **more)


def count(socket: RecordedSocket, kind: str) -> int:
    """Return how many frames of a type were received."""
    return sum(frame["type"] == kind for frame in socket.frames)
