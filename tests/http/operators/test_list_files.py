"""Every list of operators as a CSV file: all rows, one file at a time, masked, and noted in the audit log."""

import asyncio
import csv
import io
from typing import Any

import aiohttp
import pytest

from api.apps import INTERNAL
from api.route_signatures import columns_of
from tests.http.operators.steps import SignedInOperator, an_operator, audits, every, unique
from tests.stack import World
from tools.driving.device import Device

pytestmark = pytest.mark.anyio

LISTS = {
    path: columns
    for handler in INTERNAL
    if handler.http_methods == {"GET"} and (columns := columns_of(handler)) is not None
    for path in handler.paths
    if "{" not in path
}
MITRAS = "/internal/mitras"
ADDED = """WITH added AS (
    INSERT INTO mitras (id, phone, display_name, is_active, created_at)
    SELECT gen_random_uuid(), '+6289' || $2 || lpad(n::text, 4, '0'), $1, false,
      '2026-01-01'::timestamptz + n % 7 * interval '1 s'
    FROM generate_series(1, $3) AS n
    RETURNING id
  ) INSERT INTO mitra_online_status (id, mitra_id, is_online) SELECT gen_random_uuid(), id, false FROM added"""
HELD = """INSERT INTO cluster_leases (name, holder, until_real_at) VALUES ($1, gen_random_uuid(), now() + $2 * interval '1 s')
  ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until_real_at = excluded.until_real_at"""

WAITING = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'"


async def answered(client: Device, path: str, **query: Any) -> tuple[aiohttp.ClientResponse, str]:
    """Ask for a file; return the answer and its text."""
    headers = {"Authorization": f"Bearer {client.access_token}", "Accept": "text/csv"}
    async with client._http.get(client._base + path, params=query, headers=headers) as answer:
        return answer, await answer.text("utf-8")


async def file_of(client: Device, path: str, **query: Any) -> list[list[str]]:
    """Return the cells of a list's file."""
    answer, text = await answered(client, path, **query)
    assert answer.status == 200, text
    return list(csv.reader(io.StringIO(text, newline="")))


async def add_mitras(world: World, count: int, name: str) -> None:
    """Add inactive mitras with the same name."""
    digits = str(int(unique("")[1:], 16))[-4:].rjust(4, "0")
    await world.stack.sql(ADDED, name, digits, count)


def lease_of(operator: SignedInOperator) -> str:
    return f"file:{operator.id.replace('-', '')}"


@pytest.mark.parametrize("path", LISTS)
async def test_every_list_is_a_file_with_the_names_of_its_fields(world: World, path: str) -> None:
    operator = await world.operator()
    await world.paid(await world.customer())
    answer, text = await answered(operator, path)
    assert answer.status == 200, text
    assert answer.headers["Content-Type"].startswith("text/csv; charset=utf-8")
    name = path.rpartition("/")[2]
    assert answer.headers["Content-Disposition"] == f'attachment; filename="{name}.csv"'
    assert next(csv.reader(io.StringIO(text, newline=""))) == LISTS[path]


async def test_file_has_all_rows_that_match_and_its_row_in_the_audit_log(world: World) -> None:
    name = f"=HYPERLINK {unique('mitra')}"
    await add_mitras(world, 450, name)
    operator = await an_operator(world, {"mitras": "read", "customers.pii": "read"})
    header, *rows = await file_of(operator.client, MITRAS, is_active="false", q=name, limit=3)
    at = {column: n for n, column in enumerate(header)}
    listed = await every(operator.client, MITRAS, limit=200, is_active="false", q=name)
    assert [row[at["id"]] for row in rows] == [item["id"] for item in listed]
    assert len({row[at["id"]] for row in rows}) == 450
    assert {row[at["display_name"]] for row in rows} == {f"'{name}"}
    assert all(row[at["phone"]].startswith("'+6289") and "*" not in row[at["phone"]] for row in rows)
    (noted,) = [row for row in await audits(world, "mitras") if row["operator_id"] == operator.id]
    assert noted["action"] == "list.downloaded"
    assert (noted["after"]["rows"], noted["after"]["filters"]["is_active"]) == (450, "false")
    assert set(noted["after"]["filters"]) == {"is_active", "q_hash"}


