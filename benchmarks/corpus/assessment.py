"""One document through M1 to M16: convert it, read it literally, and compare."""

import gc
import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from app.core.errors import GatewayError
from app.formats.utcp.names import LEGAL_NAME, choose_alias
from app.openapi import Conversion, ConvertOptions
from app.openapi.conversion.convert import convert
from benchmarks.corpus import execution
from benchmarks.corpus.bodies import Schemas
from benchmarks.corpus.download import url_of
from benchmarks.corpus.inputs import Inputs
from benchmarks.corpus.operations import Pair, check_address, check_parameters, check_plan, check_security
from benchmarks.corpus.reading import Json, LiteralOperation, Reading
from benchmarks.corpus.records import Assessment, Record

#: A name of typical length: the aliases are checked with it.
PROVIDER = "acme_public_api_v2"
MAX_TOOL_BYTES = 30_000


@dataclass(frozen=True)
class Extent:
    """What to measure: `only` one metric (its number), and in how many operations values are generated."""

    seed: str = "0"
    only: str | None = None
    executions: int = 1_000_000

    def wants(self, *metrics: str) -> bool:
        """Return whether any of these metrics is requested."""
        return self.only is None or self.only in metrics


def assess_file(path: Path, extent: Extent) -> Assessment:
    """Measure one document of the corpus."""
    document = path.read_bytes()
    return assess(document, url=url_of(path), extent=extent, spec="/".join(path.parts[-2:]))


def assess(document: bytes, *, url: str, extent: Extent, spec: str) -> Assessment:
    """Convert one document and return the results of all metrics."""
    made = Assessment(spec)
    gc.collect()
    start = time.perf_counter()
    try:
        conversion = convert(document, options=ConvertOptions(url=url))
    except GatewayError as problem:
        made.seconds = time.perf_counter() - start
        record = Record("", "")
        record.check("M1", False, expected="a conversion", got=problem.detail)
        made.take([record])
        return made
    made.seconds = time.perf_counter() - start
    compare(document, conversion, made, url=url, extent=extent)
    return made


