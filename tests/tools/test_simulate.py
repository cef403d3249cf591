"""`sesi simulate` forecasts from the history in the database, and changes nothing (docs/simulation.md)."""

import datetime as dt
import json

import asyncpg
import pytest

from core.pairing.simulation.rules import DAY
from tests.flows.made_up_history import store
from tests.stack import Stack
from tests.unit.made_up_worlds import World

pytestmark = pytest.mark.anyio
WRITTEN = """SELECT sum(n_tup_ins + n_tup_upd + n_tup_del)::bigint FROM pg_stat_user_tables
WHERE relname NOT IN ('service_clock', 'cluster_leases')"""


async def world_in(stack: Stack, name: str) -> str:
    """Return the URL of a database with 15 days of a made-up world until now."""
    await stack.sql(f"CREATE DATABASE {name}")
    url = stack.url_of(name)
    stack.command("migrate", DATABASE_URL=url)
    connection = await asyncpg.connect(url)
    await store(connection, World(0, days=15, a_day=70.0, mitras=12, since=dt.datetime.now(dt.UTC) - 15 * DAY))
    await connection.close()
    return url


async def test_simulate_prints_a_forecast_with_its_back_test_and_writes_nothing(stack: Stack) -> None:
    url = await world_in(stack, "simulated")
    tries = ("simulate", "--since", "15d", "--set", "max_customers_per_mitra=1", "--add", "2@fri/18:00-22:00")
    connection = await asyncpg.connect(url)
    before = await connection.fetchval(WRITTEN)
    table = stack.command(*tries, DATABASE_URL=url)
    for words in ("unserved searches", "last week: would have forecast", "are guessed", "no forecast from the past"):
        assert words in table.stdout
    found = json.loads(stack.command(*tries, "--json", DATABASE_URL=url).stdout)
    await connection.execute("SELECT pg_stat_force_next_flush()")
    assert await connection.fetchval(WRITTEN) == before
    await connection.close()
    assert found["days"] >= 14
    rows = {row["figure"]: row for row in found["rows"]}
    assert rows["unserved"]["forecast"] > rows["unserved"]["present"]
    assert all(row["low"] <= row["forecast"] <= row["high"] for row in found["rows"])
    assert [one["figure"] for one in found["back_test"]] == list(rows)


async def test_simulate_says_what_is_missing(stack: Stack) -> None:
    await stack.sql("CREATE DATABASE without_history")
    url = stack.url_of("without_history")
    stack.command("migrate", DATABASE_URL=url)
    refused = stack.command("simulate", "--set", "blast_size=2", check=False, DATABASE_URL=url)
    assert refused.returncode == 1
    assert '"days": 0' in refused.stderr
    assert '"least_days": 14' in refused.stderr


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ([], "settings must have a setting"),
        (["--set", "blast_size"], "write ROW=VALUE"),
        (["--set", "extension_timeout_seconds=5"], "settings must be of blast_size"),
        (["--set", "max_customers_per_mitra=0"], "value Chats of a mitra at a time"),
        (["--add", "2@fri"], "extra_shifts must be such as 2@fri/18:00-22:00"),
    ],
)
def test_simulate_refuses_what_can_not_be_tried(stack: Stack, options: list[str], complaint: str) -> None:
    refused = stack.command("simulate", *options, check=False)
    assert refused.returncode == 1
    assert complaint in refused.stderr


@pytest.mark.parametrize("since", ["0d", "93d", "a week"])
def test_simulate_refuses_an_odd_number_of_days(stack: Stack, since: str) -> None:
    assert stack.command("simulate", "--since", since, check=False).returncode == 2
