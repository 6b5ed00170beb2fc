"""Compare the contract with that of the newest release: which changes break clients (`make contract-diff`).

Requests are compared as a refresh of a provider compares them: both documents are converted into tools, and
`app.providers.registration.changes` finds what differs. What a tool does not have is compared here: each
status, media type, header and schema of responses, media types of request bodies, places and defaults of
parameters, required scopes and operation ids. docs/versioning.md says which changes are breaking, and why.
"""

import json
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from app.formats.json_schema.compare import SchemaChange, compare_schemas
from app.openapi import ConvertOptions
from app.openapi.conversion.convert import convert
from app.providers.registration.changes import breaks_readers, breaks_writers, compare
from app.providers.registration.from_openapi import from_conversion
from app.providers.registration.model import ParsedSource, RegistrationSource
from app.security.scopes import SCOPES
from scripts.names import current_names, removed_names

ROOT = Path(__file__).parents[1]
CONTRACT = ROOT / "openapi" / "gateway.json"
RELEASES = ROOT / "openapi" / "releases"
DATA = ROOT / "tests" / "releases"

_BASE_URL: Final = "https://gateway.example"
_COMPONENT: Final = "#/components/schemas/"
_MAX_OPERATIONS: Final = 4
_NEW_VALUES: Final = re.compile(r"('[^']*'(?:, '[^']*')*) (?:is|are) accepted now\.")

Json = dict[str, Any]
Version = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class ContractChange:
    """One difference between two contracts.

    `operation` is a method and path, "" where it is none of the HTTP API; `place` is a part of it such as
    "response 200 application/json", `pointer` (RFC 6901, `*` for any item) a value in that part, `detail` a
    sentence.
    """

    operation: str
    place: str
    pointer: str
    detail: str
    is_breaking: bool


def compare_contracts(old: Json, new: Json) -> list[ContractChange]:
    """Return the differences between two OpenAPI documents of the gateway, each once."""
    changes = list(_tool_changes(old, new))
    before, after = _operations(old), _operations(new)
    schemas = _Schemas(old, new)
    for key in before.keys() & after.keys():
        changes += _OperationComparison(key, schemas).changes(before[key], after[key])
    return sorted(dict.fromkeys(changes), key=lambda one: (one.place, one.pointer, one.detail, one.operation))


def required_version(release: Version, *, is_breaking: bool) -> Version:
    """Return the lowest version in which a contract may differ from that of `release`.

    A breaking change needs the next major version, before 1.0.0 the next minor one.
    """
    if not is_breaking:
        return release
    return (0, release[1] + 1, 0) if release[0] == 0 else (release[0] + 1, 0, 0)


def report(release: str, version: str, changes: list[ContractChange]) -> tuple[list[str], bool]:
    """Return lines that list the changes between `release` and `version`, and whether these are allowed."""
    breaking = [one for one in changes if one.is_breaking]
    others = [one for one in changes if not one.is_breaking]
    lines = [f"The contract of {version}, compared with that of release {release}:"]
    for title, listed in (("Breaking", breaking), ("Compatible", others)):
        groups = list(_grouped(listed))
        lines += [f"{title}: {len(groups)}", *(f"  {line}" for line in groups)]
    needed = required_version(parse_version(release), is_breaking=bool(breaking))
    allowed = parse_version(version) >= needed
    if not allowed:
        text = ".".join(map(str, needed))
        lines.append(
            f"Version {version} in pyproject.toml may not have these changes: undo the breaking ones, "
            f"or raise the version to {text}. docs/versioning.md has the rules."
        )
    return lines, allowed


def newest_release(folder: Path = RELEASES) -> str | None:
    """Return the highest version that has a contract in `folder`, None without any."""
    return max((path.stem for path in folder.glob("*.json")), key=parse_version, default=None)


def parse_version(text: str) -> Version:
    """Return the three numbers of a version; raise ValueError for another form."""
    match = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)", text)
    if match is None:
        raise ValueError(f"{text!r} is not a version such as 1.2.3.")
    return int(match[1]), int(match[2]), int(match[3])


