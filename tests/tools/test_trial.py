"""`sesi try`: two mitras can sign in by their fixed codes, and its data are gone when it ends."""

import asyncio
import pathlib
import re
import sys
import tempfile

import pytest

from core.config.keys import KEYS
from core.config.rules import check
from core.settings.environment import read
from tools.commands import environment, trial
from tools.driving.device import Addresses, Device
from tools.driving.throwaway import free_port

pytestmark = pytest.mark.anyio
READY_S = 90


def folders() -> set[pathlib.Path]:
    """Return the data folders of trials."""
    return set(pathlib.Path(tempfile.gettempdir()).glob("sesi-try-*"))


@pytest.mark.parametrize("scale", [1, 7.5, 60])
def test_rows_and_settings_of_a_trial_are_valid_at_every_speed(scale: float, tmp_path: pathlib.Path) -> None:
    settings = read(trial.variables(scale, tmp_path))
    assert settings.sesi_time_scale == scale
    rows = trial.rows(scale)
    for name, value in rows.items():
        check(KEYS[name], value, cadence_seconds=settings.mitra_heartbeat_cadence_seconds)
    assert rows["mitra_stale_after_seconds"] == int(45 * scale)


async def test_trial_shows_where_to_begin_and_deletes_its_data() -> None:
    ports = {name: free_port() for name in ("PUBLIC", "INTERNAL", "REALTIME", "JOBS")}
    env = {
        **environment.without_settings(),
        **{f"{name}_PORT": str(port) for name, port in ports.items()},
        "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/a-database-that-a-trial-must-not-use",
        "COLUMNS": "60",
    }
    before = folders()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tools.cli", "try", env=env,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    assert process.stdout is not None
    said = ""
    try:
        async with asyncio.timeout(READY_S):
            while "Ctrl-C" not in said:
                line = await process.stdout.readline()
                assert line, said
                said += line.decode()
        public, internal = (f"http://127.0.0.1:{ports[name]}" for name in ("PUBLIC", "INTERNAL"))
        for address in (f"{public}/try/", f"{public}/dev/inbox", f"{internal}/internal/"):
            assert address in said
        addresses = Addresses(public=public, internal=internal, realtime=f"ws://127.0.0.1:{ports['REALTIME']}")
        client, operator = Device(addresses), Device(addresses)
        config = await client.get("/try/config.json")
        assert config["sockets"] == addresses.realtime
        assert config["time_scale"] == 10
        assert [one["display_name"] for one in config["mitras"]] == ["Ayu", "Bima"]
        ayu = config["mitras"][0]

        async def code_of(_: str) -> str:
            return ayu["code"]

        await client.sign_in_as_mitra(ayu["phone"], code_of)
        assert client.user["display_name"] == "Ayu"
        found = re.search(r"(\S+@\S+)  (\S+)", said)
        assert found is not None
        await operator.sign_in_as_operator(found[1], found[2])
        await client.close()
        await operator.close()
    finally:
        process.terminate()
        rest, _ = await process.communicate()
    assert process.returncode == 0, said + rest.decode()
    assert folders() <= before
