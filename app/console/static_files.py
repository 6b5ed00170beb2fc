"""The console's style sheet, modules and icons, under a path that has the digest of all of them.

The style sheets are served as one file. Browsers keep the files for a year: after a change their path is
another one. A file is compressed when it is first requested, once per process. Modules import each other by
relative paths, which stay valid below the digest.
"""

import gzip
from dataclasses import dataclass, field
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from typing import Final, Self

import brotli
from starlette.requests import Request
from starlette.responses import Response

PREFIX: Final = "/console/static"
_FOLDER: Final = Path(__file__).parent / "static"
_MEDIA_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_HEADERS: Final = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Vary": "Accept-Encoding",
}


@dataclass(frozen=True)
class StaticFile:
    """A file, which is compressed when it is first requested so."""

    media_type: str
    body: bytes = field(repr=False)

    @classmethod
    def of(cls, name: str, body: bytes) -> Self:
        """Return the file of this name with this content."""
        return cls(_MEDIA_TYPES[Path(name).suffix], body)

    @cached_property
    def brotli(self) -> bytes:
        """The content, compressed by Brotli (RFC 7932)."""
        return brotli.compress(self.body, quality=9)  # type: ignore[no-any-return, no-untyped-call]

    @cached_property
    def gzip(self) -> bytes:
        """The content, compressed by gzip (RFC 1952)."""
        return gzip.compress(self.body, compresslevel=9, mtime=0)

    def encode(self, accepted: set[str]) -> tuple[str | None, bytes]:
        """Return the content, and the coding that it has of those accepted."""
        if "br" in accepted:
            return "br", self.brotli
        if "gzip" in accepted:
            return "gzip", self.gzip
        return None, self.body


class StaticFiles:
    """All static files by name, and the digest that stands in their paths."""

    def __init__(self, folder: Path = _FOLDER) -> None:
        contents = {
            "console.css": b"".join(path.read_bytes() for path in sorted((folder / "css").glob("*.css")))
        }
        contents |= {path.name: path.read_bytes() for path in sorted((folder / "js").glob("*.js"))}
        contents |= {path.name: path.read_bytes() for path in sorted(folder.glob("*.svg"))}
        self.files = {name: StaticFile.of(name, body) for name, body in contents.items()}
        self.digest = sha256(
            b"\0".join(name.encode() + b"\0" + body for name, body in contents.items())
        ).hexdigest()[:16]

    @staticmethod
    @cache
    def shared() -> "StaticFiles":
        """Return the files of the console, read once per process."""
        return StaticFiles()

    def url(self, name: str) -> str:
        """Return the path of a file below the root of the gateway; raise KeyError for an unknown one."""
        self.files[name]
        return f"{PREFIX}/{self.digest}/{name}"

    def response(self, request: Request, digest: str, name: str) -> Response:
        """Return a file in the form that the client accepts; 404 for an unknown one.

        Under another digest, such as that of another version behind the same proxy, it is not stored.
        """
        file = self.files.get(name)
        if file is None:
            return Response(status_code=404, headers={"Cache-Control": "no-store"})
        accepted = {
            one.split(";")[0].strip() for one in request.headers.get("accept-encoding", "").split(",")
        }
        headers = dict(_HEADERS)
        if digest != self.digest:
            headers["Cache-Control"] = "no-store"
        coding, body = file.encode(accepted)
        if coding is not None:
            headers["Content-Encoding"] = coding
        return Response(body, headers=headers, media_type=file.media_type)
