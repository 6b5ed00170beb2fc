"""Converts each schema of a document once; a tool's `$defs` are the closure of the schemas that it refers to.

Nothing is inlined, so cycles remain cycles and a fan-out of 2^n remains n definitions.
"""

import hashlib
import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from app.openapi.dialect import Mode, SchemaConverter
from app.openapi.identifiers import Tokens
from app.openapi.model import Json
from app.openapi.patterns import Patterns
from app.openapi.refs import MAX_CHAIN, References, RefProblem, pointer
from app.openapi.report import Warnings

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,80}")
_ILLEGAL = re.compile(r"[^A-Za-z0-9_.-]+")
_COMPONENT_PATHS = {
    "2.0": ("definitions",),
    "3.0": ("components", "schemas"),
    "3.1": ("components", "schemas"),
}
_MAX_LOOKUP_DEPTH = 8
_INFINITE = 10**6


@dataclass(frozen=True, slots=True)
class Fragment:
    """A converted schema: its JSON, its references (in first-visit order), and its size in bytes.

    `in_place` are the references that apply to the same value (`$ref`, `allOf`, ...): validation never
    terminates with a cycle of those, while it does with a cycle through a property.
    """

    schema: Json
    refs: tuple[Tokens, ...]
    in_place: tuple[Tokens, ...]
    size: int


@dataclass(frozen=True, slots=True)
class Closure:
    """The `$defs` of one tool, their size in bytes, and the number replaced by `{}` because of their size
    (`cut`).

    `referenced` are those that other definitions (or they themselves) refer to.
    """

    defs: Json
    size: int
    cut: int
    referenced: frozenset[Tokens]