async def test_contacts_are_masked_without_the_right_to_them(world: World) -> None:
    name = unique("Ayu")
    await add_mitras(world, 1, name)
    operator = (await an_operator(world, {"mitras": "read", "operators": "read"})).client
    header, row = await file_of(operator, MITRAS, q=name)
    assert row[header.index("phone")].endswith("****" + row[header.index("phone")][-2:])
    header, *rows = await file_of(operator, "/internal/operators")
    assert all("***@" in row[header.index("email")] for row in rows)


async def test_operator_gets_one_file_at_a_time(world: World) -> None:
    operator = await an_operator(world, {"mitras": "read"})
    await world.stack.sql(HELD, lease_of(operator), 3_600)
    answer, _ = await answered(operator.client, MITRAS)
    assert (answer.status, answer.headers["Retry-After"]) == (429, "10")
    assert [row for row in await audits(world, "mitras") if row["operator_id"] == operator.id] == []
    await file_of((await an_operator(world, {"mitras": "read"})).client, MITRAS)  # another operator's
    await world.stack.sql(HELD, lease_of(operator), -1)
    await file_of(operator.client, MITRAS)
    await file_of(operator.client, MITRAS)


async def test_file_ends_when_the_next_one_may_be_asked_for(world: World) -> None:
    operator = await an_operator(world, {"mitras": "read"})
    stack = world.stack
    await stack.sql(HELD, lease_of(operator), -1)
    async with stack.transaction() as of_lease:
        async with stack.transaction() as of_audit:
            await of_audit.execute("LOCK TABLE operator_audit_log IN SHARE MODE")
            asked = asyncio.create_task(file_of(operator.client, MITRAS))
            await world.until(lambda: stack.sql(WAITING, "operator_audit_log"), lambda rows: rows)
            await of_lease.execute("SELECT 1 FROM cluster_leases WHERE name = $1 FOR UPDATE", lease_of(operator))
        await world.until(lambda: stack.sql(WAITING, "cluster_leases"), lambda rows: rows)
        await asyncio.wait([asked], timeout=0.3)
        assert not asked.done()
    await asked
    await file_of(operator.client, MITRAS)


async def test_files_at_the_same_moment_are_made_or_refused(world: World) -> None:
    await add_mitras(world, 450, unique("Ayu"))
    operator = await an_operator(world, {"mitras": "read"})
    found = await asyncio.gather(*(answered(operator.client, MITRAS) for _ in range(8)))
    statuses = [answer.status for answer, _ in found]
    assert set(statuses) <= {200, 429}
    assert 200 in statuses
    made = [row for row in await audits(world, "mitras") if row["operator_id"] == operator.id]
    assert len(made) == statuses.count(200)
    await file_of(operator.client, MITRAS)


async def test_file_is_refused_as_its_list_is(world: World) -> None:
    operator = (await an_operator(world, {"mitras": "read"})).client
    for path, query, status in (
        ("/internal/customers", {}, 403),
        (MITRAS, {"is_active": "perhaps"}, 422),
        ("/internal/nothing", {}, 404),
    ):
        answer, text = await answered(operator, path, **query)
        assert (answer.status, answer.headers["Content-Type"]) == (status, "application/json"), text
    stranger = world.client()
    stranger._base, stranger.access_token = operator._base, "nonsense"
    answer, _ = await answered(stranger, MITRAS)
    assert answer.status == 401


async def test_answer_that_is_no_list_stays_json(world: World) -> None:
    operator = await world.operator()
    for path in ("/internal/overview", "/internal/auth/me"):
        answer, _ = await answered(operator, path)
        assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
