"""Writes docs/configuration.md: every configuration row with its meaning, default, unit and bounds, from core/config/keys.py."""

import json
import pathlib

from core.config.keys import KEYS, Key, Shape

PAGE = pathlib.Path(__file__).parents[1] / "docs" / "configuration.md"
HEAD = """# Configuration rows

What operators change while the service runs (`GET` and `PUT /internal/config/:key`); each process knows within a second.
Made by `make pages` from `core/config/keys.py`, which also feeds the seed, the validation and the control center;
a test keeps it current. Settings, which come from the environment and never change while a process runs, are listed by
`sesi settings`.
"""


def _bounds(key: Key) -> str:
    if key.name == "mitra_stale_after_seconds":
        return f"the heartbeat cadence to {key.bounds[1] if key.bounds else ''}"
    if key.bounds is not None:
        return f"{key.bounds[0]} to {key.bounds[1]}"
    if key.shape is Shape.FLAG:
        return "true, false"
    return ", ".join(key.choices) or "a document"


def _row(key: Key) -> str:
    default = json.dumps(key.default, ensure_ascii=False)
    shown = default if len(default) <= 40 else "see `core/config/keys.py`"
    return f"| `{key.name}` | {key.meaning} | {shown} | {key.unit or ''} | {_bounds(key)} |"


def page() -> str:
    """Return the page."""
    lines = [HEAD]
    for title, used in (("Used", True), ("Legacy: in place, read by nothing", False)):
        lines += [f"## {title}", "", "| key | meaning | default | unit | values |", "|---|---|---|---|---|"]
        lines += [_row(key) for key in KEYS.values() if key.used is used]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page())
    print(f"docs/configuration.md: {len(KEYS)} rows")
