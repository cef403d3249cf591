"""Write docs/client-api.md: the public functions, classes and types of the client library, from its declarations.

`make pages` first writes the declarations (tools/pages/client_package.py).
"""

import pathlib
import re
import textwrap
from collections.abc import Iterator

import attrs

from tools.pages.client_package import FOLDER, TYPES

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "client-api.md"
HEAD = """# Client library API

What `sesi-client` exports. Its [README](../api/web/client/README.md) shows how to start; the types of routes,
frames and their objects are in [wire.d.ts](../api/web/client/wire.d.ts). Methods whose promise is rejected
reject with a [SesiError](#sesierror). [errors.md](errors.md) has every `code`.

Made by `make pages` from the declarations, with `tools/pages/client_api_page.py`; a test keeps it current.
"""
EXPORT = re.compile(r'^export \{ (?P<names>[^}]+) \} from "\./(?P<module>\w+)\.js";$', re.M)
NAME = re.compile(
    r"(?:export )?(?:declare )?(?:async )?(?:class |interface |type |const |function |get )?(?P<name>[A-Za-z_]\w*)"
)
TAG = re.compile(r"^@(?P<tag>\w+)(?: \{.*?\}(?= |$))? ?(?P<rest>.*)$", re.S)


@attrs.frozen
class Declared:
    """One declaration: its name, the text of its doc comment with tags, and its code without indentation."""

    name: str
    comment: str
    code: str

    @property
    def text(self) -> str:
        """The comment without its tags."""
        return " ".join(re.split(r"^@", self.comment, maxsplit=1, flags=re.M)[0].split())

    @property
    def parameters(self) -> Iterator[str]:
        """The descriptions of parameters and of the result that say more than the types."""
        for part in re.split(r"^(?=@)", self.comment, flags=re.M)[1:]:
            found = TAG.match(" ".join(part.split()))
            if found is None:
                continue
            name, _, said = found["rest"].partition(" ") if found["tag"] == "param" else ("", "", found["rest"])
            if said and found["tag"] in ("param", "returns"):
                yield f"- `{name.strip('[]')}`: {said}" if name else f"- Returns {said}"


def page() -> str:
    """Return the page."""
    parts = [HEAD]
    index = (TYPES / "index.d.ts").read_text()
    for export in EXPORT.finditer(index):
        declared = {one.name: one for one in declarations((TYPES / f"{export['module']}.d.ts").read_text())}
        parts += [_section(declared[name]) for name in export["names"].split(", ")]
    parts.append("## Types\n")
    for one in declarations((FOLDER / "types.d.ts").read_text()):
        text = f"{one.text}\n\n" if one.text else ""
        parts.append(f"### {one.name}\n\n{text}{_code(one.code.removeprefix('export '))}")
    return "\n".join(parts)


def declarations(text: str) -> list[Declared]:
    """Return the exported declarations of a file."""
    return [one for one in _statements(text) if one.code.startswith(("export declare", "export interface", "export type"))
            and not one.code.startswith("export type *")]  # fmt: skip


def _statements(text: str) -> Iterator[Declared]:
    """Yield the statements of a text without indentation, each with the doc comment before it."""
    comment, code = "", ""
    for line in text.splitlines():
        if not code and (line.startswith("/**") or (comment and not comment.endswith("*/"))):
            comment = line if line.startswith("/**") else f"{comment}\n{line.strip()}"
            continue
        code += f"{line}\n"
        if not code.strip() or _is_whole(code):
            if (name := NAME.match(code)) is not None:
                yield Declared(name["name"], _plain(comment), code.rstrip())
            comment, code = ("", "") if code.strip() else (comment, "")


def _is_whole(code: str) -> bool:
    """Return whether a statement has ended: with `;` or `}` outside of all brackets."""
    brackets = sum(code.count(one) for one in "{([") - sum(code.count(one) for one in "})]")
    return brackets == 0 and code.rstrip().endswith((";", "}"))


def _plain(comment: str) -> str:
    """Return a doc comment without its frame."""
    lines = comment.strip().removeprefix("/**").removesuffix("*/").splitlines()
    return "\n".join(line.strip().removeprefix("*").strip() for line in lines).strip()


def _section(one: Declared) -> str:
    """Return the section of a function, or of a class with one for each member."""
    if not one.code.startswith("export declare class"):
        return f"## {one.name}\n\n{one.text}\n\n{_code(_signature(one))}{_list(one)}"
    head, _, body = one.code.partition("{\n")
    members = [
        member for member in _statements(textwrap.dedent(body.rpartition("}")[0])) if member.name != "constructor"
    ]
    parts = [f"## {one.name}\n\n{one.text}\n"]
    if not any("(" in member.code for member in members):  # a class of fields
        fields = "".join(f"  {member.code}\n" for member in members)
        return parts[0] + "\n" + _code(head.removeprefix("export declare ") + "{\n" + fields + "}")
    for member in members:
        text = f"{member.text}\n\n" if member.text else ""
        parts.append(f"### {one.name}.{member.name}\n\n{text}{_code(_signature(member))}{_list(member)}")
    return "\n".join(parts)


def _signature(one: Declared) -> str:
    return one.code.removeprefix("export declare ").removeprefix("const ").rstrip(";")


def _list(one: Declared) -> str:
    items = "\n".join(one.parameters)
    return f"\n{items}\n" if items else ""


def _code(code: str) -> str:
    return f"```ts\n{code}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"{PAGE.name}: {page().count('### ')} members and types")
