"""Users of a service that fails: how an app retries, and what must hold in the end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp

from tests.stack import World, new_id
from tools.driving.device import Device
from tools.driving.sesi_client import Refused

CREATE = "/api/client/payment/requests"
INSIST_S = 90  # longer than the longest fault plus a restart
AGAIN = ("UNAVAILABLE", "IDEMPOTENCY_IN_FLIGHT", "OTP_EXPIRED")  # the last one occurs where minutes are seconds


async def retry(work: Callable[[], Awaitable[Any]], *, done: tuple[str, ...] = (), timeout: float = INSIST_S) -> Any:
    """Retry a call as an app does while the service is unavailable.

    Refusals whose code is in `done` mean that an earlier attempt took effect: None is returned.
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


async def request(customer: Device, *, key: str | None = None, **wish: Any) -> dict[str, Any]:
    """Create a payment request, repeating it under one idempotency key until there is an answer."""
    headers = {"Idempotency-Key": key or new_id()}
    body = {"duration_minutes": 12, **wish}
    return await retry(lambda: customer.call("POST", CREATE, body, headers=headers))


async def pay(world: World, payment: dict[str, Any], **more: Any) -> str:
    """Send the gateway's call about a payment; return the processing result."""
    return await reported(lambda: world.webhook(payment, **more))


async def reported(call: Callable[[], Awaitable[tuple[int, Any]]]) -> str:
    """Repeat a call of the gateway until it is answered with 200, as the gateway does; return the processing result."""

    async def once() -> Any:
        status, answer = await call()
        if status != 200:
            raise ConnectionError(f"{status} {answer}")
        return answer

    return (await retry(once))["processing_result"]


async def view(customer: Device, payment: dict[str, Any]) -> dict[str, Any]:
    """Return the current payment request."""
    return await retry(lambda: customer.get(f"{CREATE}/{payment['payment_request_id']}"))


async def searched(world: World, customer: Device, payment: dict[str, Any]) -> str:
    """Wait until a payment has its session; return the session's id."""
    found = await world.until(
        lambda: view(customer, payment), lambda seen: seen["session_id"] is not None, timeout=INSIST_S
    )
    return found["session_id"]


async def accept(mitra: Device, session_id: str) -> None:
    """Let the mitra accept a request as soon as it has arrived."""

    async def take() -> None:
        try:
            await mitra.post(f"/api/mitra/chat-requests/{session_id}/accept")
        except Refused as refused:
            if refused.status != 404:  # not invited yet
                raise
            raise ConnectionError("not invited yet") from refused

    await retry(take)


async def paired(world: World, customer: Device, mitra: Device, **wish: Any) -> str:
    """Run a payment up to the accept; return the active session's id."""
    payment = await request(customer, **wish)
    await pay(world, payment)
    session_id = await searched(world, customer, payment)
    await accept(mitra, session_id)
    return session_id


async def goodbye(client: Device, session_id: str) -> None:
    """Say goodbye once."""
    path = f"/api/shared/chat/sessions/{session_id}/closure"
    await retry(lambda: client.post(path, {"message": "sampai jumpa"}), done=("CLOSURE_EXISTS", "SESSION_NOT_CLOSABLE"))


async def stored(world: World, session_id: str) -> list[tuple[int, str, str]]:
    """Return (seq, id, content) of each stored message of a session."""
    rows = await world.stack.sql(
        "SELECT seq, id::text, content FROM chat_messages WHERE session_id = $1::uuid ORDER BY seq", session_id
    )
    return [(row["seq"], row["id"], row["content"]) for row in rows]


async def wait_for_transcript(world: World, phone: Device, session_id: str, *, timeout: float = 20) -> None:
    """Wait until the phone's transcript equals what is stored."""

    def shown() -> list[tuple[int, str, str]]:
        return [(message["seq"], message["id"], message["content"]) for message in phone.transcript(session_id)]

    expected = await stored(world, session_id)
    with contextlib.suppress(TimeoutError):
        await phone.until(lambda: len(shown()) >= len(expected), timeout=timeout)
    if shown() != expected:  # a message on its way may have been stored since
        await world.until(lambda: stored(world, session_id), lambda found: found == shown(), timeout=timeout)


@contextlib.asynccontextmanager
async def phones(*clients: Device) -> AsyncIterator[list[Device]]:
    """Yield chat phones of these clients and close them at the end."""
    made = [await client.start("chat") for client in clients]
    try:
        yield made
    finally:
        for phone in made:
            await phone.stop()


async def whole_session(world: World) -> None:
    """Run a new paid session from payment to goodbye with new users; its paid time is shortened by SQL."""
    customer, mitra = await retry(world.customer), await retry(world.mitra)
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
            await wait_for_transcript(world, one, session_id)


# When the paid time of a session started. Before a rolling deploy the schema may be that of an earlier release.
STARTS = """SELECT column_name AS name FROM information_schema.columns
WHERE table_name = 'chat_sessions' AND column_name IN ('paired_at', 'resumed_at')"""
# The service time by the database's clock: one moment for a whole statement.
NOW = "(SELECT anchor + (now() - anchor) * $1::float8 FROM service_clock)"


async def end_now(world: World, session_ids: list[str], *, column: str = "expires_at", in_s: float = 0.0) -> None:
    """Set a deadline of sessions (by default the end of the paid time) to `in_s` seconds of service time from now."""
    end = f"{NOW} + make_interval(secs => $3)"
    # The paid time keeps its length: the session's start moves back, and its warning counts as sent.
    starts = await world.stack.sql(STARTS) if column == "expires_at" else []
    moved = [f"{row['name']} = {row['name']} + ({end} - expires_at)" for row in starts]
    began = ", ".join(["", *moved, "warn_at = NULL"]) if starts else ""
    # No deadline moves later, and a session that has just ended gets no deadline. While the statement waited for a lock,
    # a message could be stored after a deadline that is ahead now, so a locked session is left out.
    which = f"ARRAY(SELECT id FROM chat_sessions WHERE id = ANY($2::uuid[]) FOR UPDATE{' SKIP LOCKED' if in_s else ''})"
    await world.stack.sql(
        f"UPDATE chat_sessions SET {column} = {end}{began} WHERE id = ANY({which}) AND {column} > {end}",
        world.stack.scale,
        session_ids,
        in_s,
    )
