"""The gateway's webhook, case by case, and the log that keeps every call (docs/product.md#how-a-payment-is-confirmed)."""

import asyncio
import base64
import collections
import datetime as dt
import json
from typing import Any

import pytest

from tests.http.operators.steps import at_once, audits
from tests.stack import CALLBACK_TOKEN, World, new_id, open_failure, payment_call, refused
from tools.driving.device import Addresses, Device
from tools.driving.throwaway import free_port

pytestmark = pytest.mark.anyio

PATH = "/api/shared/payment/webhooks/gateway"
LOG_FIELDS = {
    "id", "received_at", "source_ip", "external_id", "gateway_invoice_id", "status", "amount", "app_tag", "raw_body",
    "http_status", "processing_result", "processing_error", "replay_of", "calls", "bytes", "body_sha256", "source",
}  # fmt: skip


async def log_rows(world: World, mark: str) -> list[dict[str, Any]]:
    """Return the log rows whose body contains `mark`, newest first: no row is older than one without the new mark."""
    operator = await world.operator()
    rows: list[dict[str, Any]] = []
    more: dict[str, Any] = {"limit": 10}
    while True:
        page = await operator.get("/internal/webhook-logs", **more)
        marked = [row for row in page["items"] if mark in row["raw_body"]]
        rows += marked
        if page["next_cursor"] is None or (rows and len(marked) < len(page["items"])):
            return rows
        more["cursor"] = page["next_cursor"]


async def call(world: World, body: Any, *, token: str | None = CALLBACK_TOKEN) -> tuple[int, str, dict[str, Any]]:
    """Call the webhook with a JSON body; return status, result and the log row, which must agree."""
    mark = new_id()
    status, answer = await world.raw_webhook({**body, "mark": mark}, token=token)
    assert set(answer) == {"received", "processing_result"}
    assert answer["received"] is True
    (row,) = await log_rows(world, mark)
    assert (row["http_status"], row["processing_result"]) == (status, answer["processing_result"])
    return status, answer["processing_result"], row


async def state(customer: Device, payment: dict[str, Any]) -> str:
    """Return the payment request's status as its customer sees it."""
    return (await customer.get(f"/api/client/payment/requests/{payment['payment_request_id']}"))["status"]


async def a_pending_payment(world: World, **wish: Any) -> tuple[Device, dict[str, Any]]:
    """Create a customer with a pending request."""
    customer = await world.customer()
    return customer, await world.request(customer, **wish)


async def an_expired_payment(world: World) -> tuple[Device, dict[str, Any]]:
    """Create a customer with a request that the gateway has expired."""
    customer, payment = await a_pending_payment(world)
    assert (await call(world, payment_call(payment, status="EXPIRED")))[:2] == (200, "expired")
    return customer, payment


async def failure_of(world: World, payment: dict[str, Any]) -> dict[str, Any]:
    """Return the one open failure of a payment as operators see it."""
    operator = await world.operator()
    rows = (await operator.get("/internal/failed-pairings", limit=200))["items"]
    (row,) = [row for row in rows if row["payment_request_id"] == payment["payment_request_id"]]
    return row


@pytest.fixture(scope="module", autouse=True)
def began() -> dt.datetime:
    """Return when the first test of this module began: other modules have calls that fail."""
    return dt.datetime.now(dt.UTC)


@pytest.fixture(scope="module")
def repeated() -> list[str]:
    """Return the requests whose calls were repeated after a 500: a busy machine may answer so."""
    return []


@pytest.mark.parametrize("token", [None, "", "wrong", CALLBACK_TOKEN + "x", CALLBACK_TOKEN[:-1], "tok\u00e9n"])
async def test_missing_or_wrong_callback_token_is_401_logged_and_changes_nothing(
    world: World, token: str | None
) -> None:
    customer, payment = await a_pending_payment(world)
    status, result, row = await call(world, payment_call(payment), token=token)
    assert (status, result) == (401, "unauthorized")
    assert row["external_id"] == payment["payment_request_id"]
    assert await state(customer, payment) == "pending"


