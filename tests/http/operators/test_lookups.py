"""Look-ups for support: customers, sessions, payment requests, webhook calls.

Also confirming a payment by hand, and replaying a call.
"""

import datetime as dt
import json
import unicodedata

import pytest

from core.base.phones import like_numbers
from tests.http.operators.steps import an_operator, answer, at_once, audits, every, found, unique
from tests.scrape import scrape
from tests.stack import World, new_id, open_failure, payment_call, refused
from tools.driving.device import Device

pytestmark = pytest.mark.anyio

SESSIONS, PAYMENTS, CALLS = "/internal/sessions", "/internal/payment-requests", "/internal/webhook-logs"
CALL_FIELDS = {
    "id", "received_at", "source_ip", "external_id", "gateway_invoice_id", "status", "amount", "app_tag", "raw_body",
    "http_status", "processing_result", "processing_error", "replay_of", "calls", "bytes", "body_sha256", "source",
}  # fmt: skip


def moved_by(moment: str, **more: float) -> str:
    """Return a time in the format of the interface, moved by `more`."""
    return (dt.datetime.fromisoformat(moment) + dt.timedelta(**more)).isoformat()


async def with_phone(world: World, customer: Device, phone: str, email: str) -> None:
    """Give a customer a phone and an e-mail, which only some operators may see."""
    await world.stack.sql(
        "UPDATE customers SET phone = $2, email = $3 WHERE id = $1::text::uuid", customer.user["id"], phone, email
    )


# -- customers


async def test_phone_and_email_are_shown_only_with_the_permission(world: World) -> None:
    name = unique("Mel_ati%")
    customer = await world.customer(name)
    phone, email = "+628120" + f"{int(new_id()[-7:], 16) % 10**7:07d}", f"{unique('melati')}@example.test"
    await with_phone(world, customer, phone, email)
    path, mine = "/internal/customers", customer.user["id"]
    plain = (await an_operator(world, {"customers": "read"})).client
    trusted = (await an_operator(world, {"customers": "read", "customers.pii": "read"})).client
    whole = await trusted.get(f"{path}/{mine}")
    assert (whole["phone"], whole["email"], whole["display_name"]) == (phone, email, name)
    masked = await plain.get(f"{path}/{mine}")
    assert (masked["phone"], masked["email"]) == (f"+628****{phone[-2:]}", "m***@example.test")
    assert {**masked, "phone": phone, "email": email} == whole
    for client, expected in ((plain, masked), (trusted, whole)):
        for q in (name, name.lower(), name[2:8], mine, mine.upper()):
            assert (await client.get(path, q=q))["items"] == [expected], q
        assert await found(client, path, q=name.replace("_", "x")) == []  # % and _ have no special meaning
    local = phone[3:]
    notations = (
        phone, phone[1:], f"0{local}", f"0{local[:3]}-{local[3:]}", phone[-8:], f"\u202a+62 {local[:3]}-{local[3:]}\u202c",
        f"+62 0{local}", f"+62 (0){local}", f"0062{local}", f"tel:{phone}", f"0{local[:3]}/{local[3:]}", f"{phone}\u200e",
        f"0{local[:3]}\u2013{local[3:6]}\u00a0{local[6:]}", local.translate({48 + n: 0x660 + n for n in range(10)}),
    )  # fmt: skip
    for q in (*notations, email, email[:12].upper()):
        assert await found(trusted, path, q=q) == [mine], q
        is_whole_number = q in notations and q != phone[-8:]
        assert await found(plain, path, q=q) == ([mine] if is_whole_number else []), q
    only_pii = (await an_operator(world, {"customers.pii": "read"})).client
    await refused(only_pii.get(path), 403, "FORBIDDEN")
    assert mine in await found(trusted, path, q="", limit=200)


def refused_look_ups(world: World) -> float:
    """Return how many look-ups of phone numbers the limit has refused."""
    return scrape(world.stack.ports["INTERNAL"])["sesi_limited_total"].get(("phone_look_ups",), 0)


