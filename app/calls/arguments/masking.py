"""Which arguments of a call are secrets: records of it do not have them, and a client does not see those that
its toolset sets. Whoever approves the call sees more: `app.calls.arguments.shown`.

by the tool's inputs   `writeOnly: true` or `format: password`             ***
by name                authorization, *password, *secret, *token, ...      ***
by shape and value     as in logs (`app.core.telemetry.redaction`)              ***
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from app.core.secret_names import is_secret_name
from app.core.telemetry.redaction import MASK, mask_shapes, redact_text
from app.formats.json_schema.references import resolve
from app.security.masking import Masker

_MAX_DEPTH: Final = 32
# Schemas that are read for one call: what is left beyond that is masked.
_MAX_SCHEMAS: Final = 200_000
_MAX_TEXT: Final = 20_000
_SUBSCHEMAS: Final = ("if", "then", "else")
_OF_PROPERTIES: Final = ("additionalProperties", "unevaluatedProperties")
_OF_ITEMS: Final = ("items", "additionalItems", "unevaluatedItems", "contains")


def masked_arguments(
    arguments: Mapping[str, Any], inputs: Mapping[str, Any], masker: Masker, *, complete: bool = False
) -> dict[str, Any]:
    """Return a copy of the arguments of a call with secrets replaced by `***`.

    With `complete`, texts are not cut, what is deeper than 32 levels is masked, and of URLs only the parts of
    queries that are secrets: so that different arguments remain different.

    `inputs` is the JSON Schema of the tool. Texts of more than 20,000 characters, and what is deeper than 32
    levels, are cut. Values for which more schemas would have to be read than for one call are masked.
    """
    masking = _Masking(inputs, masker, complete=complete)
    shown = masking.mask_value(dict(arguments), [inputs], depth=0)
    return shown if isinstance(shown, dict) else {}


def find_secret_values(arguments: Mapping[str, Any], inputs: Mapping[str, Any]) -> list[str]:
    """Return the texts and numbers (as texts) in arguments that are secrets by inputs or by name."""
    shown = masked_arguments(arguments, inputs, Masker())
    secrets: list[str] = []
    pending: list[tuple[Any, Any]] = [(arguments, shown)]
    while pending:
        value, masked = pending.pop()
        if masked == MASK and value != MASK:
            secrets += texts_of(value)
        elif isinstance(value, dict) and isinstance(masked, dict):
            pending += [(member, masked[name]) for name, member in value.items() if name in masked]
        elif isinstance(value, list) and isinstance(masked, list):
            pending += zip(value, masked, strict=False)
    return secrets


def texts_of(value: Any) -> Iterator[str]:
    """Yield the texts and numbers (as texts) in a JSON value; no names."""
    if isinstance(value, dict | list):
        for member in value.values() if isinstance(value, dict) else value:
            yield from texts_of(member)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


class SchemaWalk:
    """Finds the schemas that apply to the parts of a value, of at most as many as are read for one call."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._schemas_left = _MAX_SCHEMAS

    @property
    def is_exhausted(self) -> bool:
        """Whether more schemas would have to be read: what applies is not known any more."""
        return self._schemas_left < 0

    def flatten(self, schemas: list[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        """Yield the schemas with all that they refer to and combine: each may say that a value is a
        secret.
        """
        pending = list(schemas)
        seen: set[int] = set()
        while pending and self._schemas_left >= 0:
            schema = pending.pop()
            self._schemas_left -= 1
            if id(schema) in seen:
                continue
            seen.add(id(schema))
            yield schema
            for keyword in ("allOf", "anyOf", "oneOf"):
                pending += [one for one in schema.get(keyword) or () if isinstance(one, Mapping)]
            # Whether the condition holds is not decided: to mask too much is safe.
            for keyword in ("dependentSchemas", "dependencies"):
                named = schema.get(keyword)
                if isinstance(named, Mapping):
                    pending += [one for one in named.values() if isinstance(one, Mapping)]
            pending += _collect_schemas([schema], _SUBSCHEMAS)
            target = self._resolve_target(schema.get("$ref"))
            if target is not None:
                pending.append(target)

    @staticmethod
    def find_schemas_of_member(schemas: list[Mapping[str, Any]], name: str) -> list[Mapping[str, Any]]:
        """Return the schemas of a member of an object to which flattened schemas apply."""
        return list(_find_properties(name, schemas))

    @staticmethod
    def find_schemas_of_item(schemas: list[Mapping[str, Any]], index: int) -> list[Mapping[str, Any]]:
        """Return the schemas of an item of a list to which flattened schemas apply."""
        return _collect_schemas(schemas, _OF_ITEMS) + _find_positional(schemas, index)

    def _resolve_target(self, reference: Any) -> Mapping[str, Any] | None:
        if not isinstance(reference, str):
            return None
        try:
            node = resolve(self._root, reference)
        except (LookupError, ValueError):
            return None
        return node if isinstance(node, Mapping) else None


class _Masking(SchemaWalk):
    def __init__(self, root: Mapping[str, Any], masker: Masker, *, complete: bool = False) -> None:
        super().__init__(root)
        self._complete = complete
        self._masker = masker

    def mask_value(self, value: Any, schemas: list[Mapping[str, Any]], *, depth: int) -> Any:
        applied = list(self.flatten(schemas))
        if self.is_exhausted or any(map(is_secret_schema, applied)):
            return MASK
        if isinstance(value, str):
            return self._mask_text(value)
        if depth >= _MAX_DEPTH and isinstance(value, dict | list):
            return MASK if self._complete else "..."
        if isinstance(value, dict):
            return {
                self._mask_text(name): self._mask_member(name, member, applied, depth=depth)
                for name, member in value.items()
            }
        if isinstance(value, list):
            return [
                self.mask_value(item, self.find_schemas_of_item(applied, index), depth=depth + 1)
                for index, item in enumerate(value)
            ]
        return value

    def _mask_text(self, value: str) -> str:
        if self._complete:
            return mask_shapes(self._masker.mask(value))
        text = value if len(value) <= _MAX_TEXT else value[:_MAX_TEXT] + "..."
        return redact_text(self._masker.mask(text))

    def _mask_member(self, name: str, member: Any, schemas: list[Mapping[str, Any]], *, depth: int) -> Any:
        if is_secret_name(name) and not isinstance(member, bool):
            return MASK
        return self.mask_value(member, self.find_schemas_of_member(schemas, name), depth=depth + 1)


def is_secret_schema(schema: Mapping[str, Any]) -> bool:
    """Return whether a schema declares its values to be secrets."""
    return schema.get("writeOnly") is True or schema.get("format") == "password"


def _collect_schemas(schemas: list[Mapping[str, Any]], keywords: tuple[str, ...]) -> list[Mapping[str, Any]]:
    """Return the schemas that the schemas have under the keywords."""
    return [one[key] for one in schemas for key in keywords if isinstance(one.get(key), Mapping)]


def _find_properties(name: str, schemas: list[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for schema in schemas:
        properties = schema.get("properties")
        declared = properties.get(name) if isinstance(properties, Mapping) else None
        if isinstance(declared, Mapping):
            yield declared
        for keyword in _OF_PROPERTIES:
            if declared is None and isinstance(schema.get(keyword), Mapping):
                yield schema[keyword]
        patterns = schema.get("patternProperties")
        if isinstance(patterns, Mapping):
            # Whatever the pattern: to mask too much is safe.
            yield from (one for one in patterns.values() if isinstance(one, Mapping))


def _find_positional(schemas: list[Mapping[str, Any]], index: int) -> list[Mapping[str, Any]]:
    """Return the schemas of the item at an index: of `prefixItems`, or of `items` in older drafts."""
    positional_lists = (
        schema[key]
        for schema in schemas
        for key in ("prefixItems", "items")
        if isinstance(schema.get(key), list)
    )
    return [
        positional[index]
        for positional in positional_lists
        if index < len(positional) and isinstance(positional[index], Mapping)
    ]
