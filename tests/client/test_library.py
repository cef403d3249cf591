"""The client library in a world with virtual time (tests/client/*.test.mjs)."""

import pathlib
import subprocess

FOLDER = pathlib.Path(__file__).parent


def test_library_passes_its_tests_in_node(node: str) -> None:
    files = sorted(str(path) for path in FOLDER.glob("*.test.mjs"))
    assert files
    done = subprocess.run(
        [node, "--test", "--test-isolation=none", *files], check=False, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout[-8000:]