async def test_look_ups_of_phone_numbers_are_thirty_an_hour_and_each_leaves_a_row_with_a_hash(world: World) -> None:
    customer = await world.customer(unique("Melati"))
    phone = f"+628130{int(new_id()[-7:], 16) % 10**7:07d}"
    await with_phone(world, customer, phone, f"{unique('melati')}@example.test")
    support = await an_operator(world, {"customers": "read", "payments": "read"})
    await refused(support.client.get(CALLS, q=phone), 403, "FORBIDDEN")  # refused before it is looked up
    (seen,) = (await support.client.get("/internal/customers", q=phone))["items"]
    assert seen["phone"] == f"{phone[:4]}****{phone[-2:]}"
    payment = await world.request(customer)
    for path in (PAYMENTS, "/internal/search"):
        answer_ = await support.client.get(path, q=f"0{phone[3:]}")
        rows = answer_["payments"] if path.endswith("search") else answer_["items"]
        assert [row["payment_request_id"] for row in rows] == [payment["payment_request_id"]]
    # A number that no customer has counts, too. Look-ups at the same moment are counted one after the other.
    other = "+6281300000000"
    before = refused_look_ups(world)
    outcomes = await at_once(40, lambda _: support.client.get("/internal/customers", q=other))
    assert [one[0] for one in outcomes].count(200) == 27
    assert {one[1] for one in outcomes if one[0] != 200} == {"RATE_LIMITED"}
    assert refused_look_ups(world) == before + 13
    mine = (
        "SELECT after FROM operator_audit_log WHERE operator_id = $1::text::uuid AND action = 'customer.phone_searched'"
    )
    rows = [json.loads(row["after"]) for row in await world.stack.sql(mine, support.id)]
    assert len(rows) == 30
    assert len({row["phone_hash"] for row in rows}) == 2
    assert phone[3:] not in str(rows)
    assert (await support.client.get("/internal/customers", q=customer.user["display_name"]))["items"]
    trusted = (await an_operator(world, {"customers": "read", "customers.pii": "read"})).client
    assert await found(trusted, "/internal/customers", q=phone) == [customer.user["id"]]


async def test_search_finds_each_kind_by_name_id_invoice_and_amount(world: World) -> None:
    root, name = await world.operator(), unique("Cempaka")
    customer, mitra = await world.customer(name), await world.mitra(unique("Ayu"))
    session_id = await world.session(customer, mitra)
    request_id = (await root.get(f"{SESSIONS}/{session_id}"))["payment_request_id"]
    await root.post(f"{SESSIONS}/{session_id}/end", {"reason": "test"})
    failed = await world.paid(customer)
    await customer.post("/api/client/chat/cancel", {"payment_request_id": failed["payment_request_id"]})

    async def search(q: str, client: Device = root) -> dict[str, list[str]]:
        groups = await client.get("/internal/search", q=q)
        return {
            kind: [row.get("id") or row["payment_request_id"] for row in rows] for kind, rows in groups.items() if rows
        }

    by_name = await search(f" {name.upper()} ")
    (failure_id,) = by_name.pop("failures")
    both = [failed["payment_request_id"], request_id]
    searched = by_name.pop("sessions")
    assert by_name == {"customers": [customer.user["id"]], "payments": both}
    assert session_id in searched
    assert await search(mitra.user["id"]) == {"mitras": [mitra.user["id"]], "sessions": [session_id]}
    found_by_id = await search(failed["payment_request_id"])
    assert (found_by_id["payments"], found_by_id["failures"]) == ([failed["payment_request_id"]], [failure_id])
    assert len(found_by_id["webhook_calls"]) == 1
    assert await search(failure_id) == {"failures": [failure_id]}
    # Operators see the kinds of their areas, each as in its list.
    plain = (await an_operator(world, {"payments": "read"})).client
    assert await search(name, plain) == {"payments": both}
    assert await search(name, (await an_operator(world, {})).client) == {}
    for amount in ("12000", "Rp 12.000", "12,000"):
        rows = await search(amount)
        assert len(rows["payments"]) == min(10, len(rows["payments"]))
        assert rows["payments"][0] == failed["payment_request_id"]
        assert rows["failures"][0] == failure_id
    for q in ("", "  ", "x" * 201):
        await refused(root.get("/internal/search", q=q), 422, "VALIDATION_ERROR")


