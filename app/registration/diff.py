"""What a re-import would change, tool by tool, and what of it waits for a person's approval."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from app.credentials.model import CredentialSlot, Json, compile_security, slot_names
from app.openapi.compare import MAX_PAIRS
from app.openapi.difference import ToolDifference, changed_slots, compare_tools, is_held
from app.protocols.origins import destination
from app.registration.model import SourceDiff, ToolChange, ToolDraft

# Of all tools together: some seconds of work, however an upstream rewrites its document.
_MAX_PAIRS: Final = 200_000
_MIN_PAIRS_OF_A_TOOL: Final = 20


def compare(
    existing: Mapping[str, Json],
    drafts: Sequence[ToolDraft],
    *,
    old_slots: Sequence[Json],
    new_slots: Sequence[CredentialSlot],
    origins: Sequence[str],
) -> SourceDiff:
    """Return what becomes of stored tools when these drafts take their place.

    `existing` are the stored columns by source key, `old_slots` and `origins` those of the provider before.
    """
    before = {str(slot["slot"]): slot for slot in old_slots}
    after = {slot.name: slot.to_json() for slot in new_slots}
    columns = {draft.source_key: draft.columns() for draft in drafts}
    changed = changed_slots(before, after)
    differing = sum(existing.get(key) != new for key, new in columns.items())
    most_pairs = min(MAX_PAIRS, max(_MIN_PAIRS_OF_A_TOOL, _MAX_PAIRS // max(1, differing)))
    keys: dict[str, list[str]] = {"added": [], "changed": [], "unchanged": [], "held": []}
    changes: list[ToolChange] = []
    for draft in drafts:
        key, old, new = draft.source_key, existing.get(draft.source_key), columns[draft.source_key]
        if old is None:
            change: ToolChange | None = _added(draft, changed, origins)
        else:
            found = compare_tools(old, new, old_slots=before, new_slots=after, max_pairs=most_pairs)
            found += _destination(old["call_template"], draft.call_template)
            change = _changed(key, found) if found else None
        if change is not None:
            changes.append(change)
        if change is not None and change.held:
            keys["held"].append(key)
        else:
            keys["added" if old is None else "unchanged" if old == new else "changed"].append(key)
    removed = tuple(key for key in existing if key not in columns)
    changes += (ToolChange(key, "removed", is_breaking=True, held=False) for key in removed)
    return SourceDiff(
        added=tuple(keys["added"]),
        changed=tuple(keys["changed"]),
        unchanged=tuple(keys["unchanged"]),
        removed=removed,
        held=tuple(keys["held"]),
        changes=tuple(changes),
        held_slots=changed,
    )


def _added(draft: ToolDraft, changed: frozenset[str], origins: Sequence[str]) -> ToolChange:
    details: list[ToolDifference] = []
    if draft.origin and draft.origin not in origins:
        detail = f"Calls would go to {draft.origin}, where none went before."
        details.append(ToolDifference("server", "changed", breaking=False, detail=detail))
    for slot in sorted(slot_names(draft.security) & changed):
        detail = f"It needs slot {slot}, which means something else now."
        details.append(ToolDifference("auth", "changed", breaking=False, detail=detail))
    return ToolChange(draft.source_key, "added", False, held=bool(details), differences=tuple(details))


def _destination(old: Json, new: Json) -> list[ToolDifference]:
    """Return a difference where a tool whose protocol has no URL to compare gets another destination."""
    if "url" in old or "url" in new:
        return []
    before, after = destination(old), destination(new)
    if before == after:
        return []
    detail = f"Calls would go to {after} instead of {before}."
    return [ToolDifference("server", "changed", breaking=True, detail=detail)]


def _changed(source_key: str, found: Sequence[ToolDifference]) -> ToolChange:
    is_breaking = any(one.breaking for one in found)
    return ToolChange(source_key, "changed", is_breaking, held=is_held(found), differences=tuple(found))


def pending_form(drafts: Sequence[ToolDraft], *, slots: Sequence[CredentialSlot]) -> Json:
    """Return what a pending revision stores of tools that wait for approval; `pending_drafts` reads it."""
    tools = [
        {**draft.columns(), "source_key": draft.source_key, "name": draft.name, "origin": draft.origin}
        for draft in drafts
    ]
    return {"tools": tools, "slots": [slot.to_json() for slot in slots]}


def pending_drafts(stored: Mapping[str, Any]) -> list[ToolDraft]:
    """Return the tools of a pending revision."""
    return [
        ToolDraft(**{**form, "tags": tuple(form["tags"]), "security": compile_security(form["security"])})
        for form in stored["tools"]
    ]
