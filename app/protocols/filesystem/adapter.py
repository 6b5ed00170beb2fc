"""Files below one folder, the root: they are read and written as text in UTF-8.

The root is below a folder of the operator's list FILESYSTEM_FOLDERS. No link is followed, inside the root
either, and nothing but regular files is opened.
"""

import asyncio
import contextlib
import errno
import os
import secrets
from collections.abc import Mapping
from typing import Any, ClassVar, Final, NoReturn

from app.core.errors import (
    BlockedAddress,
    FieldError,
    InvalidArguments,
    InvalidInput,
    ResponseTooLarge,
    UpstreamUnreachable,
)
from app.formats.utcp.call_template import compile_template
from app.protocols.base import AdapterContext, Call, Discovered, Result
from app.protocols.filesystem.paths import (
    NotAFile,
    PathDenied,
    names_below,
    open_below,
    open_file,
    open_folder,
    require_file,
)
from app.protocols.filesystem.template import FilesystemTemplate
from app.protocols.shared.results import value_result

DENIED: Final = "Access denied: path not allowed"
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ABSENT: Final = (errno.ENOENT, errno.ENOTDIR)


class FileTooLarge(ResponseTooLarge):
    """The file is too large, which says nothing about others."""

    hint = "Read a smaller file, or raise the plugin's setting max_bytes."
    counts_for_breaker: ClassVar[bool] = False


class FileUnavailable(UpstreamUnreachable):
    """The operating system refuses this file, which says nothing about others."""

    hint = "Check the rights of the gateway's user on the file and its folder."
    counts_for_breaker: ClassVar[bool] = False


