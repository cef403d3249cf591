"""The mitra's answers to paid extensions, and timeouts (docs/product.md#extensions)."""

import datetime as dt

import pytest

from tests.http.extensions.steps import (
    answer_extension,
    ask_for_extension,
    chatting,
    count,
    create_extension_payment,
    ends_at,
    extension_of,
    request_extension,
    wait_for_event,
    wait_for_status,
)
from tests.http.pairing.steps import (
    confirm_silently,
    count_deliveries,
    earned,
    failures,
    now_in,
    read_payment,
    run_out,
    session_of,
)
from tests.stack import World, new_id, open_failure, refused

pytestmark = pytest.mark.anyio

TWELVE = dt.timedelta(minutes=12)


# -- asking the mitra


async def test_paid_extension_is_offered_to_the_mitra_automatically(world: World) -> None:
    customer, mitra, session_id = await chatting(world)
    desk, desk_too, phone = await mitra.open("chat"), await mitra.open("chat"), await customer.open("chat")
    payment, _ = await ask_for_extension(world, customer, session_id, duration_minutes=30)
    frame = await wait_for_event(desk, "extension_requested", session_id)
    extension = frame["extension"]
    assert (await wait_for_event(desk_too, "extension_requested", session_id))["extension"] == extension
    assert (extension["requested_duration_minutes"], extension["requested_price"]) == (30, 27000)
    assert (extension["session_id"], extension["status"]) == (session_id, "pending")
    assert extension["topic_sensitivity"] == "regular"
    requested = (await extension_of(world, payment))["requested_at"]
    assert dt.datetime.fromisoformat(extension["answer_by"]) - requested == dt.timedelta(seconds=60)
    # A socket that connects later finds it in the first frame, on either side.
    for party in (customer, mitra):
        [session] = (await party.open("chat")).frames[0]["sessions"]
        assert (session["id"], session["extension"]) == (session_id, extension)
    # The explicit route gives the same answer, however often it is called.
    for _ in range(2):
        assert await request_extension(customer, session_id, payment) == extension
    await refused(request_extension(mitra, session_id, payment), 403, "FORBIDDEN")
    assert (await read_payment(customer, payment))["status"] == "confirmed"  # not consumed before the mitra approves
    assert count(phone, "extension_requested") == 0


async def test_explicit_request_requires_a_confirmed_payment_of_the_customer(world: World) -> None:
    customer, mitra, session_id = await chatting(world)
    desk = await mitra.open("chat")
    payment = await create_extension_payment(customer, session_id)
    await refused(request_extension(customer, session_id, payment), 409, "PAYMENT_NOT_CONFIRMED")
    await confirm_silently(world, payment)
    stranger = await world.customer("Eka")
    _, _, foreign = await chatting(world)
    await refused(request_extension(stranger, session_id, payment), 404, "NOT_FOUND")
    await refused(request_extension(customer, foreign, payment), 404, "NOT_FOUND")
    await refused(request_extension(customer, session_id, {"payment_request_id": new_id()}), 404, "NOT_FOUND")
    extension = await request_extension(customer, session_id, payment)
    assert (await wait_for_event(desk, "extension_requested", session_id))["extension"] == extension
    headers = {"Idempotency-Key": new_id()}
    path, body = (
        f"/api/shared/chat/sessions/{session_id}/extensions",
        {"payment_request_id": payment["payment_request_id"]},
    )
    for _ in range(2):
        assert await customer.call("POST", path, body, headers=headers) == extension


async def test_explicit_request_with_the_sessions_own_payment_is_404(world: World) -> None:
    customer, _, session_id = await chatting(world)
    rows = await world.stack.sql("SELECT payment_request_id::text FROM chat_sessions WHERE id = $1", session_id)
    await refused(request_extension(customer, session_id, dict(rows[0])), 404, "NOT_FOUND")


# -- approval


