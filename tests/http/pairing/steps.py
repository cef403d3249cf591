"""Steps of customers and mitras for the tests of pairing and of extensions."""

from collections.abc import Awaitable
from typing import Any

from tests.stack import World
from tools.driving.device import Device, RecordedSocket


def now_in(world: World) -> str:
    """Return the SQL expression of the service time."""
    return f"(SELECT anchor + (statement_timestamp() - anchor) * {world.stack.scale} FROM service_clock)"


# -- what customers and mitras do


def cancelling(customer: Device, payment: dict[str, Any]) -> Awaitable[Any]:
    """Cancel the request."""
    return customer.post("/api/client/chat/cancel", {"payment_request_id": payment["payment_request_id"]})


def falling_back(customer: Device, payment: dict[str, Any]) -> Awaitable[Any]:
    """Fall back to a blast."""
    return customer.post("/api/client/chat/fallback-to-blast", {"payment_request_id": payment["payment_request_id"]})


def starting(customer: Device, payment: dict[str, Any]) -> Awaitable[Any]:
    """Start the pairing through the legacy route."""
    return customer.post("/api/client/chat/request", {"payment_request_id": payment["payment_request_id"]})


def accepting(mitra: Device, session_id: str) -> Awaitable[Any]:
    """Accept as the mitra."""
    return mitra.post(f"/api/mitra/chat-requests/{session_id}/accept")


def rejecting(mitra: Device, session_id: str) -> Awaitable[Any]:
    """Reject as the mitra."""
    return mitra.post(f"/api/mitra/chat-requests/{session_id}/reject")


async def acting(world: World, payment: dict[str, Any], action: str = "refunded") -> Any:
    """Let an operator act on the failed pairing of a request."""
    rows = await world.stack.sql(
        "SELECT id::text FROM pairing_failures WHERE payment_request_id = $1 ORDER BY id DESC LIMIT 1",
        payment["payment_request_id"],
    )
    operator = await world.operator()
    return await operator.call("PATCH", f"/internal/failed-pairings/{rows[0]['id']}", {"operator_action": action})


# -- what users see


async def read_payment(customer: Device, payment: dict[str, Any]) -> dict[str, Any]:
    """Return the current payment request."""
    return await customer.get(f"/api/client/payment/requests/{payment['payment_request_id']}")


async def session_of(client: Device, session_id: str) -> dict[str, Any]:
    """Return the current session."""
    return await client.get(f"/api/shared/chat/sessions/{session_id}")


async def failed(world: World, customer: Device, payment: dict[str, Any]) -> str:
    """Wait until a paid request has failed; return the cause tag."""
    view = await world.until(lambda: read_payment(customer, payment), lambda view: view["status"] == "failed_pairing")
    return view["failure"]["cause_tag"]


async def open_request(mitra: Device, session_id: str) -> dict[str, Any] | None:
    """Return a mitra's open invitation to a session, or None."""
    items = (await mitra.get("/api/mitra/chat-requests"))["items"]
    return next((item for item in items if item["session_id"] == session_id), None)


async def wait_for_invitation(world: World, mitra: Device, session_id: str) -> dict[str, Any]:
    """Wait until a mitra has an open invitation; return it."""
    return await world.until(lambda: open_request(mitra, session_id), bool)


async def responses(world: World, session_id: str) -> dict[str, list[str | None]]:
    """Return each mitra's responses, oldest first."""
    found: dict[str, list[str | None]] = {}
    for row in await world.stack.sql(
        "SELECT mitra_id::text, response FROM chat_request_notifications WHERE session_id = $1 ORDER BY round_number, id",
        session_id,
    ):
        found.setdefault(row["mitra_id"], []).append(row["response"])
    return found


async def failures(world: World, payment: dict[str, Any]) -> list[tuple[str, bool]]:
    """Return the request's failures, oldest first: cause tag, and whether it is superseded."""
    rows = await world.stack.sql(
        "SELECT cause_tag, superseded_at FROM pairing_failures WHERE payment_request_id = $1 ORDER BY id",
        payment["payment_request_id"],
    )
    return [(row["cause_tag"], row["superseded_at"] is not None) for row in rows]