async def test_callback_token_is_never_stored(world: World) -> None:
    _, payment = await a_pending_payment(world)
    wrong = f"wrong-{new_id()}"
    await call(world, payment_call(payment), token=wrong)
    await call(world, payment_call(payment), token=CALLBACK_TOKEN)
    rows = await world.stack.sql(
        "SELECT token_valid, headers, w::text AS everything FROM webhook_logs w WHERE external_id = $1 ORDER BY received_at",
        payment["payment_request_id"],
    )
    assert [row["token_valid"] for row in rows] == [False, True]
    assert all(wrong not in row["everything"] and CALLBACK_TOKEN not in row["everything"] for row in rows)
    assert all("user-agent" in row["headers"].lower() for row in rows)


async def test_paid_confirms_a_pending_request_and_starts_the_search(world: World) -> None:
    customer, payment = await a_pending_payment(world)
    status, result, row = await call(world, payment_call(payment, payment_method="QR_CODE"))
    assert (status, result) == (200, "confirmed")
    assert set(row) == LOG_FIELDS
    assert (row["external_id"], row["gateway_invoice_id"]) == (
        payment["payment_request_id"],
        f"inv-{payment['payment_request_id']}",
    )
    assert (row["status"], row["amount"], row["app_tag"]) == ("PAID", "12000", "sesi")
    assert (row["source_ip"], row["processing_error"], row["replay_of"]) == ("127.0.0.1", None, None)
    seen = await world.until(
        lambda: customer.get(f"/api/client/payment/requests/{payment['payment_request_id']}"),
        lambda found: found["session_id"] is not None,
    )
    assert seen["status"] == "confirmed"
    assert seen["confirmed_at"] is not None


async def test_settled_confirms_and_is_a_duplicate_after_paid(world: World) -> None:
    _, first = await a_pending_payment(world)
    assert (await call(world, payment_call(first, status="SETTLED")))[:2] == (200, "confirmed")
    _, second = await a_pending_payment(world)
    assert (await call(world, payment_call(second)))[:2] == (200, "confirmed")
    assert (await call(world, payment_call(second, status="SETTLED")))[:2] == (200, "duplicate")


async def test_fifty_concurrent_identical_calls_confirm_once(world: World, repeated: list[str]) -> None:
    customer, payment = await a_pending_payment(world)
    repeated.append(payment["payment_request_id"])
    lost = world.stack.log("api").count("storing a webhook call failed")
    mark = new_id()
    body = payment_call(payment, mark=mark)
    answers: list[tuple[int, Any]] = []

    async def one() -> None:
        """Call, and retry after a 500, as the gateway does when a busy service does not answer in time."""
        status = 500
        while status == 500:
            status, answer = await world.raw_webhook(body)
            answers.append((status, answer))

    async with asyncio.TaskGroup() as group:
        for _ in range(50):
            group.create_task(one())
    results = sorted((status, answer["processing_result"]) for status, answer in answers)
    assert [one for one in results if one != (500, "error")] == [(200, "confirmed")] + [(200, "duplicate")] * 49
    rows = collections.Counter((row["http_status"], row["processing_result"]) for row in await log_rows(world, mark))
    answered = collections.Counter(results)
    assert rows <= answered
    # The database has 0.8 s to store a call. The service goes on without the row, and says so in its own log.
    assert (answered - rows).total() <= world.stack.log("api").count("storing a webhook call failed") - lost
    await world.until(
        lambda: customer.get(f"/api/client/payment/requests/{payment['payment_request_id']}"),
        lambda found: found["session_id"] is not None,
    )
    (chats,) = await world.stack.sql(
        "SELECT count(*) FROM chat_sessions WHERE payment_request_id = $1::text::uuid", payment["payment_request_id"]
    )
    assert chats[0] == 1


