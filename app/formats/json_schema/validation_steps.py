"""How many steps it may take to validate one value, which jsonschema-rs does without a pause.

It validates a value once for each way that leads to a subschema, and in the meantime no other thread runs.
Measured with jsonschema-rs 0.60: 13 ns a step, so that 30 levels of an `allOf` that names the next level
twice (2 kB) take 14 s for the value 1, and 40 levels four hours. `unevaluatedProperties` and
`unevaluatedItems` evaluate the subschemas beside them again for each member: 2.6 times as many steps.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Final

from app.formats.json_schema.references import resolve

MAX_STEPS: Final = 10_000_000
"""Steps for one value and what is on one path below it, and for all values of an argument: 0.13 s."""
_FEW_STEPS: Final = 100
"""With no more steps than this the values are not counted."""
_MAX_LEVELS: Final = 16
"""How many levels of values are told apart; those below count as the last of them."""
_EVALUATION: Final = 2
"""How often `unevaluated*` takes the steps beside it again: measured 1.6 times, at each level."""
_UNEVALUATED: Final = ("unevaluatedItems", "unevaluatedProperties")
_IN_PLACE: Final = ("allOf", "anyOf", "oneOf")
_IN_PLACE_ONE: Final = ("not", "if", "then", "else")
_BELOW: Final = ("items", "additionalProperties", *_UNEVALUATED)
_BESIDE: Final = ("contains", "propertyNames")


@dataclass(frozen=True, slots=True)
class ValidationSteps:
    """How many steps a schema takes: `path` for a value and what is on one path below it; `levels` for each
    value, by the number of levels that it is below the root, where deeper ones count as the last;
    `everywhere` at most for a value at any level of a schema that contains itself, 0 for others.
    """

    path: float = 1.0
    levels: Sequence[float] = (1.0,)
    everywhere: float = 0.0

    @property
    def is_affordable(self) -> bool:
        """Whether validating a value takes at most `MAX_STEPS` steps along any one path of its members."""
        return self.path <= MAX_STEPS

    @property
    def are_few(self) -> bool:
        """Whether any value takes so few steps that its values need not be counted."""
        return self.path <= _FEW_STEPS

    def allows(self, value: Any) -> bool:
        """Return whether validating all values of a JSON value takes at most `MAX_STEPS` steps.

        The values are only counted where a schema takes more than a hundred steps.
        """
        if self.are_few:
            return True
        steps = 0.0
        members, depth = [value], 0
        while members:
            level = self.levels[depth] if depth < len(self.levels) else self.levels[-1]
            steps += max(level, self.everywhere) * len(members)
            if steps > MAX_STEPS:
                return False
            depth += 1
            if depth >= len(self.levels) < _MAX_LEVELS and not self.everywhere:
                # No subschema applies to what is below.
                return True
            below: list[Any] = []
            for member in members:
                if isinstance(member, dict):
                    below.extend(member.values())
                elif isinstance(member, list | tuple):
                    below.extend(member)
            members = below
        return True


_FEW: Final = ValidationSteps()


def count_steps(schema: Mapping[str, Any]) -> ValidationSteps:
    """Return how many steps it takes to validate a value, whatever the value is.

    Only one path of members is looked at, since further ones are further values; and a reference to a schema
    that is being looked at counts as one step, since values are finite.
    """
    return _FEW if _has_few_steps(schema) else _count_all(schema)


def _has_few_steps(schema: Mapping[str, Any]) -> bool:
    """Return whether a schema is so small that there are few ways to its subschemas, whatever they are: with
    `n` references at most 3 ** (n / 3) to each.
    """
    nodes = references = 0
    pending: list[Any] = [schema]
    while pending:
        node = pending.pop()
        if isinstance(node, Mapping):
            if any(word in node for word in _UNEVALUATED):
                return False
            nodes += 1
            references += isinstance(node.get("$ref"), str)
            if nodes * 3 ** (references / 3) > _FEW_STEPS:
                return False
            pending.extend(node.values())
        elif isinstance(node, list):
            pending.extend(node)
    return True


def _count_all(root: Mapping[str, Any]) -> ValidationSteps:
    """Return the steps of a schema: those of all that applies to the value itself, and of the member with the
    most.
    """
    known: dict[int, ValidationSteps] = {}
    open_: set[int] = set()
    is_recursive = False
    pending: list[Any] = [root]
    while pending:
        node = pending[-1]
        if id(node) in known:
            pending.pop()
            continue
        in_place, below = list(_list_in_place(node, root)), list(_list_below(node))
        beside = list(_list_beside(node))
        applied = (*in_place, *below, *beside)
        missing = [one for one in applied if id(one) not in known and id(one) not in open_]
        if id(node) not in open_ and missing:
            open_.add(id(node))
            pending.extend(missing)
            continue
        pending.pop()
        open_.discard(id(node))
        # A schema that is still open refers to itself by way of this one.
        is_recursive = is_recursive or any(id(one) not in known for one in applied)
        known[id(node)] = _combine_steps(
            [known.get(id(one), _FEW) for one in in_place],
            [known.get(id(one), _FEW) for one in below],
            [known.get(id(one), _FEW) for one in beside],
            evaluations=_EVALUATION if any(word in node for word in _UNEVALUATED) else 0,
        )
    steps = known[id(root)]
    if not is_recursive:
        return steps
    return replace(steps, everywhere=max(one.levels[0] for one in known.values()))


def _combine_steps(
    in_place: Sequence[ValidationSteps],
    below: Sequence[ValidationSteps],
    beside: Sequence[ValidationSteps],
    *,
    evaluations: int,
) -> ValidationSteps:
    """Return the steps of a schema with these subschemas; those in place are evaluated so often again.

    Of those `below`, one applies to each member, and all that are `beside` them.
    """
    times = 1 + evaluations
    path = 1.0 + times * sum(one.path for one in in_place) + max((one.path for one in below), default=0.0)
    path += sum(one.path for one in beside)
    most = [max(costs) for costs in zip_longest(*(one.levels for one in below), fillvalue=0.0)]
    members = [sum(costs) for costs in zip_longest(most, *(one.levels for one in beside), fillvalue=0.0)]
    own_levels = [
        times * sum(costs) for costs in zip_longest(*(one.levels for one in in_place), fillvalue=0.0)
    ]
    if evaluations and own_levels:
        members = members or [0.0]
        members[0] += own_levels[0]
    levels = [sum(costs) for costs in zip_longest([1.0, *members], own_levels, fillvalue=0.0)]
    if len(levels) > _MAX_LEVELS:
        levels[_MAX_LEVELS - 1 :] = [sum(levels[_MAX_LEVELS - 1 :])]
    return ValidationSteps(path, levels)


def _list_in_place(node: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the subschemas that apply to the same value, once for each time that they do."""
    reference = node.get("$ref")
    if isinstance(reference, str):
        try:
            target = resolve(root, reference)
        except (LookupError, ValueError):
            target = None
        if isinstance(target, Mapping):
            yield target
    yield from _list_subschemas(node, _IN_PLACE_ONE, lists=_IN_PLACE, maps=("dependentSchemas",))


def _list_below(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the subschemas of which one applies to each member or item."""
    return _list_subschemas(node, _BELOW, lists=("prefixItems",), maps=("properties",))


def _list_beside(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the subschemas that may all apply to one member or item, beside those of `_list_below`."""
    return _list_subschemas(node, _BESIDE, maps=("patternProperties",))


def _list_subschemas(
    node: Mapping[str, Any], keywords: Sequence[str], *, lists: Sequence[str] = (), maps: Sequence[str] = ()
) -> Iterator[Mapping[str, Any]]:
    """Yield the schemas that are values of `keywords`, in the `lists` and in the `maps` of a schema."""
    subschemas: list[Any] = [node.get(keyword) for keyword in keywords]
    for keyword in lists:
        listed = node.get(keyword)
        subschemas += listed if isinstance(listed, list) else ()
    for keyword in maps:
        members = node.get(keyword)
        subschemas += members.values() if isinstance(members, Mapping) else ()
    return (one for one in subschemas if isinstance(one, Mapping))