async def test_payer_in_webhook_body_is_shown_only_with_the_permission(world: World) -> None:
    payment = await world.request(await world.customer())
    payer = {"payer_email": "melati@example.test", "customer": {"given_names": "Melati"}, "account_number": "880123"}
    await world.raw_webhook(payment_call(payment, **payer))
    plain = (await an_operator(world, {"webhooks": "write"})).client
    trusted = (await an_operator(world, {"webhooks": "read", "customers.pii": "read"})).client
    (row,) = (await trusted.get(CALLS, q=payment["payment_request_id"]))["items"]
    assert json.loads(row["raw_body"]) == payment_call(payment, **payer)
    masked = {"payer_email": "***", "customer": {"given_names": "***"}, "account_number": "***"}
    (listed,) = (await plain.get(CALLS, q=payment["payment_request_id"]))["items"]
    replayed = await plain.post(f"{CALLS}/{row['id']}/replay")
    for seen in (listed, await plain.get(f"{CALLS}/{row['id']}"), replayed):
        assert json.loads(seen["raw_body"]) == payment_call(payment, **masked)
    assert {**listed, "raw_body": row["raw_body"]} == row


def test_search_text_with_letters_is_not_treated_as_a_number() -> None:
    assert like_numbers("0812-3456") == ["08123456", "628123456"]
    assert like_numbers("+62 (812) 34.56") == ["628123456"]
    for text in (None, "", "Dewi 5", "  ", "+", "0812x"):
        assert like_numbers(text) == []


@pytest.mark.slow
async def test_names_are_found_in_each_normal_form_and_case(world: World) -> None:
    root = await world.operator()
    name = unique("José Ñandú ЖУК İstanbul Σίσυφος")
    customer, mitra = await world.customer(name), await world.mitra()
    await root.call("PATCH", f"/internal/mitras/{mitra.user['id']}", {"display_name": name})
    session_id = await world.session(customer, mitra)
    spellings = [
        unicodedata.normalize(form, spelled)
        for form in ("NFC", "NFD")
        for spelled in (name, name.upper(), name.replace("İ", "I"), name.lower().replace("i\u0307", "i"), name[5:])
    ]
    # Rows that were stored before names were kept in NFC.
    for stored in ("NFC", "NFD"):
        for table in ("customers", "mitras"):
            await world.stack.sql(
                f"UPDATE {table} SET display_name = $1 WHERE display_name = $2 OR display_name = $3",
                unicodedata.normalize(stored, name), name, unicodedata.normalize("NFD", name),
            )  # fmt: skip
        for q in spellings:
            assert await found(root, "/internal/customers", q=q) == [customer.user["id"]], ascii(q)
            assert await found(root, "/internal/mitras", q=q) == [mitra.user["id"]], ascii(q)
            assert await found(root, SESSIONS, q=q) == [session_id], ascii(q)
            assert len(await found(root, PAYMENTS, by="payment_request_id", q=q)) == 1, ascii(q)
        assert await found(root, "/internal/customers", q=name.replace("é", "e")) == []


async def test_database_folds_characters_as_unicode_does(world: World) -> None:
    signs = [
        chr(code)
        for code in range(0x80, 0x1E944)
        if len(chr(code).casefold()) == 1 and chr(code).casefold() != chr(code)
    ]
    rows = await world.stack.sql(
        "SELECT s.sign, folded(s.sign) = folded(s.small) AS equal FROM unnest($1::text[], $2::text[]) AS s (sign, small)",
        signs, [sign.casefold() for sign in signs],
    )  # fmt: skip
    assert [ascii(row["sign"]) for row in rows if not row["equal"]] == []
    assert len(rows) > 1300


# -- paging