async def test_duplicate_does_not_wait_for_locks_on_the_payment(world: World) -> None:
    customer, payment = await a_pending_payment(world)
    await call(world, payment_call(payment))
    async with world.stack.transaction() as holder:
        await holder.execute("SELECT 1 FROM customers WHERE id = $1::uuid FOR UPDATE", customer.user["id"])
        await holder.execute(
            "SELECT 1 FROM payment_requests WHERE id = $1::uuid FOR UPDATE", payment["payment_request_id"]
        )
        assert (await call(world, payment_call(payment)))[:2] == (200, "duplicate")
        assert (await call(world, payment_call(payment, id="inv-of-another")))[:2] == (409, "conflict")
        assert (await call(world, payment_call(payment, status="EXPIRED")))[:2] == (200, "ignored_status")


async def test_paid_after_failed_pairing_is_a_duplicate(world: World) -> None:
    customer, payment = await a_pending_payment(world)
    await call(world, payment_call(payment))
    await customer.post("/api/client/chat/cancel", {"payment_request_id": payment["payment_request_id"]})
    assert await state(customer, payment) == "failed_pairing"
    assert (await call(world, payment_call(payment)))[:2] == (200, "duplicate")
    assert await state(customer, payment) == "failed_pairing"


async def test_paid_after_consumption_is_a_duplicate(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    payment = await world.paid(customer)
    await mitra.post(f"/api/mitra/chat-requests/{payment['session_id']}/accept")
    assert await state(customer, payment) == "consumed"
    assert (await call(world, payment_call(payment)))[:2] == (200, "duplicate")
    assert await state(customer, payment) == "consumed"


async def test_second_invoice_for_a_paid_request_is_a_conflict(world: World) -> None:
    _, payment = await a_pending_payment(world)
    await call(world, payment_call(payment))
    assert (await call(world, payment_call(payment, id="another-invoice")))[:2] == (409, "conflict")
    assert (await call(world, payment_call(payment)))[:2] == (200, "duplicate")


@pytest.mark.parametrize(
    "wrong",
    [
        {"amount": 11999},
        {"amount": 0},
        {"amount": -12000},
        {"amount": 11999, "paid_amount": 12000},
        {"currency": "USD"},
        {"currency": "idr "},
    ],
)
async def test_wrong_amount_or_currency_is_a_conflict_and_changes_nothing(world: World, wrong: dict[str, Any]) -> None:
    customer, payment = await a_pending_payment(world)
    assert (await call(world, payment_call(payment, **wrong)))[:2] == (409, "conflict")
    assert await state(customer, payment) == "pending"


@pytest.mark.parametrize("before", ["pending", "abandoned"])
async def test_short_payment_is_a_conflict_and_a_failed_pairing_of_what_was_paid(world: World, before: str) -> None:
    customer, payment = await a_pending_payment(world)
    request_id = payment["payment_request_id"]
    if before == "abandoned":
        await customer.post(f"/api/client/payment/requests/{request_id}/abandon")
    status, result, row = await call(world, payment_call(payment, paid_amount=5_000))
    assert (status, result, row["processing_error"]) == (409, "conflict", "paid 5000 of 12000: too little")
    assert (await call(world, payment_call(payment, paid_amount=5_000)))[:2] == (200, "duplicate")
    seen = await customer.get(f"/api/client/payment/requests/{request_id}")
    assert (seen["status"], seen["amount"], seen["failure"]["cause_tag"]) == ("failed_pairing", 5_000, "payment_short")
    operator = await world.operator()
    (failure,) = (await operator.get("/internal/failed-pairings", cause_tag="payment_short", limit=1))["items"]
    assert (failure["payment_request_id"], failure["amount"], failure["asked_amount"]) == (request_id, 5_000, 12_000)
    story = await operator.get(f"/internal/payment-requests/{request_id}/timeline")
    assert "Rp 5.000 of Rp 12.000 received." in [entry["text"] for entry in story["entries"]]
    assert "less than the invoice" in story["why_no_chat"]


async def test_short_payment_is_accepted_for_what_it_is_once(world: World) -> None:
    customer, payment = await a_pending_payment(world)
    operator, mitra = await world.operator(), await world.mitra()
    path = f"/internal/payment-requests/{payment['payment_request_id']}"
    await call(world, payment_call(payment, paid_amount=5_000))
    answers = await at_once(5, lambda _: operator.post(f"{path}/confirm"))
    assert sorted(one[0] for one in answers) == [200, 409, 409, 409, 409]
    assert {one[1] for one in answers if one[0] == 409} == {"PAYMENT_NOT_PENDING"}
    asked = await world.until(lambda: mitra.get("/api/mitra/chat-requests"), lambda seen: len(seen["items"]) > 0)
    await mitra.post(f"/api/mitra/chat-requests/{asked['items'][0]['session_id']}/accept")
    seen = await operator.get(path)
    assert (seen["status"], seen["amount"], seen["asked_amount"]) == ("consumed", 5_000, 12_000)
    (earned,) = (await customer.get("/api/client/transactions"))["items"]
    assert earned["amount"] == 5_000
    (row,) = await audits(world, payment["payment_request_id"])
    assert (row["action"], row["after"]) == ("payment.accepted_short", {"amount": 5_000})


async def test_short_payment_that_was_given_back_or_meets_a_session_is_not_accepted(world: World) -> None:
    operator = await world.operator()
    customer, payment = await a_pending_payment(world)
    path = f"/internal/payment-requests/{payment['payment_request_id']}/confirm"
    await call(world, payment_call(payment, paid_amount=5_000))
    await world.session(customer, await world.mitra())
    await refused(operator.post(path), 409, "SESSION_IN_PROGRESS")
    rows = (await operator.get("/internal/failed-pairings", cause_tag="payment_short", limit=1))["items"]
    await operator.call("PATCH", f"/internal/failed-pairings/{rows[0]['id']}", {"operator_action": "refunded"})
    await refused(operator.post(path), 409, "FAILURE_ACTIONED")


@pytest.mark.parametrize("more", [{"amount": 12500}, {"paid_amount": 12500}])
async def test_overpayment_is_confirmed_and_the_difference_is_logged(world: World, more: dict[str, Any]) -> None:
    customer, payment = await a_pending_payment(world)
    status, result, row = await call(world, payment_call(payment, **more))
    assert (status, result) == (200, "confirmed")
    assert "500" in row["processing_error"]
    seen = await customer.get(f"/api/client/payment/requests/{payment['payment_request_id']}")
    assert (seen["status"], seen["amount"]) == ("confirmed", 12000)


@pytest.mark.parametrize("left_out", ["currency", "metadata"])
async def test_missing_currency_or_metadata_is_accepted(world: World, left_out: str) -> None:
    _, payment = await a_pending_payment(world)
    assert (await call(world, payment_call(payment, **{left_out: None})))[:2] == (200, "confirmed")


@pytest.mark.parametrize("left_out", ["id", "external_id", "status", "amount"])
async def test_missing_required_field_is_an_invalid_payload(world: World, left_out: str) -> None:
    customer, payment = await a_pending_payment(world)
    assert (await call(world, payment_call(payment, **{left_out: None})))[:2] == (400, "invalid_payload")
    assert await state(customer, payment) == "pending"


ODD_FIELDS: list[dict[str, Any]] = [
    {"amount": "12000"},
    {"amount": True},
    {"amount": 12000.5},
    {"amount": int("9" * 400)},
    {"amount": float("inf")},
    {"amount": float("nan")},
    {"amount": []},
    {"paid_amount": "12000"},
    {"paid_amount": float("-inf")},
    {"id": 7},
    {"id": ""},
    {"id": "x" * 256},
    {"id": "inv\0"},
    {"id": "inv\ud800"},
    {"id": {}},
    {"status": 1},
    {"status": []},
    {"external_id": True},
    {"external_id": {}},
]


async def test_field_of_wrong_type_or_size_is_an_invalid_payload(world: World) -> None:
    customer, payment = await a_pending_payment(world)
    for odd in ODD_FIELDS:
        assert (await call(world, payment_call(payment, **odd)))[:2] == (400, "invalid_payload"), odd
        assert await state(customer, payment) == "pending", odd


@pytest.mark.parametrize(
    "external_id",
    [
        "",
        17,
        -1.5,
        int("9" * 400),
        "order-17",
        "0",
        "x" * 5000,
        "\0",
        "\ud800",
        "{01a1fcef-e157-7a4e-acaa-e0771d983533}",
        "01a1fcefe1577a6485fea8d41a87748f",
        "💸",
    ],
)
async def test_external_id_that_is_not_a_uuid_is_acknowledged(world: World, external_id: Any) -> None:
    status, result, _ = await call(world, {"id": "i", "external_id": external_id, "status": "PAID", "amount": 1})
    assert (status, result) == (200, "ignored_non_uuid_external_id")


async def test_uppercase_external_id_is_the_same_uuid(world: World) -> None:
    _, payment = await a_pending_payment(world)
    body = payment_call(payment, external_id=payment["payment_request_id"].upper())
    assert (await call(world, body))[:2] == (200, "confirmed")


@pytest.mark.parametrize("app", ["sesi-v1", "", "SESI", 5, ["sesi"], "\ud800"])
async def test_call_for_another_app_is_ignored(world: World, app: Any) -> None:
    customer, payment = await a_pending_payment(world)
    assert (await call(world, payment_call(payment, metadata={"app": app})))[:2] == (200, "ignored_foreign_app")
    assert await state(customer, payment) == "pending"


@pytest.mark.parametrize("metadata", [{}, {"app": None}, {"other": 1}, "sesi", 5, []])
async def test_metadata_without_app_is_accepted(world: World, metadata: Any) -> None:
    _, payment = await a_pending_payment(world)
    assert (await call(world, payment_call(payment, metadata=metadata)))[:2] == (200, "confirmed")


@pytest.mark.parametrize("status_word", ["PAID", "SETTLED", "EXPIRED", "REFUNDED"])
async def test_unknown_external_id_is_404(world: World, status_word: str) -> None:
    unknown = {"payment_request_id": new_id(), "amount": 12000}
    assert (await call(world, payment_call(unknown, status=status_word)))[:2] == (404, "unknown_external_id")


@pytest.mark.parametrize("status_word", ["PENDING", "FAILED", "REFUNDED", "PAID\0", "PAID\ud800", "\uff30AID"])
async def test_unknown_gateway_status_is_ignored(world: World, status_word: str) -> None:
    customer, payment = await a_pending_payment(world)
    assert (await call(world, payment_call(payment, status=status_word)))[1] in ("ignored_status", "invalid_payload")
    assert await state(customer, payment) == "pending"


async def test_expired_call_expires_pending_requests_only(world: World) -> None:
    customer, payment = await an_expired_payment(world)
    assert await state(customer, payment) == "expired"
    assert (await call(world, payment_call(payment, status="EXPIRED")))[:2] == (200, "ignored_status")
    payer, other = await a_pending_payment(world)
    await call(world, payment_call(other))
    assert (await call(world, payment_call(other, status="EXPIRED")))[:2] == (200, "ignored_status")
    assert await state(payer, other) == "confirmed"


async def test_paid_in_time_after_an_expired_call_is_confirmed(world: World) -> None:
    customer, payment = await an_expired_payment(world)
    assert (await call(world, payment_call(payment)))[:2] == (200, "confirmed")
    assert await state(customer, payment) == "confirmed"


@pytest.mark.parametrize(("seconds", "result"), [(60, "confirmed"), (61, "late_payment_recorded")])
async def test_paid_at_up_to_a_minute_after_expiry_is_confirmed(world: World, seconds: int, result: str) -> None:
    customer, payment = await an_expired_payment(world)
    paid_at = dt.datetime.fromisoformat(payment["expires_at"]) + dt.timedelta(seconds=seconds)
    assert (await call(world, payment_call(payment, paid_at=paid_at.isoformat())))[:2] == (200, result)
    assert await state(customer, payment) == ("confirmed" if result == "confirmed" else "failed_pairing")


async def test_unreadable_paid_at_counts_as_the_time_of_receipt(world: World) -> None:
    for odd in ("yesterday", 17, "2020-01-01T00:00:00", {}, "\0"):
        _, payment = await an_expired_payment(world)
        assert (await call(world, payment_call(payment, paid_at=odd)))[:2] == (200, "confirmed")
    for edge in ("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"):
        _, payment = await an_expired_payment(world)
        assert (await call(world, payment_call(payment, paid_at=edge)))[0] == 200


async def test_paid_call_after_the_expiry_sweep_is_confirmed_only_by_paid_at(fast_world: World) -> None:
    world = fast_world
    await world.config("payment_session_timeout_minutes", 1)
    try:
        in_time, payment = await a_pending_payment(world)
        too_late, other = await a_pending_payment(world)
    finally:
        await world.config("payment_session_timeout_minutes", 20)
    expires_at = dt.datetime.fromisoformat(other["expires_at"])

    await world.until(world.service_time, lambda now: now > expires_at + dt.timedelta(seconds=60))
    for customer, request in ((in_time, payment), (too_late, other)):
        await world.until(lambda c=customer, r=request: state(c, r), lambda seen: seen == "expired")
    assert (await call(world, payment_call(payment, paid_at=payment["created_at"])))[:2] == (200, "confirmed")
    assert (await call(world, payment_call(other)))[:2] == (200, "late_payment_recorded")
    assert await state(too_late, other) == "failed_pairing"
    failure = await failure_of(world, other)
    assert (failure["cause_tag"], failure["amount"]) == ("payment_session_expired", other["amount"])
    assert (await call(world, payment_call(other)))[:2] == (200, "duplicate")


async def test_paid_call_for_abandoned_request_is_recorded_as_late(world: World) -> None:
    customer, payment = await a_pending_payment(world)
    await customer.post(f"/api/client/payment/requests/{payment['payment_request_id']}/abandon")
    assert (await call(world, payment_call(payment, paid_at=payment["created_at"])))[:2] == (
        200,
        "late_payment_recorded",
    )
    seen = await customer.get(f"/api/client/payment/requests/{payment['payment_request_id']}")
    assert (seen["status"], seen["failure"]) == ("failed_pairing", open_failure("payment_session_expired", "given_up"))
    assert seen["confirmed_at"] is not None
    assert (await failure_of(world, payment))["amount"] == payment["amount"]


async def test_paid_call_during_another_session_is_paid_not_pairable(world: World) -> None:
    """Expire both requests first: an expired request does not block a second one, and can still be paid."""
    customer, first = await an_expired_payment(world)
    second = await world.request(customer)
    assert (await call(world, payment_call(second)))[:2] == (200, "confirmed")
    assert (await call(world, payment_call(first)))[:2] == (200, "paid_not_pairable")
    assert await state(customer, first) == "failed_pairing"
    failure = await failure_of(world, first)
    assert failure["cause_tag"] == "payment_session_expired"
    assert failure["sub_cause"] in ("double", "live_session")  # before and after the search begins
    operator = await world.operator()
    twins = [await operator.get(f"/internal/payment-requests/{one['payment_request_id']}") for one in (first, second)]
    assert twins[0]["failure_id"] == failure["id"]
    assert twins[0]["twin_id"] == failure["twin_id"] == second["payment_request_id"]
    if failure["sub_cause"] == "double":
        assert twins[1]["twin_id"] == first["payment_request_id"]
    assert (await call(world, payment_call(first)))[:2] == (200, "duplicate")
    assert await state(customer, second) == "confirmed"


async def test_paid_call_for_discount_used_elsewhere_is_paid_not_pairable(world: World) -> None:
    customer = await world.customer()
    first = await world.request(customer, first_session_discount=True)
    await call(world, payment_call(first, status="EXPIRED"))
    second = await world.request(customer, first_session_discount=True)
    assert (await call(world, payment_call(second)))[:2] == (200, "confirmed")
    assert (await call(world, payment_call(first)))[:2] == (200, "paid_not_pairable")
    assert await state(customer, first) == "failed_pairing"


UNREADABLE = {
    "nothing": b"",
    "no JSON": b"hello",
    "half an object": b'{"id": "',
    "array": b"[]",
    "string": b'"x"',
    "number": b"1",
    "null": b"null",
    "not a number": b"NaN",
    "NUL bytes": b"\0\0\0",
    "broken UTF-8": b'{"id": "\xff\xfe"}',
    "a form": b"id=1&status=PAID",
    "a picture": b"\x89PNG\r\n\x1a\n\0\0",
    "deep arrays": b"[" * 30_000,
    "deep objects": b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    "a very long number": b'{"amount": ' + b"9" * 5_000 + b"}",
}


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE.keys())
async def test_unreadable_body_is_an_invalid_payload_and_kept_byte_for_byte(world: World, body: bytes) -> None:
    assert await world.raw_webhook(body) == (400, {"received": True, "processing_result": "invalid_payload"})
    (row,) = await world.stack.sql(
        "SELECT raw_body, http_status, processing_result, truncated FROM webhook_logs ORDER BY received_at DESC, id DESC LIMIT 1"
    )
    assert tuple(row) == (body, 400, "invalid_payload", False)


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/octet-stream", "odd", ""],
)
async def test_webhook_ignores_the_content_type(world: World, content_type: str) -> None:
    customer, payment = await a_pending_payment(world)
    headers = {"X-Callback-Token": CALLBACK_TOKEN, "Content-Type": content_type}
    url = world.stack.addresses.public + PATH
    async with customer._http.post(url, data=json.dumps(payment_call(payment)).encode(), headers=headers) as answer:
        assert (answer.status, (await answer.json())["processing_result"]) == (200, "confirmed")


