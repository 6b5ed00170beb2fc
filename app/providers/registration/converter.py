"""Converts OpenAPI documents in child processes, and runs imports in the background."""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, Final

from app.core.settings import Settings
from app.formats.archive import DocumentLimits
from app.openapi.conversion.results import Conversion
from app.openapi.model import ConvertOptions
from app.openapi.process.client import ChildLimits, convert_in_child
from app.openapi.process.workers import ForkServer, start_worker
from app.providers.registration.model import RegistrationSource

VERSION = "1"
"""Version of the conversion, stored with each source: a newer one can tell what it would convert anew."""

_FORK_SERVER_DELAY: Final = 1.0


class Converter:
    """A bounded number of child processes at a time, forked from one that is ready, and the background
    imports of this worker.
    """

    def __init__(self, settings: Settings, fork_server: ForkServer | None = None) -> None:
        """`fork_server` is one that others use, too, in place of an own one."""
        self._processes = asyncio.Semaphore(settings.conversion_processes)
        self._document = DocumentLimits(size=settings.max_document_bytes)
        self._limits = ChildLimits(
            memory=settings.conversion_memory_bytes,
            cpu_seconds=max(1, round(settings.conversion_timeout)),
            wall_seconds=settings.conversion_timeout,
        )
        self._fork_server = (fork_server or ForkServer()) if settings.conversion_fork_server else None
        self._is_shared = fork_server is not None
        self._delay: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Start the fork server a moment later, so that it does not delay the start of the gateway."""
        if self._fork_server is not None:
            self._delay = asyncio.get_running_loop().call_later(_FORK_SERVER_DELAY, self._fork_server.prepare)

    async def convert(
        self, source: RegistrationSource, *, options: Mapping[str, Any], list_missing: bool = False
    ) -> Conversion:
        """Return the tools of an OpenAPI document, or of an archive; raise InvalidDocument or TooLarge.

        `options` are those of the provider: `base_url`, `server` and `server_variables` say where it is.
        `list_missing`: `Conversion.missing` lists the files that the document refers to.
        """
        conversion = ConvertOptions(
            url=source.document_url,
            base_url=options.get("base_url"),
            server=options.get("server"),
            server_variables=options.get("server_variables") or {},
            media_type=source.media_type or None,
            root=source.options.root,
            overlay=source.options.overlay,
            list_missing=list_missing,
            limits=self._document,
        )
        async with self._processes:
            start = start_worker if self._fork_server is None else self._fork_server.process
            return await convert_in_child(source.body, options=conversion, limits=self._limits, start=start)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work that must outlive the request that started it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        """Cancel what still runs, and wait for it."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._delay is not None:
            self._delay.cancel()
        if self._fork_server is not None and not self._is_shared:
            await self._fork_server.aclose()