async def earned(world: World, session_id: str) -> list[tuple[str, int]]:
    """Return a session's earnings, oldest first: kind and amount."""
    rows = await world.stack.sql(
        "SELECT type, amount FROM customer_transactions WHERE session_id = $1 ORDER BY created_at, id", session_id
    )
    return [(row["type"], row["amount"]) for row in rows]


async def count_deliveries(world: World, session_id: str, event: str) -> dict[str, int]:
    """Return how many deliveries of an event each side has had. Acknowledged ones are deleted: use silent sockets."""
    rows = await world.stack.sql(
        "SELECT recipient_type, count(*)::int AS n FROM deliveries WHERE session_id = $1 AND event = $2 GROUP BY 1",
        session_id,
        event,
    )
    return {row["recipient_type"]: row["n"] for row in rows}


async def closed(desk: RecordedSocket, session_id: str) -> str:
    """Wait until a mitra learns that an invitation is closed; return the reason."""
    return (await desk.wait("chat_request_closed", where=lambda f: f["session_id"] == session_id))["reason"]


# -- how to reach a state


async def time_is_up(world: World, session_id: str) -> None:
    """End the paid time now, also by the api process's clock; the jobs process may not have recorded it yet."""
    ended = await world.stack.sql(
        f"""UPDATE chat_sessions SET expires_at = {now_in(world)}, warn_at = NULL,
              paired_at = paired_at + ({now_in(world)} - expires_at) WHERE id = $1 AND status = 'active'
            RETURNING expires_at""",
        session_id,
    )
    if ended:
        await world.until(world.service_time, lambda now: now > ended[0]["expires_at"])


async def search_is_over(world: World, session_id: str) -> None:
    """End the time of a search now; the jobs process has not recorded it yet."""
    await world.stack.sql(
        f"""UPDATE chat_sessions SET round_ends_at = {now_in(world)}, search_ends_at = {now_in(world)}
            WHERE id = $1 AND status = 'searching'""",
        session_id,
    )


async def run_out(world: World, party: Device, session_id: str) -> dict[str, Any]:
    """End the paid time and wait for the jobs process; return the session, which has expired."""
    await time_is_up(world, session_id)
    return await world.until(lambda: session_of(party, session_id), lambda view: view["status"] == "expired")


async def end_now(world: World, party: Device, session_id: str) -> dict[str, Any]:
    """End the paid time and let a party end the session; return the session, which is closing."""
    await time_is_up(world, session_id)
    return await party.post(f"/api/shared/chat/sessions/{session_id}/end")


async def friends(world: World, **wish: Any) -> tuple[Device, Device]:
    """Return a customer and a mitra who have chatted before."""
    customer, mitra = await world.customer(), await world.mitra()
    await end_now(world, customer, await world.session(customer, mitra, **wish))
    return customer, mitra


async def returning(world: World, customer: Device, mitra: Device, **wish: Any) -> dict[str, Any]:
    """Create a paid targeted request that has reached its mitra."""
    payment = await world.paid(customer, targeted_mitra_id=mitra.user["id"], **wish)
    await wait_for_invitation(world, mitra, payment["session_id"])
    return payment


async def confirm_silently(world: World, payment: dict[str, Any]) -> None:
    """Confirm the payment as a process does that dies before it starts the pairing."""
    await world.stack.sql(
        f"UPDATE payment_requests SET status = 'confirmed', confirmed_at = {now_in(world)} WHERE id = $1 AND status = 'pending'",
        payment["payment_request_id"],
    )


async def expire_silently(world: World, payment: dict[str, Any]) -> None:
    """Let the time to pay run out, as the sweep records it."""
    await world.stack.sql(
        f"UPDATE payment_requests SET status = 'expired', expires_at = {now_in(world)} WHERE id = $1 AND status = 'pending'",
        payment["payment_request_id"],
    )


async def pay_late(world: World, payment: dict[str, Any]) -> None:
    """Let the payment of an expired request arrive an hour after its deadline."""
    await world.stack.sql(
        "UPDATE payment_requests SET expires_at = expires_at - interval '1 hour', created_at = created_at - interval '2 hours' WHERE id = $1",
        payment["payment_request_id"],
    )
    assert (await world.webhook(payment))[1]["processing_result"] == "late_payment_recorded"