async def test_approval_adds_the_minutes_and_consumes_the_payment(world: World) -> None:
    customer, mitra, session_id = await chatting(world)
    desk, phone, phone_too = await mitra.open("chat"), await customer.open("chat"), await customer.open("chat")
    before = await session_of(customer, session_id)
    payment, extension = await ask_for_extension(world, customer, session_id, duration_minutes=30)
    answered = await answer_extension(mitra, extension, accept=True)
    assert (answered["id"], answered["status"]) == (extension["id"], "approved")
    after = await session_of(customer, session_id)
    assert ends_at(after) - ends_at(before) == dt.timedelta(minutes=30)
    assert (after["status"], after["extended_minutes"], after["duration_minutes"]) == ("active", 30, 12)
    assert after["price"] == before["price"]
    for socket in (desk, phone, phone_too):
        resumed = await wait_for_event(socket, "session_resumed", session_id)
        assert resumed["extension_id"] == extension["id"]
        assert (resumed["session"]["expires_at"], resumed["session"]["status"]) == (after["expires_at"], "active")
        assert (await wait_for_event(socket, "extension_resolved", session_id))["extension"] == answered
    view = await read_payment(customer, payment)
    assert (view["status"], view["failure"]) == ("consumed", None)
    assert view["consumed_at"] is not None
    assert await earned(world, session_id) == [("session", 12000), ("extension", 27000)]
    warn_at = (await world.stack.sql("SELECT warn_at FROM chat_sessions WHERE id = $1", session_id))[0][0]
    assert warn_at == ends_at(after) - dt.timedelta(seconds=180)


async def test_approved_extensions_add_up(world: World) -> None:
    customer, mitra, session_id = await chatting(world)
    before = await session_of(customer, session_id)
    for _ in range(3):
        _, extension = await ask_for_extension(world, customer, session_id)
        await answer_extension(mitra, extension, accept=True)
    after = await session_of(mitra, session_id)
    assert (after["extended_minutes"], ends_at(after) - ends_at(before)) == (36, 3 * TWELVE)
    assert await earned(world, session_id) == [("session", 12000)] + [("extension", 12000)] * 3


async def test_approval_after_expiry_makes_the_session_active_again(world: World) -> None:
    customer, mitra, session_id = await chatting(world)
    desk, phone = await mitra.open("chat"), await customer.open("chat")
    assert (await phone.say(session_id, "sebelum"))["type"] == "message_ack"
    await run_out(world, customer, session_id)
    await wait_for_event(phone, "session_expired", session_id)
    assert (await phone.say(session_id, "terlambat"))["code"] == "SESSION_NOT_ACTIVE"
    _, extension = await ask_for_extension(world, customer, session_id)
    await answer_extension(mitra, extension, accept=True)
    after = await session_of(customer, session_id)
    assert (after["status"], after["extended_minutes"], after["ended_at"], after["ended_by"]) == (
        "active",
        12,
        None,
        None,
    )
    rows = await world.stack.sql(
        "SELECT s.grace_ends_at, s.expires_at - e.responded_at AS left FROM chat_sessions s JOIN session_extensions e "
        "ON e.session_id = s.id WHERE s.id = $1",
        session_id,
    )
    assert (rows[0]["left"], rows[0]["grace_ends_at"]) == (TWELVE, None)
    for socket in (desk, phone):
        assert (await wait_for_event(socket, "session_resumed", session_id))["session"]["status"] == "active"
    said = await phone.say(session_id, "lagi")
    assert (said["type"], said["seq"]) == ("message_ack", 2)
    assert (await desk.wait("message", where=lambda f: f["message"]["seq"] == 2))["message"]["content"] == "lagi"


# -- rejection


async def test_rejection_fails_the_payment_and_leaves_the_session_unchanged(world: World) -> None:
    customer, mitra, session_id = await chatting(world)
    desk, phone = await mitra.open("chat"), await customer.open("chat")
    before = await session_of(customer, session_id)
    payment, extension = await ask_for_extension(world, customer, session_id)
    answered = await answer_extension(mitra, extension, accept=False)
    assert answered["status"] == "rejected"
    for socket in (desk, phone):
        assert (await wait_for_event(socket, "extension_resolved", session_id))["extension"] == answered
    assert await session_of(customer, session_id) == before
    view = await read_payment(customer, payment)
    assert (view["status"], view["failure"]) == ("failed_pairing", open_failure("extension_rejected", "rejected"))
    assert await failures(world, payment) == [("extension_rejected", False)]
    assert await earned(world, session_id) == [("session", 12000)]
    assert await count_deliveries(world, session_id, "session_resumed") == {}
    operator = await world.operator()
    listed = await operator.get("/internal/failed-pairings", cause_tag="extension_rejected", limit=200)
    assert payment["payment_request_id"] in [item["payment_request_id"] for item in listed["items"]]