class FilesystemAdapter:
    """The adapter that reads and writes files."""

    name: ClassVar[str] = "filesystem"

    def __init__(self, context: AdapterContext) -> None:
        self._allowed = tuple(os.path.realpath(folder) for folder in context.settings.filesystem_folders)

    def prepare(self, template: Mapping[str, Any]) -> FilesystemTemplate:
        """Return the compiled template; raise InvalidInput for a root that the operator does not allow."""
        target = compile_template(template, FilesystemTemplate)
        if not self._allowed:
            field_error = FieldError("/root", "The operator allows folders in FILESYSTEM_FOLDERS.")
            raise InvalidInput("This gateway reads and writes no files", errors=[field_error])
        if not target.root.startswith("/") or "\x00" in target.root:
            raise InvalidInput(
                "The root cannot be used", errors=[FieldError("/root", "Give an absolute path.")]
            )
        real = os.path.realpath(target.root)
        if not any(os.path.commonpath([real, folder]) == folder for folder in self._allowed):
            field_error = FieldError(
                "/root", "Give a folder of the operator's list FILESYSTEM_FOLDERS, or below one."
            )
            raise InvalidInput("The root is not allowed", errors=[field_error])
        return target

    def origin(self, target: FilesystemTemplate) -> str:
        """Return `filesystem://` and the root."""
        return f"filesystem://{os.path.normpath(target.root)}"

    def is_safe(self, target: FilesystemTemplate) -> bool:
        """Return whether it reads."""
        return target.operation == "read"

    def is_idempotent(self, target: FilesystemTemplate) -> bool:  # noqa: ARG002 - both are.
        """Return True: a file that is written twice is the same."""
        return True

    def request_identity(self, call: Call[FilesystemTemplate]) -> bytes | None:  # noqa: ARG002 - the contract's.
        """Return None: files are not cached."""
        return None

    def method(self, target: FilesystemTemplate) -> str:
        """Return `read` or `write`."""
        return target.operation

    async def discover(self, call: Call[FilesystemTemplate]) -> Discovered:  # noqa: ARG002 - the contract's.
        """Raise InvalidInput: a folder publishes no tools."""
        raise InvalidInput("A folder publishes no tools: register a manual with them, or enable the plugin.")

    async def call(self, call: Call[FilesystemTemplate]) -> Result:
        """Return `{path, content, size}` of the file that was read, or `{path, bytes_written}`.

        Sizes are in bytes. Raise BlockedAddress for a path that is not below the root or leads over a link,
        InvalidArguments for one without a file, UpstreamUnreachable where the operating system refuses, and
        ResponseTooLarge.
        """
        path = _text(call, "path")
        try:
            if call.target.operation == "read":
                value = await asyncio.to_thread(self._read, call, path)
            else:
                value = await asyncio.to_thread(self._write, call, path, _text(call, "content"))
        except PathDenied:
            raise BlockedAddress(
                DENIED, hint="Give the path of a file below the root of the plugin, without links."
            ) from None
        except NotAFile:
            _reject("Path is not a file")
        except OSError as error:
            if error.errno in _ABSENT:
                _reject("There is no such file, or no such folder")
            if error.errno == errno.ENAMETOOLONG:
                _reject("A name in the path is too long")
            raise FileUnavailable(_reason(error), request_sent=False) from None
        return value_result(value, call)

    def describe(self, call: Call[FilesystemTemplate]) -> dict[str, Any]:
        """Return the URL of the file, and what would be written."""
        target = call.target
        try:
            names = names_below(_text(call, "path"), roots=_roots(target))
        except (PathDenied, NotAFile):
            names = ()
        url = "/".join((f"file://{os.path.normpath(target.root)}", *names))
        body = call.arguments.get("content") if target.operation == "write" else None
        return {"method": target.operation, "url": url, "headers": {}, "body": body}

    async def aclose(self) -> None:
        """Do nothing: a file is closed by its call."""

    def _read(self, call: Call[FilesystemTemplate], path: str) -> dict[str, Any]:
        names = names_below(path, roots=_roots(call.target))
        max_bytes = min(call.target.max_bytes, call.limits.response_bytes)
        folder = self._folder(call.target, names)
        try:
            descriptor = open_file(names[-1], folder=folder)
        finally:
            os.close(folder)
        with os.fdopen(descriptor, "rb") as file:
            raw = file.read(max_bytes + 1)
        if len(raw) > max_bytes:
            raise FileTooLarge(f"The file has more than {max_bytes} bytes.")
        try:
            content = raw.decode()
        except UnicodeDecodeError:
            _reject("The file is not text in UTF-8")
        return {"path": path, "content": content, "size": len(raw)}

    def _write(self, call: Call[FilesystemTemplate], path: str, content: str) -> dict[str, Any]:
        names = names_below(path, roots=_roots(call.target))
        try:
            raw = content.encode()
        except UnicodeEncodeError:
            _reject("The content has lone surrogates", at="/content")
        if len(raw) > call.target.max_bytes:
            _reject(f"The content has more than {call.target.max_bytes} bytes", at="/content")
        folder = self._folder(call.target, names)
        try:
            _replace(names[-1], raw, folder=folder)
        finally:
            os.close(folder)
        return {"path": path, "bytes_written": len(raw)}

    def _folder(self, target: FilesystemTemplate, names: tuple[str, ...]) -> int:
        """Return a descriptor of the folder of a file; raise PathDenied and OSError."""
        try:
            root = open_folder(target.root, allowed=self._allowed)
        except OSError:
            raise UpstreamUnreachable("The root folder cannot be opened.", request_sent=False) from None
        return open_below(root, names[:-1])


def _replace(name: str, raw: bytes, *, folder: int) -> None:
    """Make the bytes the content of a file, at once: nobody sees a part of it, or the end of what it was."""
    mode = None
    with contextlib.suppress(FileNotFoundError):
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        require_file(found)
        mode = found.st_mode & 0o777
    temporary = f".{secrets.token_hex(12)}.tmp"
    descriptor = os.open(temporary, _WRITE, 0o666, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        # What has this name meanwhile is replaced, not followed.
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _roots(target: FilesystemTemplate) -> tuple[str, ...]:
    """Return the root as it is configured, and its real path."""
    return (target.root, os.path.realpath(target.root))


def _text(call: Call[FilesystemTemplate], name: str) -> str:
    value = call.arguments.get(name)
    if not isinstance(value, str):
        _reject(f"Give the {name} as text", at=f"/{name}")
    return value


def _reject(detail: str, *, at: str = "/path") -> NoReturn:
    raise InvalidArguments(detail, errors=[FieldError(at, f"{detail}.")])


def _reason(error: OSError) -> str:
    reasons = {
        errno.EACCES: "The gateway may not open this file.",
        errno.EPERM: "The gateway may not open this file.",
        errno.EROFS: "The file system is read-only.",
        errno.ENOSPC: "The file system is full.",
        errno.EDQUOT: "The file system is full.",
    }
    return reasons.get(error.errno or 0, "The file cannot be opened.")
