"""Converts each schema of a document once; a tool's `$defs` are the closure of the schemas that it refers to.

Nothing is inlined, so cycles remain cycles and a fan-out of 2^n remains n definitions.
"""

import hashlib
import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from app.core import exact_json
from app.openapi.model import Json
from app.openapi.reading.identifiers import Tokens
from app.openapi.reading.refs import MAX_CHAIN, References, RefProblem, pointer
from app.openapi.report import UnreadFields, Warnings
from app.openapi.schemas.dialect import Mode, SchemaConverter, describe_any_value
from app.openapi.schemas.patterns import Patterns

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,80}")
_ILLEGAL = re.compile(r"[^A-Za-z0-9_.-]+")
_COMPONENT_PATHS = {
    "2.0": ("definitions",),
    "3.0": ("components", "schemas"),
    "3.1": ("components", "schemas"),
    "3.2": ("components", "schemas"),
}
_MAX_LOOKUP_DEPTH = 8
_INFINITE = 10**6


@dataclass(frozen=True, slots=True)
class Fragment:
    """A converted schema: its JSON, its references (in first-visit order), and its size in bytes.

    `in_place` has the references that apply to the same value (`$ref`, `allOf`, ...). Validation never
    terminates with a cycle of such references, while it does with a cycle through a property. `notes` are for
    the operations that use the schema.
    """

    schema: Json
    refs: tuple[Tokens, ...]
    in_place: tuple[Tokens, ...]
    size: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Closure:
    """The `$defs` of one tool, and their size in bytes.

    `cut` is the number of definitions that became `{}` because of their size, and `notes` tell which became
    `{}` because their schema cannot be used. `referenced` has the definitions that some definition refers to.
    """

    defs: Json
    size: int
    cut: int
    referenced: frozenset[Tokens]
    notes: tuple[str, ...] = ()


