"""The summary of a collection in the description of `find_tools`: agents search only where they are told
what there is.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from app.search.text_analysis import split_identifier
from app.toolsets import AgentTool

MAX_SUMMARY: Final = 600
"""Characters of a summary at most."""
_MAX_VERBS: Final = 10
_MIN_VERB: Final = 2
_MAX_VERB: Final = 20


def summarise(tools: Sequence[AgentTool]) -> str:
    """Return how many tools there are of which providers, and the words that most names begin with.

    Providers and words are in the order of their counts, equal ones by name.
    """
    if not tools:
        return "There are no tools at present."
    providers = _by_count(Counter(tool.provider for tool in tools))
    verbs = _by_count(Counter(verb for tool in tools if (verb := _verb(tool))))[:_MAX_VERBS]
    begin = f"{_counted(len(tools), 'tool')} of {_counted(len(providers), 'provider')}: "
    end = f" Frequent verbs: {', '.join(verb for verb, _ in verbs)}." if verbs else ""
    room = MAX_SUMMARY - len(begin) - len(end)
    texts = [f"{name} ({count})" for name, count in providers]
    shown = len(texts)
    while shown and len(_listed(texts, shown)) > room:
        shown -= 1
    return f"{begin}{_listed(texts, shown)}{end}"


def _listed(texts: Sequence[str], shown: int) -> str:
    more = len(texts) - shown
    return f"{', '.join([*texts[:shown], *([f'{more} more'] if more else [])])}."


def _by_count(counts: "Counter[str]") -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _verb(tool: AgentTool) -> str:
    """Return the first word of the tool's name; "" where that is no word."""
    local = tool.tool.removeprefix(f"{tool.provider}.").replace("_", " ").replace("-", " ").replace(".", " ")
    words = split_identifier(local).lower().split()
    word = words[0] if words else ""
    return word if _MIN_VERB <= len(word) <= _MAX_VERB and word.isalpha() else ""
