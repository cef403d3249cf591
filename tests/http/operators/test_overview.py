"""The overview of the control center, seeded sessions for tests, and cross-origin requests of browsers."""

import datetime as dt
import itertools
import types
import warnings
from collections.abc import Iterator
from typing import Any

import aiohttp
import attrs
import pytest

from api import apps
from core.settings.environment import read
from tests.http.operators.steps import an_operator, audits
from tests.sockets.plain_socket import end_early
from tests.stack import Stack, World, new_id, refused
from tests.verdicts import check_books

pytestmark = pytest.mark.anyio

OVERVIEW, SEED = "/internal/overview", "/internal/_test/seed-history-session"
ORIGIN, STRANGE = "https://desk.example.test", "https://elsewhere.example.test"
SWEEPS = {
    "session expiry", "session warning", "session grace", "pairing round", "pairing wave", "extension answer", "time credit",
    "payment expiry", "pairing start", "price start",
}  # fmt: skip


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """Run a separate service, because all its users are counted and its jobs process is stopped."""
    made = Stack(INTERNAL_CORS_ORIGINS=ORIGIN)
    yield made
    made.close()


def counts(overview: dict[str, Any]) -> dict[str, int]:
    """Return the plain numbers of an overview."""
    others = ("not_set_up", "sweeps", "hours", "failures_oldest_at")
    return {name: value for name, value in overview.items() if name not in others}


