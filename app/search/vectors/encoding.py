"""Keeps the vectors of all tools up to date: the work of the encoding process.

Each process writes the file of its data directory. Of all processes with one database and model, the one that
holds an advisory lock encodes and stores the vectors; the others read what it has stored.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from app.catalog.feed import ChangeFeed, ChangeNotice
from app.core.errors import Unavailable
from app.search.vectors.encoder import TextEncoder
from app.search.vectors.folder import VectorFolder
from app.search.vectors.leadership import Leadership
from app.search.vectors.matrix import VectorMatrix
from app.search.vectors.model_source import ModelError
from app.search.vectors.status import VectorStatus, write_status
from app.search.vectors.store import (
    delete_other_models,
    delete_vectors,
    read_vectors,
    store_vectors,
    stream_digests,
)
from app.search.vectors.tool_digests import ToolDigests
from app.storage.database import Database

_TOOLS_OF_ROUND: Final = 32
"""Tools whose texts are read, encoded and stored together: a third of a second."""
_IDLE_SECONDS: Final = 60.0
_FOLLOWER_SECONDS: Final = 2.0
_RETRY_SECONDS: Final = 2.0
_OTHER_MODELS_DAYS: Final = 7


@dataclass(frozen=True, slots=True)
class EncodingTimes:
    """In seconds: how often unused vectors are deleted at most and at least, and how often the file is
    written while texts are encoded (and at most a tenth of the time).
    """

    sweep_min: float = 600.0
    sweep_max: float = 3_600.0
    write: float = 2.0


@dataclass(slots=True)
class Encoding:
    """The vectors of all tools, in PostgreSQL and in the file of a data directory.

    `report_rejected` is called with the number of texts that the model could not encode, where there are
    some.
    """

    database: Database
    feed: ChangeFeed
    leadership: Leadership
    encoder: TextEncoder
    folder: VectorFolder
    times: EncodingTimes = EncodingTimes()
    report_rejected: Callable[[int], None] = field(kw_only=True)
    _queue: deque[tuple[UUID, list[bytes]]] = field(default_factory=deque)
    """The tools without all of their vectors, with the digests of those that they had not."""
    _is_queue_read: bool = False
    """Whether this process leads and has read what others had stored of the queue."""
    _changes: list[ChangeNotice] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _written_at: float = float("-inf")
    _write_seconds: float = 0.0
    _swept_at: float = float("-inf")
    _is_written: bool = False
    _rejected: set[bytes] = field(default_factory=set)
    """The digests of texts that the model cannot encode; they are not tried again."""

    async def run(self) -> None:
        """Work until cancelled, whether PostgreSQL is available or not."""
        source = self.folder.source
        tools = ToolDigests(self.database, source.digest)
        matrix = VectorMatrix(self.folder.vectors, source.digest, self.encoder.dimensions)
        await asyncio.to_thread(matrix.adopt)
        self.feed.subscribe(self._on_changes)
        await self._start_feed()
        self._changes.append(ChangeNotice("all"))
        while True:
            try:
                await self._round(tools, matrix)
            except Unavailable:
                # The changes were not applied; which ones does not matter, since all that is unchanged is
                # cheap.
                self._changes.append(ChangeNotice("all"))
                await asyncio.sleep(_RETRY_SECONDS)

    async def _start_feed(self) -> None:
        while True:
            try:
                await self.feed.start()
            except Unavailable:
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return

    async def _on_changes(self, changes: list[ChangeNotice]) -> None:
        self._changes += changes
        self._changed.set()

    async def _round(self, tools: ToolDigests, matrix: VectorMatrix) -> None:
        """Apply changes, and do a third of a second of work; wait where there is none."""
        self._changed.clear()
        changes, self._changes = self._changes, []
        if changes:
            if await tools.apply(changes):
                self._is_written = False
            self._queue = deque(_list_missing(tools, matrix, self._rejected))
            self._is_queue_read = False
        leads = await self.leadership.acquire()
        if self._queue and not (leads and self._is_queue_read):
            await self._load_stored(matrix)
            self._is_queue_read = leads
        if self._queue and leads:
            await self._encode(tools, matrix)
        await self._publish(tools, matrix)
        if self._queue and leads:
            return
        if not self._queue and leads and self._is_sweep_due(tools):
            await self._sweep(tools, matrix)
        if not self._is_written:
            # What changed since is written after the pause.
            await self._wait(max(self.times.write, 10 * self._write_seconds))
            return
        await self._wait(_FOLLOWER_SECONDS if self._queue else min(self.times.sweep_min, _IDLE_SECONDS))

    async def _wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    async def _load_stored(self, matrix: VectorMatrix) -> None:
        """Take what is stored of the vectors that are missing."""
        missing = {digest for _, digests in self._queue for digest in digests}
        async with self.database.read_session() as session:
            stored = await read_vectors(session, list(missing))
        # float16 numbers of two bytes each.
        usable = {
            digest: vector for digest, vector in stored.items() if len(vector) == 2 * self.encoder.dimensions
        }
        if usable:
            matrix.pending.update(usable)
            self._queue = deque(one for one in self._queue if any(digest not in matrix for digest in one[1]))
            self._is_written = False

    async def _encode(self, tools: ToolDigests, matrix: VectorMatrix) -> None:
        """Encode and store the texts of the first tools of the queue."""
        some = [self._queue[at] for at in range(min(_TOOLS_OF_ROUND, len(self._queue)))]
        # The queue is older than what was rejected since, which another tool may have, too.
        missing = {digest for _, digests in some for digest in digests} - self._rejected
        missing = {digest for digest in missing if digest not in matrix}
        texts = await tools.read_texts([tool for tool, _ in some], missing)
        vectors = await asyncio.to_thread(self._encode_texts, texts)
        if rejected := texts.keys() - vectors.keys():
            self._rejected |= rejected
            self.report_rejected(len(rejected))
        async with self.database.transaction() as session:
            await store_vectors(session, self.folder.source.digest, vectors)
        matrix.pending.update(vectors)
        # Tools whose texts were not found have changed since: the feed reports it, which makes a new queue.
        for _ in some:
            self._queue.popleft()
        if vectors:
            self._is_written = False

    def _encode_texts(self, texts: dict[bytes, str]) -> dict[bytes, bytes]:
        """Return the vectors of the texts that the model can encode."""
        vectors: dict[bytes, bytes] = {}
        for digest, text in texts.items():
            try:
                vector = self.encoder.encode(text)
            except ModelError:
                continue
            vectors[digest] = vector.astype("<f2").tobytes()
        return vectors

    async def _publish(self, tools: ToolDigests, matrix: VectorMatrix) -> None:
        """Write the file, if it is due, and the status."""
        pause = max(self.times.write, 10 * self._write_seconds)
        began = time.monotonic()
        if not self._is_written and began - self._written_at >= pause:
            await asyncio.to_thread(matrix.write, list(tools))
            self._written_at = time.monotonic()
            self._write_seconds = self._written_at - began
            self._is_written = True
        total = len(tools)
        left = len(self._queue)
        status = VectorStatus(
            "encoding" if left or not self._is_written else "ready",
            self.folder.source.name,
            max(total - left, 0),
            total,
        )
        await asyncio.to_thread(write_status, self.folder.status, status)

    def _is_sweep_due(self, tools: ToolDigests) -> bool:
        since = time.monotonic() - self._swept_at
        return since >= (self.times.sweep_min if tools.removed else self.times.sweep_max)

    async def _sweep(self, tools: ToolDigests, matrix: VectorMatrix) -> None:
        """Delete the stored vectors that no tool has, and store those that are in the file only."""
        model, used = self.folder.source.digest, tools.list_used()
        unused: list[bytes] = []
        lost = set(used)
        async with self.database.read_session() as session:
            async for digests in stream_digests(session, model):
                unused += (digest for digest in digests if digest not in used)
                lost.difference_update(digests)
        restored = {digest: matrix.get_vector(digest) for digest in lost if digest in matrix}
        async with self.database.transaction() as session:
            await delete_vectors(session, unused)
            await store_vectors(session, model, restored)
            await delete_other_models(session, model, days=_OTHER_MODELS_DAYS)
        tools.removed = False
        self._swept_at = time.monotonic()


def _list_missing(
    tools: ToolDigests, matrix: VectorMatrix, rejected: Collection[bytes]
) -> Iterator[tuple[UUID, list[bytes]]]:
    """Yield the tools without all of their vectors, with the digests of those that they have not, but for
    those of texts that the model has rejected.
    """
    for tool, digests in tools:
        without = [
            digest
            for digest in digests
            if digest is not None and digest not in matrix and digest not in rejected
        ]
        if without:
            yield tool, without
