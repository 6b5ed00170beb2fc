"""Fetches the files that a document at a URL refers to, from the same origin.

Files of other origins are left out. A file that redirects is read from where that leads, as the document is.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, urlsplit

from app.core.errors import GatewayError, TooLarge
from app.formats.archive import is_archive, may_be_packed, pack_files
from app.openapi.conversion.results import Conversion
from app.openapi.reading.source import get_root_path
from app.openapi.report import SourceWarning
from app.protocols.base import Discovered
from app.providers.credentials.origins import origin_of

MAX_FILES: Final = 500
MAX_SECONDS: Final = 120.0
_CONCURRENCY: Final = 4
# What an entry of an archive takes beside its content, with a name of 500 bytes twice.
_ENTRY: Final = 1_100
# RFC 3986: what may stand in a path and a query; `%` is part of what was written already.
_UNESCAPED: Final = "/%?=&:@!$'()*+,;~-._"

Fetch = Callable[[str], Awaitable[Discovered]]
Convert = Callable[[bytes, str | None, bool], Awaitable[Conversion]]
"""Body, root and whether to name the files that are missing -> what the converter made."""


@dataclass(frozen=True, slots=True)
class CompleteDocument:
    """A document, or an archive of it with its files, and its path (`root`) in the archive. `warnings` name
    the files that are left out.
    """

    body: bytes
    conversion: Conversion
    root: str | None = None
    warnings: tuple[SourceWarning, ...] = ()


async def follow(
    body: bytes, *, url: str, fetch: Fetch, convert: Convert, max_bytes: int
) -> CompleteDocument:
    """Convert, fetch what was missing, and convert again, until nothing new is missing.

    Raises TooLarge, with the limit and what to do, beyond 500 files, `max_bytes` or two minutes. What refers
    to a file that cannot be fetched accepts any value.
    """
    conversion = await convert(body, None, True)
    if is_archive(body):
        return CompleteDocument(body, conversion)
    fetched = _Files(url, fetch, max_bytes, max_bytes - len(body) - _ENTRY, {get_root_path(url): body})
    try:
        async with asyncio.timeout(MAX_SECONDS):
            while missing := [path for path in conversion.missing if path not in fetched.requested]:
                await fetched.add(missing)
                body = await asyncio.to_thread(pack_files, fetched.files)
                conversion = await convert(body, get_root_path(url), False)
    except TimeoutError:
        raise _reject_size(f"fetching them takes more than {MAX_SECONDS:g} seconds") from None
    root = get_root_path(url) if len(fetched.files) > 1 else None
    return CompleteDocument(
        body if root else fetched.files[get_root_path(url)], conversion, root, tuple(fetched.warnings)
    )


@dataclass(slots=True)
class _Files:
    url: str
    fetch: Fetch
    max_bytes: int
    left: int
    files: dict[str, bytes]
    requested: set[str] = field(default_factory=set)
    warnings: list[SourceWarning] = field(default_factory=list)
    permits: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_CONCURRENCY))

    async def add(self, paths: list[str]) -> None:
        """Fetch files into `files`, in the order of their paths."""
        self.requested.update(paths)
        if len(self.requested) > MAX_FILES:
            raise _reject_size(f"there are more than {MAX_FILES} of them")
        async with asyncio.TaskGroup() as group:
            tasks = {path: group.create_task(self._fetch_file(path)) for path in paths}
        self._add_found({path: task.result() for path, task in tasks.items()})

    def _add_found(self, files: Mapping[str, Discovered | str]) -> None:
        for path, file in files.items():
            if isinstance(file, str):
                self.warnings.append(SourceWarning(f"the file {path[:200]} is left out: {file}"))
            elif not may_be_packed(path, file.raw):
                self.warnings.append(SourceWarning(f"the file {path[:200]} is left out: it is no document"))
            else:
                self.files[path] = file.raw
                if file.is_redirected and origin_of(file.url) != origin_of(self.url):
                    self.warnings.append(SourceWarning(f"the file {path[:200]} redirects to {file.url}"))
        if self.left < 0:
            raise _reject_size(f"they and the document have more than {self.max_bytes} bytes together")

    async def _fetch_file(self, path: str) -> Discovered | str:
        """Return the file, or why there is none."""
        split = urlsplit(self.url)
        async with self.permits:
            if self.left < 0:
                return "the others are too large"
            try:
                file = await self.fetch(f"{split.scheme}://{split.netloc}/{quote(path, safe=_UNESCAPED)}")
            except GatewayError as error:
                return error.detail
            self.left -= len(file.raw) + _ENTRY
        return file


def _reject_size(reason: str) -> TooLarge:
    return TooLarge(
        f"The document refers to other files at its origin, and {reason}.",
        hint="Send a zip archive of the files, or leave them out with `source.follow_references: false`.",
    )
