"""What a re-import would change, operation by operation, and what of it waits for a person's approval."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from app.credentials.model import Json
from app.openapi.compare import MOST_PAIRS
from app.openapi.difference import Difference, changed_slots, compare_tools, is_held, slots_in
from app.protocols.origins import destination
from app.registration.model import ToolDraft

BREAKING: Final = "breaking"
COMPATIBLE: Final = "compatible"
# Of all tools together: some seconds of work, however an upstream rewrites its document.
_ALL_PAIRS: Final = 200_000
_LEAST_PAIRS: Final = 20


@dataclass(frozen=True, slots=True)
class Comparison:
    """`operations`: a verdict on each that is not the same; `held`: the source keys of those that wait."""

    operations: tuple[Json, ...] = ()
    held: frozenset[str] = frozenset()
    slots: frozenset[str] = field(default=frozenset())
    """Slots that mean something else, and keep their old meaning until that is approved."""

    @property
    def verdict(self) -> str:
        """Breaking if any operation is."""
        return verdict_of(self.operations)

    @property
    def waiting(self) -> list[Json]:
        """The verdicts on what is held."""
        return [one for one in self.operations if one["held"]]


NOTHING: Final = Comparison()


def verdict_of(operations: Sequence[Json]) -> str:
    """Breaking if any operation is."""
    return BREAKING if any(one["verdict"] == BREAKING for one in operations) else COMPATIBLE


def compare(
    existing: Mapping[str, Json],
    drafts: Sequence[ToolDraft],
    *,
    old_slots: Sequence[Json],
    new_slots: Sequence[Json],
    origins: Sequence[str],
) -> Comparison:
    """Compares stored columns by source key with the drafts of a re-import; `origins` are those of before."""
    before = {str(slot["slot"]): slot for slot in old_slots}
    after = {str(slot["slot"]): slot for slot in new_slots}
    changed = changed_slots(before, after)
    operations: list[Json] = []
    differing = sum(existing.get(draft.source_key) != draft.columns() for draft in drafts)
    most_pairs = min(MOST_PAIRS, max(_LEAST_PAIRS, _ALL_PAIRS // max(1, differing)))
    for draft in drafts:
        if draft.source_key not in existing:
            operations.append(_added(draft, changed, origins))
            continue
        found = compare_tools(
            existing[draft.source_key],
            draft.columns(),
            old_slots=before,
            new_slots=after,
            most_pairs=most_pairs,
        )
        found += _elsewhere(existing[draft.source_key]["call_template"], draft.call_template)
        if found:
            operations.append(_changed(draft.source_key, found))
    keys = {draft.source_key for draft in drafts}
    operations += [
        _operation(key, "removed", breaking=True, held=False) for key in existing if key not in keys
    ]
    held = frozenset(one["source_key"] for one in operations if one["held"])
    return Comparison(tuple(operations), held, changed)


def _added(draft: ToolDraft, changed: frozenset[str], origins: Sequence[str]) -> Json:
    details: list[Json] = []
    if draft.origin and draft.origin not in origins:
        details.append(_held("server", f"Calls would go to {draft.origin}, where none went before."))
    details += [
        _held("auth", f"It needs slot {slot}, which means something else now.")
        for slot in sorted(slots_in(draft.security) & changed)
    ]
    return _operation(draft.source_key, "added", breaking=False, held=bool(details), details=details)


def _elsewhere(old: Json, new: Json) -> list[Difference]:
    """Another destination of a tool whose protocol has no URL to compare."""
    if "url" in old or "url" in new:
        return []
    before, after = destination(old), destination(new)
    if before == after:
        return []
    detail = f"Calls would go to {after} instead of {before}."
    return [Difference("server", "changed", breaking=True, detail=detail)]


def _changed(source_key: str, found: Sequence[Difference]) -> Json:
    breaking = any(one.breaking for one in found)
    details = [one.as_json() for one in found]
    return _operation(source_key, "changed", breaking=breaking, held=is_held(found), details=details)


def _operation(
    source_key: str, change: str, *, breaking: bool, held: bool, details: Sequence[Json] = ()
) -> Json:
    return {
        "source_key": source_key,
        "change": change,
        "verdict": BREAKING if breaking else COMPATIBLE,
        "held": held,
        "differences": list(details),
    }


def _held(aspect: str, detail: str) -> Json:
    return {"aspect": aspect, "effect": "changed", "breaking": False, "pointer": "", "detail": detail}


def stored_drafts(held: Mapping[str, Any]) -> list[ToolDraft]:
    """The drafts of a pending revision."""
    return [ToolDraft(**{**form, "tags": tuple(form["tags"])}) for form in held["tools"]]


def held_form(drafts: Sequence[ToolDraft], *, slots: Sequence[Json]) -> Json:
    """What a pending revision keeps: `stored_drafts` reads it."""
    tools = [
        {**draft.columns(), "source_key": draft.source_key, "name": draft.name, "origin": draft.origin}
        for draft in drafts
    ]
    return {"tools": tools, "slots": list(slots)}
