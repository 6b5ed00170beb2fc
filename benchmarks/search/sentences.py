"""The sentences of sentences.yaml as queries."""

from pathlib import Path
from typing import Any, Final

import yaml

from benchmarks.search.queries import Query

_FILE: Final = Path(__file__).parent / "sentences.yaml"


def sentences() -> list[Query]:
    """Return the sentences, in the order of the file."""
    return [_query(entry) for entry in yaml.safe_load(_FILE.read_text())]


def _query(entry: dict[str, Any]) -> Query:
    needs = tuple(frozenset(names) for names in entry["needs"])
    subsets = ["names the API" if entry["names_api"] else "names no API"]
    if entry["paraphrase"]:
        subsets.append("paraphrase")
    if entry["language"] != "en":
        subsets.append("other languages")
    if len(needs) > 1:
        subsets.append("several tools")
    return Query(entry["text"], needs, tuple(subsets))
