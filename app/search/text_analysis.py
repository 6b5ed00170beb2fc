"""Splits text into words, the same way for indexed text and for queries."""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from tantivy import Filter, TextAnalyzer, TextAnalyzerBuilder, Tokenizer

# Between lower and upper case, before the last capital of an acronym, and between letters and digits.
_WORD_BOUNDARY: Final = re.compile(
    r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])"
)
# Scripts without spaces between words: each character is a word of its own.
_UNSPACED: Final = re.compile("([\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af])")

# Frequent in queries, and without information about a tool.
_STOPWORD_TEXT: Final = (
    "a an and any are as at be by can do does for from give has have how i in into is it its me my of on"
    " or please so that the their them this to us want was we what when where which who will with would"
    " you your"
)
_STOPWORDS: Final = frozenset(_STOPWORD_TEXT.split())
_MAX_TEXT: Final = 4_000
_MAX_PARAMETERS: Final = 200
_MAX_DEPTH: Final = 4


def analyzer() -> TextAnalyzer:
    """Return the analyzer: words are runs of letters and digits, in lower case, without accents, English
    stems.
    """
    return (
        TextAnalyzerBuilder(Tokenizer.simple())
        .filter(Filter.remove_long(48))
        .filter(Filter.lowercase())
        .filter(Filter.ascii_fold())
        .filter(Filter.stemmer("english"))
        .build()
    )


def split_identifier(text: str) -> str:
    """Split an identifier into words separated by spaces: `getHTTPServer2` -> `get HTTP Server 2`.

    Each character of a script without spaces becomes a word of its own.
    """
    return _separate_unspaced(_WORD_BOUNDARY.sub(" ", text))


@lru_cache(maxsize=10_000)
def name_text(name: str) -> str:
    """Return a name as text to index: split into its parts, and whole. Cached, because parameter names
    recur.
    """
    parts = split_identifier(name)
    return name if parts == name else f"{parts} {name}"


def prose_text(text: str) -> str:
    """Return prose as text to index: its first 4,000 characters."""
    return _separate_unspaced(text[:_MAX_TEXT])


def exact_forms(provider: str, name: str, alias: str) -> list[str]:
    """Return the queries that name exactly this tool, in the form of `exact_form`."""
    local = name.removeprefix(f"{provider}.")
    # `name_text`, which is cached, begins with the parts; a name that is not split is its only part.
    parts = name_text(local).removesuffix(local) or local
    return list(dict.fromkeys(exact_form(text) for text in (name, alias, local, parts)))


def exact_form(text: str) -> str:
    """Return a query or name in the form in which they are compared: lower case, `_` and `-` as spaces."""
    return " ".join(text.lower().replace("_", " ").replace("-", " ").split())


def parameter_text(inputs: Mapping[str, Any]) -> str:
    """Return the names and descriptions of a tool's inputs, including those of nested objects, as text to
    index.
    """
    return " ".join(islice(_parameters(inputs, 0), _MAX_PARAMETERS))[:_MAX_TEXT]


def query_words(text: str, words: TextAnalyzer) -> list[str]:
    """Return the distinct stems of a query; stop words only where it has no other words."""
    clean = text.encode("utf-8", "replace").decode()
    significant = " ".join(word for word in clean.split() if word.lower().strip(".,;:!?") not in _STOPWORDS)
    stems = dict.fromkeys(words.analyze(split_identifier(significant)) + words.analyze(significant))
    if not stems:
        stems = dict.fromkeys(words.analyze(split_identifier(clean)))
    return list(stems)


def _separate_unspaced(text: str) -> str:
    # The pattern is slow, and most texts are ASCII.
    return text if text.isascii() else _UNSPACED.sub(r" \1 ", text)


def _parameters(schema: Any, depth: int) -> Iterator[str]:
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        for name, member in properties.items():
            yield name_text(str(name)[:100])
            if isinstance(member, Mapping):
                description = member.get("description")
                if isinstance(description, str):
                    yield prose_text(description[:500])
                yield from _parameters(member, depth + 1)
    yield from _parameters(schema.get("items"), depth + 1)