async def test_body_is_kept_verbatim_in_the_log(world: World) -> None:
    _, payment = await a_pending_payment(world)
    body = (json.dumps(payment_call(payment, note="terima kasih \u00e9 \U0001f4b8"), indent=7) + "\r\n\t ").encode()
    assert (await world.raw_webhook(body))[0] == 200
    (row,) = await world.stack.sql(
        "SELECT raw_body FROM webhook_logs WHERE external_id = $1", payment["payment_request_id"]
    )
    assert row["raw_body"] == body


async def test_repeated_field_in_webhook_takes_the_last_value(world: World) -> None:
    customer, payment = await a_pending_payment(world)
    text = json.dumps(payment_call(payment))
    assert (await world.raw_webhook((text[:-1] + ', "amount": 1}').encode()))[1]["processing_result"] == "conflict"
    assert await state(customer, payment) == "pending"


@pytest.mark.parametrize("extra", [1, 10_000, 1_000_000])
async def test_webhook_body_over_64_kib_is_truncated_flagged_and_413(world: World, extra: int) -> None:
    customer, payment = await a_pending_payment(world)
    bare = len(json.dumps(payment_call(payment, filler="")).encode())
    body = json.dumps(payment_call(payment, filler="x" * (65_536 + extra - bare))).encode()
    assert len(body) == 65_536 + extra
    assert await world.raw_webhook(body) == (413, {"received": True, "processing_result": "invalid_payload"})
    (row,) = await world.stack.sql(
        "SELECT raw_body, truncated, http_status, token_valid FROM webhook_logs ORDER BY received_at DESC, id DESC LIMIT 1"
    )
    assert tuple(row) == (body[:65_536], True, 413, True)
    assert await state(customer, payment) == "pending"


