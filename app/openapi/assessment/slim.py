"""Slims a large tool to the at most 30 kB that a model sees of it, by named steps; calls are validated in
full.

Each step is taken only while the tool is still too large: drop examples, shorten long descriptions, drop
descriptions but those of the inputs, shorten long enumerations, drop the other descriptions, optional
branches (of the outputs first), and optional properties. Every result accepts at least what the full schema
accepts. Deterministic; the given schemas are not changed.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from app.core import exact_json
from app.openapi.assessment.slim_schema import (
    LEVELS,
    SizedSchema,
    SlimSchemas,
    cut_to_size,
    list_definition_refs,
    slim_schema,
    with_size,
)
from app.openapi.model import Json

MAX_SLIMMED_BYTES: Final = 30_000
"""The maximum number of bytes of JSON that a model sees of one tool."""
# Reserved for what a manual adds to a tool: its tags, its call template, the wrapping of its inputs.
_WRAPPING_BYTES: Final = 1_500
_MAX_TEXT: Final = 8_000
_CUT_TEXT: Final = 2_000
_MIN_OUTPUTS: Final = 2_000
_LAST_LEVEL: Final = len(LEVELS) - 1
_MIN_ROOT: Final = 64
_BRACKETS: Final = 12
# `:{},` after a name.
_OPEN: Final = 4


@dataclass(frozen=True, slots=True)
class SlimmedTool:
    """The slimmed parts of a tool, and the steps that were taken (sentences without a period)."""

    description: str
    inputs: Json
    outputs: Json
    steps: tuple[str, ...]

    def to_json(self) -> Json:
        """Return the parts as the JSON that is stored with a tool."""
        return {
            "description": self.description,
            "inputs": self.inputs,
            "outputs": self.outputs,
            "steps": list(self.steps),
        }

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "SlimmedTool":
        """Return the parts that `to_json` wrote."""
        return cls(form["description"], form["inputs"], form["outputs"], tuple(form["steps"]))


class Slimmer:
    """Slims the tools of one document; definitions that they share are slimmed once."""

    def __init__(self, *, max_bytes: int = MAX_SLIMMED_BYTES) -> None:
        self._max_bytes = max_bytes - _WRAPPING_BYTES
        self._forms = SlimSchemas()
        self._sums: dict[tuple[int, int], tuple[Any, int]] = {}

    def slim(self, *, name: str, description: str, inputs: Json, outputs: Json) -> SlimmedTool | None:
        """Return the slimmed tool; None where it is small enough unchanged."""
        steps: list[str] = []
        text = len(exact_json.dumps(description))
        if text > _MAX_TEXT:
            description = description[:_CUT_TEXT].rstrip() + "…"
            steps.append("description of the tool shortened")
            text = len(exact_json.dumps(description))
        budget = self._max_bytes - text - len(name)
        level = self._find_level(inputs, outputs, budget)
        if level == 0 and not steps:
            return None
        steps += LEVELS[1 : _LAST_LEVEL + 1 if level is None else level + 1]
        if level is not None:
            schemas = self._slim_to_level(inputs, level, keep=2), self._slim_to_level(outputs, level, keep=1)
            return SlimmedTool(description, *schemas, tuple(steps))
        outputs = self._slim_outputs(outputs, budget - self._measure_size(inputs, _LAST_LEVEL, keep=2), steps)
        inputs = self._slim_inputs(inputs, budget - len(exact_json.dumps(outputs)), steps)
        return SlimmedTool(description, inputs, outputs, tuple(steps))

    def _find_level(self, inputs: Json, outputs: Json, budget: int) -> int | None:
        """Return the first level at which inputs and outputs fit into `budget` bytes together; None if at
        none.
        """

        def fits(level: int) -> bool:
            return (
                self._measure_size(inputs, level, keep=2) + self._measure_size(outputs, level, keep=1)
                <= budget
            )

        if fits(0):
            return 0
        # The last level is tried early: for very large tools the others need not be computed.
        if not fits(_LAST_LEVEL):
            return None
        return next(level for level in range(1, _LAST_LEVEL + 1) if fits(level))

    def _slim_outputs(self, outputs: Json, budget: int, steps: list[str]) -> Json:
        if budget >= _MIN_OUTPUTS:
            steps.append("optional branches of the response left open")
            return self._prune_schema(outputs, budget, keep=1)[0]
        if outputs:
            steps.append("schema of the response left out")
        return {}

    def _slim_inputs(self, inputs: Json, budget: int, steps: list[str]) -> Json:
        if self._measure_size(inputs, _LAST_LEVEL, keep=2) <= budget:
            return self._slim_to_level(inputs, _LAST_LEVEL, keep=2)
        steps.append("optional branches left open")
        pruned, dropped = self._prune_schema(inputs, budget, keep=2)
        if dropped:
            steps.append("optional properties left out")
        return pruned

    def _measure_size(self, schema: Json, level: int, *, keep: int) -> int:
        root, defs = _split(schema)
        size = with_size(slim_schema(root, level, keep))[1]
        known = self._sums.get((id(defs), level))
        if known is None:
            known = self._sums[id(defs), level] = (defs, self._forms.measure_definitions(defs, level))
        return size + known[1]

    def _slim_to_level(self, schema: Json, level: int, *, keep: int) -> Json:
        root, defs = _split(schema)
        slimmed_root: Json = slim_schema(root, level, keep)
        if defs:
            slimmed_root = {
                **slimmed_root,
                "$defs": {name: self._forms.of(one, level)[0] for name, one in defs.items()},
            }
        return slimmed_root

    def _prune_schema(self, schema: Json, budget: int, *, keep: int) -> tuple[Json, bool]:
        """Return the schema in at most `budget` bytes, with the nearest definitions, the required ones first,
        and `{}` for the others; and whether properties were dropped.
        """
        root, defs = _split(schema)
        pruning = _Pruning(self._forms, defs, budget - _BRACKETS)
        # A root with definitions takes at most three quarters.
        pruned_root = pruning.prune_root(with_size(slim_schema(root, _LAST_LEVEL, keep)))
        retained = pruning.prune_definitions()
        return ({**pruned_root, "$defs": retained} if retained else pruned_root), pruning.dropped


@dataclass(slots=True)
class _Pruning:
    """Adds definitions while bytes are left, some of which are reserved for each name that is referred to."""

    forms: SlimSchemas
    defs: Json
    left: int
    dropped: bool = False
    seen: set[str] = field(default_factory=set)
    queue: deque[tuple[str, bool]] = field(default_factory=deque)

    def prune_root(self, form: SizedSchema) -> Json:
        """Return the root schema, cut so that bytes are left for the definitions it refers to."""
        limit = self.left * 3 // 4 if self.defs else self.left
        cut, size = form
        while limit >= _MIN_ROOT:
            if self._charge(cut, size, limit, optional=False):
                return cut
            # The definitions that it refers to also need bytes: try again with a smaller root.
            limit = limit if cut is form[0] else limit * 3 // 4
            cut, size, less = cut_to_size(form[0], limit)
            self.dropped = self.dropped or less
        self.dropped = True
        return {"type": "object"}

    def prune_definitions(self) -> Json:
        """Return the definitions that are referred to, the required ones first."""
        retained: Json = {}
        while self.queue:
            name, optional = self.queue.popleft()
            retained[name] = self._prune_definition(self.forms.of(self.defs[name], _LAST_LEVEL), optional)
        return retained

    def _prune_definition(self, form: SizedSchema, optional: bool) -> Json:
        if self._charge(*form, self.left, optional=optional, refs=self.forms.list_refs(form[0])):
            return form[0]
        if not optional:
            # Half, because the rest may be needed by definitions that it refers to.
            cut, size, less = cut_to_size(form[0], max(0, self.left // 2))
            if self._charge(cut, size, self.left, optional=False):
                self.dropped = self.dropped or less
                return cut
        return {}

    def _charge(
        self, schema: Json, size: int, limit: int, *, optional: bool, refs: dict[str, bool] | None = None
    ) -> bool:
        """Subtract the size of a schema, and of the names that it is the first to refer to; return False if
        they do not fit.
        """
        names = list_definition_refs(schema) if refs is None else refs
        new_names = {name: may for name, may in names.items() if name in self.defs and name not in self.seen}
        need = size + sum(len(exact_json.dumps(name)) + _OPEN for name in new_names)
        if (size > limit or need > self.left) and schema:
            return False
        self.left -= need
        self.seen.update(new_names)
        for name, may in sorted(new_names.items(), key=lambda edge: edge[1]):
            if may or optional:
                self.queue.append((name, True))
            else:
                self.queue.appendleft((name, False))
        return True


def _split(schema: Json) -> tuple[Json, Json]:
    defs = schema.get("$defs")
    if not isinstance(defs, dict):
        return schema, _NO_DEFINITIONS
    return {key: value for key, value in schema.items() if key != "$defs"}, defs


_NO_DEFINITIONS: Final[Json] = {}
