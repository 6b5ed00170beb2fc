"""What a change breaks, and whether it needs approval: of a schema, of a tool, of all tools of a provider.

Inputs that accept more are compatible, inputs that accept less are breaking; outputs may promise more, but
not less. What cannot be compared with certainty counts as breaking. A change of the origin, of the needed
credentials or of their kind needs approval (`ASPECTS_TO_APPROVE`). Schemas are compared by
`app/formats/json_schema/compare.py`, which knows neither writers nor readers.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal, Protocol

from app.calls.approvals.kinds import ApprovalKind
from app.formats.json_schema.compare import MAX_PAIRS, SchemaChange, compare_schemas
from app.protocols.origins import destination
from app.providers.credentials.model import CredentialSlot, Json, slot_names
from app.providers.registration.model import SourceDiff, ToolChange, ToolDefinition, ToolDifference, ToolDraft
from app.security.requirements import SecurityRequirements, SlotRequirement

ASPECTS_TO_APPROVE: Final = frozenset({"auth", "server"})
"""Aspects whose breaking differences are applied only after approval."""
_ORIGIN: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)[^/?#]*")
_MAX_CHANGES: Final = 20
# Of all tools together: some seconds of work, however an upstream rewrites its document.
_MAX_PAIRS: Final = 200_000
_MIN_PAIRS_OF_A_TOOL: Final = 20


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
