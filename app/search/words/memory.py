"""The operator's words in the memory of a worker, renewed by the change feed."""

import asyncio
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from app.catalog.feed import ChangeNotice
from app.search.signals import SearchScope, Stems
from app.search.words.records import find_tools, list_rows
from app.search.words.stems import stem_query, stem_target, stem_term
from app.storage.database import Database
from app.storage.models import PinnedResultRow, SynonymSetRow

Synonyms = Mapping[Stems, Sequence[Stems]]
PinnedIds = Mapping[frozenset[str], tuple[UUID, ...]]


@dataclass(frozen=True, slots=True)
class _Words:
    """All words at one time, by toolset; None for those of the tenant."""

    synonyms: Mapping[str | None, Synonyms] = field(default_factory=lambda: {None: {}})
    pins: Mapping[str | None, PinnedIds] = field(default_factory=lambda: {None: {}})


class SearchWords:
    """Synonyms and pinned results, as the ranking reads them: an `OperatorWords`.

    Subscribe `on_changes` to the change feed, start the feed, then `start()` this. Searches get either all of
    a change or nothing of it.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._words = _Words()
        self._pins: Sequence[PinnedResultRow] = ()
        self._synonyms: Sequence[SynonymSetRow] = ()
        self._lock = asyncio.Lock()

    async def start(self) -> None:
        """Read all words; raise Unavailable."""
        await self.on_changes([ChangeNotice("all")])

    async def aclose(self) -> None:
        """Do nothing: there is no background task."""

    async def on_changes(self, changes: Sequence[ChangeNotice]) -> None:
        """Read what the changes affect; a subscriber of the feed. Raises Unavailable."""
        kinds = {change.kind for change in changes}
        async with self._lock:
            rows_changed = bool(kinds & {"all", "search-words"}) or ("toolset" in kinds and self._has_toolset)
            # A pinned tool may have appeared, vanished or changed its id.
            tools_changed = bool(kinds & {"tool", "provider"}) and bool(self._pins)
            if rows_changed or tools_changed:
                await self._read(rows_changed=rows_changed)

    def get_synonyms(self, scope: SearchScope) -> Synonyms:
        """Return the terms that mean the same, by the stems of each term: those of the toolset and those of
        the tenant.
        """
        synonyms = self._words.synonyms
        return synonyms.get(scope.toolset, synonyms[None])

    def get_pins(self, stems: Sequence[str], scope: SearchScope) -> Sequence[UUID]:
        """Return the ids of the tools that come first in searches for exactly these stems, in order: those of
        the toolset, or, where it has none for them, those of the tenant.
        """
        pins = self._words.pins
        wanted = frozenset(stems)
        toolset_pins = pins.get(scope.toolset, pins[None]).get(wanted)
        return pins[None].get(wanted, ()) if toolset_pins is None else toolset_pins

    @property
    def _has_toolset(self) -> bool:
        """Whether there are words of a toolset, which are deleted with it."""
        return any(row.toolset is not None for rows in (self._synonyms, self._pins) for row in rows)

    async def _read(self, *, rows_changed: bool) -> None:
        synonyms, pins = self._synonyms, self._pins
        async with self._database.read_session() as session:
            if rows_changed:
                synonyms = await list_rows(session, SynonymSetRow)
                pins = await list_rows(session, PinnedResultRow)
            tools = await find_tools(session, {name for row in pins for name in row.tools})
        found = self._words.synonyms
        if rows_changed:
            # Thousands of terms take longer to analyse than the event loop may be held up.
            found = await asyncio.to_thread(_group_synonyms, synonyms)
        ids = {name: tool.id for name, tool in tools.items()}
        self._words = _Words(found, _group_pins(pins, ids))
        self._synonyms, self._pins = synonyms, pins


def expand_terms(rows: Iterable[SynonymSetRow]) -> dict[Stems, Sequence[Stems]]:
    """Return the terms that are searched, too, by the stems of each term.

    Sets that share a term are not joined: what `a` expands to does not expand again.
    """
    expanded: dict[Stems, dict[Stems, None]] = {}
    for row in rows:
        texts = row.terms if row.expand_to is None else row.expand_to
        targets = [(stem_term(text), stem_target(text)) for text in texts]
        for term in filter(None, map(stem_term, row.terms)):
            others = expanded.setdefault(term, {})
            for term_stems_of_set, forms in targets:
                if term_stems_of_set != term:
                    others.update(dict.fromkeys(filter(None, forms)))
    return {term: tuple(others) for term, others in expanded.items() if others}


def _group_synonyms(rows: Sequence[SynonymSetRow]) -> dict[str | None, Synonyms]:
    tenant = expand_terms(row for row in rows if row.toolset is None)
    by_toolset: dict[str | None, Synonyms] = {None: tenant}
    for toolset in {row.toolset for row in rows if row.toolset is not None}:
        expanded = expand_terms(row for row in rows if row.toolset == toolset)
        # Only its own terms are stored again: a copy of all for each toolset could take hundreds of MB.
        merged: dict[Stems, Sequence[Stems]] = {
            term: tuple(dict.fromkeys((*others, *tenant.get(term, ())))) for term, others in expanded.items()
        }
        by_toolset[toolset] = ChainMap(merged, tenant)
    return by_toolset


def _group_pins(rows: Sequence[PinnedResultRow], ids: Mapping[str, UUID]) -> dict[str | None, PinnedIds]:
    by_toolset: dict[str | None, dict[frozenset[str], tuple[UUID, ...]]] = {None: {}}
    for row in rows:
        pinned = tuple(dict.fromkeys(ids[name] for name in row.tools if name in ids))
        # The older one counts, should two queries have the same stems in a later release.
        by_toolset.setdefault(row.toolset, {}).setdefault(frozenset(stem_query(row.query)), pinned)
    return dict(by_toolset)