async def test_webhook_body_of_64_kib_is_accepted(world: World) -> None:
    _, payment = await a_pending_payment(world)
    bare = len(json.dumps(payment_call(payment, filler="")).encode())
    body = json.dumps(payment_call(payment, filler="x" * (65_536 - bare))).encode()
    assert len(body) == 65_536
    assert (await world.raw_webhook(body))[1]["processing_result"] == "confirmed"


async def test_webhook_log_is_filtered_by_id_result_and_time(world: World) -> None:
    operator = await world.operator()
    _, payment = await a_pending_payment(world)
    _, _, first = await call(world, payment_call(payment))
    _, _, second = await call(world, payment_call(payment))
    one, invoice = payment["payment_request_id"], f"inv-{payment['payment_request_id']}"

    async def found(**query: Any) -> list[str]:
        return [row["id"] for row in (await operator.get("/internal/webhook-logs", **query))["items"]]

    assert await found(q=one) == await found(q=invoice) == [second["id"], first["id"]]
    assert await found(q=one, processing_result="duplicate") == [second["id"]]
    assert await found(q=one, **{"from": second["received_at"]}) == [second["id"]]
    assert await found(q=one, to=second["received_at"]) == [first["id"]]
    page = await operator.get("/internal/webhook-logs", q=one, limit=1)
    assert [row["id"] for row in page["items"]] == [second["id"]]
    assert await found(q=one, limit=1, cursor=page["next_cursor"]) == [first["id"]]


