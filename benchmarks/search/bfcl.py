"""The public half of the Berkeley Function Calling Leaderboard: its non-live queries of Python functions.

The live queries are not read: they are kept for judging, not for tuning. Their functions are in the pool, as
tools beside which the right one must be found.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import orjson

from app.formats.utcp.names import make_legal_name
from app.search.index import IndexedTool
from benchmarks.search.pool import pool_tool
from benchmarks.search.queries import Query
from tests.interop.environments import BFCL, install

PROVIDER: Final = "bfcl"
_PUBLIC: Final = ("simple_python", "multiple", "parallel", "parallel_multiple")
_LIVE: Final = ("live_simple", "live_multiple", "live_parallel", "live_parallel_multiple")


def data_folder() -> Path:
    """Return the folder of the data files, which are downloaded if necessary. Raises InstallError."""
    site = install(BFCL).parents[1]
    return next(site.glob("lib/python*/site-packages/bfcl_eval/data"))


def functions(folder: Path) -> list[IndexedTool]:
    """Return the 1,272 functions as tools.

    Of functions whose names differ at most in case and punctuation, the first is taken.
    """
    first: dict[str, dict[str, Any]] = {}
    for category in (*_PUBLIC, *_LIVE):
        for entry in _lines(folder / f"BFCL_v4_{category}.json"):
            for function in entry["function"]:
                first.setdefault(_merged(function["name"]), function)
    return [_tool(function) for function in first.values()]


def queries(folder: Path) -> list[Query]:
    """Return the 1,000 queries; each function of its answer is a need."""
    names = {_merged(tool.name.removeprefix(f"{PROVIDER}.")): tool.name for tool in functions(folder)}
    found = []
    for category in _PUBLIC:
        asked = _lines(folder / f"BFCL_v4_{category}.json")
        answers = _lines(folder / "possible_answer" / f"BFCL_v4_{category}.json")
        for entry, answer in zip(asked, answers, strict=True):
            called = dict.fromkeys(_merged(name) for call in answer["ground_truth"] for name in call)
            text = "\n".join(message["content"] for turn in entry["question"] for message in turn)
            subsets = (category.replace("_", " "), *(["several tools"] if len(called) > 1 else []))
            found.append(Query(text, tuple(frozenset({names[name]}) for name in called), subsets))
    return found


def _tool(function: dict[str, Any]) -> IndexedTool:
    name = make_legal_name(function["name"])
    return pool_tool(
        PROVIDER,
        name,
        alias=f"{PROVIDER}_{name}",
        description=function["description"],
        inputs=function["parameters"],
    )


def _merged(name: str) -> str:
    return re.sub("[^a-z0-9]", "", name.lower())


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    yield from map(orjson.loads, file.read_bytes().splitlines())