async def test_overview_counts_objects_and_reports_overdue_work(world: World, stack: Stack) -> None:
    operator = await world.operator()
    empty = await operator.get(OVERVIEW)
    assert set(counts(empty).values()) == {0}
    assert [(hour["chats"], hour["paid_amount"], hour["failures"]) for hour in empty["hours"]] == [(0, 0, 0)] * 24
    assert empty["failures_oldest_at"] is None
    assert {one["name"] for one in empty["sweeps"]} == SWEEPS
    # One mitra is in a chat and one is free; one is at capacity; one chat is closing, one search runs, one payment is
    # pending.
    busy, free = await world.mitra("Ayu"), await world.mitra("Bima", online=False)
    chatting, ending, leaving, searching, paying = [await world.customer() for _ in range(5)]
    active = await world.session(chatting, busy)
    closing = await world.session(ending, busy)
    await end_early(world, ending, closing)
    left = await world.paid(leaving)
    await leaving.post("/api/client/chat/cancel", {"payment_request_id": left["payment_request_id"]})
    await busy.post("/api/mitra/status/offline")
    await free.post("/api/mitra/status/online")
    await busy.post("/api/mitra/status/online")
    waiting = await world.paid(searching)
    pending = await world.request(paying)
    await world.webhook(pending, token="wrong")  # such a call needs no credentials
    await world.webhook(pending, currency="USD")
    await world.webhook(pending, amount=1)
    seen = await operator.get(OVERVIEW)
    assert counts(seen) == {
        "mitras_online": 2, "mitras_busy": 1, "mitras_free": 1, "mitras_unavailable": 0, "searching": 1, "active": 1, "expired": 0,
        "closing": 1, "absent": 0, "no_reply": 0,
        "failures_open": 1, "failures_open_amount": 12_000, "pending_payments": 1, "confirmed_amount_24h": 4 * 12_000,
        "webhook_errors_last_hour": 2, "operators_locked": 0,
    }  # fmt: skip
    hours = seen["hours"]
    sums = [sum(hour[name] for hour in hours) for name in ("chats", "paid_amount", "failures")]
    assert sums == [2, 4 * 12_000, 1]
    began = [dt.datetime.fromisoformat(hour["at"]) for hour in hours]
    assert {later - earlier for earlier, later in itertools.pairwise(began)} == {dt.timedelta(hours=1)}
    (failure,) = (await operator.get("/internal/failed-pairings"))["items"]
    assert seen["failures_oldest_at"] == failure["created_at"]
    # Each mitra who is online counts once, and one in a chat does not count as free.
    async with world.setting(max_customers_per_mitra=1):
        assert (await operator.get(OVERVIEW))["mitras_free"] == 1
    await busy.post("/api/mitra/status/offline")
    seen = await operator.get(OVERVIEW)
    assert [seen[f"mitras_{kind}"] for kind in ("online", "busy", "free", "unavailable")] == [1, 0, 1, 0]
    await busy.post("/api/mitra/status/online")
    await busy.post(f"/api/shared/chat/sessions/{active}/messages", {"client_message_id": new_id(), "content": "halo"})
    body = {"client_message_id": new_id(), "content": "apa kabar?"}
    await chatting.post(f"/api/shared/chat/sessions/{active}/messages", body)
    assert (await operator.get("/internal/sessions", no_reply="true"))["items"] == []
    sql = "UPDATE chat_messages SET created_at = created_at - interval '6 minutes' WHERE session_id = $1"
    await stack.sql(sql, active)
    (waiting_chat,) = (await operator.get("/internal/sessions", no_reply="true"))["items"]
    assert (waiting_chat["id"], waiting_chat["messages_by_customer"], waiting_chat["messages_by_mitra"]) == (
        active,
        1,
        1,
    )
    assert (await operator.get(OVERVIEW))["no_reply"] == 1
    await operator.call("PATCH", f"/internal/failed-pairings/{failure['id']}", {"operator_action": "refunded"})
    await stack.sql("UPDATE webhook_logs SET received_at = received_at - interval '61 minutes' WHERE amount = '1'")
    seen = await operator.get(OVERVIEW)
    assert (seen["failures_open"], seen["failures_open_amount"], seen["webhook_errors_last_hour"]) == (0, 0, 1)
    # The jobs process is stopped, so every deadline that has passed is reported as overdue.
    assert all(one["overdue"] == 0 for one in seen["sweeps"])
    stack.stop("jobs")
    for statement, one in (
        (
            """UPDATE chat_sessions SET expires_at = now() - interval '100 s', warn_at = now() - interval '280 s',
                 paired_at = paired_at + (now() - interval '100 s' - expires_at) WHERE id = $1""",
            active,
        ),
        ("UPDATE chat_sessions SET grace_ends_at = now() - interval '100 s' WHERE id = $1", closing),
        (
            """UPDATE chat_sessions SET round_ends_at = now() - interval '100 s',
                 wave_ends_at = now() - interval '130 s' WHERE id = $1""",
            waiting["session_id"],
        ),
        (
            "UPDATE payment_requests SET expires_at = now() - interval '160 s' WHERE id = $1",
            pending["payment_request_id"],
        ),
    ):
        await stack.sql(statement, one)
    late = {one["name"]: one for one in (await operator.get(OVERVIEW))["sweeps"]}
    expected = {
        "session expiry": 100, "session warning": 280, "session grace": 100, "pairing round": 100, "pairing wave": 130,
        "payment expiry": 100,
    }  # fmt: skip
    for name in SWEEPS:
        assert late[name]["overdue"] == (name in expected), name
        assert expected.get(name, 0) <= late[name]["late_seconds"] < expected.get(name, 0) + 30, name
    stack.start("jobs")

    async def look() -> Any:
        return (await operator.get(OVERVIEW))["sweeps"]

    await world.until(
        look, lambda sweeps: {one["name"] for one in sweeps if one["overdue"]} <= {"payment expiry"}, timeout=20
    )


# -- seeded sessions


async def test_seeded_session_makes_a_returning_customer(world: World) -> None:
    operator, customer, mitra = await world.operator(), await world.customer(), await world.mitra()
    wish = {"mitra_id": mitra.user["id"], "mode": "chat", "duration_minutes": 12}
    await refused(customer.post("/api/client/chat/returning", wish), 403, "NOT_PREVIOUS_MITRA")
    body = {
        "customer_id": customer.user["id"], "mitra_id": mitra.user["id"], "ended_at": "2026-01-02T03:04:05Z",
        "topics": ["kerja"],
    }  # fmt: skip
    async with operator._http.post(
        own_url(world) + SEED, json=body, headers={"Authorization": f"Bearer {operator.access_token}"}
    ) as answer:
        assert answer.status == 201
        made = await answer.json()
    assert (made["status"], made["ended_at"], made["topics"]) == ("completed", "2026-01-02T03:04:05Z", ["kerja"])
    assert await operator.get(f"/internal/sessions/{made['id']}") == made
    (row,) = (await customer.get("/api/client/chat/history"))["items"]
    assert (row["mitra_id"], row["sessions_count"], row["topics"]) == (mitra.user["id"], 1, ["kerja"])
    assert (await customer.get("/api/client/onboarding-state"))["has_consulted_before"] is True
    payment = await customer.post("/api/client/chat/returning", wish)
    await world.webhook(payment)
    asked = await world.until(lambda: mitra.get("/api/mitra/chat-requests"), lambda seen: len(seen["items"]) == 1)
    assert asked["items"][0]["kind"] == "targeted"
    assert (await mitra.post(f"/api/mitra/chat-requests/{asked['items'][0]['session_id']}/accept"))[
        "status"
    ] == "active"
    assert [one["action"] for one in await audits(world, made["id"])] == ["session.seeded", "session.read"]
    check_books(await world.audit())


