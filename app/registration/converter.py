"""What runs beside the requests: conversions in child processes, and imports that nobody waits for."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from app.openapi.child import ChildLimits, convert_in_child
from app.openapi.model import Conversion, ConvertOptions, DocumentLimits
from app.registration.request_model import PLAIN, DocumentOptions
from app.settings import Settings

VERSION = "1"
"""Of the conversion: stored with each source, so that a newer one can tell what it would read anew."""


class Converter:
    """A bounded number of child processes at a time, and the background imports of this worker."""

    def __init__(self, settings: Settings) -> None:
        self._places = asyncio.Semaphore(settings.conversion_processes)
        self._document = DocumentLimits(size=settings.max_document_bytes)
        self._limits = ChildLimits(
            memory=settings.conversion_memory_bytes,
            cpu_seconds=max(1, round(settings.conversion_seconds)),
            wall_seconds=settings.conversion_seconds,
        )
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Nothing runs until it is asked for."""

    async def convert(
        self,
        document: bytes,
        *,
        url: str | None,
        base_url: str | None,
        media_type: str,
        how: DocumentOptions = PLAIN,
        gathers: bool = False,
    ) -> Conversion:
        """The tools of an OpenAPI document, or of an archive; raises InvalidDocument or TooLarge."""
        options = ConvertOptions(
            url=url,
            base_url=base_url,
            media_type=media_type or None,
            root=how.root,
            overlay=how.overlay,
            gathers=gathers,
            limits=self._document,
        )
        async with self._places:
            return await convert_in_child(document, options=options, limits=self._limits)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs work that must outlive the request which asked for it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        """Ends what still runs."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
