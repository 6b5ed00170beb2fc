"""Text -> words: the same way for what is indexed and for what is asked."""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from tantivy import Filter, TextAnalyzer, TextAnalyzerBuilder, Tokenizer

# Between lower and upper case, before the last capital of an acronym, and between letters and digits.
_SEAM: Final = re.compile(
    r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])"
)
# Scripts without spaces between words: each character is a word of its own.
_UNSPACED: Final = re.compile("([\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af])")

# Asked in every other question, and telling nothing about a tool.
_STOPWORD_TEXT: Final = (
    "a an and any are as at be by can do does for from give has have how i in into is it its me my of on"
    " or please so that the their them this to us want was we what when where which who will with would"
    " you your"
)
_STOPWORDS: Final = frozenset(_STOPWORD_TEXT.split())
_LONGEST_TEXT: Final = 4_000
_MOST_PARAMETERS: Final = 200
_DEEPEST: Final = 4


def analyzer() -> TextAnalyzer:
    """Lower case, without accents, English stems; words are runs of letters and digits."""
    return (
        TextAnalyzerBuilder(Tokenizer.simple())
        .filter(Filter.remove_long(48))
        .filter(Filter.lowercase())
        .filter(Filter.ascii_fold())
        .filter(Filter.stemmer("english"))
        .build()
    )


def split(text: str) -> str:
    """`getHTTPServer2` -> `get HTTP Server 2`; characters of unspaced scripts stand alone."""
    return _apart(_SEAM.sub(" ", text))


@lru_cache(maxsize=10_000)
def name_text(name: str) -> str:
    """A name as text to index: in its parts, and whole. Most names of parameters come again and again."""
    parts = split(name)
    return name if parts == name else f"{parts} {name}"


def spaced(text: str) -> str:
    """Prose as text to index."""
    return _apart(text[:_LONGEST_TEXT])


def exact_forms(provider: str, name: str, alias: str) -> list[str]:
    """The spellings of a query that mean just this tool."""
    local = name.removeprefix(f"{provider}.")
    # The parts come first in `name_text`, which remembers them; what is not split is its own parts.
    parts = name_text(local).removesuffix(local) or local
    return list(dict.fromkeys(exact_form(text) for text in (name, alias, local, parts)))


def exact_form(text: str) -> str:
    """A query or name in the form in which they are compared as a whole."""
    return " ".join(text.lower().replace("_", " ").replace("-", " ").split())


def parameter_text(inputs: Mapping[str, Any]) -> str:
    """The names and descriptions of a tool's inputs, those inside of objects too."""
    return " ".join(islice(_parameters(inputs, 0), _MOST_PARAMETERS))[:_LONGEST_TEXT]


def query_words(text: str, words: TextAnalyzer) -> list[str]:
    """The distinct stems of a query, at most 32; stop words only where there is nothing else."""
    clean = text.encode("utf-8", "replace").decode()
    kept = " ".join(word for word in clean.split() if word.lower().strip(".,;:!?") not in _STOPWORDS)
    stems = dict.fromkeys(words.analyze(split(kept)) + words.analyze(kept))
    if not stems:
        stems = dict.fromkeys(words.analyze(split(clean)))
    return list(islice(stems, 32))


def _apart(text: str) -> str:
    # The pattern is slow, and says nothing about most texts.
    return text if text.isascii() else _UNSPACED.sub(r" \1 ", text)


def _parameters(schema: Any, depth: int) -> Iterator[str]:
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        for name, member in properties.items():
            yield name_text(str(name)[:100])
            if isinstance(member, Mapping):
                description = member.get("description")
                if isinstance(description, str):
                    yield spaced(description[:500])
                yield from _parameters(member, depth + 1)
    yield from _parameters(schema.get("items"), depth + 1)