async def test_pages_are_stable_while_new_rows_are_added(world: World) -> None:
    operator = await world.operator()
    name = unique("Page")
    customers = [await world.customer(f"{name} {n}") for n in range(5)]
    payments = [await world.request(customer) for customer in customers]
    for path, by, ids in (
        ("/internal/customers", "id", [one.user["id"] for one in reversed(customers)]),
        (PAYMENTS, "payment_request_id", [one["payment_request_id"] for one in reversed(payments)]),
    ):
        first = await operator.get(path, q=name, limit=2)
        assert [one[by] for one in first["items"]] == ids[:2]
        late = await world.customer(f"{name} late")
        await world.request(late)
        second = await operator.get(path, q=name, limit=2, cursor=first["next_cursor"])
        assert [one[by] for one in second["items"]] == ids[2:4]
        last = await operator.get(path, q=name, limit=2, cursor=second["next_cursor"])
        assert [one[by] for one in last["items"]] == ids[4:]
        assert last["next_cursor"] is None
        await world.stack.sql("UPDATE customers SET display_name = 'gone' WHERE id = $1::text::uuid", late.user["id"])
    for path in ("/internal/customers", PAYMENTS, SESSIONS, CALLS, "/internal/operators", "/internal/roles"):
        for query in ({"limit": 0}, {"limit": 201}, {"limit": "x"}, {"cursor": "x"}, {"cursor": ""}):
            await refused(operator.get(path, **query), 422, "VALIDATION_ERROR")


# -- sessions and payment requests


async def test_sessions_and_payments_are_found_by_names_and_every_id(world: World) -> None:
    operator = await world.operator()
    customer, mitra = await world.customer(unique("Kenanga")), await world.mitra(unique("Wira"))
    session_id = await world.session(customer, mitra)
    (view,) = (await operator.get(SESSIONS, q=session_id))["items"]
    assert await operator.get(f"{SESSIONS}/{session_id}") == view
    payment_id = view["payment_request_id"]
    (payment,) = (await operator.get(PAYMENTS, q=payment_id))["items"]
    assert await operator.get(f"{PAYMENTS}/{payment_id}") == payment
    assert payment["customer"] == {"id": customer.user["id"], "display_name": customer.user["display_name"]}
    assert (payment["status"], payment["session_id"]) == ("consumed", session_id)
    assert payment["gateway_invoice_id"] == f"inv-{payment_id}"
    names = (customer.user["display_name"], customer.user["display_name"].upper()[3:])
    for q in (
        session_id.upper(),
        customer.user["id"],
        mitra.user["id"],
        payment_id,
        *names,
        mitra.user["display_name"],
    ):
        assert await found(operator, SESSIONS, q=q) == [session_id], q
    for q in (payment_id.upper(), customer.user["id"], session_id, payment["gateway_invoice_id"], *names):
        assert await found(operator, PAYMENTS, by="payment_request_id", q=q) == [payment_id], q
    for path in (SESSIONS, PAYMENTS):
        assert await found(operator, path, by="created_at", q=new_id()) == []
        assert await found(operator, path, by="created_at", q=unique("nobody")) == []
        for one in (new_id(), "nonsense"):
            await refused(operator.get(f"{path}/{one}"), 404, "NOT_FOUND")
    assert "content" not in str(view)


async def test_ranges_include_from_and_exclude_to(world: World) -> None:
    operator, customer = await world.operator(), await world.customer(unique("Range"))
    session_id = (await world.paid(customer))["session_id"]
    view = await operator.get(f"{SESSIONS}/{session_id}")
    payment = await operator.get(f"{PAYMENTS}/{view['payment_request_id']}")
    (call,) = (await operator.get(CALLS, q=view["payment_request_id"]))["items"]
    for path, one, at, q in (
        (SESSIONS, session_id, view["created_at"], session_id),
        (PAYMENTS, payment["payment_request_id"], payment["created_at"], payment["payment_request_id"]),
        (CALLS, call["id"], call["received_at"], call["external_id"]),
    ):
        by = "payment_request_id" if path == PAYMENTS else "id"
        after = moved_by(at, microseconds=1)
        for query, expected in (
            ({"from": at}, [one]),
            ({"from": after}, []),
            ({"to": at}, []),
            ({"to": after}, [one]),
            ({"from": at, "to": after}, [one]),
            ({"from": after, "to": at}, []),
        ):
            assert await found(operator, path, by=by, q=q, **query) == expected, (path, query)
        for query in ({"from": "yesterday"}, {"to": "2026-11-21T06:00:00"}, {"from": ""}):
            await refused(operator.get(path, **query), 422, "VALIDATION_ERROR")
    for path, by, status, other in (
        (SESSIONS, "id", "searching", "active"),
        (PAYMENTS, "status", "confirmed", "pending"),
    ):
        assert len(await found(operator, path, by=by, q=customer.user["id"], status=status)) == 1
        assert await found(operator, path, by=by, q=customer.user["id"], status=other) == []
        await refused(operator.get(path, status="odd"), 422, "VALIDATION_ERROR")


