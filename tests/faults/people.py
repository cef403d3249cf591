"""People of a service that fails: what an app does when a call is not answered, and what must be right in the end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp

from tests.stack import World, new_id
from tools.client import Client, Refused
from tools.phone import Phone

CREATE = "/api/client/payment/requests"
INSIST_S = 90  # longer than the longest fault, and a start behind it
AGAIN = ("UNAVAILABLE", "IDEMPOTENCY_IN_FLIGHT", "OTP_EXPIRED")  # the last where minutes are seconds


async def insist(work: Callable[[], Awaitable[Any]], *, done: tuple[str, ...] = (), timeout: float = INSIST_S) -> Any:
    """Do what an app does while the service is away: try again until it answers.

    Refusals whose code is in `done` say that an earlier try has had its effect: None is returned.
    """
    last: Exception | None = None
    try:
        async with asyncio.timeout(timeout):
            while True:
                try:
                    return await work()
                except (OSError, aiohttp.ClientError, TimeoutError) as error:
                    last = error
                except Refused as error:
                    if error.code in done:
                        return None
                    if error.code not in AGAIN:
                        raise
                    last = error
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"no answer in {timeout} s; last: {last!r}") from last


async def request(customer: Client, *, key: str | None = None, **wish: Any) -> dict[str, Any]:
    """Ask to pay, again and again under one key, until there is an answer."""
    headers = {"Idempotency-Key": key or new_id()}
    body = {"duration_minutes": 12, **wish}
    return await insist(lambda: customer.call("POST", CREATE, body, headers=headers))


async def pay(world: World, payment: dict[str, Any], **more: Any) -> str:
    """The gateway calls until it is answered with 200; returns the processing result."""

    async def call() -> Any:
        status, answer = await world.webhook(payment, **more)
        if status != 200:
            raise ConnectionError(f"{status} {answer}")
        return answer

    return (await insist(call))["processing_result"]


async def view(customer: Client, payment: dict[str, Any]) -> dict[str, Any]:
    """A payment request as it stands."""
    return await insist(lambda: customer.get(f"{CREATE}/{payment['payment_request_id']}"))


async def searched(world: World, customer: Client, payment: dict[str, Any]) -> str:
    """Wait until a payment has its session; return the session's id."""
    found = await world.until(
        lambda: view(customer, payment), lambda seen: seen["session_id"] is not None, timeout=INSIST_S
    )
    return found["session_id"]


async def accept(mitra: Client, session_id: str) -> None:
    """The mitra takes a request, as soon as it has reached her."""

    async def take() -> None:
        try:
            await mitra.post(f"/api/mitra/chat-requests/{session_id}/accept")
        except Refused as refused:
            if refused.status != 404:  # not invited yet
                raise
            raise ConnectionError("not invited yet") from refused

    await insist(take)


async def paired(world: World, customer: Client, mitra: Client, **wish: Any) -> str:
    """An active session's id, from a payment to an accept."""
    payment = await request(customer, **wish)
    await pay(world, payment)
    session_id = await searched(world, customer, payment)
    await accept(mitra, session_id)
    return session_id


async def goodbye(client: Client, session_id: str) -> None:
    """Say goodbye, once."""
    path = f"/api/shared/chat/sessions/{session_id}/closure"
    await insist(
        lambda: client.post(path, {"message": "sampai jumpa"}), done=("CLOSURE_EXISTS", "SESSION_NOT_CLOSABLE")
    )


async def stored(world: World, session_id: str) -> list[tuple[int, str, str]]:
    """What the database has of a session: place, id and words of each message."""
    rows = await world.stack.sql(
        "SELECT seq, id::text, content FROM chat_messages WHERE session_id = $1::uuid ORDER BY seq", session_id
    )
    return [(row["seq"], row["id"], row["content"]) for row in rows]


async def shows(world: World, phone: Phone, session_id: str, *, timeout: float = 20) -> None:
    """The phone's transcript becomes what the database has."""
    expected = await stored(world, session_id)
    with contextlib.suppress(TimeoutError):
        await phone.until(lambda: len(phone.transcript(session_id)) >= len(expected), timeout=timeout)
    assert [(m["seq"], m["id"], m["content"]) for m in phone.transcript(session_id)] == expected


@contextlib.asynccontextmanager
async def phones(*clients: Client) -> AsyncIterator[list[Phone]]:
    """Chat phones of these clients, put away in the end."""
    made = [await Phone(client).start() for client in clients]
    try:
        yield made
    finally:
        for phone in made:
            await phone.stop()


async def whole_session(world: World) -> None:
    """A new paid session from payment to goodbye, by people who have just come; its time is shortened by hand."""
    customer, mitra = await insist(world.customer), await insist(world.mitra)
    async with phones(customer, mitra) as (phone, desk):
        session_id = await paired(world, customer, mitra)
        await phone.say(session_id, "halo")
        await desk.until(lambda: len(desk.transcript(session_id)) == 1)
        await desk.say(session_id, "hai")
        await end_now(world, [session_id])
        assert await phone.wait("session_expired", where=lambda f: f["session"]["id"] == session_id) is not None
        await goodbye(customer, session_id)
        await goodbye(mitra, session_id)
        assert await desk.wait("session_completed", where=lambda f: f["session"]["id"] == session_id) is not None
        for one in (phone, desk):
            await shows(world, one, session_id)


# The service time, from the database's clock: one moment for a whole statement.
NOW = "(SELECT anchor + (now() - anchor) * $1::float8 FROM service_clock)"


async def end_now(world: World, session_ids: list[str], *, column: str = "expires_at", in_s: float = 0.0) -> None:
    """A deadline of sessions, the end of their paid time, comes in so many seconds of service time."""
    end = f"{NOW} + make_interval(secs => $3)"
    # Paid time is not shortened: the session began that much earlier, and its warning is over.
    began = f", paired_at = paired_at + ({end} - expires_at), warn_at = NULL" if column == "expires_at" else ""
    # No deadline is put off, and none is given to a session that has none any more, because it has just ended.
    await world.stack.sql(
        f"UPDATE chat_sessions SET {column} = {end}{began} WHERE id = ANY($2::uuid[]) AND {column} > {end}",
        world.stack.scale,
        session_ids,
        in_s,
    )
