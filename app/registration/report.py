"""Import reports and the difference of a re-import, as plain JSON."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from app.credentials.model import Json
from app.registration.model import ToolDraft, ToolSet


def verdict(
    source_key: str,
    *,
    name: str = "",
    pointer: str = "",
    reason: str | None = None,
    notes: Sequence[str] = (),
) -> Json:
    """What became of one tool: accepted, renamed (`name` differs from its key) or skipped for a `reason`."""
    word = "skipped" if reason is not None else "accepted" if name == source_key else "renamed"
    form: Json = {
        "source_key": source_key,
        "name": name,
        "verdict": word,
        "pointer": pointer,
        "notes": [*notes],
    }
    return form if reason is None else {**form, "reason": reason}


def report(operations: Sequence[Json], *, warnings: Iterable[Json] = ()) -> Json:
    """The report over all verdicts. A renamed tool counts as accepted, too."""
    words = [operation["verdict"] for operation in operations]
    counts = {
        "operations": len(words),
        "accepted": len(words) - words.count("skipped"),
        "renamed": words.count("renamed"),
        "skipped": words.count("skipped"),
    }
    return {"counts": counts, "operations": list(operations), "warnings": list(warnings)}


def named_report(
    tool_set: ToolSet, names: Mapping[str, str], *, provider: str, refused: Collection[str] = ()
) -> Json:
    """The report with the canonical name of each tool that is there, and whether that is the source's own.

    `names` are the canonical ones by source key; `refused` are the keys of tools that could not be stored.
    """
    wanted = {tool.source_key: tool.wanted or tool.name for tool in tool_set.tools}
    known = {tool.source_key for tool in tool_set.tools if tool.wanted is not None}
    needs = {tool.source_key: _slots_needed(tool.security) for tool in tool_set.tools}
    operations: list[Json] = []
    for one in tool_set.report.get("operations", ()):
        key = one["source_key"]
        if one["verdict"] == "skipped":
            operations.append(one)
        elif key in refused:
            reason = "It holds a value that the database cannot store."
            operations.append({**one, "name": "", "verdict": "skipped", "reason": reason})
        else:
            name = names.get(key, one["name"])
            kept = name.removeprefix(f"{provider}.") == wanted.get(key)
            # A converter has renamed for reasons of its own, whatever the name is now.
            word = "accepted" if kept and (key in known or one["verdict"] == "accepted") else "renamed"
            operations.append({**one, "name": name, "verdict": word, "security": needs.get(key)})
    return {**tool_set.report, **report(operations, warnings=tool_set.report.get("warnings", ()))}


def _slots_needed(security: Sequence[Sequence[Mapping[str, Any]]]) -> list[list[str]]:
    return [[str(need["slot"]) for need in alternative] for alternative in security]


def with_warnings(form: Json, *more: Json) -> Json:
    """The report with further warnings."""
    return {**form, "warnings": [*form["warnings"], *more]} if more else form


def warning(detail: str, *, pointer: str = "") -> Json:
    """A remark that belongs to no single operation."""
    return {"pointer": pointer, "detail": detail}


def difference(
    existing: Mapping[str, tuple[str, Json]],
    drafts: Iterable[ToolDraft],
    *,
    held: frozenset[str] = frozenset(),
) -> dict[str, list[str]]:
    """Source keys by what a re-import does with them: added, changed, unchanged, removed, held.

    `existing` maps a source key to the tool's name and the columns that a draft would replace.
    """
    found: dict[str, list[str]] = {"added": [], "changed": [], "unchanged": [], "removed": [], "held": []}
    seen: set[str] = set()
    for draft in drafts:
        seen.add(draft.source_key)
        if draft.source_key in held:
            found["held"].append(draft.source_key)
        elif draft.source_key not in existing:
            found["added"].append(draft.source_key)
        elif existing[draft.source_key][1] == draft.columns():
            found["unchanged"].append(draft.source_key)
        else:
            found["changed"].append(draft.source_key)
    found["removed"] = [key for key in existing if key not in seen]
    return found
