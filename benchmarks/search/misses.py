"""Why the words miss: what the texts of the right tools have of a query."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from app.search.index import IndexedTool
from app.search.text_analysis import (
    build_analyzer,
    extract_name_text,
    extract_parameter_text,
    list_query_stems,
    prepare_prose,
)
from benchmarks.search.evaluation import Outcome
from benchmarks.search.measurement import PublicSet

_ANALYZER: Final = build_analyzer()
PARAPHRASE: Final = "paraphrase: no word of the query, but its API's name, is in the right tools"
FEW_WORDS: Final = "less than half of the words are in any right tool"
OTHERS: Final = "at least half of the words are in a right tool, but others rank higher"
LANGUAGE: Final = "the query is in another language"


def misses_report(one: PublicSet, outcomes: Sequence[Outcome]) -> str:
    """Return the missed queries of a set in groups, with their counts, what was found and what is right."""
    tools = {tool.name: tool for tool in one.tools}
    missed = [(group(found, tools), found) for found in outcomes if found.recall_5 == 0]
    counts = Counter(name for name, _ in missed)
    lines = [f"{one.name}: {len(missed)} of {len(outcomes)} queries find no right tool among five"]
    for name, count in counts.most_common():
        lines.append(f"\n{count}: {name}")
        for other, found in missed:
            if other == name:
                right = sorted(found.query.needs[0])[:3]
                lines.append(
                    f"  {found.query.text!r}\n    right: {right}\n    found: {list(found.found)[:3]}"
                )
    return "\n".join(lines)


def group(found: Outcome, tools: dict[str, IndexedTool]) -> str:
    """Return why a query is missed."""
    if "other languages" in found.query.subsets:
        return LANGUAGE
    words = set(list_query_stems(found.query.text, _ANALYZER))
    right = [tools[name] for need in found.query.needs for name in need]
    shared = max((words & _stems(tool) for tool in right), key=len)
    of_api = {stem for tool in right for stem in _ANALYZER.analyze(extract_name_text(tool.provider))}
    if not shared - of_api:
        return PARAPHRASE
    return FEW_WORDS if 2 * len(shared) < len(words) else OTHERS


def _stems(tool: IndexedTool) -> set[str]:
    texts = (
        extract_name_text(tool.name),
        *map(extract_name_text, tool.tags),
        prepare_prose(tool.description),
        extract_parameter_text(tool.inputs),
    )
    return set(_ANALYZER.analyze(" ".join(texts)))