class SchemaRegistry:
    """Converts and caches the schemas of one document."""

    def __init__(
        self, references: References, *, version: str, warnings: Warnings, unread: UnreadFields
    ) -> None:
        self._references = references
        self._component_path = _COMPONENT_PATHS[version]
        self._warnings = warnings
        self._unread = unread
        self.siblings = version in ("3.1", "3.2")
        self.patterns = Patterns()
        # Keyed by identity, so each entry also keeps its node alive.
        self._inline: dict[tuple[int, Mode], tuple[Any, Fragment]] = {}
        self._components: dict[tuple[Tokens, Mode], Fragment | RefProblem] = {}
        self._terminating_components: dict[Mode, dict[Tokens, Fragment | RefProblem]] = {
            mode: {} for mode in Mode
        }
        self._in_place_depths: dict[tuple[Tokens, Mode], int] = {}
        self._closures: dict[tuple[tuple[Tokens, ...], Mode, int], Closure] = {}
        self._names: dict[Tokens, str] = {}
        self._hidden: dict[tuple[int, Mode], tuple[Any, frozenset[str]]] = {}

    def convert_schema(self, node: Any, pointer: str, *, mode: Mode) -> Fragment:
        """Return the schema at the pointer, converted; a reference that leads nowhere becomes any value."""
        known = self._inline.get((id(node), mode))
        if known is None:
            known = node, self._convert(node, pointer, mode)
            self._inline[id(node), mode] = known
        return known[1]

    def collect_definitions(self, refs: Iterable[Tokens], *, mode: Mode, budget: int) -> Closure:
        """Return all definitions that the references reach, nearest first, within `budget` bytes.

        Beyond the budget a definition becomes `{}` (any value). So does, with a note, the target of a
        dangling reference, and a schema that refers to itself in place.
        """
        key = (tuple(refs), mode, budget)
        known = self._closures.get(key)
        if known is None:
            known = self._closures[key] = self._build_closure(key[0], mode, budget)
        return known

    def get_component(self, tokens: Tokens, *, mode: Mode) -> Fragment:
        """Return the schema that a reference leads to; raise RefProblem if there is none that can be read."""
        known = self._components.get((tokens, mode))
        if known is None:
            try:
                target = self._references.get_target(tokens, location=pointer(tokens))
                known = self._convert(target.node, target.pointer, mode)
            except RefProblem as problem:
                known = problem
            self._components[tokens, mode] = known
        if isinstance(known, RefProblem):
            raise known
        return known

    # The protocol dialect.SchemaContext ---------------------------------------------------------------------

    def refer(self, reference: str, *, location: str) -> tuple[Tokens, str]:
        """Return the key of a local reference and its name in `$defs`; raise RefProblem where it is not
        local.
        """
        tokens = self._references.parse_reference(reference, location=location)
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

    def resolve_dynamic(self, reference: str, *, location: str) -> str | None:
        """Return a plain reference for a `$dynamicRef`, None where it may mean several schemas."""
        tokens = self._references.resolve_dynamic(reference, location=location)
        return None if tokens is None else f"#{pointer(tokens)}"

    def is_hidden(self, node: Any, mode: Mode) -> bool:
        """Return whether a property is marked readOnly (for inputs) or writeOnly (for outputs)."""
        return self._is_marked(node, "writeOnly" if mode is Mode.OUTPUT else "readOnly", _MAX_LOOKUP_DEPTH)

    def list_hidden_names(self, node: Mapping[str, Any], mode: Mode) -> frozenset[str]:
        """Return the hidden properties of an object schema, of its reference and of its `allOf`."""
        return self._collect_hidden_names(node, mode, _MAX_LOOKUP_DEPTH)

    def find_component(self, name: str) -> Tokens | None:
        """Return the schema that a discriminator names by a component's name or by a URI; None if there is
        none.
        """
        plain = (*self._component_path, name)
        try:
            if not name.startswith("#") and self._references.has(plain):
                return plain
            return self._references.parse_reference(name, location="")
        except RefProblem:
            return None

    def is_exclusive(self, branches: list[Any], name: str) -> bool:
        """Return whether each schema fixes the property of this name, and no two fix it to the same value."""
        seen: set[str] = set()
        for branch in branches:
            values = self._list_fixed_values(branch, name, _MAX_LOOKUP_DEPTH)
            if values is None or values & seen:
                return False
            seen |= values
        return True

    def _list_fixed_values(self, node: Any, name: str, depth: int) -> frozenset[str] | None:
        """Return the values that an object schema allows for a property, as texts; None for all."""
        if not isinstance(node, dict) or depth == 0:
            return None
        if isinstance(node.get("$ref"), str):
            return self._list_fixed_values(self._resolve_target(node["$ref"]), name, depth - 1)
        properties, required = node.get("properties"), node.get("required")
        property_schema = properties.get(name) if isinstance(properties, dict) else None
        if isinstance(property_schema, dict) and isinstance(required, list) and name in required:
            listed = [property_schema["const"]] if "const" in property_schema else property_schema.get("enum")
            if isinstance(listed, list):
                return frozenset(str(one) for one in listed)
        for part in node["allOf"] if isinstance(node.get("allOf"), list) else ():
            values = self._list_fixed_values(part, name, depth - 1)
            if values is not None:
                return values
        return None

    def warn(self, location: str, detail: str) -> None:
        """Add a warning to the report."""
        self._warnings.add(location, detail)

    def report_unread(self, keyword: str, location: str, reason: str) -> None:
        """Add a keyword that has no effect to the report."""
        self._unread.add("Schema Object", keyword, location, reason)

    # --------------------------------------------------------------------------------------------------------

    def _convert(self, node: Any, location: str, mode: Mode) -> Fragment:
        walk = SchemaConverter(self, mode)
        schema = walk.convert_schema(node, location, in_place=True)
        size = len(exact_json.dumps(schema))
        return Fragment(schema, tuple(walk.refs), tuple(walk.in_place), size, tuple(walk.notes))

    def _build_closure(self, refs: tuple[Tokens, ...], mode: Mode, budget: int) -> Closure:
        defs: Json = {}
        size = cut = 0
        notes: dict[str, None] = {}
        terminating, referenced = self._terminating_components[mode], set[Tokens]()
        queue = deque(refs)
        while queue:
            tokens = queue.popleft()
            name = self._names[tokens]
            if name in defs:
                continue
            if tokens not in terminating:
                terminating[tokens] = self._get_terminating(tokens, mode)
            fragment = terminating[tokens]
            if isinstance(fragment, RefProblem) or size + fragment.size > budget:
                defs[name] = {}
                size += len(name) + 8
                if isinstance(fragment, RefProblem):
                    notes[describe_any_value(fragment, mode)] = None
                else:
                    cut += 1
                continue
            defs[name] = fragment.schema
            notes.update(dict.fromkeys(fragment.notes))
            size += fragment.size + len(name) + 4
            referenced.update(fragment.refs)
            queue.extend(tokens for tokens in fragment.refs if self._names[tokens] not in defs)
        return Closure(defs, size, cut, frozenset(referenced), tuple(notes))

    def _get_terminating(self, tokens: Tokens, mode: Mode) -> Fragment | RefProblem:
        """Return the component if validation with it terminates, else why it does not, after a warning."""
        try:
            fragment = self.get_component(tokens, mode=mode)
            self._check_termination(tokens, mode)
        except RefProblem as problem:
            self.warn(problem.pointer, describe_any_value(problem, mode))
            return problem
        return fragment

    def _check_termination(self, tokens: Tokens, mode: Mode) -> None:
        if self._measure_in_place_depth(tokens, mode) > MAX_CHAIN:
            raise RefProblem("refers to itself, or to too long a chain of schemas", pointer=pointer(tokens))

    def _measure_in_place_depth(self, start: Tokens, mode: Mode) -> int:
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
            steps = self._list_steps(tokens, mode)
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

    def _list_steps(self, tokens: Tokens, mode: Mode) -> tuple[Tokens, ...]:
        try:
            return self.get_component(tokens, mode=mode).in_place
        except RefProblem:
            return ()

    def _is_marked(self, node: Any, flag: str, depth: int) -> bool:
        if not isinstance(node, dict) or depth == 0:
            return False
        reference = node.get("$ref")
        if isinstance(reference, str):
            if self.siblings and node.get(flag) is True:
                return True
            return self._is_marked(self._resolve_target(reference), flag, depth - 1)
        if node.get(flag) is True:
            return True
        parts = node.get("allOf")
        return isinstance(parts, list) and any(self._is_marked(part, flag, depth // 2) for part in parts[:10])

    def _collect_hidden_names(self, node: Any, mode: Mode, depth: int) -> frozenset[str]:
        if not isinstance(node, dict) or depth == 0:
            return frozenset()
        known = self._hidden.get((id(node), mode))
        if known is not None:
            return known[1]
        names: set[str] = set()
        if isinstance(node.get("$ref"), str):
            names |= self._collect_hidden_names(self._resolve_target(node["$ref"]), mode, depth - 1)
        properties = node.get("properties")
        if isinstance(properties, dict):
            names |= {name for name, one in properties.items() if self.is_hidden(one, mode)}
        parts = node.get("allOf")
        if isinstance(parts, list):
            for part in parts:
                names |= self._collect_hidden_names(part, mode, depth - 1)
        self._hidden[id(node), mode] = (node, frozenset(names))
        return frozenset(names)

    def _resolve_target(self, reference: str) -> Any:
        try:
            return self._references.get_target(
                self._references.parse_reference(reference, location=""), location=""
            ).node
        except RefProblem:
            return None
