"""The tables of docs/configuration.md and docs/settings.md, and .env.example."""

import json
from typing import Any

from core.config.keys import KEYS, Key, Shape
from core.settings.settings import variables

ENV_HEAD = """# Every setting with its default; docs/settings.md explains them. Made by `make pages` from core/settings/settings.py.
# Copy it to .env and change what you need; secrets are blank here. The service reads its environment, not this file:
# load it with `set -a; . ./.env; set +a`, systemd's EnvironmentFile, or a container's env file.
"""


def _bounds(key: Key) -> str:
    if key.name == "mitra_stale_after_seconds":
        return f"the heartbeat cadence to {key.bounds[1] if key.bounds else ''}"
    if key.bounds is not None:
        there = key.in_production
        return f"{key.bounds[0]} to {key.bounds[1]}" + (f"; in production {there[0]} to {there[1]}" if there else "")
    if key.shape is Shape.FLAG:
        return "true, false"
    if key.shape is Shape.VERSION:
        return "a version such as 1.4.0, or null"
    if key.shape is Shape.ZONE:
        return "a time zone such as Asia/Jakarta"
    if key.shape is Shape.NOTICE:
        return "message_id, message_en, until; or null"
    return ", ".join(key.choices) or "a document"


def _row(key: Key) -> str:
    default = json.dumps(key.default, ensure_ascii=False)
    shown = default if len(default) <= 40 else "see `core/config/keys.py`"
    name = f"`{key.name}`" + (" (sensitive)" if key.sensitive else "")
    return f"| {name} | {key.meaning} | {shown} | {key.unit.word if key.unit else ''} | {_bounds(key)} |"


def rows() -> str:
    """Return the tables of the configuration rows."""
    lines = []
    for title, used in (("Used", True), ("Legacy: stored, but not used", False)):
        lines += [f"## {title}", "", "| key | meaning | default | unit | values |", "|---|---|---|---|---|"]
        lines += [_row(key) for key in KEYS.values() if key.used is used]
        lines.append("")
    return "\n".join(lines)


def settings() -> str:
    """Return the table of the settings."""

    def row(field: Any) -> str:
        default = field.metadata["default"]
        shown = "for development" if field.metadata["secret"] and default else f"`{default}`" if default else ""
        shown += "; none in production" if field.metadata["chosen"] else ""
        shown += f"; `{field.metadata['production']}` in production" if field.metadata["production"] else ""
        takes = field.metadata["expected"] + (" (secret)" if field.metadata["secret"] else "")
        return f"| `{field.name.upper()}` | {shown} | {takes} |"

    return "\n".join(["| variable | default | takes |", "|---|---|---|", *map(row, variables())])


def env_example() -> str:
    """Return the text of .env.example: each setting with its default, and secrets blank.

    A secret with a default for development is commented out, because a blank value may mean that there is none. So are
    settings with another default in production, or without one.
    """

    def line(field: Any) -> str:
        default = "" if field.metadata["secret"] else field.metadata["default"] or ""
        secret = " (secret)" if field.metadata["secret"] else ""
        marks = field.metadata
        off = "#" if marks["chosen"] or marks["production"] or (marks["secret"] and marks["default"]) else ""
        return f"\n# {field.metadata['expected']}{secret}\n{off}{field.name.upper()}={default}\n"

    return ENV_HEAD + "".join(map(line, variables()))
