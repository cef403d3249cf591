"""Steps of customers who export and erase their data."""

from typing import Any

from tests.http.sign_in.people import ASK, by_phone, device, new_number, proof
from tests.stack import World, new_id
from tools.driving.device import Device

ERASE, EXPORT = "/api/client/auth/me/erase", "/api/client/auth/me/export"
COMPLETED = "SELECT completed_at FROM erasures WHERE user_id = $1"
LEDGER = "SELECT row_to_json(t)::text AS t FROM customer_transactions t WHERE customer_id = $1 ORDER BY id"
MONEY = """SELECT id::text, amount, status, is_first_session_discount, confirmed_at, consumed_at, gateway_invoice_id
  FROM payment_requests WHERE customer_id = $1 ORDER BY id"""


async def phone_customer(world: World, number: str | None = None, *, name: str = "Melati", **headers: str) -> Device:
    """Sign a customer in by phone code and give them a name."""
    made = device(world)
    made._http.headers.update(headers)
    number = number or new_number()
    await pass_cooldown(world, number)
    made._keep(await by_phone(world, made, number))
    made.user = await made.call("PATCH", "/api/client/auth/profile", {"display_name": name})
    return made


async def finish(customer: Device, mitra: Device, session_id: str, *goodbyes: str) -> None:
    """End a session with the goodbyes of both."""
    await customer.post(f"/api/shared/chat/sessions/{session_id}/end")
    for client, message in zip((customer, mitra), goodbyes or ("dadah", "dadah"), strict=True):
        await client.post(f"/api/shared/chat/sessions/{session_id}/closure", {"message": message})


async def say(client: Device, session_id: str, content: str, metadata: dict[str, Any] | None = None) -> Any:
    """Send a message over REST."""
    body = {"client_message_id": new_id(), "content": content, "metadata": metadata}
    return await client.post(f"/api/shared/chat/sessions/{session_id}/messages", body)


async def erase(world: World, customer: Device, number: str) -> dict[str, Any]:
    """Erase a customer with a code to their phone."""
    await pass_cooldown(world, number)
    return await customer.post(ERASE, await proof(world, number))


async def pass_cooldown(world: World, number: str) -> None:
    """Let the pause between two codes pass, also for an erased number, of which only a mark is left."""
    await world.stack.sql(
        "UPDATE otp_requests SET created_at = created_at - interval '10 seconds' WHERE phone = $1 OR phone LIKE '#%'",
        number,
    )


async def second_proof(world: World, number: str) -> dict[str, Any]:
    """Request one more code, after the pause between two codes, and return the body that verifies it."""
    await pass_cooldown(world, number)
    asked = await device(world).post(ASK, {"phone": number})
    return {"otp_request_id": asked["otp_request_id"], "code": await world.stack.inbox.code_of(asked["otp_request_id"])}


async def completed(world: World, customer_id: str) -> None:
    """Wait until an erasure is complete."""
    await world.until(
        lambda: world.stack.sql(COMPLETED, customer_id), lambda rows: rows and rows[0]["completed_at"] is not None
    )


async def money_of(world: World, customer_id: str) -> list[tuple[Any, ...]]:
    """Return what is stored of a customer's money."""
    return [tuple(row) for sql in (LEDGER, MONEY) for row in await world.stack.sql(sql, customer_id)]
