"""UTCP's `file` (0.x: `text` with `file_path`): a document, or a tool's answer, in a file below a folder that
the operator has opened (`FILE_FOLDERS`).

A link is followed only to a place below such a folder, and what is opened is what was judged: the resolved
path is walked from the folder down without following any link.
"""

import asyncio
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from app.errors import BlockedAddress, FieldError, InvalidInput, ResponseTooLarge, UpstreamUnreachable
from app.protocols.base import AdapterContext, Call, Discovered, Result
from app.protocols.file.template import FileTemplate
from app.protocols.shared.effects import ReadOnly
from app.protocols.shared.results import TEXT, body_result
from app.utcp.call_template import compile_template

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


@dataclass(frozen=True, slots=True)
class _OutsideFolders(Exception):
    """The path leads out of every opened folder."""


class FileAdapter(ReadOnly):
    """Reads files."""

    name: ClassVar[str] = "file"

    def __init__(self, context: AdapterContext) -> None:
        self._folders = tuple(Path(os.path.realpath(folder)) for folder in context.settings.file_folders)

    def prepare(self, template: Mapping[str, Any]) -> Path:
        """The path; raises InvalidInput for one that is not below an opened folder, links aside."""
        file = compile_template(template, FileTemplate)
        if not self._folders:
            field_error = FieldError("/call_template_type", "The operator opens folders with FILE_FOLDERS.")
            raise InvalidInput("Files are not served by this gateway", errors=[field_error])
        path = Path(os.path.normpath(file.file_path))
        if not path.is_absolute() or "\x00" in file.file_path or ".." in Path(file.file_path).parts:
            field_error = FieldError("/file_path", "Give an absolute path without `..`.")
            raise InvalidInput("The path cannot be used", errors=[field_error])
        return path

    def origin(self, target: Path) -> str:
        """The file itself: one that fails says nothing about others."""
        return f"file://{target}"

    async def discover(self, call: Call) -> Discovered:
        """The file."""
        return Discovered(raw=await self._read(call), media_type="", url=f"file://{call.target}")

    async def call(self, call: Call) -> Result:
        """The file as it is; arguments change nothing. Text where it is UTF-8, else bytes."""
        raw = await self._read(call)
        try:
            raw.decode()
        except UnicodeDecodeError:
            return body_result(raw, "application/octet-stream", call)
        return body_result(raw, TEXT, call)

    def describe(self, call: Call) -> dict[str, Any]:
        """What would be read."""
        return {"method": "read", "url": f"file://{call.target}", "headers": {}, "body": None}

    async def _read(self, call: Call) -> bytes:
        max_bytes = call.limits.response_bytes
        try:
            raw = await asyncio.to_thread(self._read_whole, call.target, max_bytes + 1)
        except _OutsideFolders:
            raise BlockedAddress("The file lies in no folder that the operator has opened.") from None
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
    """Walks down from the folder; a component that has become a link meanwhile is an OSError."""
    descriptor = os.open(folder, _FLAGS | os.O_DIRECTORY)
    for index, name in enumerate(names):
        kind = 0 if index == len(names) - 1 else os.O_DIRECTORY
        try:
            inner = os.open(name, _FLAGS | kind, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = inner
    return descriptor