class SchemaRegistry:
    """Converts and caches the schemas of one document."""

    def __init__(self, references: References, *, version: str, warnings: Warnings) -> None:
        self._references = references
        self._component_path = _COMPONENT_PATHS[version]
        self._warnings = warnings
        self.siblings = version == "3.1"
        self.patterns = Patterns()
        # Keyed by identity, so each entry also keeps its node alive.
        self._inline: dict[tuple[int, Mode], tuple[Any, Fragment]] = {}
        self._components: dict[tuple[Tokens, Mode], Fragment | RefProblem] = {}
        self._terminating_components: dict[Mode, dict[Tokens, Fragment | None]] = {mode: {} for mode in Mode}
        self._in_place_depths: dict[tuple[Tokens, Mode], int] = {}
        self._closures: dict[tuple[tuple[Tokens, ...], Mode, int], Closure | RefProblem] = {}
        self._names: dict[Tokens, str] = {}
        self._hidden: dict[tuple[int, Mode], tuple[Any, frozenset[str]]] = {}

    def fragment(self, node: Any, at: str, *, mode: Mode) -> Fragment:
        """Return the converted schema at the pointer `at`; raise RefProblem for a reference out of the
        document.
        """
        known = self._inline.get((id(node), mode))
        if known is None:
            known = node, self._convert(node, at, mode)
            self._inline[id(node), mode] = known
        return known[1]

    def closure(self, refs: Iterable[Tokens], *, mode: Mode, budget: int) -> Closure:
        """Return all definitions that the references reach, nearest first, within `budget` bytes.

        Beyond the budget a definition becomes `{}` (any value). Raises RefProblem for a dangling reference
        and for schemas that refer to themselves in place; with Mode.OUTPUT both become `{}`.
        """
        key = (tuple(refs), mode, budget)
        known = self._closures.get(key)
        if known is None:
            try:
                known = self._build_closure(key[0], mode, budget)
            except RefProblem as problem:
                known = problem
            self._closures[key] = known
        if isinstance(known, RefProblem):
            raise known
        return known

    def component(self, tokens: Tokens, *, mode: Mode) -> Fragment:
        """Return the schema that a reference leads to; raise RefProblem if there is none that can be read."""
        known = self._components.get((tokens, mode))
        if known is None:
            try:
                found = self._references.target(tokens, at=pointer(tokens))
                known = self._convert(found.node, found.pointer, mode)
            except RefProblem as problem:
                known = problem
            self._components[tokens, mode] = known
        if isinstance(known, RefProblem):
            raise known
        return known

    # The protocol dialect.SchemaContext ---------------------------------------------------------------------

    def refer(self, reference: str, *, at: str) -> tuple[Tokens, str]:
        """Return the key of a local reference and its name in `$defs`; raise RefProblem where it is not
        local.
        """
        tokens = self._references.tokens(reference, at=at)
        name = self._names.get(tokens)
        if name is None:
            plain = len(tokens) == len(self._component_path) + 1 and tokens[:-1] == self._component_path
            name = tokens[-1]
            if not plain or not _NAME.fullmatch(name):
                # The digest is of the pointer alone, so the name does not depend on what else is there.
                digest = hashlib.sha256(pointer(tokens).encode()).hexdigest()[:8]
                name = f"{_ILLEGAL.sub('_', name).strip('_')[:60] or 'schema'}.{digest}"
            self._names[tokens] = name
        return tokens, name

    def dynamic(self, reference: str, *, at: str) -> str | None:
        """Return a plain reference for a `$dynamicRef`, None where it may mean several schemas."""
        tokens = self._references.dynamic(reference, at=at)
        return None if tokens is None else f"#{pointer(tokens)}"

    def hidden(self, node: Any, mode: Mode) -> bool:
        """Return whether a property is marked readOnly (for inputs) or writeOnly (for outputs)."""
        return self._marked(node, "writeOnly" if mode is Mode.OUTPUT else "readOnly", _MAX_LOOKUP_DEPTH)

    def hidden_names(self, node: Mapping[str, Any], mode: Mode) -> frozenset[str]:
        """Return the hidden properties of an object schema, of its reference and of its `allOf`."""
        return self._hidden_names(node, mode, _MAX_LOOKUP_DEPTH)

    def warn(self, at: str, detail: str) -> None:
        """Add a warning to the report."""
        self._warnings.add(at, detail)

    # --------------------------------------------------------------------------------------------------------

    def _convert(self, node: Any, at: str, mode: Mode) -> Fragment:
        walk = SchemaConverter(self, mode)
        schema = walk.schema(node, at, in_place=True)
        return Fragment(schema, tuple(walk.refs), tuple(walk.in_place), len(orjson.dumps(schema)))

    def _build_closure(self, refs: tuple[Tokens, ...], mode: Mode, budget: int) -> Closure:
        defs: Json = {}
        size = cut = 0
        terminating, referenced = self._terminating_components[mode], set[Tokens]()
        queue = deque(refs)
        while queue:
            tokens = queue.popleft()
            name = self._names[tokens]
            if name in defs:
                continue
            if tokens not in terminating:
                terminating[tokens] = self._terminating(tokens, mode)
            fragment = terminating[tokens]
            if fragment is None or size + fragment.size > budget:
                defs[name] = {}
                cut += fragment is not None
                size += len(name) + 8
                continue
            defs[name] = fragment.schema
            size += fragment.size + len(name) + 4
            referenced.update(fragment.refs)
            queue.extend(tokens for tokens in fragment.refs if self._names[tokens] not in defs)
        return Closure(defs, size, cut, frozenset(referenced))

    def _terminating(self, tokens: Tokens, mode: Mode) -> Fragment | None:
        """Return the component if validation with it terminates; else raise RefProblem, or with Mode.OUTPUT
        return None.
        """
        try:
            fragment = self.component(tokens, mode=mode)
            self._check_termination(tokens, mode)
        except RefProblem as problem:
            if mode is not Mode.OUTPUT:
                raise
            self.warn(problem.pointer, f"a response's schema {problem.reason}; it was taken as `any value`")
            return None
        return fragment

    def _check_termination(self, tokens: Tokens, mode: Mode) -> None:
        if self._in_place_depth(tokens, mode) > MAX_CHAIN:
            raise RefProblem("refers to itself, or to too long a chain of schemas", pointer=pointer(tokens))

    def _in_place_depth(self, start: Tokens, mode: Mode) -> int:
        """Return the length of the longest chain of in-place references from a component; a cycle is
        infinite.
        """
        stack = [start]
        open_: set[Tokens] = set()
        while stack:
            tokens = stack[-1]
            if (tokens, mode) in self._in_place_depths:
                stack.pop()
                continue
            steps = self._steps(tokens, mode)
            missing = [step for step in steps if (step, mode) not in self._in_place_depths and step != tokens]
            if tokens in open_ or not missing:
                stack.pop()
                open_.discard(tokens)
                # A step that is still open, or the component itself, closes a cycle.
                heights = [self._in_place_depths.get((step, mode), _INFINITE) for step in steps]
                self._in_place_depths[tokens, mode] = min(1 + max(heights, default=0), _INFINITE)
            else:
                open_.add(tokens)
                stack.extend(step for step in missing if step not in open_)
        return self._in_place_depths[start, mode]

    def _steps(self, tokens: Tokens, mode: Mode) -> tuple[Tokens, ...]:
        try:
            return self.component(tokens, mode=mode).in_place
        except RefProblem:
            return ()

    def _marked(self, node: Any, flag: str, depth: int) -> bool:
        if not isinstance(node, dict) or depth == 0:
            return False
        reference = node.get("$ref")
        if isinstance(reference, str):
            if self.siblings and node.get(flag) is True:
                return True
            return self._marked(self._target(reference), flag, depth - 1)
        if node.get(flag) is True:
            return True
        parts = node.get("allOf")
        return isinstance(parts, list) and any(self._marked(part, flag, depth // 2) for part in parts[:10])

    def _hidden_names(self, node: Any, mode: Mode, depth: int) -> frozenset[str]:
        if not isinstance(node, dict) or depth == 0:
            return frozenset()
        known = self._hidden.get((id(node), mode))
        if known is not None:
            return known[1]
        names: set[str] = set()
        if isinstance(node.get("$ref"), str):
            names |= self._hidden_names(self._target(node["$ref"]), mode, depth - 1)
        properties = node.get("properties")
        if isinstance(properties, dict):
            names |= {name for name, one in properties.items() if self.hidden(one, mode)}
        parts = node.get("allOf")
        if isinstance(parts, list):
            for part in parts:
                names |= self._hidden_names(part, mode, depth - 1)
        self._hidden[id(node), mode] = (node, frozenset(names))
        return frozenset(names)

    def _target(self, reference: str) -> Any:
        try:
            return self._references.target(self._references.tokens(reference, at=""), at="").node
        except RefProblem:
            return None
