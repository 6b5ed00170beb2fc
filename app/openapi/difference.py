"""Compares two versions of a tool of any source: what changed, and whether calls of the old one still work.

Inputs that accept more are compatible, inputs that accept less are breaking; outputs may promise more, but
not less. What cannot be compared with certainty counts as breaking. A change of the origin, of the needed
credentials or of their kind is held back for approval (`HELD`).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from app.openapi.compare import MAX_PAIRS, SchemaChange, compare_schemas
from app.openapi.model import Json

Aspect = Literal["input", "output", "auth", "server", "placing", "description"]
Effect = Literal["widened", "narrowed", "changed"]

HELD: Final = frozenset({"auth", "server"})
"""Aspects whose breaking differences wait for approval."""
_ORIGIN: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)[^/?#]*")
_MAX_CHANGES: Final = 20
_SLOT_FACTS: Final = ("kind", "location", "name", "token_url")


@dataclass(frozen=True, slots=True)
class ToolDifference:
    """One difference: its aspect, effect, pointer (RFC 6901, into that aspect), and a sentence about it."""

    aspect: Aspect
    effect: Effect
    breaking: bool
    detail: str
    pointer: str = ""

    def as_json(self) -> Json:
        """Return the difference as JSON for a response."""
        return {
            "aspect": self.aspect,
            "effect": self.effect,
            "breaking": self.breaking,
            "pointer": self.pointer,
            "detail": self.detail,
        }


def compare_tools(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    *,
    old_slots: Mapping[str, Json],
    new_slots: Mapping[str, Json],
    max_pairs: int = MAX_PAIRS,
) -> list[ToolDifference]:
    """Return the differences between two versions of a tool, at most about twenty per schema.

    Both have the keys description, inputs, outputs, call_template and security; the slots are those of each
    version, by name. `max_pairs` bounds the work on each schema.
    """
    found: list[ToolDifference] = []
    found += _server(str(old["call_template"].get("url", "")), str(new["call_template"].get("url", "")))
    found += _auth(old["security"], new["security"], old_slots, new_slots)
    found += _schemas("input", old["inputs"], new["inputs"], max_pairs)
    found += _schemas("output", old["outputs"], new["outputs"], max_pairs)
    if _placing(old["call_template"]) != _placing(new["call_template"]):
        detail = "The same inputs are sent in another way; calls do not change."
        found.append(ToolDifference("placing", "changed", breaking=False, detail=detail))
    if any(old.get(key) != new.get(key) for key in ("description", "tags", "deprecated")):
        detail = "Its description, tags or deprecation changed."
        found.append(ToolDifference("description", "changed", breaking=False, detail=detail))
    return found


def changed_slots(old: Mapping[str, Json], new: Mapping[str, Json]) -> frozenset[str]:
    """Return the slots of both versions whose kind, location, name or token URL differs."""
    return frozenset(
        name
        for name in old.keys() & new.keys()
        if any(old[name].get(fact) != new[name].get(fact) for fact in _SLOT_FACTS)
    )


def origin(url: str) -> str:
    """Return the scheme and authority of a URL; the variable where it begins with one."""
    match = _ORIGIN.match(url)
    return match[0].lower() if match and match[1] else url.partition("/")[0]


def slots_in(security: Sequence[Sequence[Mapping[str, Any]]]) -> frozenset[str]:
    """Return the slots that any alternative names."""
    return frozenset(str(need["slot"]) for alternative in security for need in alternative)


def is_held(found: Sequence[ToolDifference]) -> bool:
    """Return whether a person must approve these differences."""
    return any(one.aspect in HELD and one.breaking for one in found)


def _server(old: str, new: str) -> list[ToolDifference]:
    if old == new:
        return []
    before, after = origin(old), origin(new)
    if before != after:
        detail = f"Calls would go to {after} instead of {before}."
        return [ToolDifference("server", "changed", breaking=True, detail=detail)]
    detail = f"The path at {after} changed."
    return [ToolDifference("server", "changed", breaking=False, detail=detail)]


def _auth(
    old: list[list[Json]], new: list[list[Json]], old_slots: Mapping[str, Json], new_slots: Mapping[str, Json]
) -> list[ToolDifference]:
    found: list[ToolDifference] = []
    if old != new:
        detail = f"It needs {_needs(new)} instead of {_needs(old)}."
        found.append(ToolDifference("auth", "changed", breaking=True, detail=detail))
    for slot in sorted(changed_slots(old_slots, new_slots) & slots_in(new)):
        before, after = old_slots[slot], new_slots[slot]
        facts = [fact for fact in _SLOT_FACTS if before.get(fact) != after.get(fact)]
        detail = "; ".join(
            f"{fact} of slot {slot}: {after.get(fact)} instead of {before.get(fact)}" for fact in facts
        )
        found.append(ToolDifference("auth", "changed", breaking=True, detail=detail))
    return found


def _needs(security: list[list[Json]]) -> str:
    alternatives = [
        " and ".join(_need(need) for need in alternative) or "nothing" for alternative in security
    ]
    return " or ".join(alternatives) or "nothing"


def _need(need: Json) -> str:
    scopes = " ".join(need.get("scopes") or ())
    return f"{need['slot']} ({scopes})" if scopes else str(need["slot"])


def _schemas(
    aspect: Literal["input", "output"], old: Json, new: Json, most_pairs: int
) -> list[ToolDifference]:
    if old == new:
        return []
    changes = compare_schemas(old, new, max_pairs=most_pairs)
    found: list[ToolDifference] = []
    for change in changes[:_MAX_CHANGES]:
        breaking = _breaks(aspect, change)
        found.append(ToolDifference(aspect, change.effect, breaking, change.detail, change.pointer))
    more = changes[_MAX_CHANGES:]
    if more:
        breaking = any(_breaks(aspect, change) for change in more)
        found.append(ToolDifference(aspect, "changed", breaking, f"{len(more)} further changes."))
    return found


def _breaks(aspect: Literal["input", "output"], change: SchemaChange) -> bool:
    """Return whether a change breaks clients: they write inputs, which must not be narrowed, and read
    outputs, which must not be widened.
    """
    if aspect == "input":
        return change.effect != "widened"
    return change.member == "removed" or (change.effect != "narrowed" and change.member != "added")


def _placing(template: Json) -> Json:
    return {key: value for key, value in template.items() if key != "url"}
