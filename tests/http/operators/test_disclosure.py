"""Every read of a customer's phone or e-mail, or of a webhook's body, adds a row to the audit log."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.http.operators.steps import an_operator, audit_count, audits, found, unique
from tests.stack import World, new_id, payment_call, refused
from tools.driving.device import Device

pytestmark = pytest.mark.anyio

LOG, CUSTOMERS, CALLS = "/internal/audit-log", "/internal/customers", "/internal/webhook-logs"


async def known(world: World, name: str, *, phone: bool = True) -> str:
    """Create a customer with an e-mail and, unless `phone` is false, a phone; return the id."""
    customer = await world.customer(name)
    number = "+628120" + f"{int(new_id()[-7:], 16) % 10**7:07d}" if phone else None
    await world.stack.sql(
        "UPDATE customers SET phone = $2, email = $3 WHERE id = $1::text::uuid",
        customer.user["id"], number, f"{unique('melati')}@example.test",
    )  # fmt: skip
    return customer.user["id"]


async def reader(world: World) -> Device:
    """Create an operator who may see phones, e-mails and the webhook log."""
    areas = {"customers": "read", "customers.pii": "read", "webhooks": "read"}
    return (await an_operator(world, areas)).client


async def test_read_of_phone_or_email_adds_an_audit_row_without_them(world: World) -> None:
    client = await reader(world)
    customer = await known(world, unique("Melati"))
    shown = await client.get(f"{CUSTOMERS}/{customer}")
    (row,) = await audits(world, customer)
    assert row["operator_id"] == client.user["id"]
    assert (row["action"], row["before"], row["after"]) == ("customer.read", None, {"fields": ["phone", "email"]})
    only_email = await known(world, unique("Melati"), phone=False)
    await client.get(f"{CUSTOMERS}/{only_email}")
    assert (await audits(world, only_email))[0]["after"] == {"fields": ["email"]}
    text = str(await world.stack.sql("SELECT before, after FROM operator_audit_log"))
    assert shown["phone"] not in text
    assert shown["email"] not in text


async def test_read_without_personal_data_adds_no_audit_row(world: World) -> None:
    name = unique("Melati")
    customer, guest = await known(world, name), (await world.customer(unique("Guest"))).user["id"]
    plain, trusted = (await an_operator(world, {"customers": "read"})).client, await reader(world)
    before = await audit_count(world)
    await plain.get(f"{CUSTOMERS}/{customer}")
    await plain.get(CUSTOMERS, q=name)
    await trusted.get(f"{CUSTOMERS}/{guest}")
    await trusted.get(CUSTOMERS, q=guest)
    await trusted.get(CUSTOMERS, q=unique("nobody"))
    await refused(trusted.get(f"{CUSTOMERS}/{new_id()}"), 404, "NOT_FOUND")
    assert await audit_count(world) == before


async def test_customer_list_adds_one_audit_row_naming_the_customers_shown(world: World) -> None:
    client, root, name = await reader(world), await world.operator(), unique("Melati")
    shown = [await known(world, f"{name} {n}") for n in range(3)]
    guest = (await world.customer(f"{name} guest")).user["id"]
    before = await audit_count(world)
    page = await client.get(CUSTOMERS, q=name, limit=3)
    assert [one["id"] for one in page["items"]] == [guest, *reversed(shown[1:])]
    assert await audit_count(world) == before + 1
    (row,) = (await root.get(LOG, object_id=shown[1], action="customer.read"))["items"]
    assert (row["object_id"], row["object_type"]) == ("list", "customer")
    assert row["after"] == {"fields": ["phone", "email"], "ids": [shown[2], shown[1]]}
    assert await found(root, LOG, object_id=shown[0]) == await found(root, LOG, object_id=guest) == []


async def test_read_of_webhook_body_adds_an_audit_row(world: World) -> None:
    client, root = await reader(world), await world.operator()
    payment = await world.request(await world.customer())
    await world.raw_webhook(payment_call(payment, payer_email="melati@example.test"))
    q = payment["payment_request_id"]
    before = await audit_count(world)
    (bare,) = (await client.get(CALLS, q=q, bodies="false"))["items"]
    assert bare["raw_body"] == ""
    assert await audit_count(world) == before
    (row,) = (await client.get(CALLS, q=q))["items"]
    assert {**row, "raw_body": ""} == bare
    assert json.loads(row["raw_body"])["external_id"] == q
    (listed,) = (await root.get(LOG, object_id=row["id"]))["items"]
    assert (listed["action"], listed["object_id"]) == ("webhook_log.read", "list")
    assert listed["after"] == {"fields": ["raw_body"], "ids": [row["id"]]}
    await client.get(f"{CALLS}/{row['id']}")
    assert [one["after"] for one in await audits(world, row["id"])] == [{"fields": ["raw_body"]}]
    assert "melati" not in str(await world.stack.sql("SELECT after FROM operator_audit_log"))


async def test_session_without_texts_hides_them_and_adds_no_audit_row(world: World) -> None:
    session_id = await world.session(await world.customer(), await world.mitra(), topics=["Rindu rumah"])
    client = (await an_operator(world, {"sessions": "read", "customers.pii": "read"})).client
    before = await audit_count(world)
    assert (await client.get(f"/internal/sessions/{session_id}", texts="false"))["topics"] == ["2 words, hidden"]
    assert await audit_count(world) == before
    assert (await client.get(f"/internal/sessions/{session_id}"))["topics"] == ["Rindu rumah"]
    assert await audit_count(world) == before + 1


@contextlib.asynccontextmanager
async def unwritable(world: World) -> AsyncIterator[None]:
    """Block inserts into the audit log, which can still be read."""
    async with world.stack.transaction() as tx:
        await tx.execute("LOCK TABLE operator_audit_log IN SHARE MODE")
        yield


async def test_read_of_personal_data_is_refused_without_its_audit_row(world: World) -> None:
    client, plain = await reader(world), (await an_operator(world, {"customers": "read"})).client
    name = unique("Melati")
    customer = await known(world, name)
    payment = await world.request(await world.customer())
    await world.webhook(payment, status="PENDING")
    (call,) = await found(client, CALLS, q=payment["payment_request_id"])
    before = await audit_count(world)
    reads: list[tuple[str, dict[str, Any]]] = [
        (f"{CUSTOMERS}/{customer}", {}), (CUSTOMERS, {"q": name}), (f"{CALLS}/{call}", {}),
        (CALLS, {"q": payment["payment_request_id"]}),
    ]  # fmt: skip
    async with unwritable(world):
        assert await found(plain, CUSTOMERS, q=name) == [customer]
        # Each waits for the lock until its time limit.
        await asyncio.gather(*(refused(client.get(path, **query), 503, "UNAVAILABLE") for path, query in reads))
    assert await audit_count(world) == before
    for path, query in reads:
        await client.get(path, **query)
    assert await audit_count(world) == before + len(reads)