# -- confirming by hand


async def test_payment_confirmed_by_hand_starts_its_search_once(world: World) -> None:
    operator, customer = await world.operator(), await world.customer()
    payment = await world.request(customer)
    path = f"{PAYMENTS}/{payment['payment_request_id']}"
    seen = await at_once(6, lambda _: operator.post(f"{path}/confirm"))
    assert sorted(one[0] for one in seen) == [200] + [409] * 5
    assert {one[1] for one in seen if one[0] == 409} == {"PAYMENT_NOT_PENDING"}
    view = await world.until(lambda: operator.get(path), lambda one: one["session_id"] is not None)
    assert (view["status"], view["confirmed_at"] is not None) == ("confirmed", True)
    (row,) = await audits(world, payment["payment_request_id"])
    assert (row["action"], row["operator_id"]) == ("payment.confirmed", operator.user["id"])
    assert (row["before"], row["after"]) == ({"status": "pending"}, {"result": "confirmed"})
    # If the gateway's call comes later, nothing more happens.
    assert (await world.webhook(payment))[1]["processing_result"] == "duplicate"
    for one in (new_id(), "nonsense"):
        await refused(operator.post(f"{PAYMENTS}/{one}/confirm"), 404, "NOT_FOUND")


async def test_payment_confirmed_by_hand_can_be_paired(world: World) -> None:
    operator, customer, mitra = await world.operator(), await world.customer(), await world.mitra()
    payment = await world.request(customer)
    path = f"{PAYMENTS}/{payment['payment_request_id']}"
    await operator.post(f"{path}/confirm")
    asked = await world.until(lambda: mitra.get("/api/mitra/chat-requests"), lambda seen: len(seen["items"]) == 1)
    view = await mitra.post(f"/api/mitra/chat-requests/{asked['items'][0]['session_id']}/accept")
    assert view["status"] == "active"
    assert (await operator.get(path))["status"] == "consumed"


async def test_payment_confirmed_by_hand_that_cannot_pair_fails(world: World) -> None:
    operator, customer = await world.operator(), await world.customer()
    first = await world.request(customer)
    # Confirmed during a live search: inserted by hand, because no route creates such a row.
    await world.webhook(first)
    (copy,) = await world.stack.sql(
        """INSERT INTO payment_requests SELECT (jsonb_populate_record(p, jsonb_build_object('id', $2::text, 'status', 'pending',
             'confirmed_at', null, 'gateway_invoice_id', null))).* FROM payment_requests p WHERE p.id = $1::text::uuid
           RETURNING id::text""",
        first["payment_request_id"],
        new_id(),
    )
    answered = await operator.post(f"{PAYMENTS}/{copy['id']}/confirm")
    assert answered["status"] == "failed_pairing"
    assert answered["failure"] in [open_failure("payment_session_expired", one) for one in ("double", "live_session")]
    (row,) = await audits(world, copy["id"])
    assert row["after"] == {"result": "paid_not_pairable"}
    for status in ("abandoned", "expired"):
        other = await world.customer()
        payment = await world.request(other)
        if status == "abandoned":
            await other.post(f"/api/client/payment/requests/{payment['payment_request_id']}/abandon")
        else:
            await world.webhook(payment, status="EXPIRED")
        path = f"{PAYMENTS}/{payment['payment_request_id']}"
        await refused(operator.post(f"{path}/confirm"), 409, "PAYMENT_NOT_PENDING")
        assert (await operator.get(path))["status"] == status


# -- the gateway's calls


