"""Makes one object of a root with compositions, which models' providers reject there."""

from typing import Any, Final

from app.formats.dialects.merge import merge_all, union_of_objects
from app.formats.dialects.source import named_types
from app.formats.dialects.walk import Walk

Schema = dict[str, Any]

_GROUPS_MAX: Final = 20


def flattened_root(walk: Walk) -> Schema:
    """Return the root of a schema as one object: `allOf` merged, `anyOf` and `oneOf` as the union of their
    objects, with a sentence about their groups of properties.

    What else a root must not have becomes text, too.
    """
    root = walk.resolved(walk.source.schema, ())
    notes: list[str] = []
    for keyword in ("anyOf", "oneOf"):
        if keyword in root:
            root = _united(walk, root, keyword, notes)
    for keyword in ("enum", "const", "not"):
        if keyword in root:
            notes.append(walk.report.described("", keyword, root[keyword], "looser"))
            root = {key: value for key, value in root.items() if key != keyword}
    if notes:
        text = " ".join([root.get("description", ""), *notes]).strip()
        root = {**root, "description": text}
    return root


def _united(walk: Walk, root: Schema, keyword: str, notes: list[str]) -> Schema:
    base = {key: value for key, value in root.items() if key != keyword}
    branches = [walk.resolved(branch, ()) for branch in root[keyword]]
    objects = [branch for branch in branches if "object" in named_types(branch, default=("object",))]
    walk.report.lose("", keyword, root[keyword], "converted", "looser")
    if not objects:
        return base
    nested = [flattened for branch in objects for flattened in _branches(walk, branch)]
    merged = merge_all([base, union_of_objects(nested)], walk.report.contradiction(""))
    groups = [", ".join(branch.get("required", [])) for branch in nested[:_GROUPS_MAX]]
    if all(groups) and len(set(groups)) > 1:
        number = "exactly one" if keyword == "oneOf" else "at least one"
        notes.append(f"Give {number} of these groups: {'; '.join(groups)}.")
    return merged


def _branches(walk: Walk, branch: Schema) -> list[Schema]:
    """Return a branch of the root, or its own branches, which are no deeper than that."""
    for keyword in ("anyOf", "oneOf"):
        if keyword in branch:
            base = {key: value for key, value in branch.items() if key != keyword}
            below = [walk.resolved(one, ()) for one in branch[keyword]]
            return [merge_all([base, one], walk.report.contradiction("")) for one in below]
    return [branch]
