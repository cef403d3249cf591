"""Reject changes of the interfaces that break clients of the last release, unless they are declared
(docs/api/README.md).

`python -m tools.compatibility` compares; `python -m tools.compatibility --release` writes the documents of a release.
"""

import argparse
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from api import apps
from core.settings.environment import read
from realtime import asyncapi
from tools.compatibility.schema_changes import Schema, SchemaPair
from tools.pages import errors_page

FOLDER = Path(__file__).parents[2] / "docs" / "api"
DECLARED = FOLDER / "changes.toml"
OPENAPI = ("public", "internal")
SOCKETS, ERRORS = "sockets.asyncapi.json", "errors.json"
FILES = (*(f"{name}.openapi.json" for name in OPENAPI), SOCKETS, ERRORS)
EMPTY = """# Changes since the last release that break a client, each with a reason (docs/api/README.md):
# [[change]]
# what = "the line that `make check` prints"
# why = "why clients must change, and what they do"
"""


def documents() -> dict[str, Any]:
    """Return the interfaces as the code has them, by the name of their file."""
    return {
        **{f"{name}.openapi.json": apps.interface(name) for name in OPENAPI},
        SOCKETS: json.loads(asyncapi.encoded(read({}))),
        ERRORS: {name: code.status for name, code in sorted(errors_page.codes().items())},
    }


def released() -> dict[str, Any]:
    """Return the interfaces of the last release."""
    return {name: json.loads((FOLDER / name).read_text()) for name in FILES}


