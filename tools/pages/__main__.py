"""`make pages`: write the parts of docs that are made from the code, and the files that are made from it as a whole."""

import pathlib
import re
from collections.abc import Callable

from tools.pages import (
    config_page,
    control_center_words,
    errors_page,
    events_page,
    invariants_page,
    metrics_page,
    privacy_page,
    product_page,
    sockets_page,
)

ROOT = pathlib.Path(__file__).parents[2]
# Page -> what returns its parts by the names of their markers.
PARTS: dict[str, Callable[[], dict[str, str]]] = {
    "docs/configuration.md": lambda: {"rows": config_page.rows()},
    "docs/settings.md": lambda: {"settings": config_page.settings()},
    "docs/errors.md": lambda: {"codes": errors_page.listed()},
    "docs/events.md": lambda: {"events": events_page.listed()},
    "docs/invariants.md": invariants_page.parts,
    "docs/metrics.md": metrics_page.parts,
    "docs/privacy.md": lambda: {"personal columns": privacy_page.listed()},
    "docs/product.md": product_page.parts,
}
FILES: dict[str, Callable[[], str]] = {
    ".env.example": config_page.env_example,
    "api/web/center/kernel/words.core.js": control_center_words.script,
    "api/web/documents/sockets.html": sockets_page.page,
}
MARKED = re.compile(r"<!-- (?P<name>[\w :]+) -->\n.*?<!-- end -->\n", re.S)


def with_parts(text: str, parts: dict[str, str]) -> str:
    """Return a page with its parts replaced. Raises ValueError unless each part has its markers once."""
    if sorted(found["name"] for found in MARKED.finditer(text)) != sorted(parts):
        raise ValueError(f"the page must have one `<!-- … -->` … `<!-- end -->` for each of {', '.join(parts)}")
    return MARKED.sub(lambda found: f"<!-- {found['name']} -->\n{parts[found['name']].strip()}\n<!-- end -->\n", text)


def made(name: str) -> str:
    """Return what a file must be."""
    return FILES[name]() if name in FILES else with_parts((ROOT / name).read_text(), PARTS[name]())


if __name__ == "__main__":
    for each in (*PARTS, *FILES):
        (ROOT / each).write_text(made(each))
