"""The api process raises its limit of open files, and `sesi doctor` reports a limit that is too low."""

import pathlib
import resource

import pytest

from tests.stack import Stack
from tools.driving.throwaway import free_port

pytestmark = pytest.mark.anyio


def soft_limit(pid: int) -> str:
    """Return a process's limit of open files as the kernel prints it."""
    lines = pathlib.Path(f"/proc/{pid}/limits").read_text().splitlines()
    return next(line.split()[3] for line in lines if line.startswith("Max open files"))


@pytest.mark.skipif(not pathlib.Path("/proc/self/limits").exists(), reason="reads the limits of Linux")
def test_api_process_raises_its_limit_of_open_files(stack: Stack) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    port = free_port()
    ports = {"PUBLIC_PORT": str(free_port()), "INTERNAL_PORT": str(port)}
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 1024), hard))
    try:
        stack.start("api", key="few files", **ports)  # type: ignore[arg-type]  # no setting is called `wait`
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    try:
        stack.wait_ready("api", port=port, key="few files")
        assert soft_limit(stack.processes["few files"].pid) == str(hard)
    finally:
        stack.stop("few files")
        del stack.processes["few files"]


def test_doctor_reports_a_limit_of_open_files_that_is_too_low(stack: Stack) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard >= 1_000_000 or hard == resource.RLIM_INFINITY:
        pytest.skip("no number of connections that may be set passes this limit")
    sick = stack.command("doctor", check=False, HTTP_CONNECTIONS="1000000")
    assert sick.returncode != 0
    assert "open files" in sick.stdout
    assert "HTTP_CONNECTIONS needs 1000256" in " ".join(sick.stdout.split())
