"""What `utcp-gateway tools search --explain` shows: a table of matches, and how the search was read."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from app.cli.session import ClientSession

_COLUMNS: Final = ("NAME", "SCORE", "WORDS", "VECTOR", "USE", "WHY")


def print_explained(session: ClientSession, response: Mapping[str, Any]) -> None:
    """Write the response of a search with `explain=true`: a row for each match, with the share of the words,
    the vectors and use in its score, and each word with its field and its score.
    """
    session.output.write_table(_COLUMNS, map(_build_row, response["items"]))
    explanation = response.get("explanation") or {}
    for line in _list_lines(explanation.get("queries") or ()):
        session.output.note(line)
    session.output.note(f"Ranking: {response.get('ranking')}")


def _build_row(hit: Mapping[str, Any]) -> tuple[object, ...]:
    explanation = hit.get("explanation")
    # Matches in a toolset have no score of their own.
    score = hit.get("score")
    if explanation is None:
        return (hit["name"], _format_number(score), "", "", "", "")
    vector = None if explanation["cosine"] is None else explanation["vector_share"]
    shares = (explanation["words_share"], vector, explanation["prior_share"])
    return (
        hit["name"],
        _format_number(score),
        *map(_format_number, shares),
        "; ".join(_list_reasons(explanation)),
    )


def _list_reasons(explanation: Mapping[str, Any]) -> Iterator[str]:
    if explanation["pinned"]:
        yield "pinned"
    if explanation["exact"]:
        yield "its name"
    for word in explanation["words"]:
        origin = "" if word["synonym_of"] is None else f", for {word['synonym_of']}"
        yield f"{word['word']} {word['score']:.2f} ({word['field']}{origin})"


def _list_lines(queries: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for query in queries:
        yield f"Words: {' '.join(query['words'])}"
        if query["unknown_words"]:
            yield f"In no tool: {' '.join(query['unknown_words'])}"
        for term, others in query["synonyms"].items():
            yield f"Synonyms of {term}: {', '.join(others)}"


def _format_number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
