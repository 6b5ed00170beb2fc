"""Schemas without the inputs that a toolset sets."""

from collections.abc import Iterable
from typing import Any

from app.core.text import split_pointer
from app.formats.json_schema.references import resolve

Schema = dict[str, Any]


def without_inputs(schema: Schema, pointers: Iterable[str]) -> tuple[Schema, list[str]]:
    """Return the schema of an arguments object without the inputs at JSON pointers, and the pointers at which
    there is none. The schema itself is not changed.

    An object of which nothing else is required is required no longer, since its presets are added to the
    arguments.
    """
    result = schema
    unknown = []
    for one in pointers:
        followed: set[str] = set()
        result = _copied(result, schema, followed)
        if not _remove(result, split_pointer(one), root=schema, followed=followed):
            unknown.append(one)
    return result, unknown


def _remove(schema: Schema, path: list[str], *, root: Schema, followed: set[str]) -> bool:
    """Remove an input from a schema that may be changed, but whose members may not; return whether it was
    there. `followed` are the references that were replaced by their targets for the same value.
    """
    name, *rest = path
    found = False
    is_dispensable = not rest
    parts = schema.get("allOf")
    if isinstance(parts, list):
        copies = [_copied(part, root, followed) for part in parts]
        for part in copies:
            found = (isinstance(part, dict) and _remove(part, path, root=root, followed=followed)) or found
        schema["allOf"] = copies
    properties = schema.get("properties")
    if isinstance(properties, dict) and name in properties:
        remaining = dict(properties)
        if not rest:
            del remaining[name]
            found = True
        else:
            below: set[str] = set()
            inner = _copied(remaining[name], root, below)
            if isinstance(inner, dict) and _remove(inner, rest, root=root, followed=below):
                remaining[name] = inner
                is_dispensable = not inner.get("required")
                found = True
        schema["properties"] = remaining
    required = schema.get("required")
    if is_dispensable and isinstance(required, list) and name in required:
        left = [one for one in required if one != name]
        schema["required"] = left
        if not left:
            del schema["required"]
    return found


def _copied(schema: Any, root: Schema, followed: set[str]) -> Any:
    """Return a copy of a schema, with the target of its local reference in place of it.

    A reference that was followed before is left out: all schemas of `allOf` apply to the same value, so that
    a second occurrence says nothing. Otherwise schemas that include themselves, or another one twice, would
    grow without bounds.
    """
    if not isinstance(schema, dict):
        return schema
    copy = dict(schema)
    while isinstance(reference := copy.get("$ref"), str):
        try:
            target = resolve(root, reference)
        except LookupError:
            break
        if not isinstance(target, dict):
            break
        del copy["$ref"]
        if reference in followed:
            break
        followed.add(reference)
        copy = {**target, **copy}
    return copy
