"""Damaged documents: a conversion answers or refuses, keeps its promises, opens no socket and does not stall.

A slice runs on every test run; `FUZZ_LONG=1` makes it 60,000 documents of each kind.
"""

import copy
import functools
import json
import random
import sys
import time
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.core.errors import InvalidDocument, TooLarge
from app.openapi import Conversion
from app.openapi.conversion.convert import convert
from tests.harness.examples import LONG
from tests.unit.openapi.conftest import document
from tests.unit.openapi.test_torture import CASES as FORTY
from tests.unit.openapi.test_torture import check_promises
from tests.unit.openapi.test_torture_cases import given as document_of
from tests.unit.openapi.test_torture_cases import read_cases

EXAMPLES = 60_000 if LONG else 150
_ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 2**63, "", "x", "$ref", "#/", "#/components/schemas/A", "{", "{a}", "..", "\x00", "\ud83d",
    [], [[]], {}, {"$ref": "#"}, {"$ref": "#/paths"}, {"$ref": 1}, {"type": "object"}, [None], {"": {}}, "a" * 5_000,
)  # fmt: skip
_KEYS = ("$ref", "allOf", "oneOf", "items", "properties", "required", "nullable", "readOnly", "type", "enum", "in", "name",
         "style", "explode", "content", "schema", "encoding", "parameters", "servers", "security", "url", "$id", "$anchor",
         "$dynamicRef", "pattern", "default", "additionalProperties", "not", "discriminator")  # fmt: skip
_calls: list[str] = []


@pytest.fixture(scope="module", autouse=True)
def no_socket() -> Iterator[None]:
    """Notes whatever this process does with the network meanwhile."""
    watching = [True]

    def hook(event: str, _: Any) -> None:
        if watching[0] and event.startswith("socket."):
            _calls.append(event)

    sys.addaudithook(hook)
    yield
    watching[0] = False
    assert _calls == []


@functools.cache
def list_sources() -> list[Any]:
    """Return the documents of all torture cases that are JSON, as values."""
    written = (orjson.loads(document_of(case)) for case in read_cases() if "text" not in case)
    return [*(document(case.paths, **case.rest) for case in FORTY.values()), *written]


def places(node: Any) -> list[tuple[Any, Any]]:
    """Every member of every object and list, as (holder, key)."""
    found: list[tuple[Any, Any]] = []
    stack = [node]
    while stack:
        one = stack.pop()
        members = one.items() if isinstance(one, dict) else enumerate(one) if isinstance(one, list) else ()
        for key, member in members:
            found.append((one, key))
            stack.append(member)
    return found


def damaged(chance: random.Random) -> Any:
    """A document with some parts replaced, removed, moved or added."""
    made = copy.deepcopy(chance.choice(list_sources()))
    for _ in range(chance.randint(1, 6)):
        holder, key = chance.choice(places(made) or [([None], 0)])
        kind = chance.random()
        if kind < 0.4:
            holder[key] = copy.deepcopy(chance.choice(_ODD))
        elif kind < 0.6:
            other, name = chance.choice(places(made) or [([None], 0)])
            holder[key] = copy.deepcopy(other[name])
        elif kind < 0.8 and isinstance(holder[key], dict):
            holder[key][chance.choice(_KEYS)] = copy.deepcopy(chance.choice(_ODD))
        elif isinstance(holder, dict):
            del holder[key]
    return made


def attempt(content: bytes) -> Conversion | None:
    """The conversion, or None for a refusal with a reason; each within two seconds of this process."""
    start = time.process_time()
    try:
        conversion = convert(content)
    except (InvalidDocument, TooLarge) as refusal:
        conversion = None
        reason = refusal.detail
    else:
        reason = "none"
    assert time.process_time() - start < 2
    assert reason
    return conversion


def writable(value: Any) -> bytes:
    """The document as JSON; lone surrogates, which orjson refuses, are escaped."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value).encode()


def check(conversion: Conversion) -> None:
    counts = conversion.report.counts
    assert counts.accepted == len(conversion.tools)
    assert counts.accepted + counts.skipped == counts.operations == len(conversion.report.operations)
    assert len({made.name for made in conversion.tools}) == len(conversion.tools)
    for made in conversion.tools:
        check_promises(made)


@settings(max_examples=EXAMPLES, deadline=None, derandomize=not LONG, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**64))
def test_a_damaged_document_is_converted_or_rejected(seed: int) -> None:
    content = writable(damaged(random.Random(seed)))
    conversion = attempt(content)
    if conversion is not None:
        check(conversion)
        assert convert(content).to_bytes() == conversion.to_bytes()


@settings(max_examples=EXAMPLES, deadline=None, derandomize=not LONG, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**64), cut=st.integers(0, 40))
def test_damaged_bytes_are_converted_or_rejected(seed: int, cut: int) -> None:
    chance = random.Random(seed)
    content = bytearray(orjson.dumps(chance.choice(list_sources())))
    for _ in range(chance.randint(1, 8)):
        content[chance.randrange(len(content))] = chance.randrange(256)
    conversion = attempt(bytes(content[: len(content) - cut]))
    if conversion is not None:
        check(conversion)
