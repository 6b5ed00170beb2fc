"""One generated operation of M16 with its arguments: as a document, as a tool, and judged."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import orjson

from app.http_requests.plan_compiler import compile_plan
from app.openapi import convert
from benchmarks.corpus.execution import Given, check_wire
from benchmarks.corpus.operations import Pair
from benchmarks.corpus.reading import Json, Reading
from benchmarks.corpus.records import Record

URL = "https://api.example.com/v1"


@dataclass
class Case:
    """One operation and its arguments; `twin` is its document in 2.0, where that is what is converted."""

    parameters: list[Json] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    body: Json | None = None
    value: Any = None
    files: frozenset[str] = frozenset()
    twin: Json | None = None

    @property
    def path(self) -> str:
        """A path template with every path parameter."""
        return "/a" + "".join(f"/{{{one['name']}}}" for one in self.parameters if one["in"] == "path")

    def document(self) -> Json:
        """Return the document as OpenAPI 3.x."""
        operation: Json = {"parameters": self.parameters, "responses": {}}
        if self.body is not None:
            operation["requestBody"] = self.body
        return {"openapi": "3.0.3", "servers": [{"url": URL}], "paths": {self.path: {"post": operation}}}


@dataclass(frozen=True)
class Bundle:
    """Many cases as one document: `made` is the document to convert, `literal` the same as OpenAPI 3.x."""

    made: Json
    literal: Json
    pairs: list[Pair]


def bundle(cases: Sequence[Case], *, server: str) -> Bundle:
    """The cases under `server`, the operation of number n as `POST /n/...` with the id `case<n>`.

    Either all of them have a twin in 2.0 or none has.
    """
    parts = urlsplit(server)
    literal: Json = {"openapi": "3.0.3", "servers": [{"url": server}], "paths": {}}
    made = literal
    if cases[0].twin is not None:
        head = {"host": parts.netloc, "basePath": parts.path or "/", "schemes": [parts.scheme]}
        made = {"swagger": "2.0", **head, "paths": {}}
    for number, case in enumerate(cases):
        for into, whole in ((literal, case.document()), (made, case.twin or case.document())):
            operation = whole["paths"][case.path]["post"] | {"operationId": f"case{number}"}
            into["paths"][f"/{number}{case.path}"] = {"post": operation}
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


def judge_case(case: Case, name: str) -> Record:
    """Convert the case's document, place its arguments, and compare the request with the tables."""
    literal = case.document()
    record = Record(f"POST {case.path}", f"/{name}")
    metric = f"M16 {name}"
    conversion = convert(orjson.dumps(case.twin or literal))
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
    return record