async def test_second_answer_is_extension_resolved(world: World) -> None:
    customer, mitra, session_id = await chatting(world)
    _, extension = await ask_for_extension(world, customer, session_id)
    await answer_extension(mitra, extension, accept=False)
    for accept in (True, False):
        await refused(answer_extension(mitra, extension, accept=accept), 409, "EXTENSION_RESOLVED")


async def test_answer_of_another_mitra_is_404(world: World) -> None:
    customer, mitra, session_id = await chatting(world)
    _, other, foreign = await chatting(world)
    _, extension = await ask_for_extension(world, customer, session_id)
    await refused(answer_extension(other, extension, accept=True), 404, "NOT_FOUND")
    await refused(answer_extension(other, {**extension, "session_id": foreign}, accept=True), 404, "NOT_FOUND")
    await refused(answer_extension(mitra, {**extension, "id": new_id()}, accept=True), 404, "NOT_FOUND")
    await refused(answer_extension(customer, extension, accept=True), 403, "FORBIDDEN")
    assert (await extension_of(world, {"payment_request_id": await payment_of(world, extension)}))[
        "status"
    ] == "pending"


async def payment_of(world: World, extension: dict) -> str:
    rows = await world.stack.sql(
        "SELECT payment_request_id::text FROM session_extensions WHERE id = $1", extension["id"]
    )
    return rows[0][0]


# -- timeout


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize(("action", "status"), [("auto_approve", "auto_approved"), ("reject", "rejected")])
async def test_extension_timeout_applies_the_configured_action(
    world: World, action: str, status: str, ended: bool
) -> None:
    async with world.setting(extension_timeout_seconds=1, extension_default_action_on_timeout=action):
        customer, mitra, session_id = await chatting(world)
        desk, phone = await mitra.open("chat"), await customer.open("chat")
        before = await (run_out(world, customer, session_id) if ended else session_of(customer, session_id))
        payment, extension = await ask_for_extension(world, customer, session_id)
        resolved = await wait_for_event(phone, "extension_resolved", session_id)
        assert (resolved["extension"]["id"], resolved["extension"]["status"]) == (extension["id"], status)
        assert (await wait_for_event(desk, "extension_resolved", session_id))["extension"] == resolved["extension"]
    rows = await world.stack.sql(
        "SELECT responded_at - answer_by AS late, answer_by - requested_at AS time FROM session_extensions WHERE id = $1",
        extension["id"],
    )
    assert rows[0]["late"] >= dt.timedelta(milliseconds=-50)
    assert rows[0]["time"] == dt.timedelta(seconds=1)
    await refused(answer_extension(mitra, extension, accept=True), 409, "EXTENSION_RESOLVED")
    after, view = await session_of(customer, session_id), await read_payment(customer, payment)
    if action == "auto_approve":
        assert (after["status"], after["extended_minutes"], view["status"]) == ("active", 12, "consumed")
        assert (await wait_for_event(phone, "session_resumed", session_id))["extension_id"] == extension["id"]
        assert ended or ends_at(after) - ends_at(before) == TWELVE
        assert await earned(world, session_id) == [("session", 12000), ("extension", 12000)]
    else:
        assert (after["status"], after["extended_minutes"]) == ("expired" if ended else "active", 0)
        assert (view["status"], view["failure"]) == (
            "failed_pairing",
            open_failure("extension_rejected", "not_answered"),
        )


async def test_answer_after_its_deadline_is_refused_without_the_jobs_process(world: World) -> None:
    customer, mitra, session_id = await chatting(world)
    payment, extension = await ask_for_extension(world, customer, session_id)
    assert world.stack.stop("jobs") == 0
    try:
        await world.stack.sql(  # by more than the clocks of the service and of the database differ
            f"UPDATE session_extensions SET answer_by = {now_in(world)} - interval '1 second' WHERE id = $1",
            extension["id"],
        )
        await refused(answer_extension(mitra, extension, accept=False), 409, "EXTENSION_RESOLVED")
        assert (await extension_of(world, payment))["status"] == "pending"
    finally:
        world.stack.start("jobs")
    await wait_for_status(world, payment, "auto_approved")
