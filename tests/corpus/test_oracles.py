"""The tables of `benchmarks.corpus.wire` beside schemathesis' own serialisers, on the values of the strata."""

import random
from typing import Any
from urllib.parse import unquote

import pytest
from schemathesis.specs.openapi.serialization import serialize_openapi3_parameters

from benchmarks.corpus import wire
from benchmarks.corpus.strata import STRATA

#: Strata of one parameter that schemathesis turns into one text. Exploded lists and objects in a query become
#: several pairs there, which its HTTP client writes.
COMPARED = [
    *(name for name in STRATA if name.startswith("path ")),
    "query form", "query space delimited", "query pipe delimited", "header", "header exploded", "cookie",
]  # fmt: skip
EACH = 60


def kind_of(value: Any) -> str:
    return "array" if isinstance(value, list) else "object" if isinstance(value, dict) else "string"


def theirs(one: dict[str, Any], value: Any) -> str:
    serialise = serialize_openapi3_parameters([{**one, "schema": {"type": kind_of(value)}}])
    made = value if serialise is None else serialise({one["name"]: value})[one["name"]]
    return made if isinstance(made, str) else wire.text_of(made)


def ours(one: dict[str, Any], value: Any) -> str:
    spec = wire.Style(one["name"], one["style"], one["explode"])
    if one["in"] == "path":
        return unquote(wire.path(spec, value))
    if one["in"] == "header":
        return wire.header(spec, value)
    [pair] = wire.query(spec, value)
    return unquote(pair.partition("=")[2])


@pytest.mark.parametrize("name", COMPARED)
def test_schemathesis_writes_the_same(name: str) -> None:
    compared = 0
    for number in range(EACH):
        case = STRATA[name](random.Random(f"oracle {number}"))
        [one], [value] = case.parameters, case.values
        if "delimited" in name and isinstance(value, dict):
            # The tables have objects in these styles since 3.0.4; schemathesis leaves them as they are.
            continue
        try:
            expected = ours(one, value)
        except wire.UndefinedError:
            continue
        assert theirs(one, value) == expected, (one, value)
        compared += 1
    assert compared > EACH / 4
