"""Estimates the time that collecting all errors of an instance could take, without collecting any."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from app.formats.json_schema.references import resolve

# Measured with jsonschema-rs 0.60: an error takes 15 us, 3 us more for each level of its path, and 0.5 us for
# each value of its instance, of which it holds a copy.
_ERROR_COST: Final = 15.0
_LEVEL_COST: Final = 3.0
_VALUE_COST: Final = 0.5
_MAX_STEPS: Final = 1_000
_MAX_VALUES: Final = 4_000
_MAX_DEPTH: Final = 32

_FREE_KEYWORDS: Final = frozenset({
    "$schema", "$id", "$anchor", "$comment", "$defs", "definitions", "title", "description", "default",
    "examples", "example", "deprecated", "readOnly", "writeOnly", "if", "minContains", "maxContains",
})  # fmt: skip


class _LimitExceeded(Exception):
    """The estimate exceeds a limit, or would itself take too long."""


def is_affordable(root: Mapping[str, Any], schema: Any, instance: Any, *, limit: float) -> bool:
    """Return whether `iter_errors` of a subschema of `root` takes at most `limit` microseconds, whichever
    errors there are.

    Return False where finding out would take too long.
    """
    try:
        return _CostEstimate(root, limit).estimate_cost(schema, instance, 0) <= limit
    except (_LimitExceeded, LookupError, TypeError, AttributeError):
        return False


class _CostEstimate:
    """One estimate. Each pair of subschema and value is visited once, so that it takes 3 ms at most."""

    __slots__ = ("_costs", "_limit", "_root", "_sizes", "_steps")

    def __init__(self, root: Mapping[str, Any], limit: float) -> None:
        self._root = root
        self._limit = limit
        self._steps = 0
        self._costs: dict[tuple[int, int], float] = {}
        self._sizes: dict[int, float] = {}

    def estimate_cost(self, schema: Any, instance: Any, depth: int) -> float:
        """Return the microseconds that all errors of `instance`, at `depth` levels of the arguments,
        could take.
        """
        key = (id(schema), id(instance))
        known = self._costs.get(key)
        if known is not None:
            return known
        self._steps += 1
        if self._steps > _MAX_STEPS or depth > _MAX_DEPTH:
            raise _LimitExceeded
        # A schema that refers to itself without a level in between adds no errors.
        self._costs[key] = 0.0
        error = _ERROR_COST + _LEVEL_COST * depth + _VALUE_COST * self._measure_size(instance, depth)
        total = error
        if isinstance(schema, dict):
            total = 0.0
            for keyword, value in schema.items():
                if keyword not in _FREE_KEYWORDS:
                    total += self._estimate_keyword(keyword, value, schema, instance, error, depth)
                    if total > self._limit:
                        raise _LimitExceeded
        self._costs[key] = total
        return total

    def _estimate_keyword(
        self, keyword: str, value: Any, schema: dict[str, Any], instance: Any, error: float, depth: int
    ) -> float:
        match keyword:
            case "$ref":
                return self.estimate_cost(resolve(self._root, value), instance, depth)
            case "$dynamicRef" | "$recursiveRef":
                raise _LimitExceeded
            case "required":
                return error * (sum(name not in instance for name in value) if _is_object(instance) else 0)
            case "dependentRequired":
                return error * (sum(map(len, value.values())) if _is_object(instance) else 0)
            case "propertyNames":
                return error * (len(instance) if _is_object(instance) else 0)
            case "allOf" | "anyOf" | "oneOf":
                return error + sum(self.estimate_cost(branch, instance, depth) for branch in value)
            case "dependentSchemas":
                return sum(self.estimate_cost(branch, instance, depth) for branch in value.values())
            case "then" | "else":
                return self.estimate_cost(value, instance, depth)
        below = list(_list_members(keyword, value, schema, instance))
        return error + sum(self.estimate_cost(member, child, depth + 1) for member, child in below)

    def _measure_size(self, value: Any, depth: int) -> float:
        """Return the number of values in a copy; 200 characters count as one."""
        if isinstance(value, str):
            return 1 + len(value) / 200
        if not isinstance(value, (dict, list)):
            return 1.0
        known = self._sizes.get(id(value))
        if known is None:
            if depth > _MAX_DEPTH or len(value) > _MAX_VALUES or len(self._sizes) > _MAX_VALUES:
                raise _LimitExceeded
            self._sizes[id(value)] = 1.0
            members = value.values() if isinstance(value, dict) else value
            known = self._sizes[id(value)] = 1.0 + sum(
                self._measure_size(member, depth + 1) for member in members
            )
        if known > _MAX_VALUES:
            raise _LimitExceeded
        return known


def _is_object(instance: Any) -> bool:
    return isinstance(instance, dict)


def _list_members(
    keyword: str, value: Any, schema: dict[str, Any], instance: Any
) -> Iterator[tuple[Any, Any]]:
    """Yield the subschemas of a keyword, each with a value that it applies to."""
    if isinstance(instance, dict):
        if keyword == "properties":
            yield from ((member, instance[name]) for name, member in value.items() if name in instance)
        elif keyword == "patternProperties":
            yield from ((member, child) for member in value.values() for child in instance.values())
        elif keyword in ("additionalProperties", "unevaluatedProperties"):
            listed = schema.get("properties") or {}
            yield from ((value, child) for name, child in instance.items() if name not in listed)
    elif isinstance(instance, list):
        if keyword == "prefixItems":
            yield from zip(value, instance, strict=False)
        elif keyword in ("items", "unevaluatedItems"):
            yield from ((value, child) for child in instance)
