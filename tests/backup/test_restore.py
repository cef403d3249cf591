"""A paid service over an archiving server, restored and proven by `sesi restore-proof`."""

import asyncio
import datetime as dt
import pathlib
import re
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import attrs
import pytest

from core.base.clock import as_text, real_sleep
from tests.backup.archived import Archived, missing
from tests.http.gateway.simulated_gateway import SimulatedGateway
from tests.stack import Stack, World
from tools.commands.backups import last_backup
from tools.driving.service import PROCESSES
from tools.embedded.processes import command_of

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(bool(missing()), reason=missing())]
LONG_AGO = dt.timedelta(hours=1)
# A mistake that no constraint notices, made by hand with the triggers off.
BY_HAND = "SET session_replication_role = replica;"
MISTAKE = f"{BY_HAND} CREATE TABLE kept AS TABLE customer_transactions; DELETE FROM customer_transactions"
REPAIR = f"{BY_HAND} INSERT INTO customer_transactions TABLE kept; DROP TABLE kept"

TIMELINE = "SELECT timeline_id FROM pg_control_checkpoint()"


def restored_folders() -> set[pathlib.Path]:
    """Return the folders of temporary servers."""
    return set(pathlib.Path(tempfile.gettempdir()).glob("sesi-restore-*"))


def started_server(folders: set[pathlib.Path]) -> int | None:
    """Return the process of the temporary server in one of these folders; None until it has written its id."""
    for folder in folders:
        for file in folder.glob("data/postmaster.pid"):
            number, end, _ = file.read_text().partition("\n")
            if end:
                return int(number)
    return None


@attrs.define(kw_only=True)
class Deployment:
    """A service over the archiving server."""

    server: Archived
    stack: Stack
    gateway: SimulatedGateway

    async def session(self, world: World) -> str:
        """Play a paid session; return its payment request."""
        customer, mitra = await world.customer(), await world.mitra()
        payment = await world.request(customer)
        await self.pay(world, payment)
        await world.until(
            lambda: mitra.get("/api/mitra/chat-requests"),
            lambda found: len(found["items"]) == 1,
        )
        (asked,) = (await mitra.get("/api/mitra/chat-requests"))["items"]
        await mitra.post(f"/api/mitra/chat-requests/{asked['session_id']}/accept")
        return payment["payment_request_id"]

    async def pay(self, world: World, payment: dict[str, Any]) -> None:
        """Confirm a payment request. For the gateway it was paid an hour ago, else it would be too new to compare."""
        invoice = self.gateway.pay(payment["payment_request_id"])
        status, answer = await world.webhook(payment, id=invoice["id"])
        assert (status, answer["processing_result"]) == (200, "confirmed")
        at = as_text(dt.datetime.now(dt.UTC) - LONG_AGO)
        invoice.update({"created": at, "updated": at, "paid_at": at})

    def prove(self, *more: Any, **env: str) -> subprocess.CompletedProcess[str]:
        """Run the proof."""
        config = ("--config", self.server.config, "--postgres", self.server.programs)
        return self.stack.command("restore-proof", *map(str, (*config, *more)), check=False, **env)


@pytest.fixture(scope="module")
def deployment() -> Iterator[Deployment]:
    """Yield a service with one session before its full backup and one after it, all archived."""
    gateway = SimulatedGateway()
    server = Archived()
    stack = Stack(only_database=True)
    stack.env |= gateway.environment
    try:
        stack.database_url = stack.env["DATABASE_URL"] = server.url
        stack._fill_database()
        stack.start_all()
        yield Deployment(server=server, stack=stack, gateway=gateway)
    finally:
        stack.close()
        server.close()
        gateway.close()


@pytest.fixture
async def world(deployment: Deployment) -> AsyncIterator[World]:
    """Yield the users."""
    made = World(deployment.stack)
    yield made
    await made.close()


