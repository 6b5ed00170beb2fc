"""Schemas without the inputs that a toolset sets."""

from collections.abc import Iterable
from typing import Any, Final

from app.calls.presets import pointer_parts
from app.json_schema.references import resolve

Schema = dict[str, Any]
_MAX_REFERENCES: Final = 8


def without_inputs(schema: Schema, pointers: Iterable[str]) -> tuple[Schema, list[str]]:
    """Return the schema of an arguments object without the inputs at JSON pointers, and the pointers at which
    there is none. The schema itself is not changed.

    An object of which nothing else is required is required no longer, since its presets are added to the
    arguments.
    """
    result: Schema = _copied(schema, schema)
    unknown = [one for one in pointers if not _remove(result, pointer_parts(one), root=schema)]
    return result, unknown


def _remove(schema: Schema, path: list[str], *, root: Schema) -> bool:
    """Remove an input from a schema that may be changed, but whose members may not; return whether it was
    there.
    """
    name, *rest = path
    found = False
    is_dispensable = not rest
    parts = schema.get("allOf")
    if isinstance(parts, list):
        copies = [_copied(part, root) for part in parts]
        for part in copies:
            found = (isinstance(part, dict) and _remove(part, path, root=root)) or found
        schema["allOf"] = copies
    properties = schema.get("properties")
    if isinstance(properties, dict) and name in properties:
        remaining = dict(properties)
        if not rest:
            del remaining[name]
            found = True
        else:
            inner = _copied(remaining[name], root)
            if isinstance(inner, dict) and _remove(inner, rest, root=root):
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


def _copied(schema: Any, root: Schema) -> Any:
    """Return a copy of a schema, with the target of its local reference in place of it."""
    if not isinstance(schema, dict):
        return schema
    copy = dict(schema)
    for _ in range(_MAX_REFERENCES):
        reference = copy.get("$ref")
        if not isinstance(reference, str):
            break
        try:
            target = resolve(root, reference)
        except LookupError:
            break
        if not isinstance(target, dict):
            break
        del copy["$ref"]
        copy = {**target, **copy}
    return copy
