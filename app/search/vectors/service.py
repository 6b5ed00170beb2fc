"""The vectors of queries and tools in a worker: `QueryVectors` of the ranking.

The model and the file of vectors are loaded in the background, and loaded again when the encoding process has
written another version. A search waits for nothing but the encoding of its query, and for that only as long
as SEMANTIC_QUERY_TIMEOUT says.
"""

import asyncio
import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import structlog

from app.core.background import LoopMessages, cancel_tasks, run_periodically
from app.core.settings import Settings
from app.search.vectors.folder import VectorFolder
from app.search.vectors.job import Job
from app.search.vectors.model_source import ModelError, ModelSource, find_model, list_missing_libraries
from app.search.vectors.status import VectorState, VectorStatus, read_status
from app.search.vectors.supervisor import EncodingSupervisor

if TYPE_CHECKING:
    from app.search.vectors.encoder import TextEncoder
    from app.search.vectors.vector_file import VectorFile

_log = structlog.get_logger(__name__)
_POLL_SECONDS: Final = 1.0
_CACHED_QUERIES: Final = 1_000
"""Vectors of queries in memory, of 1.5 KB each."""
_MAX_WAITING: Final = 8
"""Queries that are encoded or wait for it; a further one is ranked by words, since it would be late."""
_MAX_QUERY: Final = 1_000
_MESSAGES: Final = LoopMessages(failed="the search vectors could not be read")
OUTCOMES: Final = ("encoded", "cached", "late", "busy", "failed")


@dataclass(slots=True)
class QueryCounts:
    """What became of queries: `encoded` in time, in the cache (`cached`), `late` (after the time limit),
    `busy` (not encoded, because too many waited), or `failed`. A query that was encoded, and then met a
    damaged file of vectors, counts as `failed`, too.
    """

    by_outcome: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0))

    def add(self, outcome: str) -> None:
        """Count one query."""
        self.by_outcome[outcome] += 1


