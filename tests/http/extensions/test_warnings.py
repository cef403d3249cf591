"""The warning 180 s before the end: once for each end that a session is given (docs/product.md#warning)."""

import pytest

from tests.http.extensions.steps import answer_extension, ask_for_extension, chatting, count, wait_for_event
from tests.http.pairing.steps import now_in, run_out, session_of
from tests.stack import World

pytestmark = pytest.mark.anyio


async def three_minutes_left(world: World, session_id: str) -> None:
    """Let time pass until the warning is due."""
    await world.stack.sql(
        f"""UPDATE chat_sessions SET expires_at = {now_in(world)} + interval '180 seconds', warn_at = {now_in(world)},
              paired_at = paired_at + ({now_in(world)} + interval '180 seconds' - expires_at)
            WHERE id = $1 AND warn_at IS NOT NULL""",
        session_id,
    )


async def test_warning_is_sent_once_for_each_end_and_again_after_an_extension(world: World) -> None:
    customer, mitra, session_id = await chatting(world)
    phone, desk = await customer.open("chat"), await mitra.open("chat")
    warned = []
    for n in range(3):
        await three_minutes_left(world, session_id)
        ends = (await session_of(customer, session_id))["expires_at"]
        for socket in (phone, desk):
            frame = await wait_for_event(socket, "session_warning", session_id)
            assert (frame["seconds_left"], frame["expires_at"]) == (180, ends)
        warned.append(ends)
        _, extension = await ask_for_extension(world, customer, session_id)
        await answer_extension(mitra, extension, accept=True)
        for socket in (phone, desk):
            await wait_for_event(socket, "session_resumed", session_id)
            assert count(socket, "session_warning") == n + 1
    assert sorted(set(warned)) == warned


async def test_warning_postponed_by_an_extension_is_not_sent(world: World) -> None:
    customer, mitra, session_id = await chatting(world)
    phone = await customer.open("chat")
    # Four minutes are left: the warning is due in one minute.
    await world.stack.sql(
        f"""UPDATE chat_sessions SET expires_at = {now_in(world)} + interval '4 minutes',
              paired_at = paired_at + ({now_in(world)} + interval '4 minutes' - expires_at),
              warn_at = {now_in(world)} + interval '1 minute' WHERE id = $1""",
        session_id,
    )
    _, extension = await ask_for_extension(world, customer, session_id)
    await answer_extension(mitra, extension, accept=True)
    rows = await world.stack.sql(
        f"SELECT expires_at - warn_at = interval '180 seconds' AS armed, warn_at > {now_in(world)} + interval '12 minutes' AS later "
        "FROM chat_sessions WHERE id = $1",
        session_id,
    )
    assert (rows[0]["armed"], rows[0]["later"]) == (True, True)
    assert count(phone, "session_warning") == 0


async def test_warning_of_one_session_is_not_sent_to_others(world: World) -> None:
    customer, mitra, session_id = await chatting(world)
    other = await world.customer("Eka")
    other_session = await world.session(other, mitra)
    phone, other_phone = await customer.open("chat"), await other.open("chat")
    await three_minutes_left(world, session_id)
    await wait_for_event(phone, "session_warning", session_id)
    await three_minutes_left(world, other_session)
    await wait_for_event(other_phone, "session_warning", other_session)
    assert (count(phone, "session_warning"), count(other_phone, "session_warning")) == (1, 1)


async def test_no_warning_is_sent_while_switched_off(world: World) -> None:
    customer, _, session_id = await chatting(world)
    phone = await customer.open("chat")
    async with world.setting(three_minute_warning_enabled=False):
        assert world.stack.stop("jobs") == 0
        try:
            await three_minutes_left(world, session_id)
        finally:
            world.stack.start("jobs")  # it reads the switch; a running process has it up to a second later
        await world.until(
            lambda: world.stack.sql("SELECT warn_at FROM chat_sessions WHERE id = $1", session_id),
            lambda rows: rows[0]["warn_at"] is None,
        )
    await run_out(world, customer, session_id)
    await wait_for_event(phone, "session_expired", session_id)  # a later event of the same session
    assert count(phone, "session_warning") == 0