def project_version() -> str:
    """Return the version in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def compare_with_release(release: str) -> list[ContractChange]:
    """Return what changed since a release: the contract, and the names beside it that were removed."""
    old = json.loads((RELEASES / f"{release}.json").read_bytes())
    names = json.loads((DATA / release / "names.json").read_bytes())
    removed = removed_names(names, current_names())
    return [
        *compare_contracts(old, json.loads(CONTRACT.read_bytes())),
        *(ContractChange("", "", "", sentence, is_breaking=True) for sentence in removed),
    ]


def _adds_scopes_only(detail: str) -> bool:
    """Return whether the values that are accepted now are scopes. A scope is in a response only where a key
    was given it: who grants none of the new ones sees none.
    """
    found = _NEW_VALUES.fullmatch(detail)
    return found is not None and {name.strip("'") for name in found[1].split(", ")} <= set(SCOPES)


def main() -> int:
    """Print the differences; return 1 where the version does not allow them."""
    release = newest_release()
    if release is None:
        sys.stdout.write("No release has a contract yet.\n")
        return 0
    lines, allowed = report(release, project_version(), compare_with_release(release))
    sys.stdout.write("\n".join(lines) + "\n")
    return 0 if allowed else 1


def _grouped(changes: list[ContractChange]) -> Iterator[str]:
    """Yield a line for each change, with the operations that share it."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for one in changes:
        groups.setdefault((one.place, one.pointer, one.detail), []).append(one.operation)
    for (place, pointer, detail), operations in groups.items():
        more = len(operations) - _MAX_OPERATIONS
        names = ", ".join(operations[:_MAX_OPERATIONS]) + (f" and {more} more" if more > 0 else "")
        where = ", ".join(part for part in (place, pointer) if part)
        yield ": ".join(part for part in (names, where, detail) if part)


def _tool_changes(old: Json, new: Json) -> Iterator[ContractChange]:
    """Yield the changes that a refresh of a provider with the old contract to the new one would report."""
    before, after = _source(old), _source(new)
    found = compare(
        {draft.source_key: draft.definition for draft in before.tools},
        after.tools,
        old_slots=before.slots,
        new_slots=after.slots,
        origins=[_BASE_URL],
    )
    for change in found.changes:
        for one in change.differences:
            # Responses are compared with all their statuses, and parameters with their places, below.
            if one.aspect in ("input", "auth", "server"):
                place = "request" if one.aspect == "input" else one.aspect
                yield ContractChange(change.source_key, place, one.pointer, one.detail, one.breaking)
        if change.change == "removed":
            yield ContractChange(change.source_key, "", "", "The operation was removed.", is_breaking=True)
    for key in found.added:
        yield ContractChange(key, "", "", "The operation is new.", is_breaking=False)


def _source(document: Json) -> ParsedSource:
    body = json.dumps(document).encode()
    conversion = convert(body, options=ConvertOptions(base_url=_BASE_URL))
    if conversion.report.counts.skipped:
        raise ValueError("An operation of the contract cannot be converted: utcp-gateway openapi check")
    return from_conversion(conversion, source=RegistrationSource("document", body))


def _operations(document: Json) -> dict[str, Json]:
    return {
        f"{method.upper()} {path}": operation
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if isinstance(operation, dict)
    }


class _Schemas:
    """Compares schemas of two documents, whose references are to their components."""

    def __init__(self, old: Json, new: Json) -> None:
        self._definitions = [
            {name: _local(schema) for name, schema in document["components"]["schemas"].items()}
            for document in (old, new)
        ]

    def compare(self, old: Any, new: Any) -> list[SchemaChange]:
        """Return the differences between a schema of the old document and one of the new one."""
        before, after = (
            {"properties": {"value": _local(schema)}, "$defs": definitions}
            for schema, definitions in zip((old, new), self._definitions, strict=True)
        )
        return [
            SchemaChange(one.effect, one.pointer.removeprefix("/value"), one.detail, one.member)
            for one in compare_schemas(before, after, max_pairs=100_000)
        ]


def _local(schema: Any) -> Any:
    """Return a schema with its references to components as references to `$defs`.

    Members beside `$ref` are annotations in this contract, and left out.
    """
    if isinstance(schema, dict):
        reference = schema.get("$ref")
        if isinstance(reference, str):
            return {"$ref": reference.replace(_COMPONENT, "#/$defs/", 1)}
        return {key: _local(value) for key, value in schema.items()}
    return [_local(one) for one in schema] if isinstance(schema, list) else schema


