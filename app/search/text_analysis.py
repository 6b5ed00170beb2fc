"""Splits text into words, the same way for indexed text and for queries."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice, pairwise
from typing import Any, Final

from tantivy import Filter, TextAnalyzer, TextAnalyzerBuilder, Tokenizer

# Between lower and upper case, before the last capital of an acronym, and between letters and digits.
_WORD_BOUNDARY: Final = re.compile(
    r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])"
)
# Scripts whose words are not separated by spaces (Chinese, Japanese), or have particles attached (Korean).
_UNSPACED: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")

# Frequent in queries, and without information about a tool.
_STOPWORD_TEXT: Final = (
    "a an and any are as at be by can do does for from has have how i in into is it its me my of on or please"
    " so that the their them this to us was we what when where which who will with would you your"
)
# Verbs of requests tell little about a tool, but more than nothing.
_WEAK_WORDS: Final = frozenset(
    ["find", "get", "give", "help", "make", "need", "provide", "show", "some", "tell", "use", "want"]
)
_WEAK_WEIGHT: Final = 0.2
_STOPWORDS: Final = frozenset(_STOPWORD_TEXT.split())
_MAX_WORD_LENGTH: Final = 48
_MAX_TEXT: Final = 4_000
_MAX_SENTENCE: Final = 300
_MIN_SENTENCE: Final = 8
_SENTENCE_END: Final = re.compile(r"[.!?]|\n\s*\n")
# Of a text whose words are separated by one space: runs of spaces would be tried from each of their places.
_CLAUSE_END: Final = re.compile(r"[.!?;] |,? (?:and|then|und|et|y) ", re.IGNORECASE)
_MAX_CLAUSES_TEXT: Final = 2_000
_MAX_QUERY_TOKENS: Final = 1_500
_MIN_CLAUSE: Final = 3
_MAX_INPUTS: Final = 200
_MAX_INPUT_DESCRIPTION: Final = 500
_MAX_ENUM_VALUES: Final = 20
_MAX_ENUM_TEXT: Final = 1_500
_MAX_DEPTH: Final = 4

LANGUAGES: Final[Mapping[str, str]] = {
    "ar": "arabic", "da": "danish", "de": "german", "el": "greek", "es": "spanish", "fi": "finnish",
    "fr": "french", "hu": "hungarian", "it": "italian", "nb": "norwegian", "nl": "dutch", "nn": "norwegian",
    "no": "norwegian", "pt": "portuguese", "ro": "romanian", "ru": "russian", "sv": "swedish", "ta": "tamil",
    "tr": "turkish",
}  # fmt: skip
"""The stemmers by primary language subtag (BCP 47); all other text is stemmed as English."""


def choose_stemmer(tag: str | None) -> str | None:
    """Return the language of `LANGUAGES` that a language tag such as `de-AT` names; None for all others."""
    primary = (tag or "").replace("_", "-").partition("-")[0].lower()
    return primary if primary in LANGUAGES else None


def build_analyzer() -> TextAnalyzer:
    """Return the analyzer: words are runs of letters and digits, in lower case, without accents, English
    stems.
    """
    return (
        TextAnalyzerBuilder(Tokenizer.simple())
        .filter(Filter.remove_long(_MAX_WORD_LENGTH))
        .filter(Filter.lowercase())
        .filter(Filter.ascii_fold())
        .filter(Filter.stemmer("english"))
        .build()
    )


@lru_cache(maxsize=len(LANGUAGES) + 1)
def _build_language_analyzer(language: str) -> TextAnalyzer:
    """Return the analyzer whose stems `analyzer` stems once more: so texts of all languages share a field."""
    return (
        TextAnalyzerBuilder(Tokenizer.simple())
        .filter(Filter.remove_long(_MAX_WORD_LENGTH))
        .filter(Filter.lowercase())
        .filter(Filter.ascii_fold())
        .filter(Filter.stemmer(LANGUAGES[language]))
        .build()
    )


@lru_cache(maxsize=1)
def _build_tokenizer() -> TextAnalyzer:
    return (
        TextAnalyzerBuilder(Tokenizer.simple())
        .filter(Filter.remove_long(_MAX_WORD_LENGTH))
        .filter(Filter.lowercase())
        .filter(Filter.ascii_fold())
        .build()
    )


def stem_in_language(text: str, language: str | None) -> str:
    """Return text to index with the stems of its language; the same text where it is None."""
    return text if language is None else " ".join(_build_language_analyzer(language).analyze(text))


def split_identifier(text: str) -> str:
    """Split an identifier into words separated by spaces: `getHTTPServer2` -> `get HTTP Server 2`.

    Runs of a script without spaces become their bigrams: `図書館` -> `図書 書館`.
    """
    return _separate_unspaced(_WORD_BOUNDARY.sub(" ", text), singles=False)


@lru_cache(maxsize=10_000)
def extract_name_text(name: str) -> str:
    """Return a name as text to index: split into its parts, and whole. Cached, because parameter names
    recur.
    """
    parts = split_identifier(name)
    return name if parts == name else f"{parts} {name}"


def prepare_prose(text: str) -> str:
    """Return prose as text to index: its first 4,000 characters."""
    return _separate_unspaced(text[:_MAX_TEXT], singles=True)


def take_first_sentence(text: str) -> str:
    """Return the first sentence of a description, to the first `.`, `!`, `?` after eight characters or the
    first blank line; 300 characters at most.
    """
    head = text.strip()[:_MAX_SENTENCE]
    end = _SENTENCE_END.search(head, _MIN_SENTENCE)
    return head if end is None else head[: end.start()]


def list_exact_forms(provider: str, name: str, alias: str) -> list[str]:
    """Return the queries that name exactly this tool, in the form of `normalize_exact`."""
    local = name.removeprefix(f"{provider}.")
    # `extract_name_text`, which is cached, begins with the parts; a name that is not split is its only part.
    parts = extract_name_text(local).removesuffix(local) or local
    return list(dict.fromkeys(normalize_exact(text) for text in (name, alias, local, parts)))


def normalize_exact(text: str) -> str:
    """Return a query or name in the form in which they are compared: lower case, `_` and `-` as spaces."""
    return " ".join(text.lower().replace("_", " ").replace("-", " ").split())


def extract_parameter_text(inputs: Mapping[str, Any]) -> str:
    """Return the names, descriptions and enum values of a tool's inputs, four levels deep, as text to index.

    At most 200 inputs, 4,000 characters of names, 4,000 of descriptions and 1,500 of enum values.
    """
    texts = _InputTexts()
    _collect_inputs(inputs, 0, texts)
    return " ".join((*texts.names, *texts.descriptions, *texts.enums))


@dataclass(frozen=True, slots=True)
class QueryWord:
    """A word of a query: as it was written, in lower case without accents, and the stems that match it."""

    text: str
    stems: tuple[str, ...]
    weight: float = 1.0
    """How much it counts: less for a verb of requests (find, get, show)."""

    @property
    def stem(self) -> str:
        """The English stem, by which synonyms and what was learned from use know the word."""
        return self.stems[0]


def split_query(text: str, words: TextAnalyzer, *, languages: Collection[str] = ()) -> list[QueryWord]:
    """Return the words of a query in order, each once; stop words only where it has no others.

    Verbs of requests come last, and count less, where there are other words.

    `languages` are those of the indexed texts, of `LANGUAGES`: a word matches by its stem in each of them.
    """
    clean = text.encode("utf-8", "replace").decode()
    written = [(word, word.lower().strip(".,;:!?")) for word in clean.split()]
    weak = " ".join(word for word, plain in written if plain in _WEAK_WORDS)
    rest = [(word, plain) for word, plain in written if plain not in _WEAK_WORDS]
    strong = " ".join(word for word, plain in rest if plain not in _STOPWORDS)
    if known_words := _list_query_words(strong, words, languages):
        known = {word.stem for word in known_words}
        verbs = _list_query_words(weak, words, languages)
        return known_words + [replace(verb, weight=_WEAK_WEIGHT) for verb in verbs if verb.stem not in known]
    return _list_query_words(weak, words, languages) or _list_query_words(clean, words, languages)


def has_several_clauses(text: str) -> bool:
    """Return whether a query has more than one clause of three words: sentences, or parts joined by `and` or
    `then`.
    """
    lines = (" ".join(line.split()) for line in text[:_MAX_CLAUSES_TEXT].splitlines())
    clauses = (clause.split() for line in lines for clause in _CLAUSE_END.split(line))
    return sum(len(words) >= _MIN_CLAUSE for words in clauses) > 1


def list_query_stems(text: str, words: TextAnalyzer) -> list[str]:
    """Return the distinct English stems of a query, but for stop words and verbs of requests where it has
    other words.
    """
    return list_significant_stems(split_query(text, words))


def select_significant(words: Sequence[QueryWord]) -> list[QueryWord]:
    """Return the words of a query that count in full."""
    return [word for word in words if word.weight == 1]


def list_significant_stems(words: Sequence[QueryWord]) -> list[str]:
    """Return the English stems of the words of a query that count in full."""
    return [word.stem for word in select_significant(words)]


def _list_query_words(text: str, words: TextAnalyzer, languages: Collection[str]) -> list[QueryWord]:
    # Identifiers are searched by their parts, and whole.
    split = split_identifier(text)
    tokens = _build_tokenizer().analyze(split)
    if split != text:
        tokens += _build_tokenizer().analyze(_separate_unspaced(text, singles=False))
    words_by_text: dict[str, QueryWord] = {}
    for token in islice(dict.fromkeys(tokens), _MAX_QUERY_TOKENS):
        if stemmed := words.analyze(token):
            others = (words.analyze(stem_in_language(token, language)) for language in sorted(languages))
            stems = dict.fromkeys((stemmed[0], *(other[0] for other in others if other)))
            words_by_text.setdefault(stemmed[0], QueryWord(token, tuple(stems)))
    return list(words_by_text.values())


def _separate_unspaced(text: str, *, singles: bool) -> str:
    """Return the text with each run of a script without spaces as its bigrams; with `singles` its characters,
    too, so that a query of one character finds it.
    """
    # The pattern is slow, and most texts are ASCII.
    if text.isascii():
        return text

    def split_bigrams(run: re.Match[str]) -> str:
        characters = run[0]
        pairs = [first + second for first, second in pairwise(characters)]
        return f" {' '.join([*pairs, *(characters if singles or not pairs else '')])} "

    return _UNSPACED.sub(split_bigrams, text)


@dataclass(slots=True)
class _InputTexts:
    """The texts of inputs that are indexed, and how many characters of each kind are left."""

    names: list[str] = field(default_factory=list)
    descriptions: list[str] = field(default_factory=list)
    enums: list[str] = field(default_factory=list)
    inputs_left: int = _MAX_INPUTS
    names_left: int = _MAX_TEXT
    descriptions_left: int = _MAX_TEXT
    enums_left: int = _MAX_ENUM_TEXT


def _collect_inputs(schema: Any, depth: int, texts: _InputTexts) -> None:
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        for name, member in properties.items():
            if texts.inputs_left <= 0:
                return
            texts.inputs_left -= 1
            _collect_input(str(name), member, texts)
            _collect_inputs(member, depth + 1, texts)
    _collect_inputs(schema.get("items"), depth + 1, texts)


def _collect_input(name: str, schema: Any, texts: _InputTexts) -> None:
    if texts.names_left > 0:
        text = extract_name_text(name[:100])
        texts.names.append(text)
        texts.names_left -= len(text) + 1
    if not isinstance(schema, Mapping):
        return
    description = schema.get("description")
    if isinstance(description, str) and texts.descriptions_left > 0:
        text = prepare_prose(description[: min(_MAX_INPUT_DESCRIPTION, texts.descriptions_left)])
        texts.descriptions.append(text)
        texts.descriptions_left -= len(text) + 1
    for value in _list_enum_values(schema):
        if texts.enums_left <= 0:
            return
        text = extract_name_text(value[:100])
        texts.enums.append(text)
        texts.enums_left -= len(text) + 1


def _list_enum_values(schema: Mapping[str, Any]) -> Iterator[str]:
    values = schema.get("enum")
    items = schema.get("items")
    if values is None and isinstance(items, Mapping):
        values = items.get("enum")
    if isinstance(values, list):
        yield from (value for value in values[:_MAX_ENUM_VALUES] if isinstance(value, str))


def list_plain_words(text: str) -> list[str]:
    """Return the distinct words of a text in order, in lower case without accents and not stemmed; names as
    their parts. Stop words are left out.
    """
    tokens = _build_tokenizer().analyze(split_identifier(text[:_MAX_TEXT]))
    return [word for word in dict.fromkeys(tokens) if word not in _STOPWORDS | _WEAK_WORDS]