class SearchVectors:
    """The model and the vectors of this worker, and the encoding process where this worker runs it."""

    def __init__(self, settings: Settings, *, database_url: str, listen_url: str) -> None:
        self._is_on = settings.semantic_search
        self._model_dir = settings.semantic_model_dir
        self._data_dir = settings.data_dir
        self._timeout = settings.semantic_query_timeout
        self._job = Job(
            database_url=database_url,
            listen_url=listen_url,
            data_dir=str(settings.data_dir.expanduser().resolve()),
            model_dir=None if self._model_dir is None else str(self._model_dir.expanduser().resolve()),
            poll_seconds=settings.feed_poll_seconds,
            memory=settings.semantic_memory_bytes,
        )
        self._state: VectorState = "off"
        self._source: ModelSource | None = None
        self._folder: VectorFolder | None = None
        self._supervisor: EncodingSupervisor | None = None
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="search-query")
        self._encoder: TextEncoder | None = None
        self._file: VectorFile | None = None
        self._versions: dict[Path, tuple[int, int, int]] = {}
        self._file_status: VectorStatus | None = None
        self._cache: OrderedDict[str, Any] = OrderedDict()
        self._running: dict[str, asyncio.Future[Any]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.counts = QueryCounts()

    async def start(self) -> None:
        """Find the model, and begin to load it and to run the encoding process.

        Raises ModelError where SEMANTIC_MODEL_DIR is not the folder of a model. Otherwise searches rank by
        words where there is no model, it cannot be used or libraries are missing, which one line in the log
        says.
        """
        if not self._is_on:
            return
        self._state, reason = await self._open()
        if self._folder is None:
            log = _log.info if self._state == "off" else _log.error
            log("searches rank tools by words only", reason=reason)
            return
        self._supervisor = EncodingSupervisor(self._folder, self._job)
        self._supervisor.start()
        loop = run_periodically(self._poll, interval=_POLL_SECONDS, messages=_MESSAGES, run_immediately=True)
        self._tasks.append(asyncio.create_task(loop, name="search-vectors"))

    async def aclose(self) -> None:
        """End the encoding process and the thread."""
        await cancel_tasks(self._tasks)
        if self._supervisor is not None:
            await self._supervisor.aclose()
        self._executor.shutdown(wait=False, cancel_futures=True)

    @property
    def status(self) -> VectorStatus:
        """How far the encoding is."""
        if self._folder is None or self._file_status is None:
            return VectorStatus(self._state, None if self._source is None else self._source.name)
        return self._file_status

    @property
    def is_ready(self) -> bool:
        """Whether queries are encoded: the model is loaded, and there are vectors of tools."""
        return self._encoder is not None and self._file is not None

    @property
    def process_id(self) -> int | None:
        """The process id of the encoding process; None where this worker does not run it."""
        return None if self._supervisor is None else self._supervisor.pid

    async def encode(self, text: str) -> Any | None:
        """Return the vector of a query (float32); None where there is no model, or none within the time
        limit.

        A vector that is late is in the cache afterwards.
        """
        if self._encoder is None or self._file is None:
            return None
        key = text[:_MAX_QUERY]
        if (vector := self._cache.get(key)) is not None:
            self._cache.move_to_end(key)
            self.counts.add("cached")
            return vector
        running = self._running.get(key)
        if running is None:
            if len(self._running) >= _MAX_WAITING:
                self.counts.add("busy")
                return None
            running = asyncio.get_running_loop().run_in_executor(self._executor, self._encoder.encode, key)
            self._running[key] = running
            running.add_done_callback(lambda done: self._on_encoded(key, done))
        await asyncio.wait({running}, timeout=self._timeout)
        if not running.done():
            self.counts.add("late")
            return None
        if running.cancelled() or running.exception() is not None:
            self.counts.add("failed")
            return None
        self.counts.add("encoded")
        return running.result()

    def compute_cosines(self, vector: Any, keys: Sequence[int]) -> Sequence[float | None]:
        """Return the cosine of each tool's nearer text with a query, by its key; None without a vector."""
        file = self._file
        try:
            return [None] * len(keys) if file is None else file.compute_cosines(vector, keys)
        except (IndexError, ValueError) as error:
            self._close(file, error)
            return [None] * len(keys)

    def find_nearest(self, vector: Any, limit: int) -> Sequence[int]:
        """Return the keys of the tools whose first texts are nearest to a query, at most `limit`."""
        file = self._file
        try:
            return () if file is None else file.find_nearest(vector, limit)
        except (IndexError, ValueError) as error:
            self._close(file, error)
            return ()

    def _close(self, file: "VectorFile | None", error: Exception) -> None:
        """Count a search that met a damaged file; use the file no longer, until another one is written."""
        self.counts.add("failed")
        # Another search may have closed it, and a newer one may be in its place.
        if file is not None and self._file is file:
            self._file = None
            _log.warning("the file of vectors cannot be used", error=type(error).__name__)

    async def _open(self) -> tuple[VectorState, str]:
        """Find the model, its libraries and its folder; return the state and, where there is none, why."""
        try:
            self._source = await asyncio.to_thread(find_model, self._model_dir)
        except ModelError as error:
            if self._model_dir is not None:
                raise
            return "unavailable", error.detail
        if self._source is None:
            return "off", "no model is installed (docs/search.md)"
        missing = list_missing_libraries()
        if missing:
            return "unavailable", f"not installed: {', '.join(missing)} (the extra `semantic`)"
        try:
            self._folder = await asyncio.to_thread(VectorFolder.create, self._data_dir, self._source)
        except OSError as error:
            return "unavailable", f"DATA_DIR cannot be written: {error.strerror}"
        return "starting", ""

    async def _poll(self) -> None:
        """Load what has another version than the one in memory."""
        assert self._folder is not None  # noqa: S101 - `start` has checked it.
        status = await asyncio.to_thread(read_status, self._folder.status)
        if self._encoder is None:
            await self._load(self._folder.source.graph, self._load_encoder)
        await self._load(self._folder.vectors, self._load_file)
        # The process writes the status after the file, so that what it counts is in memory now.
        self._file_status = status

    async def _load(self, path: Path, load: Callable[[VectorFolder], None]) -> None:
        """Load a file in a thread, unless this version of it was loaded, or could not be."""
        assert self._folder is not None  # noqa: S101 - as above.
        version = await asyncio.to_thread(_read_version, path)
        if version is not None and self._versions.get(path) != version:
            self._versions[path] = version
            try:
                await asyncio.to_thread(load, self._folder)
            except (ModelError, ValueError, OSError) as error:
                _log.warning("a file of search vectors cannot be used", file=path.name, reason=str(error))

    def _load_encoder(self, folder: VectorFolder) -> None:
        # Libraries of 60 MB, which workers without a model do not load.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        from app.search.vectors.encoder import TextEncoder  # noqa: PLC0415

        self._encoder = TextEncoder(folder.source.graph, folder.source.tokenizer)

    def _load_file(self, folder: VectorFolder) -> None:
        from app.search.vectors.vector_file import VectorFile  # noqa: PLC0415

        vector_file = VectorFile.open(folder.vectors)
        if vector_file.model == folder.source.digest:
            self._file = vector_file

    def _on_encoded(self, key: str, done: "asyncio.Future[Any]") -> None:
        self._running.pop(key, None)
        if done.cancelled() or done.exception() is not None:
            return
        self._cache[key] = done.result()
        while len(self._cache) > _CACHED_QUERIES:
            self._cache.popitem(last=False)


def _read_version(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
