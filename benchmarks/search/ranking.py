"""The ranking of the gateway, run in this process over a pool."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from app.search.index import Filters, IndexedProvider, IndexedTool, IndexQuery, ToolIndex
from app.search.signals import Signals
from benchmarks.search.evaluation import CANDIDATES, Search


@dataclass(frozen=True, slots=True)
class Everybody:
    """A viewer that may see all tools."""

    providers: frozenset[str] | None = None
    tags: frozenset[str] | None = None


VIEWER: Final = Everybody()


def indexed(tools: Iterable[IndexedTool], *, signals: Signals | None = None) -> ToolIndex:
    """Return an index of the tools, whose providers are enabled; close it after use."""
    index = ToolIndex(signals)
    providers = {}

    def seen() -> Iterator[IndexedTool]:
        for tool in tools:
            providers[tool.provider_id] = IndexedProvider(tool.provider, enabled=True, tags=frozenset())
            yield tool

    index.add(seen())
    index.commit()
    index.providers = providers
    return index


def search_of(index: ToolIndex, *, limit: int = CANDIDATES) -> Search:
    """Return the search of an index by words alone."""

    def search(text: str) -> list[str]:
        matches = index.search(IndexQuery(text), viewer=VIEWER, filters=Filters(), limit=limit)
        return [match.name for match in matches.items]

    return search
