"""The page `/docs/sockets`: the AsyncAPI document as HTML, without a script."""

import json
from collections.abc import Iterable
from typing import Any

from markdown_it import MarkdownIt

from core.settings.environment import read as read_settings
from realtime import asyncapi

Schema = dict[str, Any]
PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sesi: WebSockets</title>
<style>
:root {{ color-scheme: light dark; color: light-dark(#111, #eee); background: light-dark(#fff, #111); }}
body {{ max-width: 60rem; margin: 0 auto; padding: 1rem; font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }}
h2, h3 {{ margin-top: 3rem; }}
h2 {{ border-bottom: 1px solid; }}
table {{ width: 100%; border-collapse: collapse; }}
th, td {{ padding: 0.25rem 0.5rem; border: 1px solid; text-align: left; vertical-align: top; }}
pre {{ padding: 0.5rem; border: 1px solid; white-space: pre-wrap; }}
a {{ color: light-dark(#0645ad, #9ecbff); }}
</style>
<body>
<main>
{body}</main>
</body>
</html>
"""
SECTIONS = ("Frames of an app", "Frames of the service", "Objects")


def page() -> str:
    """Return the page."""
    text = "\n".join(_text(asyncapi.document(read_settings({}))))
    return PAGE.format(body=MarkdownIt("commonmark").enable("table").render(text))


def _text(document: dict[str, Any]) -> list[str]:
    info, components = document["info"], document["components"]
    received = {name: one for name, one in document["operations"].items() if "reply" in one}
    of_apps = {name for one in received.values() for name in _names(one["messages"])}
    of_service = components["messages"].keys() - of_apps
    lines = [
        f"# {info['title']}",
        "",
        f"Version {info['version']}. `sesi asyncapi` prints the AsyncAPI document, from which generators make code; the "
        f"routes are on [/docs](/docs). Below: {', '.join(_anchor(one) for one in SECTIONS)}.",
        "",
        info["description"],
    ]
    for path, channel in document["channels"].items():
        lines += [
            _heading(2, channel["address"]),
            "",
            channel["description"],
            "",
            "| an app sends | answers |",
            "|---|---|",
        ]
        for name, operation in received.items():
            if name.startswith(f"{path}."):
                lines.append(
                    f"| {_links(_names(operation['messages']))} | {_links(_names(operation['reply']['messages']))} |"
                )
        sent = _names(document["operations"][f"{path}.events"]["messages"])
        lines += ["", f"The service sends without a request: {_links(sent)}.", ""]
    for title, names in zip(SECTIONS, (of_apps, of_service), strict=False):
        lines += [_heading(2, title), ""]
        for name in sorted(names):
            lines += _message(name, components)
    lines += [_heading(2, SECTIONS[-1]), ""]
    for name, schema in sorted(components["schemas"].items()):
        if name not in components["messages"] and not name.endswith(asyncapi.OR_NULL):
            lines += [_heading(3, name), "", schema.get("description", ""), "", *_fields(schema)]
    return lines


def _names(messages: list[dict[str, str]]) -> list[str]:
    return [message["$ref"].rpartition("/")[2] for message in messages]


def _id(title: str) -> str:
    return title.strip("/").replace("/", "-").replace(" ", "-")


def _heading(level: int, title: str) -> str:
    return f'<h{level} id="{_id(title)}">{title}</h{level}>'


def _anchor(title: str) -> str:
    return f"[{title}](#{_id(title)})"


def _links(names: Iterable[str]) -> str:
    return ", ".join(map(_anchor, names))


def _message(name: str, components: dict[str, Any]) -> list[str]:
    """Return the section of a frame."""
    message = components["messages"][name]
    lines = [_heading(3, name), "", f"`{message['name']}`", "", message["description"], ""]
    for label, key in (
        ("Sent to", "x-sent-to"),
        ("Acknowledged by", "x-acknowledged-by"),
        ("Order key", "x-order-key"),
    ):
        value = message.get(key)
        if value:
            lines += [f"{label}: {', '.join(value) if isinstance(value, list) else f'`{value}`'}", ""]
    example = json.dumps(message["examples"][0]["payload"], indent=2, ensure_ascii=False)
    return [*lines, *_fields(components["schemas"][name]), "```", example, "```", ""]


def _fields(schema: Schema) -> list[str]:
    """Return the table of an object's fields; of another schema what it may be."""
    if "properties" not in schema:
        return [_kind(schema), ""]
    lines = ["| field | type | notes |", "|---|---|---|"]
    for name, field in schema["properties"].items():
        optional = "" if name in schema.get("required", ()) else "optional"
        said = " ".join(field.get("description", "").split()).replace("|", "\\|")
        lines.append(f"| `{name}` | {_kind(field)} | {' '.join(filter(None, (optional, said)))} |")
    return [*lines, ""]


def _kind(schema: Schema) -> str:
    """Return what a value may be."""
    match schema:
        case {"$ref": str(ref)}:
            name = ref.rpartition("/")[2]
            thing = name.removesuffix(asyncapi.OR_NULL)
            return _anchor(thing) + (" or null" if thing != name else "")
        case {"anyOf": list(options)}:
            return " or ".join(map(_kind, options))
        case {"const": value}:
            return f"`{value}`"
        case {"enum": list(values)}:
            return ", ".join(f"`{'null' if value is None else value}`" for value in values)
        case {"items": dict(inner)}:
            return f"list of {_kind(inner)}"
    kinds = schema.get("type", "any value")
    return " or ".join([kinds] if isinstance(kinds, str) else kinds)
