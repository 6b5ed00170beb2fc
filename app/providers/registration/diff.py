"""Compares the stored tools of a provider with those of its new source: which change, and which changes need
approval.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from app.calls.approvals.kinds import ApprovalKind
from app.formats.json_schema.compare import MAX_PAIRS
from app.protocols.origins import destination
from app.providers.credentials.model import CredentialSlot, Json, slot_names
from app.providers.registration.difference import ToolDifference, changed_slots, compare_tools, needs_approval
from app.providers.registration.model import SourceDiff, ToolChange, ToolDefinition, ToolDraft

# Of all tools together: some seconds of work, however an upstream rewrites its document.
_MAX_PAIRS: Final = 200_000
_MIN_PAIRS_OF_A_TOOL: Final = 20


def compare(
    existing: Mapping[str, ToolDefinition],
    drafts: Sequence[ToolDraft],
    *,
    old_slots: Sequence[CredentialSlot],
    new_slots: Sequence[CredentialSlot],
    origins: Sequence[str],
    trusted: Collection[str] | None = None,
) -> SourceDiff:
    """Return the difference between the stored tools of a provider and the drafts that replace them.

    `existing` are the stored definitions by source key, `old_slots` and `origins` those of the provider
    before. With `trusted`, whatever is added or changed under another source key needs approval.
    """
    before = {slot.name: slot for slot in old_slots}
    after = {slot.name: slot for slot in new_slots}
    definitions = {draft.source_key: draft.definition for draft in drafts}
    changed = changed_slots(before, after)
    differing = sum(existing.get(key) != new for key, new in definitions.items())
    max_pairs = min(MAX_PAIRS, max(_MIN_PAIRS_OF_A_TOOL, _MAX_PAIRS // max(1, differing)))
    keys: dict[str, list[str]] = {"added": [], "changed": [], "unchanged": [], "pending_approval": []}
    changes: list[ToolChange] = []
    for draft in drafts:
        key, old, new = draft.source_key, existing.get(draft.source_key), definitions[draft.source_key]
        if old is None:
            change: ToolChange | None = _describe_added(draft, changed, origins)
        else:
            differences = compare_tools(old, new, old_slots=before, new_slots=after, max_pairs=max_pairs)
            differences += _compare_destination(old.call_template, draft.call_template)
            change = _describe_changed(key, differences) if differences else None
        if old != new and trusted is not None and key not in trusted:
            change = _require_approval(change or ToolChange(key, "changed", False, True), draft)
        if change is not None:
            changes.append(change)
        if change is not None and change.pending_approval:
            keys["pending_approval"].append(key)
        else:
            keys["added" if old is None else "unchanged" if old == new else "changed"].append(key)
    removed = tuple(key for key in existing if key not in definitions)
    changes += (ToolChange(key, "removed", is_breaking=True, pending_approval=False) for key in removed)
    return SourceDiff(
        added=tuple(keys["added"]),
        changed=tuple(keys["changed"]),
        unchanged=tuple(keys["unchanged"]),
        removed=removed,
        pending_approval=tuple(keys["pending_approval"]),
        changes=tuple(changes),
        changed_slots=changed,
    )


def change_kind(
    changes: Collection[ToolChange],
    *,
    old_slots: Collection[CredentialSlot],
    new_slots: Collection[CredentialSlot],
) -> ApprovalKind:
    """Return the kind of the approval of pending changes, the first that applies.

    `origin`: calls or token requests would go elsewhere. `credential`: a slot would have another kind,
    location or name. `definition`: all else, such as other security.
    """
    before = {slot.name: slot for slot in old_slots}
    pairs = [(before[slot.name], slot) for slot in new_slots if slot.name in before]
    moves = (
        one.aspect == "server" and (one.breaking or change.change == "added")
        for change in changes
        for one in change.differences
    )
    if any(_find_token_source(old) != _find_token_source(new) for old, new in pairs) or any(moves):
        return "origin"
    if any(_use(old) != _use(new) for old, new in pairs):
        return "credential"
    return "definition"


def _find_token_source(slot: CredentialSlot) -> tuple[str | None, str | None]:
    return slot.token_url, slot.metadata_url


def _use(slot: CredentialSlot) -> tuple[str | None, ...]:
    return slot.kind, slot.location, slot.parameter, slot.http_scheme


def _describe_added(draft: ToolDraft, changed: frozenset[str], origins: Sequence[str]) -> ToolChange:
    details: list[ToolDifference] = []
    if draft.origin and draft.origin not in origins:
        detail = f"Calls would go to {draft.origin}, where none went before."
        details.append(ToolDifference("server", "changed", breaking=False, detail=detail))
    for slot in sorted(slot_names(draft.security) & changed):
        detail = f"It needs slot {slot}, which has another definition now."
        details.append(ToolDifference("auth", "changed", breaking=False, detail=detail))
    return ToolChange(draft.source_key, "added", False, bool(details), tuple(details))


def _require_approval(change: ToolChange, draft: ToolDraft) -> ToolChange:
    """Return a change that needs approval because of who declares it; of a new tool, with its description."""
    details = change.differences
    if change.change == "added":
        detail = f"It would be added, with this description: {draft.definition.description}"
        details = (*details, ToolDifference("description", "changed", breaking=False, detail=detail))
    return replace(change, pending_approval=True, differences=details)


def _compare_destination(old: Json, new: Json) -> list[ToolDifference]:
    """Return a difference where a tool whose protocol has no URL to compare gets another destination."""
    if "url" in old or "url" in new:
        return []
    before, after = destination(old), destination(new)
    if before == after:
        return []
    detail = f"Calls would go to {after} instead of {before}."
    return [ToolDifference("server", "changed", breaking=True, detail=detail)]


def _describe_changed(source_key: str, differences: Sequence[ToolDifference]) -> ToolChange:
    is_breaking = any(one.breaking for one in differences)
    return ToolChange(source_key, "changed", is_breaking, needs_approval(differences), tuple(differences))
