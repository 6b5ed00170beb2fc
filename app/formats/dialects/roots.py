"""Makes one object of a root with compositions, which models' providers reject there."""

from typing import Any, Final

from app.formats.dialects.merge import merge_all, unite_objects
from app.formats.dialects.source import list_named_types
from app.formats.dialects.walk import Walk

Schema = dict[str, Any]

_GROUPS_MAX: Final = 20


def flatten_root(walk: Walk) -> Schema:
    """Return the root of a schema as one object: `allOf` merged, `anyOf` and `oneOf` as the union of their
    objects, with a sentence about their groups of properties.

    What else a root must not have becomes text, too.
    """
    root = walk.resolve_node(walk.source.schema, ())
    notes: list[str] = []
    for keyword in ("anyOf", "oneOf"):
        if keyword in root:
            root = _unite_branches(walk, root, keyword, notes)
    for keyword in ("enum", "const", "not"):
        if keyword in root:
            notes.append(walk.report.describe_moved("", keyword, root[keyword], "looser"))
            root = {key: value for key, value in root.items() if key != keyword}
    if notes:
        text = " ".join([root.get("description", ""), *notes]).strip()
        root = {**root, "description": text}
    return root


def _unite_branches(walk: Walk, root: Schema, keyword: str, notes: list[str]) -> Schema:
    base = {key: value for key, value in root.items() if key != keyword}
    branches = [walk.resolve_node(branch, ()) for branch in root[keyword]]
    objects = [branch for branch in branches if "object" in list_named_types(branch, default=("object",))]
    walk.report.lose("", keyword, root[keyword], "converted", "looser")
    if not objects:
        return base
    nested = [flattened for branch in objects for flattened in _list_branches(walk, branch)]
    merged = merge_all([base, unite_objects(nested)], walk.report.build_contradiction(""))
    groups = [", ".join(branch.get("required", [])) for branch in nested[:_GROUPS_MAX]]
    if all(groups) and len(set(groups)) > 1:
        number = "exactly one" if keyword == "oneOf" else "at least one"
        notes.append(f"Give {number} of these groups: {'; '.join(groups)}.")
    return merged


def _list_branches(walk: Walk, branch: Schema) -> list[Schema]:
    """Return a branch of the root, or its own branches, which are no deeper than that."""
    for keyword in ("anyOf", "oneOf"):
        if keyword in branch:
            base = {key: value for key, value in branch.items() if key != keyword}
            below = [walk.resolve_node(one, ()) for one in branch[keyword]]
            return [merge_all([base, one], walk.report.build_contradiction("")) for one in below]
    return [branch]
