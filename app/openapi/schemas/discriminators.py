"""Discriminator Objects: which schema of an ambiguous `oneOf` is meant (OAS 3.x).

A value that several schemas of a `oneOf` accept is not valid by JSON Schema, although APIs accept it where
its discriminating property names one of them. OpenAPI says that a discriminator does not change what is
valid: so such a value is accepted in addition, and nothing that was valid is rejected.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.openapi.model import Json
from app.openapi.reading.identifiers import Tokens

ONLY_ONE_OF = "it decides between the schemas of a `oneOf` that are references"
EXCLUSIVE = "no value is valid for two of the schemas, which fix the property themselves"

_MAX_ALTERNATIVES = 200


def list_alternatives(
    node: Mapping[str, Any], converted: Sequence[Json], *, component: Callable[[str], Tokens | None]
) -> list[Json]:
    """Return what is valid beside a `oneOf`: each of its references, with the values that mean it.

    `converted` has the schemas of the `oneOf`. `component` returns the schema that a name or URI means, None
    where there is none. The list is empty where the discriminator does not decide between them.
    """
    discriminator, branches = node.get("discriminator"), node.get("oneOf")
    if not isinstance(discriminator, Mapping) or not isinstance(branches, list):
        return []
    name = discriminator.get("propertyName")
    if not isinstance(name, str) or len(branches) != len(converted) or len(branches) > _MAX_ALTERNATIVES:
        return []
    values = _list_values(discriminator, component)
    known = sorted({value for listed in values.values() for value in listed})
    default = discriminator.get("defaultMapping")
    fallback = component(default) if isinstance(default, str) else None
    branch_schemas: list[Json] = []
    for branch, schema in zip(branches, converted, strict=True):
        reference = branch.get("$ref") if isinstance(branch, Mapping) else None
        target = component(reference) if isinstance(reference, str) else None
        if target is None:
            continue
        implicit = target[-1]
        named = [*values.get(target, ()), *([implicit] if implicit not in known else [])]
        branch_schemas.append({"allOf": [schema, _require_property(name, named)]})
        if target == fallback:
            all_named = {
                *known,
                *(one for one in (_get_implicit_name(each, component) for each in branches) if one),
            }
            branch_schemas.append(
                {"allOf": [schema, {"not": _require_property(name, sorted(all_named - {implicit}))}]}
            )
    return branch_schemas if len(branch_schemas) > 1 else []


def _list_values(
    discriminator: Mapping[str, Any], component: Callable[[str], Tokens | None]
) -> dict[Tokens, list[str]]:
    mapping = discriminator.get("mapping")
    values: dict[Tokens, list[str]] = {}
    for value, target in mapping.items() if isinstance(mapping, Mapping) else ():
        tokens = component(target) if isinstance(target, str) else None
        if tokens is not None:
            values.setdefault(tokens, []).append(value)
    return values


def _get_implicit_name(branch: Any, component: Callable[[str], Tokens | None]) -> str | None:
    reference = branch.get("$ref") if isinstance(branch, Mapping) else None
    target = component(reference) if isinstance(reference, str) else None
    return None if target is None else target[-1]


def _require_property(name: str, values: Sequence[str]) -> Json:
    """Return the schema of objects whose property has one of the values."""
    return {"properties": {name: {"enum": list(values)}}, "required": [name]}