async def test_webhook_calls_are_listed_filtered_and_shown(world: World) -> None:
    operator, customer = await world.operator(), await world.customer()
    payment = await world.request(customer)
    one = payment["payment_request_id"]
    await world.webhook(payment, token="wrong")
    await world.webhook(payment, status="PENDING")
    await world.webhook(payment)
    rows = (await operator.get(CALLS, q=one))["items"]
    assert [row["processing_result"] for row in rows] == ["confirmed", "ignored_status", "unauthorized"]
    assert [row["http_status"] for row in rows] == [200, 200, 401]
    assert set(rows[0]) == CALL_FIELDS
    assert (rows[0]["external_id"], rows[0]["app_tag"], rows[0]["status"]) == (one, "sesi", "PAID")
    assert (rows[0]["amount"], rows[0]["replay_of"]) == (str(payment["amount"]), None)
    assert f'"external_id": "{one}"' in rows[0]["raw_body"]
    assert await operator.get(f"{CALLS}/{rows[0]['id']}") == rows[0]
    assert await found(operator, CALLS, q=f"inv-{one}") == [row["id"] for row in rows]
    assert await found(operator, CALLS, q=one, processing_result="unauthorized") == [rows[2]["id"]]
    assert await found(operator, CALLS, q=one, processing_result="odd") == []
    assert [row["id"] for row in await every(operator, CALLS, limit=1, q=one)] == [row["id"] for row in rows]
    for missing in (new_id(), "nonsense"):
        await refused(operator.get(f"{CALLS}/{missing}"), 404, "NOT_FOUND")
        await refused(operator.post(f"{CALLS}/{missing}/replay"), 404, "NOT_FOUND")


async def test_webhook_call_is_found_by_its_id_and_by_an_id_in_either_case(world: World) -> None:
    operator, customer = await world.operator(), await world.customer()
    payment = await world.request(customer)
    one = payment["payment_request_id"]
    await world.raw_webhook(
        {"id": f"inv-{one}", "external_id": one.upper(), "status": "PAID", "amount": payment["amount"]}
    )
    (call,) = (await operator.get(CALLS, q=one))["items"]
    assert call["external_id"] == one.upper()
    for q in (one.upper(), call["id"], call["id"].upper(), f"inv-{one}"):
        assert await found(operator, CALLS, q=q) == [call["id"]], q


async def test_mitra_is_found_by_any_spelling_of_their_number(world: World) -> None:
    operator = await world.operator()
    number = f"+62813{int(new_id()[-7:], 16) % 10**8:08d}"
    mitra = await operator.post(
        "/internal/mitras", {"phone": number, "display_name": unique("Tari"), "is_active": False}
    )
    for q in (number, "0" + number[3:], f"+62 {number[3:6]}-{number[6:]}", number[5:], mitra["display_name"][1:]):
        assert await found(operator, "/internal/mitras", q=q) == [mitra["id"]], q
    assert await found(operator, "/internal/mitras", q=number + "0") == []
    other = number[:-1] + str((int(number[-1]) + 1) % 10)
    await operator.call("PATCH", f"/internal/mitras/{mitra['id']}", {"phone": other})
    made, changed = await audits(world, mitra["id"])
    assert (made["after"]["phone"], changed["before"]["phone"], changed["after"]["phone"]) == (number, number, other)


async def test_replay_adds_a_row_and_changes_nothing_twice(world: World) -> None:
    operator, customer = await world.operator(), await world.customer()
    payment = await world.request(customer)
    await world.webhook(payment)
    (row,) = (await operator.get(CALLS, q=payment["payment_request_id"]))["items"]
    again = await operator.post(f"{CALLS}/{row['id']}/replay")
    assert (again["processing_result"], again["http_status"], again["replay_of"]) == ("duplicate", 200, row["id"])
    assert (again["raw_body"], again["source_ip"]) == (row["raw_body"], row["source_ip"])
    assert again["received_at"] > row["received_at"]
    third = await operator.post(f"{CALLS}/{again['id']}/replay")
    assert third["replay_of"] == row["id"]
    assert await operator.get(f"{CALLS}/{row['id']}") == row
    for log_id, made in ((row["id"], again["id"]), (again["id"], third["id"])):
        (audit,) = [one for one in await audits(world, log_id) if one["action"] == "webhook.replayed"]
        assert audit["after"] == {"webhook_log_id": made}
    seen = await at_once(5, lambda _: operator.post(f"{CALLS}/{row['id']}/replay"))
    assert {(status, one["processing_result"]) for status, one in seen} == {(200, "duplicate")}


