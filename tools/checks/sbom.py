"""Write the packages of the runtime lock as a CycloneDX file, with their hashes and licences.

cyclonedx-py reads the lock; the licences are those of tools/pages/licences.py.
"""

import json
import pathlib
import subprocess
import sys
from typing import Any

from tools.pages.licences import LOCK, ROOT, packages

PROGRAM = ROOT / ".venv" / "bin" / "cyclonedx-py"


def inventory() -> dict[str, Any]:
    """Return the CycloneDX document. Raises FileNotFoundError without cyclonedx-py, CalledProcessError if it fails."""
    command = [
        PROGRAM, "requirements", LOCK, "--pyproject", ROOT / "pyproject.toml", "--spec-version", "1.6",
        "--output-reproducible", "--output-format", "JSON", "--validate",
    ]  # fmt: skip
    # It warns about a graph without edges; a lock has none.
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True)
    document = json.loads(done.stdout)
    licences = {one.name: one.licence for one in packages()}
    for component in document["components"]:
        del component["description"]  # the line of the lock
        component["licenses"] = [{"expression": licences[component["name"]]}]
    return document


def main(target: pathlib.Path) -> int:
    """Write the file; return the exit code."""
    if not PROGRAM.exists():
        print("cyclonedx-py is missing: run `make release`, which installs it", file=sys.stderr)
        return 2
    document = inventory()
    target.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
    print(f"{target.name}: {len(document['components'])} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
