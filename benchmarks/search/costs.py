"""What a search costs: CPU time of a query, memory and time of the index, each in a child process."""

import gc
import multiprocessing
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection
from statistics import fmean, quantiles
from typing import Final
from uuid import UUID

import psutil

from app.search.index import IndexedTool, ToolIndex
from benchmarks.corpus.download import corpus
from benchmarks.search.pool import converted, documents_in_order
from benchmarks.search.ranking import WORDS, Ranking, indexed, search_of

SMALL: Final = 1_863
"""The 1,272 functions of BFCL, and as many operations as make this sum."""
LARGE: Final = 100_000
_SHOWN: Final = 10
_WARM_UP: Final = 50
_BATCH: Final = 200


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU milliseconds of a query for ten hits, CPU seconds of indexing, MB of resident memory."""

    ranking: str
    tools: int
    mean: float
    p95: float
    index_seconds: float
    index_megabytes: float


def operations(count: int) -> Iterator[IndexedTool]:
    """Yield operations of the corpus, document by document in the order of the SHA-256 of their paths."""
    documents = documents_in_order(corpus())
    return islice((tool for document in documents for tool in converted(document)), count)


def cost(tools: Iterable[IndexedTool], queries: Sequence[str], *, with_vectors: bool) -> Cost:
    """Return what searching these tools for the queries costs.

    With vectors, queries are encoded by the model, and the tools have random vectors: their values do not
    change the cost. Raises RuntimeError where the child process fails.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    child = context.Process(target=_child, args=(theirs, list(queries), with_vectors))
    child.start()
    theirs.close()
    try:
        for some in _batches(tools):
            ours.send(some)
        ours.send([])
        found = ours.recv()
    except (EOFError, BrokenPipeError):
        raise RuntimeError("the measuring process has ended") from None
    finally:
        ours.close()
        child.join()
    if not isinstance(found, Cost):
        raise RuntimeError("the measuring process has sent no figures")  # noqa: TRY004 - of no caller.
    return found


def _batches(tools: Iterable[IndexedTool]) -> Iterator[list[IndexedTool]]:
    iterator = iter(tools)
    while some := list(islice(iterator, _BATCH)):
        yield some


def _child(parent: Connection, queries: Sequence[str], with_vectors: bool) -> None:
    ids: list[UUID] = []
    waited = 0.0

    def received() -> Iterator[IndexedTool]:
        nonlocal waited
        while True:
            # Unpickling is not indexing.
            began = time.process_time()
            some = parent.recv()
            waited += time.process_time() - began
            if not some:
                return
            ids.extend(tool.id for tool in some)
            yield from some

    gc.collect()
    memory = psutil.Process().memory_info().rss
    began = time.process_time()
    index = indexed(received())
    seconds = time.process_time() - began - waited
    gc.collect()
    memory = psutil.Process().memory_info().rss - memory
    ranking = WORDS
    if with_vectors:
        from benchmarks.search.vectors import random_vectors  # noqa: PLC0415 - libraries of 60 MB.

        ranking = Ranking("words+vectors", random_vectors(ids))
        index.signals = ranking.signals
    milliseconds = list(_times(index, ranking, queries))
    parent.send(
        Cost(
            ranking.name,
            len(ids),
            round(fmean(milliseconds), 2),
            round(quantiles(milliseconds, n=20)[-1], 2),
            round(seconds, 1),
            round(memory / 1e6, 1),
        )
    )
    index.close()


def _times(index: ToolIndex, ranking: Ranking, queries: Sequence[str]) -> Iterator[float]:
    """Yield the CPU milliseconds of each query, of all threads of this process."""
    search = search_of(index, ranking, limit=_SHOWN)
    for text in queries[:_WARM_UP]:
        search(text)
    for text in queries:
        began = time.process_time()
        search(text)
        yield (time.process_time() - began) * 1e3
