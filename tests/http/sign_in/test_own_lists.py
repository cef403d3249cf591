"""A customer's lists of payment requests, sessions and transactions (docs/product.md#the-callers-ids).

They cover all of the caller's ids, newest first, in pages.
"""

from typing import Any

import pytest

from tests.http.operators.steps import every
from tests.http.pairing.steps import cancelling, end_now
from tests.http.sign_in.people import anonymous, by_phone, new_number, store_tokens
from tests.stack import World, refused

pytestmark = pytest.mark.anyio
PAYMENTS, SESSIONS, TRANSACTIONS = (
    "/api/client/payment/requests",
    "/api/client/chat/sessions",
    "/api/client/transactions",
)


async def test_lists_after_merge_include_anonymous_objects_and_no_foreign_ones(world: World) -> None:
    number = new_number()
    first = await anonymous(world)
    store_tokens(first, await by_phone(world, first, number))
    mitra, other_mitra = await world.mitra(), await world.mitra("Bima", online=False)
    second = await anonymous(world)
    chat = await world.session(second, mitra)
    await end_now(world, second, chat)
    given_up = await world.request(second)
    left = await world.paid(second)
    await cancelling(second, left)
    phone = store_tokens(second, await by_phone(world, second, number))
    own = await world.session(phone, mitra)
    await end_now(world, phone, own)
    stranger = await anonymous(world)
    foreign = await world.session(stranger, mitra)

    payments = await every(phone, PAYMENTS, limit=2)
    assert [one["status"] for one in payments] == ["consumed", "failed_pairing", "abandoned", "consumed"]
    assert [one["session_id"] for one in payments] == [own, left["session_id"], None, chat]
    assert payments[1]["failure"]["cause_tag"] == "customer_cancelled"
    for one in payments:
        assert one == await phone.get(f"{PAYMENTS}/{one['payment_request_id']}")
    assert payments[2]["payment_request_id"] == given_up["payment_request_id"]

    sessions = await every(phone, SESSIONS, limit=1)
    assert [one["id"] for one in sessions] == [own, left["session_id"], chat]
    for one in sessions:
        assert one == await phone.get(f"/api/shared/chat/sessions/{one['id']}")
    assert [one["id"] for one in await every(phone, SESSIONS, limit=1, mitra_id=mitra.user["id"])] == [own, chat]
    assert await every(phone, SESSIONS, limit=1, mitra_id=other_mitra.user["id"]) == []
    assert [one["id"] for one in await every(phone, SESSIONS, limit=1, status="closing")] == [own, chat]
    assert await every(phone, SESSIONS, limit=9, status="cancelled", mitra_id=mitra.user["id"]) == []
    assert [one["id"] for one in await every(phone, SESSIONS, limit=9, status="cancelled")] == [left["session_id"]]

    transactions = await every(phone, TRANSACTIONS, limit=1)
    assert [(one["type"], one["amount"], one["session_id"]) for one in transactions] == [
        ("session", 12000, own), ("session", 12000, chat),
    ]  # fmt: skip
    assert set(transactions[0]) == {"id", "type", "amount", "session_id", "created_at"}

    assert [one["id"] for one in await every(stranger, SESSIONS, limit=9)] == [foreign]
    assert len(await every(stranger, PAYMENTS, limit=9)) == len(await every(stranger, TRANSACTIONS, limit=9)) == 1
    await end_now(world, stranger, foreign)


async def test_rows_with_equal_times_appear_on_exactly_one_page(world: World) -> None:
    customer = await anonymous(world)
    for _ in range(5):
        await world.request(customer)
    await world.stack.sql(
        """UPDATE payment_requests SET created_at = (SELECT min(created_at) FROM payment_requests WHERE customer_id = $1)
           WHERE customer_id = $1""",
        customer.user["id"],
    )
    found = [one["payment_request_id"] for one in await every(customer, PAYMENTS, limit=2)]
    assert len(found) == 5
    assert found == sorted(found, reverse=True)
    assert len({*found}) == 5


@pytest.mark.parametrize(
    ("path", "query"),
    [
        (PAYMENTS, {"limit": 201}),
        (SESSIONS, {"limit": 0}),
        (TRANSACTIONS, {"cursor": "none of ours"}),
        (SESSIONS, {"mitra_id": "Ayu"}),
        (SESSIONS, {"status": "over"}),
    ],
)
async def test_invalid_list_query_is_422(world: World, path: str, query: dict[str, Any]) -> None:
    customer = await anonymous(world)
    error = await refused(customer.get(path, **query), 422, "VALIDATION_ERROR")
    assert [field["field"] for field in error["details"]["fields"]] == list(query)
