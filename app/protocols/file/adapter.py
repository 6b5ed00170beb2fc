"""UTCP's `file` (0.x: `text` with `file_path`): a document, or a tool's response, in a file below a folder of
the operator's list FILE_FOLDERS.

A link is followed only to a target below such a folder. The resolved path is opened component by component
from the folder down without following links, so that the file that was checked is the file that is read.
"""

import asyncio
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from app.core.errors import (
    BlockedAddress,
    FieldError,
    InvalidInput,
    ResponseTooLarge,
    UpstreamUnreachable,
)
from app.formats.utcp.call_template import compile_template
from app.protocols.base import AdapterContext, Call, Discovered, Result
from app.protocols.file.template import FileTemplate
from app.protocols.shared.effects import ReadOnly
from app.protocols.shared.results import TEXT, body_result

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


@dataclass(frozen=True, slots=True)
class _OutsideFolders(Exception):
    """The path leads out of FILE_FOLDERS."""


class FileAdapter(ReadOnly):
    """The adapter that reads files."""

    name: ClassVar[str] = "file"

    def __init__(self, context: AdapterContext) -> None:
        self._folders = tuple(Path(os.path.realpath(folder)) for folder in context.settings.file_folders)

    def prepare(self, template: Mapping[str, Any]) -> Path:
        """Return the normalised path; raise InvalidInput for one that is not absolute or has `..` in it.

        Whether it is below one of FILE_FOLDERS is checked at the call, with links resolved.
        """
        file = compile_template(template, FileTemplate)
        if not self._folders:
            field_error = FieldError("/call_template_type", "The operator allows folders in FILE_FOLDERS.")
            raise InvalidInput("Files are not served by this gateway", errors=[field_error])
        path = Path(os.path.normpath(file.file_path))
        if not path.is_absolute() or "\x00" in file.file_path or ".." in Path(file.file_path).parts:
            field_error = FieldError("/file_path", "Give an absolute path without `..`.")
            raise InvalidInput("The path cannot be used", errors=[field_error])
        return path

    def origin(self, target: Path) -> str:
        """Return `file://` and the path: a file that cannot be read says nothing about others."""
        return f"file://{target}"

    async def discover(self, call: Call[Path]) -> Discovered:
        """Return the content of the file; raise what `call` raises."""
        return Discovered(raw=await self._read(call), media_type="", url=f"file://{call.target}")

    async def call(self, call: Call[Path]) -> Result:
        """Return the content of the file, as text where it is UTF-8, else as bytes; arguments are ignored.

        Raise BlockedAddress outside FILE_FOLDERS, UpstreamUnreachable where the file cannot be read, and
        ResponseTooLarge.
        """
        raw = await self._read(call)
        try:
            raw.decode()
        except UnicodeDecodeError:
            return body_result(raw, "application/octet-stream", call)
        return body_result(raw, TEXT, call)

    def describe(self, call: Call[Path]) -> dict[str, Any]:
        """Return the URL of the file that would be read."""
        return {"method": "read", "url": f"file://{call.target}", "headers": {}, "body": None}

    async def _read(self, call: Call[Path]) -> bytes:
        max_bytes = call.limits.response_bytes
        try:
            raw = await asyncio.to_thread(self._read_whole, call.target, max_bytes + 1)
        except _OutsideFolders:
            raise BlockedAddress("The file is not in a folder of the operator's list FILE_FOLDERS.") from None
        except OSError:
            raise UpstreamUnreachable("The file cannot be read.", request_sent=False) from None
        if len(raw) > max_bytes:
            raise ResponseTooLarge(f"The file has more than {max_bytes} bytes.")
        return raw

    def _read_whole(self, path: Path, max_bytes: int) -> bytes:
        resolved = Path(os.path.realpath(path))
        folder = next((one for one in self._folders if resolved.is_relative_to(one)), None)
        if folder is None or resolved == folder:
            raise _OutsideFolders
        descriptor = _open_below(folder, resolved.relative_to(folder).parts)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise _OutsideFolders
        with os.fdopen(descriptor, "rb") as file:
            return file.read(max_bytes)


def _open_below(folder: Path, names: tuple[str, ...]) -> int:
    """Return a file descriptor, opened without following links; raise OSError where a component is a link."""
    descriptor = os.open(folder, _FLAGS | os.O_DIRECTORY)
    for index, name in enumerate(names):
        kind = 0 if index == len(names) - 1 else os.O_DIRECTORY
        try:
            inner = os.open(name, _FLAGS | kind, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = inner
    return descriptor
