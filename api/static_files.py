"""Static files: each one has its content type, a validator and the headers of its folder."""

import hashlib
import pathlib
from collections.abc import Mapping
from typing import Any

import attrs
from litestar import Request, Response

from core.base.errors import NotFound
from core.runtime.container import Runtime

# The types are listed here, because those of `mimetypes` depend on the machine.
TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".json": "application/json",
    ".md": "text/markdown",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".ts": "application/typescript",
    ".webmanifest": "application/manifest+json",
}
READING: Any = ["GET", "HEAD"]  # the methods of a route that returns files
WEB = pathlib.Path(__file__).parent / "web"  # all browser code
SHARED = WEB / "shared"
REVALIDATE = "no-cache"  # browsers cache the file, but revalidate it each time


@attrs.frozen
class File:
    """A static file. `tag` is its entity tag."""

    content: bytes
    media_type: str
    tag: str


def _read(path: pathlib.Path) -> File:
    content = path.read_bytes()
    return File(content, TYPES[path.suffix], f'"{hashlib.sha256(content).hexdigest()[:32]}"')


class StaticFolder:
    """The files of a folder, by their paths below it. Only files with a suffix in TYPES are served.

    With `shared`, the modules of several pages are below `shared/`.
    """

    def __init__(self, path: pathlib.Path, *, shared: bool = False) -> None:
        self.path = path
        self._folders = {"": path, "shared/": SHARED} if shared else {"": path}
        self._files: dict[str, File] = {}
        self._known: dict[str, pathlib.Path] = {}  # the paths at the last look into the folders

    def paths(self) -> dict[str, pathlib.Path]:
        """Return name -> path of all files."""
        return {
            prefix + path.relative_to(folder).as_posix(): path
            for prefix, folder in self._folders.items()
            for path in sorted(folder.rglob("*"))
            if path.suffix in TYPES
        }

    def find(self, name: str, *, fresh: bool) -> File | None:
        """Return a file, or None for an unknown name.

        All files are read once and kept. With `fresh` the file is read again, so that an edit shows at the next
        request.
        """
        if fresh:
            # A name is looked up and never joined to a path. To look into the folders takes a millisecond.
            if name not in self._known or not self._known[name].is_file():
                self._known = self.paths()
            path = self._known.get(name)
            return None if path is None else _read(path)
        if not self._files:
            self._files = {known: _read(path) for known, path in self.paths().items()}
        return self._files.get(name)


def _is_known(tags: str, tag: str) -> bool:
    """Return whether an If-None-Match header names this entity tag."""
    named = {one.strip().removeprefix("W/") for one in tags.split(",")}
    return tag in named or "*" in named


def answer(
    request: Request[Any, Any, Any], folder: StaticFolder, name: str, *, headers: Mapping[str, str]
) -> Response[bytes]:
    """Return the answer with a file of a folder: 304 without the content if the client has it.

    Raises NotFound.
    """
    runtime: Runtime = request.app.state.runtime
    file = folder.find(name, fresh=not runtime.settings.production)
    if file is None:
        raise NotFound
    headers = {**headers, "ETag": file.tag}
    if _is_known(request.headers.get("if-none-match", ""), file.tag):
        return Response(b"", status_code=304, headers=headers)
    return Response(file.content, media_type=file.media_type, headers=headers)