async def test_call_is_written_to_the_fallback_file_when_the_log_fails(world: World) -> None:
    """Run a second api process with the fallback file, and make the log table unavailable for a moment."""
    stack, public, internal = world.stack, free_port(), free_port()
    folder = stack.root / "fallback"
    stack.start(
        "api", key="api-with-sink", PUBLIC_PORT=str(public), INTERNAL_PORT=str(internal),
        WEBHOOK_FALLBACK_ENABLED="true", WEBHOOK_FALLBACK_DIR=str(folder), WEBHOOK_FALLBACK_NAME="kept",
    )  # fmt: skip
    try:
        stack.wait_ready("api", port=internal)
        customer, payment = await a_pending_payment(world)
        body = json.dumps(payment_call(payment)).encode()
        url = Addresses(public=f"http://127.0.0.1:{public}", internal="", realtime="").public + PATH
        await stack.sql("ALTER TABLE webhook_logs RENAME TO webhook_logs_away")
        try:
            async with customer._http.post(url, data=body, headers={"X-Callback-Token": CALLBACK_TOKEN}) as answer:
                assert (answer.status, (await answer.json())["processing_result"]) == (200, "confirmed")
        finally:
            await stack.sql("ALTER TABLE webhook_logs_away RENAME TO webhook_logs")
    finally:
        assert stack.stop("api-with-sink") == 0
    (file,) = folder.iterdir()
    assert file.name.startswith("kept-")
    (line,) = file.read_text().splitlines()
    kept = json.loads(line)
    assert base64.b64decode(kept["raw_body"]) == body
    assert (kept["external_id"], kept["token_valid"]) == (payment["payment_request_id"], True)
    assert CALLBACK_TOKEN not in line
    assert await state(customer, payment) == "confirmed"


