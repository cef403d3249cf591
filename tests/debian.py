"""Programs of Debian's packages that some tests need."""

import os
import shutil
from collections.abc import Mapping

PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/bin"])


def path_of(program: str) -> str:
    """Return the path of an installed program. Raises FileNotFoundError."""
    found = shutil.which(program, path=PATH)
    if found is None:
        raise FileNotFoundError(program)
    return found


def missing(named: Mapping[str, str]) -> str:
    """Return which programs are missing and how to install them; an empty text if none is.

    `named`: program -> how the text names it.
    """
    absent = [name for program, name in named.items() if shutil.which(program, path=PATH) is None]
    return f"{', '.join(absent)} missing: run `make engines`, which installs Debian's packages" if absent else ""