async def test_restored_backup_is_proven_and_a_later_mistake_is_found(deployment: Deployment, world: World) -> None:
    server, gateway = deployment.server, deployment.gateway
    before = await deployment.session(world)
    await asyncio.to_thread(server.pgbackrest, "--type=full", "backup")
    ended = last_backup(server.config)
    assert ended is not None
    assert dt.datetime.now(dt.UTC) - ended < dt.timedelta(minutes=1)
    after = await deployment.session(world)
    await asyncio.to_thread(server.archive)

    folders = restored_folders()
    good = await asyncio.to_thread(deployment.prove)
    assert good.returncode == 0, good.stdout + good.stderr
    assert "2 sessions, 2 payments, 0 violations" in good.stdout
    assert "2 invoices and 2 paid or pending requests" in good.stdout
    assert "0 differences" in good.stdout
    assert "The backup is good." in good.stdout
    # Nothing is left of the temporary server.
    assert restored_folders() == folders

    # The gateway has other money than the restored database.
    (changed,), (lost,) = gateway.of(after), gateway.of(before)
    changed["paid_amount"] -= 1
    del gateway.made[lost["id"]]
    odd = await asyncio.to_thread(deployment.prove)
    assert odd.returncode == 1
    assert "2 differences" in odd.stdout
    said = " ".join(odd.stdout.split())
    assert f"the amounts differ │ {after}" in said
    assert f"the gateway does not know the invoice │ {before}" in said
    changed["paid_amount"] += 1
    gateway.made[lost["id"]] = lost

    # A mistake in the database is in the newest data, but not in that of the moment before it.
    moment = server.psql("sesi", "SELECT clock_timestamp()")
    server.psql("sesi", MISTAKE)
    await asyncio.to_thread(server.archive)
    broken = await asyncio.to_thread(deployment.prove)
    assert broken.returncode == 1
    assert "The backup is not good" in broken.stdout
    earlier = await asyncio.to_thread(deployment.prove, "--to", moment.replace(" ", "T") + ":00")
    assert earlier.returncode == 0, earlier.stdout + earlier.stderr
    assert "0 violations" in earlier.stdout
    server.psql("sesi", REPAIR)
    # No proof touched the production server, and no other server archived.
    assert server.archiving() == {str(server.folder / "data")}
    assert server.psql("sesi", "SELECT timeline_id, pg_is_in_recovery() FROM pg_control_checkpoint()") == "1|f"


def test_proof_that_is_stopped_leaves_nothing(deployment: Deployment) -> None:
    folders = restored_folders()
    command = [deployment.stack.code.python, "-m", "tools.cli", "restore-proof", "--config", deployment.server.config]
    proof = subprocess.Popen([*map(str, command), "--postgres", deployment.server.programs], env=deployment.stack.env)
    deadline = time.monotonic() + 60
    while (server := started_server(restored_folders() - folders)) is None:
        assert time.monotonic() < deadline
        assert proof.poll() is None
        time.sleep(0.01)
    proof.terminate()
    assert proof.wait(30) != 0
    assert restored_folders() == folders
    assert command_of(server) is None


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--config", "/nowhere.conf"), "unable to open missing file '/nowhere.conf'"),
        (("--stanza", "other"), "the repository has no stanza other"),
        (("--postgres", "/nowhere"), "no PostgreSQL .* in /nowhere: install that version"),
        (("--to", "2020-01-01T00:00:00Z"), "no backup is older than --to: the oldest ended at"),
        (("--folder", "/nowhere"), "can't write to /nowhere"),
        (("--database", "other"), 'database "other" does not exist. Name both by --database and --user'),
        (("--database", "template0"), 'the restored server says: database "template0" is not currently accepting'),
        (("--to", as_text(dt.datetime.now(dt.UTC) + dt.timedelta(days=1))), "the archive ends before --to"),
    ],
)
def test_proof_says_what_is_missing(deployment: Deployment, more: tuple[str, ...], says: str) -> None:
    done = deployment.prove(*more)
    assert done.returncode == 1
    assert re.search(says, done.stderr), done.stderr


async def test_service_goes_on_with_a_moment_that_was_restored_after_a_wrong_one(
    deployment: Deployment, world: World
) -> None:
    """The moment is later than that of the first restore, so the second one must follow the older timeline."""
    server, stack = deployment.server, deployment.stack
    await asyncio.to_thread(server.pgbackrest, "--type=incr", "backup")
    ended = last_backup(server.config)
    assert ended is not None
    while dt.datetime.now(dt.UTC) < ended + dt.timedelta(seconds=2):  # pgBackRest compares whole seconds
        await real_sleep(0.1)
    timeline = server.psql("sesi", TIMELINE)
    too_early = server.psql("sesi", "SELECT clock_timestamp()")
    payment = await world.request(await world.customer())
    moment = server.psql("sesi", "SELECT clock_timestamp()")
    await deployment.pay(world, payment)
    server.psql("sesi", MISTAKE)
    for name in PROCESSES:
        stack.stop(name)
    await asyncio.to_thread(server.archive)

    status = f"SELECT status FROM payment_requests WHERE id = '{payment['payment_request_id']}'"
    await asyncio.to_thread(server.restore, too_early)
    assert server.psql("sesi", status) == ""
    await asyncio.to_thread(server.archive)
    await asyncio.to_thread(server.restore, moment, f"--target-timeline={timeline}")
    assert server.psql("sesi", status) == "pending"

    stack.command("migrate")
    stack.start_all()
    since = as_text(dt.datetime.now(dt.UTC) - 2 * LONG_AGO)
    applied = await asyncio.to_thread(stack.command, "gateway", "reconcile", "--since", since, "--apply", check=False)
    assert payment["payment_request_id"] in applied.stdout
    assert server.psql("sesi", status) == "confirmed"
    assert "0 violations" in stack.command("audit").stdout
    await asyncio.to_thread(server.pgbackrest, "check")
    assert server.psql("sesi", TIMELINE) != timeline