async def test_replay_of_call_without_valid_token_is_refused_while_the_gateway_is_disabled(world: World) -> None:
    operator, customer = await world.operator(), await world.customer()
    payment = await world.request(customer)
    await world.webhook(payment, token="wrong")
    (row,) = (await operator.get(CALLS, q=payment["payment_request_id"]))["items"]
    await refused(operator.post(f"{CALLS}/{row['id']}/replay"), 409, "NOT_REPLAYABLE")
    assert await audits(world, row["id"]) == []
    assert len((await operator.get(CALLS, q=payment["payment_request_id"]))["items"]) == 1


async def test_replayed_failed_call_confirms_by_its_original_time(world: World) -> None:
    """Check a request that expired in between: the money came in time, so it is confirmed and not late."""
    operator, customer = await world.operator(), await world.customer()
    payment = await world.request(customer)
    one = payment["payment_request_id"]
    await world.webhook(payment, status="PENDING")  # a row whose body becomes the failed call's
    (row,) = (await operator.get(CALLS, q=one))["items"]
    await world.stack.sql(
        """UPDATE webhook_logs SET raw_body = convert_to(replace(convert_from(raw_body, 'UTF8'), 'PENDING', 'PAID'), 'UTF8'),
             status = 'PAID', http_status = 500, processing_result = 'error', processing_error = 'Boom',
             received_at = received_at - interval '2 hours' WHERE id = $1::text::uuid""",
        row["id"],
    )
    await world.stack.sql(
        """UPDATE payment_requests SET created_at = created_at - interval '130 minutes',
             expires_at = now() - interval '110 minutes', status = 'expired' WHERE id = $1::text::uuid""",
        one,
    )
    answered = await operator.post(f"{CALLS}/{row['id']}/replay")
    assert (answered["processing_result"], answered["processing_error"]) == ("confirmed", None)
    view = await world.until(lambda: operator.get(f"{PAYMENTS}/{one}"), lambda seen: seen["session_id"] is not None)
    assert view["status"] == "confirmed"


async def test_replay_of_a_replay_keeps_the_original_time(world: World) -> None:
    operator, customer = await world.operator(), await world.customer()
    payment = await world.request(customer)
    one = payment["payment_request_id"]
    await world.webhook(payment, status="PENDING")
    (row,) = (await operator.get(CALLS, q=one))["items"]
    again = await operator.post(f"{CALLS}/{row['id']}/replay")
    await world.stack.sql(
        """UPDATE webhook_logs SET raw_body = convert_to(replace(convert_from(raw_body, 'UTF8'), 'PENDING', 'PAID'), 'UTF8'),
             received_at = received_at - CASE WHEN replay_of IS NULL THEN interval '2 hours' ELSE interval '0' END
           WHERE external_id = $1""",
        one,
    )
    await world.stack.sql(
        """UPDATE payment_requests SET created_at = created_at - interval '130 minutes',
             expires_at = now() - interval '110 minutes', status = 'expired' WHERE id = $1::text::uuid""",
        one,
    )
    answered = await operator.post(f"{CALLS}/{again['id']}/replay")
    assert (answered["processing_result"], answered["replay_of"]) == ("confirmed", row["id"])


async def test_replayed_late_call_is_still_late(world: World) -> None:
    operator, customer = await world.operator(), await world.customer()
    payment = await world.request(customer)
    one = payment["payment_request_id"]
    await customer.post(f"/api/client/payment/requests/{one}/abandon")
    await world.webhook(payment)
    (row,) = (await operator.get(CALLS, q=one))["items"]
    assert row["processing_result"] == "late_payment_recorded"
    assert (await operator.post(f"{CALLS}/{row['id']}/replay"))["processing_result"] == "duplicate"
    status, books = await answer(operator.get("/internal/ledger/audit"))
    assert (status, books["violations"]) == (200, [])
