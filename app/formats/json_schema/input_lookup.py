"""Whether the schema of an arguments object has an input at a path of names."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from app.formats.json_schema.references import resolve

_MAX_SCHEMAS: Final = 1_000
_COMBINED: Final = ("allOf", "anyOf", "oneOf")
_CONDITIONAL: Final = ("if", "then", "else")


def may_have_input(schema: Mapping[str, Any], path: Sequence[str]) -> bool:
    """Return whether an arguments object that fits the schema may have a value at a path of names.

    A name has to be declared, in `properties`, `patternProperties` or as further ones by
    `additionalProperties`; an object below the root that declares nothing may have any. What combines or
    refers to too many schemas may have it.
    """
    schemas: list[Mapping[str, Any]] = [schema]
    for depth, name in enumerate(path):
        schemas_of_parent: list[Mapping[str, Any]] = []
        is_open = depth > 0
        for seen, candidate in enumerate(_flatten(schemas, schema)):
            if seen > _MAX_SCHEMAS or "patternProperties" in candidate:
                return True
            properties = candidate.get("properties")
            if isinstance(properties, Mapping):
                is_open = is_open and not properties
                if isinstance(properties.get(name), Mapping):
                    schemas_of_parent.append(properties[name])
                elif properties.get(name) is True:
                    return True
            others = candidate.get("additionalProperties")
            if others is True or (isinstance(others, Mapping) and not others):
                return True
            if isinstance(others, Mapping):
                schemas_of_parent.append(others)
            is_open = is_open and others is not False
        if not schemas_of_parent:
            return is_open
        schemas = schemas_of_parent
    return True


def _flatten(schemas: Sequence[Mapping[str, Any]], root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the schemas with all that they refer to and combine, each once."""
    pending = list(schemas)
    seen: set[int] = set()
    while pending:
        schema = pending.pop()
        if id(schema) in seen:
            continue
        seen.add(id(schema))
        yield schema
        for keyword in _COMBINED:
            parts = schema.get(keyword)
            pending += (
                [part for part in parts if isinstance(part, Mapping)] if isinstance(parts, list) else []
            )
        pending += [schema[key] for key in _CONDITIONAL if isinstance(schema.get(key), Mapping)]
        reference = schema.get("$ref")
        if isinstance(reference, str):
            try:
                target = resolve(root, reference)
            except (LookupError, ValueError):
                continue
            if isinstance(target, Mapping):
                pending.append(target)