def compare(document: bytes, conversion: Conversion, made: Assessment, *, url: str, extent: Extent) -> None:
    """Add the results for a conversion to `made`."""
    reading = Reading(orjson.loads(document), url)
    operations = list(reading.operations())
    made.operations = len(operations)
    made.take(_whole(conversion, operations))
    if extent.wants("M3"):
        made.take(_names(document, conversion))
    tools: dict[str, list[Any]] = {}
    for tool in conversion.tools:
        tools.setdefault(tool.source_key, []).append(tool)
    slots = {slot.name: slot for slot in conversion.slots}
    remarks = " ".join(one.detail for one in conversion.report.warnings)
    schemas, inputs = (
        Schemas(reading, remarked="pattern" in remarks or "warnings are left out" in remarks),
        Inputs(),
    )
    step = max(1, len(operations) // extent.executions)
    for index, operation in enumerate(operations):
        found = tools.get(operation.key, [])
        record = Record(operation.key, operation.pointer)
        record.check("M2", len(found) == 1, expected="one tool", got=len(found))
        if len(found) == 1:
            pair = Pair(reading, operation, found[0], slots)
            _one(pair, record, inputs, schemas, extent, execute=index % step == 0)
        else:
            for number in range(3, 15):
                record.check(f"M{number}", False, expected="a tool", got="none")
        made.take([record])
    if extent.wants("M18"):
        made.take(_sizes(conversion, made))


def _one(
    pair: Pair, record: Record, inputs: Inputs, schemas: Schemas, extent: Extent, *, execute: bool
) -> None:
    if extent.wants("M4", "M5", "M6"):
        inputs.check(pair.tool, record)
    if extent.wants("M7", "M8", "M9", "M10"):
        check_parameters(pair, record)
    if extent.wants("M10", "M11", "M12"):
        schemas.check(pair, record)
    if extent.wants("M2", "M13"):
        check_address(pair, record)
    if extent.wants("M14"):
        check_security(pair, record)
    if extent.wants("M12", "M15", "M16"):
        plan = check_plan(pair, record)
        if execute and extent.wants("M15", "M16"):
            execution.check(pair, plan, extent.seed, record)


def _whole(conversion: Conversion, operations: list[LiteralOperation]) -> Iterator[Record]:
    """M1: the document converts, and each operation is reported, with reason and pointer; M2: no others."""
    record = Record("", "")
    reported = {one.source_key: one for one in conversion.report.operations}
    unreported = [one.key for one in operations if one.key not in reported]
    record.check("M1", not unreported, expected="an entry for each operation", got=unreported)
    unexplained = [
        key for key, one in reported.items() if one.outcome == "skipped" and not (one.reason and one.pointer)
    ]
    record.check("M1", not unexplained, expected="a reason and a pointer", got=unexplained)
    yield record
    known = {one.key for one in operations}
    for tool in conversion.tools:
        if tool.source_key not in known:
            extra = Record(tool.source_key, "")
            extra.check("M2", False, expected="no such tool", got=tool.name)
            yield extra


def _names(document: bytes, conversion: Conversion) -> Iterator[Record]:
    """M3: aliases after the provider's name are unique and legal, and stay when operations are added."""
    earlier = _earlier_names(document)
    aliases: set[str] = set()
    names: set[str] = set()
    for tool in conversion.tools:
        record = Record(tool.source_key, "")
        alias = choose_alias(PROVIDER, tool.name, aliases)
        fresh = alias not in aliases and tool.name not in names
        record.check("M3 unique", fresh, expected="a name of its own", got=tool.name)
        legal = LEGAL_NAME.fullmatch(alias) is not None and LEGAL_NAME.fullmatch(tool.name) is not None
        record.check("M3 legal", legal, expected="[a-zA-Z0-9_-]{1,64}", got=alias)
        if tool.source_key in earlier:
            before = earlier[tool.source_key]
            record.check("M3 stable", before == tool.name, expected=before, got=tool.name)
        aliases.add(alias)
        names.add(tool.name)
        yield record


def _earlier_names(document: bytes) -> dict[str, str]:
    """Return the names of the tools when only the first half of the paths is converted."""
    raw: Json = orjson.loads(document)
    paths = raw.get("paths")
    if not isinstance(paths, dict):
        return {}
    bare = {
        path: {
            method: {"operationId": one["operationId"]} if "operationId" in one else {}
            for method, one in item.items()
            if isinstance(one, dict)
            and method in ("get", "put", "post", "delete", "patch", "head", "options")
        }
        for path, item in list(paths.items())[: len(paths) // 2]
        if isinstance(item, dict) and "$ref" not in item
    }
    short = {"openapi": "3.0.0", "servers": [{"url": "https://a.example"}], "paths": bare}
    return {tool.source_key: tool.name for tool in convert(orjson.dumps(short)).tools}


def _sizes(conversion: Conversion, made: Assessment) -> Iterator[Record]:
    """M18: the definition of a tool has at most 30 kB, or the report says that it is large."""
    for tool in conversion.tools:
        seen = {"name": tool.name, "description": tool.description, "inputSchema": tool.inputs}
        size = len(orjson.dumps(seen))
        record = Record(tool.source_key, "")
        flagged = any("tool is large" in note for note in tool.notes)
        cut = any("left open" in note and "input" in note for note in tool.notes)
        made.counts.update(large=size > MAX_TOOL_BYTES, cut=cut, tools=1)
        record.check(
            "M18 large tools", size <= MAX_TOOL_BYTES or flagged, expected="a note", got=f"{size} bytes"
        )
        yield record


def digest(conversion: Conversion) -> str:
    """Return the hash of all bytes of a conversion (M17)."""
    return hashlib.sha256(conversion.to_bytes()).hexdigest()
