"""Conversions of OpenAPI documents in child processes, and imports that no request waits for."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from app.openapi.child import ChildLimits, convert_in_child
from app.openapi.model import Conversion, ConvertOptions, DocumentLimits
from app.registration.model import RegistrationSource
from app.settings import Settings

VERSION = "1"
"""Version of the conversion, stored with each source: a newer one can tell what it would convert anew."""


class Converter:
    """A bounded number of child processes at a time, and the background imports of this worker."""

    def __init__(self, settings: Settings) -> None:
        self._processes = asyncio.Semaphore(settings.conversion_processes)
        self._document = DocumentLimits(size=settings.max_document_bytes)
        self._limits = ChildLimits(
            memory=settings.conversion_memory_bytes,
            cpu_seconds=max(1, round(settings.conversion_timeout)),
            wall_seconds=settings.conversion_timeout,
        )
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Do nothing: a process is started for each conversion."""

    async def convert(
        self, source: RegistrationSource, *, base_url: str | None, gathers: bool = False
    ) -> Conversion:
        """Return the tools of an OpenAPI document, or of an archive; raise InvalidDocument or TooLarge.

        `gathers`: the conversion names the files that the document refers to.
        """
        options = ConvertOptions(
            url=source.url,
            base_url=base_url,
            media_type=source.media_type or None,
            root=source.options.root,
            overlay=source.options.overlay,
            list_missing=gathers,
            limits=self._document,
        )
        async with self._processes:
            return await convert_in_child(source.body, options=options, limits=self._limits)

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
