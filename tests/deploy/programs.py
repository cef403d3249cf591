"""The proxies of `deploy`, and what is missing of them."""

import os
import pathlib
import shutil

ROOT = pathlib.Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/bin"])
PROXIES = ("nginx", "haproxy", "caddy")


def path_of(program: str) -> str:
    """Return the path of an installed program. Raises FileNotFoundError."""
    found = shutil.which(program, path=PATH)
    if found is None:
        raise FileNotFoundError(program)
    return found


def missing(*names: str) -> str:
    """Return which of these programs are missing and how to install them; an empty text if none is."""
    absent = [name for name in names if shutil.which(name, path=PATH) is None]
    return f"{', '.join(absent)} missing: run `make deploy-install`, which installs Debian's packages" if absent else ""