def breaking(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return a line for each change between two sets of documents that breaks a client."""
    found: list[str] = []
    for name in OPENAPI:
        file = f"{name}.openapi.json"
        found += (f"{name}: {line}" for line in _openapi(old[file], new[file]))
    found += (f"sockets: {line}" for line in _asyncapi(old[SOCKETS], new[SOCKETS]))
    found += (f"errors: {line}" for line in _errors(old[ERRORS], new[ERRORS]))
    return found


def _openapi(old: Schema, new: Schema) -> Iterator[str]:
    pair = SchemaPair(old, new)
    for path, methods in old["paths"].items():
        for method, before in methods.items():
            where = f"{method.upper()} {path}"
            after = new["paths"].get(path, {}).get(method)
            if after is None:
                yield f"{where} is removed"
                continue
            yield from _operation(pair, before, after, where)


def _operation(pair: SchemaPair, old: Schema, new: Schema, where: str) -> Iterator[str]:
    yield from _security(old["security"], new["security"], where)
    before, after = _parameters(pair, old, new=False), _parameters(pair, new, new=True)
    for key, one in before.items():
        if key not in after:
            yield f"{where}: {key[0]} parameter {key[1]} is removed"
        else:
            yield from pair.changes(one["schema"], after[key]["schema"], "sent", f"{where}: {key[1]}")
    for key, one in after.items():
        if one.get("required") and not before.get(key, {}).get("required"):
            yield f"{where}: {key[0]} parameter {key[1]} is now required"
    if (body := _body(new)) is not None:
        if (earlier := _body(old)) is None:
            yield f"{where} now needs a body"
        else:
            yield from pair.changes(earlier, body, "sent", f"{where}: body")
    yield from _responses(pair, old["responses"], new["responses"], where)


def _parameters(pair: SchemaPair, operation: Schema, *, new: bool) -> dict[tuple[str, str], Schema]:
    """Return the parameters of an operation by where they are and their name."""
    found = (pair.resolved(ref, new=new) for ref in operation["parameters"])
    return {(one["in"], one["name"]): one for one in found}


def _security(old: list[Schema], new: list[Schema], where: str) -> Iterator[str]:
    """Yield what a caller needs now that was not needed. No scheme, or an empty one, admits callers without a token."""
    if not new:
        return
    if (not old or {} in old) and {} not in new:
        yield f"{where} now needs a token"
    for scheme in sorted({name for one in old for name in one} - {name for one in new for name in one}):
        yield f"{where} no longer accepts {scheme}"


def _responses(pair: SchemaPair, old: Schema, new: Schema, where: str) -> Iterator[str]:
    for status, before in old.items():
        after = new.get(status, {})
        if status.startswith("2") and not after:
            yield f"{where} no longer answers {status}"
            continue
        for media, content in before.get("content", {}).items():
            now = after.get("content", {}).get(media, {})
            for code in content.get("examples", {}).keys() - now.get("examples", {}).keys():
                yield f"{where} no longer answers {status} {code}"
            if "schema" in now:
                yield from pair.changes(content["schema"], now["schema"], "received", f"{where}: answer")
            elif status.startswith("2"):
                yield f"{where} no longer answers {status} as {media}"


def _body(operation: Schema) -> Schema | None:
    content = operation.get("requestBody", {}).get("content", {})
    return content["application/json"]["schema"] if content else None


def _asyncapi(old: Schema, new: Schema) -> Iterator[str]:
    pair = SchemaPair(old, new)
    for name, before in old["channels"].items():
        yield from _channel(before, new["channels"].get(name), name)
    for name, before in old["operations"].items():
        if name.partition(".")[0] not in new["channels"]:
            continue
        if (after := new["operations"].get(name)) is None:
            yield f"{name} is removed"
            continue
        client_sends = before["action"] == "receive"
        yield from _frames(pair, before, after, "sent" if client_sends else "received", name)
        if client_sends:
            yield from _frames(pair, before["reply"], after["reply"], "received", f"{name}: answer")


def _channel(old: Schema, new: Schema | None, name: str) -> Iterator[str]:
    if new is None:
        yield f"{name} is removed"
        return
    if new["address"] != old["address"]:
        yield f"{name} moves from {old['address']} to {new['address']}"
    codes = {code["code"] for code in new["x-close-codes"]}
    for code in old["x-close-codes"]:
        if code["code"] not in codes:
            yield f"{name}: close code {code['code']} is removed"


def _frames(pair: SchemaPair, old: Schema, new: Schema, direction: Any, where: str) -> Iterator[str]:
    before = {one["name"]: one for one in (pair.resolved(ref, new=False) for ref in old["messages"])}
    after = {one["name"]: one for one in (pair.resolved(ref, new=True) for ref in new["messages"])}
    for name, one in before.items():
        if name not in after:
            yield f"{where}: frame {name} is removed"
        else:
            yield from pair.changes(one["payload"], after[name]["payload"], direction, f"{where}: {name}")


def _errors(old: dict[str, int | None], new: dict[str, int | None]) -> Iterator[str]:
    for code, status in old.items():
        if code not in new:
            yield f"{code} is removed"
        elif new[code] != status:
            yield f"{code} changes its status from {status} to {new[code]}"


def check() -> list[str]:
    """Return what is wrong: breaking changes that are not declared, and declared ones that do not exist."""
    found = breaking(released(), documents())
    declared = [change["what"] for change in tomllib.loads(DECLARED.read_text()).get("change", [])]
    undeclared = [f"breaks clients: {line}" for line in found if line not in declared]
    return undeclared + [f"declared, but not so: {line}" for line in declared if line not in found]


def release() -> None:
    """Write the documents as those of a release, and forget the declared changes."""
    FOLDER.mkdir(exist_ok=True)
    for name, document in documents().items():
        (FOLDER / name).write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    DECLARED.write_text(EMPTY)


def main() -> int:
    """Check, or write a release; 1 if the check fails."""
    options = argparse.ArgumentParser(description=main.__doc__)
    options.add_argument("--release", action="store_true", help="write the documents of a release")
    if options.parse_args().release:
        release()
        return 0
    wrong = check()
    for line in wrong:
        print(line)
    if wrong:
        print("Keep what clients use, or declare the change in docs/api/changes.toml.")
    return 1 if wrong else 0
