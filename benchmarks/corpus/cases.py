"""One generated operation of M16 with its arguments: as a document, as a tool, and compared."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import orjson

from app.openapi import ConvertOptions
from app.openapi.conversion.convert import convert
from app.protocols.requests.plan_compiler import compile_plan
from benchmarks.corpus.execution import Given, check_wire
from benchmarks.corpus.operations import Pair
from benchmarks.corpus.reading import Json, Reading
from benchmarks.corpus.records import Record

URL = "https://api.example.com/v1"


@dataclass
class Case:
    """One operation and its arguments; `twin` is its document in 2.0, where that is what is converted.

    `version` is that of its document in 3.x, `method` a field of its Path Item. `server` is the URL that is
    called, `options` are those of the registrar, and `accept` are the media types that the request asks for,
    in order; None where they are not compared.
    """

    parameters: list[Json] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    body: Json | None = None
    value: Any = None
    files: frozenset[str] = frozenset()
    twin: Json | None = None
    version: str = "3.0.3"
    method: str = "post"
    server: str = URL
    options: Json = field(default_factory=dict)
    responses: Json = field(default_factory=dict)
    accept: list[str] | None = None

    @property
    def path(self) -> str:
        """A path template with every path parameter."""
        return "/a" + "".join(f"/{{{one['name']}}}" for one in self.parameters if one["in"] == "path")

    def document(self) -> Json:
        """Return the document as OpenAPI 3.x."""
        operation: Json = {"parameters": self.parameters, "responses": self.responses}
        if self.body is not None:
            operation["requestBody"] = self.body
        paths = {self.path: {self.method: operation}}
        return {"openapi": self.version, "servers": [{"url": self.server}], "paths": paths}


@dataclass(frozen=True)
class Bundle:
    """Many cases as one document: `made` is the document to convert, `literal` the same as OpenAPI 3.x."""

    made: Json
    literal: Json
    pairs: list[Pair]


def bundle(cases: Sequence[Case], *, server: str) -> Bundle:
    """The cases under `server`, the operation of number n under `/n/...` with the id `case<n>`.

    All are of one version. Either all of them have a twin in 2.0 or none has.
    """
    parts = urlsplit(server)
    literal: Json = {"openapi": cases[0].version, "servers": [{"url": server}], "paths": {}}
    made = literal
    if cases[0].twin is not None:
        head = {"host": parts.netloc, "basePath": parts.path or "/", "schemes": [parts.scheme]}
        made = {"swagger": "2.0", **head, "paths": {}}
    for number, case in enumerate(cases):
        for into, whole in ((literal, case.document()), (made, case.twin or case.document())):
            operation = whole["paths"][case.path][case.method] | {"operationId": f"case{number}"}
            into["paths"][f"/{number}{case.path}"] = {case.method: operation}
    tools = {tool.call_template["url"]: tool for tool in convert(orjson.dumps(made)).tools}
    reading = Reading(literal, server)
    pairs = [Pair(reading, one, tools[server + one.path], {}) for one in reading.operations()]
    return Bundle(made, literal, pairs)


def given_of(case: Case, pair: Pair) -> Given | None:
    """Return the case's arguments under the tool's input names; None where one has none."""
    given = Given(files=case.files)
    for one, value in zip(pair.operation.parameters, case.values, strict=True):
        entry = pair.entry(one)
        if entry is None:
            return None
        given.parameters.append((one, value))
        given.arguments[entry["input"]] = value
    if case.body is not None and pair.body is not None:
        given.media, given.body = next(iter(case.body["content"])), case.value
        given.arguments[pair.body["input"]] = case.value
    return given


def assess_case(case: Case, name: str) -> Record:
    """Convert the case's document, place its arguments, and compare the request with the tables."""
    literal = case.document()
    record = Record(f"POST {case.path}", f"/{name}")
    metric = f"M16 {name}"
    conversion = convert(orjson.dumps(case.twin or literal), options=ConvertOptions(**case.options))
    if len(conversion.tools) != 1:
        record.check(metric, False, expected="one tool", got=conversion.report)
        return record
    reading = Reading(literal, URL)
    pair = Pair(reading, next(reading.operations()), conversion.tools[0], {})
    given = given_of(case, pair)
    if given is None:
        record.check(metric, False, expected="an input for each parameter", got=pair.plan)
        return record
    check_wire(pair, compile_plan(pair.tool.call_template), given, metric, record)
    if case.accept is not None:
        asked = _asked_for(str(pair.tool.call_template.get("accept", "")))
        record.check(metric, asked == [*case.accept, "*/*"], expected=case.accept, got=asked)
    return record


def _asked_for(accept: str) -> list[str]:
    """Return the ranges of an Accept header, the highest weight first (RFC 9110 section 12.4.2)."""
    weighted = []
    for element in accept.split(","):
        name, _, weight = element.strip().partition(";q=")
        weighted.append((float(weight or "1"), name))
    return [name for _, name in sorted(weighted, key=lambda pair: -pair[0])]