class _OperationComparison:
    """Compares what a tool does not have of one operation, `key` being its method and path."""

    def __init__(self, key: str, schemas: _Schemas) -> None:
        self._key = key
        self._schemas = schemas

    def changes(self, old: Json, new: Json) -> Iterator[ContractChange]:
        """Yield the differences between two versions of the operation."""
        if old["operationId"] != new["operationId"]:
            detail = f"It is {new['operationId']} instead of {old['operationId']}."
            yield self._change("operationId", detail, is_breaking=True)
        if new.get("deprecated", False) and not old.get("deprecated", False):
            yield self._change("", "It is deprecated now.", is_breaking=False)
        yield from self._scopes(old.get("x-required-scopes", []), new.get("x-required-scopes", []))
        yield from self._parameters(_parameters(old), _parameters(new))
        yield from self._request_body(old.get("requestBody", {}), new.get("requestBody", {}))
        yield from self._responses(old["responses"], new["responses"])

    def _change(self, place: str, detail: str, *, is_breaking: bool, pointer: str = "") -> ContractChange:
        return ContractChange(self._key, place, pointer, detail, is_breaking)

    def _scopes(self, old: list[str], new: list[str]) -> Iterator[ContractChange]:
        if set(old) != set(new):
            detail = f"It requires {' or '.join(new) or 'none'} instead of {' or '.join(old) or 'none'}."
            yield self._change("scope", detail, is_breaking=not set(new) <= set(old) or not old)

    def _parameters(
        self, old: Mapping[tuple[str, str], Json], new: Mapping[tuple[str, str], Json]
    ) -> Iterator[ContractChange]:
        for kind, name in old.keys() - new.keys():
            yield self._change(f"{kind} parameter", f"{name} was removed.", is_breaking=True)
        for key in old.keys() & new.keys():
            before, after = (one[key].get("schema", {}).get("default") for one in (old, new))
            if before != after:
                detail = f"The default of {key[1]} is {json.dumps(after)} instead of {json.dumps(before)}."
                yield self._change(f"{key[0]} parameter", detail, is_breaking=True)

    def _request_body(self, old: Json, new: Json) -> Iterator[ContractChange]:
        if new.get("required", False) and not old.get("required", False):
            yield self._change("request body", "It is required now.", is_breaking=True)
        yield from self._content("request", old.get("content", {}), new.get("content", {}))

    def _responses(self, old: Json, new: Json) -> Iterator[ContractChange]:
        for status in old.keys() - new.keys():
            is_success = not status.startswith(("4", "5"))
            yield self._change(f"response {status}", "The status was removed.", is_breaking=is_success)
        for status in new.keys() - old.keys():
            yield self._change(f"response {status}", "The status is new.", is_breaking=False)
        for status in old.keys() & new.keys():
            before, after = old[status], new[status]
            place = f"response {status}"
            yield from self._headers(place, before.get("headers", {}), after.get("headers", {}))
            yield from self._content(place, before.get("content", {}), after.get("content", {}))

    def _headers(self, place: str, old: Json, new: Json) -> Iterator[ContractChange]:
        for name in old.keys() - new.keys():
            yield self._change(place, f"The header {name} was removed.", is_breaking=True)
        for name in new.keys() - old.keys():
            yield self._change(place, f"The header {name} is new.", is_breaking=False)
        for name in old.keys() & new.keys():
            yield from self._schema(f"{place} header {name}", old[name], new[name], is_response=True)

    def _content(self, place: str, old: Json, new: Json) -> Iterator[ContractChange]:
        for media_type in old.keys() - new.keys():
            yield self._change(place, f"The media type {media_type} was removed.", is_breaking=True)
        for media_type in new.keys() - old.keys():
            yield self._change(place, f"The media type {media_type} is new.", is_breaking=False)
        is_response = place.startswith("response")
        for media_type in old.keys() & new.keys():
            # The JSON of a request is that of the tool.
            if is_response or media_type != "application/json":
                where = f"{place} {media_type}"
                yield from self._schema(where, old[media_type], new[media_type], is_response=is_response)

    def _schema(self, place: str, old: Json, new: Json, *, is_response: bool) -> Iterator[ContractChange]:
        breaks = breaks_readers if is_response else breaks_writers
        # `itemSchema` is that of one item of a stream (OpenAPI 3.2).
        for member in ("schema", "itemSchema"):
            for one in self._schemas.compare(old.get(member, True), new.get(member, True)):
                is_new_scope = is_response and _adds_scopes_only(one.detail)
                is_breaking = breaks(one) and not is_new_scope
                yield self._change(place, one.detail, pointer=one.pointer, is_breaking=is_breaking)


def _parameters(operation: Json) -> dict[tuple[str, str], Json]:
    return {(one["in"], one["name"]): one for one in operation.get("parameters", [])}


if __name__ == "__main__":
    sys.exit(main())
