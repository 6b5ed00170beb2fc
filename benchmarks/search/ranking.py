"""The ranking of the gateway, run in this process over a pool."""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from app.search.index import Filters, IndexedProvider, IndexedTool, IndexQuery, ToolIndex
from app.search.signals import QueryVectors, Signals
from benchmarks.search.evaluation import CANDIDATES, Search


@dataclass(frozen=True, slots=True)
class Everybody:
    """A viewer that may see all tools."""

    providers: frozenset[str] | None = None
    tags: frozenset[str] | None = None


VIEWER: Final = Everybody()


@dataclass(frozen=True, slots=True)
class Ranking:
    """A configuration of the ranking: the words alone, or the vectors of a model, too."""

    name: str = "words"
    vectors: QueryVectors | None = None

    @property
    def signals(self) -> Signals:
        """The signals of an index that ranks so."""
        return Signals() if self.vectors is None else Signals(vectors=self.vectors)


WORDS: Final = Ranking()


def indexed(tools: Iterable[IndexedTool], ranking: Ranking = WORDS) -> ToolIndex:
    """Return an index of the tools, whose providers are enabled; close it after use."""
    index = ToolIndex(ranking.signals)
    providers = {}

    def indexed_tools() -> Iterator[IndexedTool]:
        for tool in tools:
            provider = IndexedProvider(tool.provider, enabled=True, tags=frozenset())
            providers[tool.provider_id] = provider
            yield tool

    index.add(indexed_tools())
    index.commit()
    index.providers = providers
    return index


def search_of(index: ToolIndex, ranking: Ranking = WORDS, *, limit: int = CANDIDATES) -> Search:
    """Return the search of an index by a ranking, which encodes its query first."""
    runner = asyncio.Runner()

    def search(text: str) -> list[str]:
        vector = None if ranking.vectors is None else runner.run(ranking.vectors.encode(text))
        query = IndexQuery(text, vector=vector)
        matches = index.search(query, viewer=VIEWER, filters=Filters(), limit=limit)
        return [match.name for match in matches.items]

    return search
