"""Finding plugins by words: those of a search for tools that found nothing, or little."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import orjson
from tantivy import TextAnalyzer

from app.providers.plugins.entry import PluginEntry
from app.providers.plugins.loader import PluginCatalogue
from app.search.hits import Hit
from app.search.text_analysis import build_analyzer, extract_name_text, list_query_stems, prepare_prose

_MAX_HITS: Final = 3
_MAX_PLUGINS: Final = 3


@dataclass(frozen=True, slots=True)
class _WordIndex:
    """The words of each plugin, as stems."""

    analyzer: TextAnalyzer
    words: Mapping[str, frozenset[str]]
    entries: Mapping[str, PluginEntry]


class PluginWords:
    """Matches texts with the plugins of a catalogue; the words are collected at the first search."""

    def __init__(self, catalogue: PluginCatalogue) -> None:
        self._catalogue = catalogue
        self._index: _WordIndex | None = None

    async def better_than(self, texts: Sequence[str], hits: Sequence[Hit]) -> list[str]:
        """Return the names of plugins that have more words of one of the texts than each of the best hits,
        the best first.
        """
        if not any(text.strip() for text in texts):
            return []
        index, entries = self._index, await self._catalogue.all()
        if index is None or index.entries is not entries:
            index = self._index = await asyncio.to_thread(_index_of, entries)
        found: dict[str, float] = {}
        best = [_words(_hit_text(hit), index.analyzer) for hit in hits[:_MAX_HITS]]
        for text in texts:
            wanted = frozenset(list_query_stems(text, index.analyzer))
            if not wanted:
                continue
            covered = max((len(wanted & words) for words in best), default=0)
            for name, words in index.words.items():
                matched = len(wanted & words)
                # The name of a vendor tells more than any other word.
                is_named = bool(wanted & _words(extract_name_text(name), index.analyzer))
                if matched > covered and (is_named or matched * 2 > len(wanted)):
                    found[name] = max(found.get(name, 0.0), matched / len(wanted) + is_named)
        return sorted(found, key=lambda name: (-found[name], name))[:_MAX_PLUGINS]


def matches(entry: PluginEntry, text: str) -> bool:
    """Return whether each word of a text is in the name, title, description, a tag or a tool of an entry."""
    own = plugin_text(entry).lower()
    return all(word in own for word in text.lower().split())


def plugin_text(entry: PluginEntry) -> str:
    """Return the texts of an entry that are searched."""
    names = " ".join(extract_name_text(name) for name in (entry.name, *entry.tool_names, *entry.tags))
    return " ".join((names, entry.title, entry.description, *_descriptions(entry)))


def _descriptions(entry: PluginEntry) -> list[str]:
    if entry.manual is not None:
        return [one.description for one in entry.manual.tools]
    operations = entry.document.operations if entry.document is not None else []
    return [one.description for one in operations if one.description]


def _index_of(entries: Mapping[str, PluginEntry]) -> _WordIndex:
    words = build_analyzer()
    return _WordIndex(
        words, {name: _words(plugin_text(one), words) for name, one in entries.items()}, entries
    )


def _words(text: str, words: TextAnalyzer) -> frozenset[str]:
    return frozenset(words.analyze(prepare_prose(text)))


def _hit_text(hit: Hit) -> str:
    members = orjson.loads(b"{" + hit.json_members)
    return " ".join(
        (extract_name_text(members["name"]), members["description"], *map(extract_name_text, members["tags"]))
    )
