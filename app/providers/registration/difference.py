"""Compares two versions of a tool of any source: what changed, and whether calls of the old one still work.

Inputs that accept more are compatible, inputs that accept less are breaking; outputs may promise more, but
not less. What cannot be compared with certainty counts as breaking. A change of the origin, of the needed
credentials or of their kind needs approval (`ASPECTS_TO_APPROVE`).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from app.formats.json_schema.compare import MAX_PAIRS, SchemaChange, compare_schemas
from app.openapi.model import Json
from app.security.requirements import SecurityRequirements, SlotRequirement, slot_names

Aspect = Literal["input", "output", "auth", "server", "placing", "description"]
Effect = Literal["widened", "narrowed", "changed"]

ASPECTS_TO_APPROVE: Final = frozenset({"auth", "server"})
"""Aspects whose breaking differences are applied only after approval."""
_ORIGIN: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)[^/?#]*")
_MAX_CHANGES: Final = 20


@dataclass(frozen=True, slots=True)
class ToolDifference:
    """One difference: its aspect, effect, pointer (RFC 6901, into that aspect), and a sentence about it."""

    aspect: Aspect
    effect: Effect
    breaking: bool
    detail: str
    pointer: str = ""

    def to_json(self) -> Json:
        """Return the difference as JSON for a response."""
        return {
            "aspect": self.aspect,
            "effect": self.effect,
            "breaking": self.breaking,
            "pointer": self.pointer,
            "detail": self.detail,
        }


class ComparableTool(Protocol):
    """The parts of a tool that are compared."""

    @property
    def description(self) -> str: ...
    @property
    def inputs(self) -> Json: ...
    @property
    def outputs(self) -> Json: ...
    @property
    def tags(self) -> Sequence[str]: ...
    @property
    def call_template(self) -> Json: ...
    @property
    def security(self) -> SecurityRequirements: ...
    @property
    def keywords(self) -> Sequence[str]: ...
    @property
    def deprecated(self) -> bool: ...


class ComparableSlot(Protocol):
    """The parts of a credential slot that decide what its credential is and where it is sent."""

    @property
    def kind(self) -> str: ...
    @property
    def location(self) -> str | None: ...
    @property
    def parameter(self) -> str | None: ...
    @property
    def http_scheme(self) -> str | None: ...
    @property
    def token_url(self) -> str | None: ...
    @property
    def metadata_url(self) -> str | None: ...


def compare_tools(
    old: ComparableTool,
    new: ComparableTool,
    *,
    old_slots: Mapping[str, ComparableSlot],
    new_slots: Mapping[str, ComparableSlot],
    max_pairs: int = MAX_PAIRS,
) -> list[ToolDifference]:
    """Return the differences between two versions of a tool, at most about twenty per schema.

    The slots are those of each version, by name. `max_pairs` is the maximum number of pairs of schemas that
    are compared for the inputs, and for the outputs.
    """
    differences: list[ToolDifference] = []
    differences += _compare_server(
        str(old.call_template.get("url", "")), str(new.call_template.get("url", ""))
    )
    differences += _compare_auth(old.security, new.security, old_slots, new_slots)
    differences += _compare_aspect("input", old.inputs, new.inputs, max_pairs)
    differences += _compare_aspect("output", old.outputs, new.outputs, max_pairs)
    before, after = _read_placing(old.call_template), _read_placing(new.call_template)
    if before != after:
        # Their values may be secrets; a method is none.
        names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
        detail = f"The same inputs are sent in another way: by {', '.join(names)}."
        if "http_method" in names:
            detail += f" The method is {after.get('http_method')} instead of {before.get('http_method')}."
        differences.append(ToolDifference("placing", "changed", breaking=False, detail=detail))
    if _collect_annotations(old) != _collect_annotations(new):
        detail = "Its description, tags, keywords or deprecation changed."
        differences.append(ToolDifference("description", "changed", breaking=False, detail=detail))
    return differences


def changed_slots(old: Mapping[str, ComparableSlot], new: Mapping[str, ComparableSlot]) -> frozenset[str]:
    """Return the slots of both versions whose kind, location, name, scheme or token URL differs."""
    return frozenset(
        name for name in old.keys() & new.keys() if _collect_members(old[name]) != _collect_members(new[name])
    )


def origin(url: str) -> str:
    """Return the scheme and authority of a URL; the variable where it begins with one."""
    match = _ORIGIN.match(url)
    return match[0].lower() if match and match[1] else url.partition("/")[0]


def needs_approval(differences: Sequence[ToolDifference]) -> bool:
    """Return whether a person must approve these differences before they are applied."""
    return any(one.aspect in ASPECTS_TO_APPROVE and one.breaking for one in differences)


def breaks_writers(change: SchemaChange) -> bool:
    """Return whether a change breaks clients that write values of the schema, which must not be narrowed."""
    return change.effect != "widened"


def breaks_readers(change: SchemaChange) -> bool:
    """Return whether a change breaks clients that read values of the schema, which must not be widened."""
    return change.member == "removed" or (change.effect != "narrowed" and change.member != "added")


def _compare_server(old: str, new: str) -> list[ToolDifference]:
    if old == new:
        return []
    before, after = origin(old), origin(new)
    if before != after:
        detail = f"Calls would go to {after} instead of {before}."
        return [ToolDifference("server", "changed", breaking=True, detail=detail)]
    old_path, _, old_query = old[len(before) :].partition("?")
    new_path, _, new_query = new[len(after) :].partition("?")
    parts = []
    if old_path != new_path:
        parts.append(f"the path {new_path or '/'} instead of {old_path or '/'}")
    if old_query != new_query:
        parts.append("another query")
    detail = f"Calls would go to {after} with {' and '.join(parts) or 'another spelling'}."
    return [ToolDifference("server", "changed", breaking=False, detail=detail)]


def _compare_auth(
    old: SecurityRequirements,
    new: SecurityRequirements,
    old_slots: Mapping[str, ComparableSlot],
    new_slots: Mapping[str, ComparableSlot],
) -> list[ToolDifference]:
    differences: list[ToolDifference] = []
    if old != new:
        detail = f"It needs {_needs(new)} instead of {_needs(old)}."
        differences.append(ToolDifference("auth", "changed", breaking=True, detail=detail))
    for slot in sorted(changed_slots(old_slots, new_slots) & slot_names(new)):
        before, after = _collect_members(old_slots[slot]), _collect_members(new_slots[slot])
        detail = "; ".join(
            f"{member} of slot {slot}: {after[member]} instead of {before[member]}"
            for member in before
            if before[member] != after[member]
        )
        differences.append(ToolDifference("auth", "changed", breaking=True, detail=detail))
    return differences


def _collect_annotations(tool: ComparableTool) -> tuple[str, list[str], list[str], bool]:
    return tool.description, list(tool.tags), list(tool.keywords), tool.deprecated


def _collect_members(slot: ComparableSlot) -> dict[str, str | None]:
    """Return the compared parts of a slot by the names that they have in responses."""
    return {
        "kind": slot.kind,
        "location": slot.location,
        "name": slot.parameter,
        "http_scheme": slot.http_scheme,
        "token_url": slot.token_url,
        "metadata_url": slot.metadata_url,
    }


def _needs(security: SecurityRequirements) -> str:
    alternatives = [
        " and ".join(_describe_need(need) for need in alternative) or "nothing" for alternative in security
    ]
    return " or ".join(alternatives) or "nothing"


def _describe_need(need: SlotRequirement) -> str:
    return f"{need.slot} ({' '.join(need.scopes)})" if need.scopes else need.slot


def _compare_aspect(
    aspect: Literal["input", "output"], old: Json, new: Json, max_pairs: int
) -> list[ToolDifference]:
    if old == new:
        return []
    breaks = breaks_writers if aspect == "input" else breaks_readers
    changes = compare_schemas(old, new, max_pairs=max_pairs)
    differences = [
        ToolDifference(aspect, change.effect, breaks(change), change.detail, change.pointer)
        for change in changes[:_MAX_CHANGES]
    ]
    more = changes[_MAX_CHANGES:]
    if more:
        breaking = any(breaks(change) for change in more)
        differences.append(ToolDifference(aspect, "changed", breaking, f"{len(more)} further changes."))
    return differences


def _read_placing(template: Json) -> Json:
    return {key: value for key, value in template.items() if key != "url"}
