"""A document at a URL with the files that it refers to, fetched from the same origin through the guard."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, urlsplit

from app.credentials.model import Json
from app.errors import GatewayError, TooLarge
from app.openapi.archive import is_archive, may_be_packed, pack
from app.openapi.model import Conversion
from app.openapi.read import root_of
from app.protocols.base import Discovered
from app.registration.report import warning

MOST_FILES: Final = 500
SECONDS: Final = 120.0
_AT_ONCE: Final = 4
# What an entry of an archive takes beside its content, with a name of 500 bytes twice.
_ENTRY: Final = 1_100
# RFC 3986: what may stand in a path and a query; `%` is part of what was written already.
_KEPT: Final = "/%?=&:@!$'()*+,;~-._"

Fetch = Callable[[str], Awaitable[Discovered]]
Convert = Callable[[bytes, str | None, bool], Awaitable[Conversion]]
"""Body, root and whether to name the files that are missing -> what the converter made."""


@dataclass(frozen=True, slots=True)
class Followed:
    """The document, or an archive of it with its files and its `root` in there; `remarks` on what is not."""

    body: bytes
    conversion: Conversion
    root: str | None = None
    remarks: tuple[Json, ...] = ()


async def follow(body: bytes, *, url: str, fetch: Fetch, convert: Convert, largest: int) -> Followed:
    """Converts, fetches what was missing, and converts again, until nothing new is missing.

    Raises TooLarge beyond 500 files, `largest` bytes or two minutes. A file that cannot be fetched costs the
    operations that need it.
    """
    conversion = await convert(body, None, True)
    if is_archive(body):
        return Followed(body, conversion)
    following = _Following(url, fetch, largest - len(body) - _ENTRY, {root_of(url): body})
    try:
        async with asyncio.timeout(SECONDS):
            while wanted := [path for path in conversion.missing if path not in following.asked]:
                await following.more(wanted)
                body = await asyncio.to_thread(pack, following.files)
                conversion = await convert(body, root_of(url), False)
    except TimeoutError:
        raise TooLarge(f"Following the references takes more than {SECONDS:g} seconds") from None
    root = root_of(url) if len(following.files) > 1 else None
    return Followed(
        body if root else following.files[root_of(url)], conversion, root, tuple(following.remarks)
    )


@dataclass(slots=True)
class _Following:
    url: str
    fetch: Fetch
    left: int
    files: dict[str, bytes]
    asked: set[str] = field(default_factory=set)
    remarks: list[Json] = field(default_factory=list)
    places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    async def more(self, wanted: list[str]) -> None:
        """Fetches files; what is fetched stands in `files`, in the order in which it was asked for."""
        self.asked.update(wanted)
        if len(self.asked) > MOST_FILES:
            raise TooLarge(f"The document refers to more than {MOST_FILES} files")
        async with asyncio.TaskGroup() as group:
            tasks = {path: group.create_task(self._one(path)) for path in wanted}
        self._keep({path: task.result() for path, task in tasks.items()})

    def _keep(self, found: Mapping[str, bytes | str]) -> None:
        for path, content in found.items():
            if isinstance(content, str):
                self.remarks.append(warning(f"the file {path[:200]} is left out: {content}"))
            elif not may_be_packed(path, content):
                self.remarks.append(warning(f"the file {path[:200]} is left out: it is no document"))
            else:
                self.files[path] = content
        if self.left < 0:
            raise TooLarge("The document and its files are too large together")

    async def _one(self, path: str) -> bytes | str:
        """The file, or why there is none."""
        split = urlsplit(self.url)
        async with self.places:
            if self.left < 0:
                return "the others are too large"
            try:
                found = await self.fetch(f"{split.scheme}://{split.netloc}/{quote(path, safe=_KEPT)}")
            except GatewayError as error:
                return error.detail
            self.left -= len(found.raw) + _ENTRY
        return found.raw