async def test_every_webhook_log_row_has_a_result(world: World, began: dt.datetime, repeated: list[str]) -> None:
    since = "FROM webhook_logs WHERE received_at >= $1"
    (open_rows,) = await world.until(  # a call without a valid token may be answered before its row has a result
        lambda: world.stack.sql(f"SELECT count(*) {since} AND http_status IS NULL", began), lambda rows: not rows[0][0]
    )
    errors = await world.stack.sql(f"SELECT external_id {since} AND processing_result = 'error'", began)
    (all_rows,) = await world.stack.sql(f"SELECT count(*) {since}", began)
    await call(world, {"id": "x"})
    assert (open_rows[0], {row["external_id"] for row in errors} - {*repeated}) == (0, set())
    assert (await world.stack.sql(f"SELECT count(*) {since}", began))[0][0] == all_rows[0] + 1


async def test_one_invoice_confirms_only_one_request(world: World) -> None:
    first, second = await world.customer(), await world.customer("Eka")
    paid, unpaid = await world.request(first), await world.request(second)
    assert (await world.webhook(paid, id="inv-twice-" + paid["payment_request_id"]))[0] == 200
    status, answer = await world.webhook(unpaid, id="inv-twice-" + paid["payment_request_id"])
    assert (status, answer["processing_result"]) == (409, "conflict")
    seen = await second.get(f"/api/client/payment/requests/{unpaid['payment_request_id']}")
    assert seen["status"] == "pending"
