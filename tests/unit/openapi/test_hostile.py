"""Documents that are meant to hurt: refused, or their operations skipped, within two seconds."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import jsonschema_rs
import orjson
import psutil
import pytest

from app.core.errors import InvalidDocument, TooLarge
from app.openapi.conversion.results import Conversion
from app.openapi.process.client import convert_in_child
from app.openapi.process.workers import ForkServer
from tests.unit.openapi import hostile_documents as more
from tests.unit.openapi.conftest import document

pytestmark = pytest.mark.process

HEAD = b'{"openapi":"3.0.0","paths":{},'
YAML = b"openapi: 3.0.0\npaths: {}\nx: "


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def posting(schema: Any, **schemas: Any) -> bytes:
    content = {"application/json": {"schema": schema}}
    paths = {"/x": {"post": {"requestBody": {"content": content}}}}
    return orjson.dumps(document(paths, components={"schemas": schemas}))


def chain(length: int, step: Callable[[int], Any]) -> bytes:
    return posting(ref("A0"), **{f"A{i}": step(i + 1) for i in range(length)}, **{f"A{length}": {}})


def nested(opening: bytes, closing: bytes, times: int) -> bytes:
    return HEAD + b'"x":' + opening * times + b"1" + closing * times + b"}"


REFUSED: dict[str, Callable[[], bytes]] = {
    "json arrays 1,000 deep": lambda: nested(b"[", b"]", 1_000),
    "json arrays 200 deep": lambda: nested(b"[", b"]", 200),
    "json arrays 1,000,000 deep": lambda: nested(b"[", b"]", 1_000_000),
    "json objects 100,000 deep": lambda: nested(b'{"a":', b"}", 100_000),
    "json arrays never closed": lambda: HEAD + b'"x":' + b"[" * 5_000_000,
    "20 million numbers": lambda: HEAD + b'"x":[' + b"0," * 20_000_000 + b"0]}",
    "11 million keys": lambda: HEAD + b'"":0,' * 11_000_000 + b'"x":0}',
    "60 MB of an open string": lambda: HEAD + b'"x":"' + b"a" * 60_000_000,
    "129 MiB": lambda: HEAD + b'"x":"' + b"a" * (129 * 2**20) + b'"}',
    "an integer of a million digits": lambda: HEAD + b'"x": NaN, "y":' + b"9" * 1_000_000 + b"}",
    "zip": lambda: b"PK\x03\x04" + b"\x00" * 1_000,
    "gzip": lambda: b"\x1f\x8b\x08" + b"\x00" * 1_000,
    "zeros": lambda: b"\x00" * 1_000_000,
    "noise": lambda: bytes(range(256)) * 1_000,
    "utf-16 nesting": lambda: (YAML.decode() + "[" * 300).encode("utf-16"),
    "yaml alias bomb": lambda: b"a0: &a0 [x]\n" + b"".join(
        b"a%d: &a%d [%s]\n" % (i, i, b",".join([b"*a%d" % (i - 1)] * 9)) for i in range(1, 12)),
    "yaml alias bomb of text": lambda: b"a: &a " + b"x" * 1_000_000 + b"\nb: [" + b"*a," * 200 + b"]",
    "yaml merge bomb": lambda: b"a0: &a0 {x: 1}\n" + b"".join(
        b"a%d: &a%d {<<: [%s], k%d: 1}\n" % (i, i, b",".join([b"*a%d" % (i - 1)] * 9), i) for i in range(1, 12)),
    "yaml 10,000 aliases of a list": lambda: b"a: &a [" + b"1," * 1_000 + b"]\nb: [" + b"*a," * 10_000 + b"]",
    "yaml contains itself": lambda: b"openapi: 3.0.0\npaths: &a {/x: *a}\n",
    "yaml flow lists": lambda: YAML + b"[" * 200_000,
    "yaml flow maps": lambda: YAML + b"{a: " * 200_000,
    "yaml block lists": lambda: b"- " * 200_000,
    "yaml complex keys": lambda: b"? " * 200_000,
    "yaml 5.5 million items": lambda: b"openapi: 3.0.0\nx:\n" + b"- a\n" * 5_500_000,
    "yaml 16 MB key": lambda: b"k" * 16_000_000 + b": 1",
    "yaml too large": lambda: YAML + b"a" * (129 * 2**20),
    "yaml python object": lambda: b"openapi: !!python/object/apply:os.system ['true']\npaths: {}",
    "yaml own tag": lambda: b"openapi: !include /etc/passwd\npaths: {}",
    "yaml duplicate keys": lambda: b"openapi: 3.0.0\npaths: {}\npaths: {}",
    "yaml two documents": lambda: b"openapi: 3.0.0\npaths: {}\n---\nopenapi: 3.0.0\n",
    "60,000 operations": lambda: orjson.dumps(document({f"/{i}": {"get": {}} for i in range(60_000)})),
    "paths that is a list": lambda: orjson.dumps(document([1])),
    "no OpenAPI at all": lambda: orjson.dumps({"tools": [], "utcp_version": "1.0.1"}),
    "html": lambda: b"<!doctype html><html><body>Not found</body></html>",
}  # fmt: skip

SKIPPED: dict[str, Callable[[], bytes]] = {
    "a path of a million braces": lambda: orjson.dumps(document({"/" + "{a" * 1_000_000: {"get": {}}})),
    "100,000 placeholders": lambda: orjson.dumps(document({"/" + "/".join(f"{{a{i}}}" for i in range(100_000)): {"get": {}}})),
    "100,000 parameters": lambda: orjson.dumps(document(
        {"/x": {"get": {"parameters": [{"name": f"p{i}", "in": "query"} for i in range(100_000)]}}})),
    "a server URL that grows": lambda: orjson.dumps(document({"/x": {"get": {}}}, servers=[
        {"url": "https://a.example/" + "{v}" * 1_000, "variables": {"v": {"default": "x" * 100_000}}}])),
    "a circle of paths": lambda: orjson.dumps(document({"/x": {"$ref": "#/paths/~1y"}, "/y": {"$ref": "#/paths/~1x"}})),
}  # fmt: skip

ANY_VALUE: dict[str, Callable[[], bytes]] = {
    "20,000 references in a row": lambda: chain(20_000, lambda i: ref(f"A{i}")),
    "20,000 allOf in a row": lambda: chain(20_000, lambda i: {"allOf": [ref(f"A{i}")]}),
    "a circle of 5,000": lambda: posting(ref("A0"), **{f"A{i}": ref(f"A{(i + 1) % 5_000}") for i in range(5_000)}),
    "remote reference": lambda: posting({"$ref": "http://127.0.0.1:1/x.json"}),
    "file reference": lambda: posting({"$ref": "file:///etc/passwd#/x"}),
    "relative reference": lambda: posting({"properties": {"a": {"$ref": "../../../etc/passwd"}}}),
}  # fmt: skip

BOUNDED: dict[str, Callable[[], bytes]] = {
    "2^60 by reference": lambda: chain(60, lambda i: {"properties": {"l": ref(f"A{i}"), "r": ref(f"A{i}")}}),
    "2^40 by allOf": lambda: chain(40, lambda i: {"allOf": [ref(f"A{i}"), ref(f"A{i}")]}),
    "50^30 read-only looks": lambda: chain(30, lambda i: {
        "properties": {"a": {"allOf": [ref(f"A{i}")] * 50}}, "allOf": [ref(f"A{i}")] * 50}),
    "48,000 operations of 2,000 parameters": lambda: orjson.dumps(document(
        {**{f"/{i}": {"$ref": "#/paths/~10"} for i in range(1, 6_000)}, "/0": {
            key: {"parameters": [{"name": f"p{i}", "in": "query"} for i in range(2_000)]}
            for key in ("get", "put", "post", "delete", "patch", "head", "options", "trace")}})),
    "1,500 operations of 1,500 schemas": lambda: orjson.dumps(document(
        {f"/{i}": {"get": {"responses": {"200": {"content": {"application/json": {"schema": ref(f"A{i}")}}}}}}
         for i in range(1_500)},
        components={"schemas": {f"A{i}": {"properties": {"a": ref(f"A{(i + 1) % 1_500}"), "b": ref(f"A{i * 7 % 1_500}")}}
                                for i in range(1_500)}})),
    "5,000 patterns that unroll": lambda: posting(
        {"properties": {f"p{i}": {"pattern": f"^(\\w{{1,99}}){{1,99}}{i}$"} for i in range(5_000)}}),
    "10,000 operations of 2,500 credentials": lambda: orjson.dumps(document(
        {f"/{i}": {"get": {}} for i in range(10_000)},
        security=[{f"s{i}{j}": ["x"] * 100 for j in range(50)} for i in range(50)])),
    "a path of a thousand braces": lambda: orjson.dumps(document({"/" + "{a" * 1_000: {"get": {}}})),
}  # fmt: skip


Convert = Callable[[bytes], Awaitable[Conversion]]


@pytest.fixture(scope="module")
async def fork_server() -> AsyncIterator[ForkServer]:
    server = ForkServer()
    await server.start()
    yield server
    await server.aclose()


@pytest.fixture
def convert_quickly(fork_server: ForkServer) -> Iterator[Convert]:
    """Converts in a fork, in at most ten seconds of its CPU time, where the aim is two: what grows with the square of a document takes
    minutes, and a slow machine must not fail the test."""

    def read_seconds() -> float:
        times = psutil.Process(fork_server.pid).cpu_times()
        return times.children_user + times.children_system

    before = read_seconds()
    yield lambda content: convert_in_child(content, start=fork_server.process)
    assert read_seconds() - before < 10.0


ALL_REFUSED = REFUSED | more.REFUSED
ALL_SKIPPED = SKIPPED | more.SKIPPED
ALL_ANY_VALUE = ANY_VALUE | more.ANY_VALUE


def test_there_are_more_than_a_hundred_and_twenty() -> None:
    assert len(ALL_REFUSED) + len(ALL_SKIPPED) + len(ALL_ANY_VALUE) >= 120


@pytest.mark.parametrize("name", ALL_REFUSED)
async def test_rejected(name: str, convert_quickly: Convert) -> None:
    with pytest.raises((InvalidDocument, TooLarge)) as refused:
        await convert_quickly(ALL_REFUSED[name]())
    assert len(refused.value.detail) < 300


@pytest.mark.parametrize("name", ALL_SKIPPED)
async def test_skipped(name: str, convert_quickly: Convert) -> None:
    conversion = await convert_quickly(ALL_SKIPPED[name]())
    assert conversion.tools == ()
    assert conversion.report.counts.skipped == 1 or conversion.report.warnings


@pytest.mark.parametrize("name", ALL_ANY_VALUE)
async def test_what_cannot_be_followed_is_any_value(name: str, convert_quickly: Convert) -> None:
    [made] = (conversion := await convert_quickly(ALL_ANY_VALUE[name]())).tools
    assert made.notes
    assert conversion.report.warnings
    assert jsonschema_rs.validator_for(made.inputs).is_valid(
        {"body": {"a": 1}} if "body" in made.inputs["properties"] else {}
    )


@pytest.mark.parametrize("name", BOUNDED)
async def test_bounded(name: str, convert_quickly: Convert) -> None:
    conversion = await convert_quickly(BOUNDED[name]())
    assert conversion.tools
    assert len(conversion.to_bytes()) < 64 * 2**20