def own_url(world: World) -> str:
    return world.stack.addresses.internal


async def test_seed_with_unknown_user_or_future_time_is_refused(world: World) -> None:
    operator, customer, mitra = await world.operator(), await world.customer(), await world.mitra(online=False)
    good = {"customer_id": customer.user["id"], "mitra_id": mitra.user["id"]}
    await refused(operator.post(SEED, {**good, "customer_id": new_id()}), 404, "NOT_FOUND")
    await refused(operator.post(SEED, {**good, "mitra_id": new_id()}), 404, "NOT_FOUND")
    future = (dt.datetime.fromisoformat("2126-01-01T00:00:00+00:00")).isoformat()
    for change in (
        {"ended_at": future}, {"ended_at": "0001-01-01T00:00:00Z"}, {"ended_at": "soon"}, {"ended_at": "2026-01-01"},
        {"customer_id": "x"}, {"topics": ["x" * 65]}, {"topics": ["x"] * 13}, {"price": 1},
    ):  # fmt: skip
        await refused(operator.post(SEED, {**good, **change}), 422, "VALIDATION_ERROR")
    reader = (await an_operator(world, {"sessions": "read"})).client
    await refused(reader.post(SEED, good), 403, "FORBIDDEN")


def paths_of(environment: str) -> set[str]:
    """Return the paths of the internal listener with these settings."""
    settings = read({"DATABASE_URL": "postgres://nowhere/none", "REDIS_URL": "redis://nowhere"})
    runtime: Any = types.SimpleNamespace(
        settings=attrs.evolve(settings, environment=environment), note_overload=lambda: None, clock=None
    )
    with warnings.catch_warnings(action="ignore"):
        app: Any = apps.internal_app(runtime)._app
    return {route.path_format for route in app.routes}


def test_seed_route_is_absent_in_production() -> None:
    assert paths_of("development") - paths_of("production") == {SEED}


# -- cross-origin requests


async def test_only_the_control_center_origin_may_send_browser_requests(stack: Stack) -> None:
    url = stack.addresses.internal + "/internal/config/require_mitra_ping"
    async with aiohttp.ClientSession() as http:
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            ask = {
                "Access-Control-Request-Method": method,
                "Access-Control-Request-Headers": "authorization,content-type",
            }
            async with http.options(url, headers={"Origin": ORIGIN, **ask}) as answer:
                assert answer.status in (200, 204)
                assert answer.headers["Access-Control-Allow-Origin"] == ORIGIN
                assert method in answer.headers["Access-Control-Allow-Methods"]
            async with http.options(url, headers={"Origin": STRANGE, **ask}) as answer:
                assert "Access-Control-Allow-Origin" not in answer.headers
        async with http.get(url, headers={"Origin": ORIGIN}) as answer:
            assert (answer.status, answer.headers["Access-Control-Allow-Origin"]) == (401, ORIGIN)
            assert "X-Server-Time" in answer.headers["Access-Control-Expose-Headers"]
        async with http.get(url, headers={"Origin": STRANGE}) as answer:
            assert "Access-Control-Allow-Origin" not in answer.headers
        public = stack.addresses.public + "/api/shared/config/otp"
        async with http.get(public, headers={"Origin": ORIGIN}) as answer:
            assert (answer.status, "Access-Control-Allow-Origin" in answer.headers) == (200, False)
