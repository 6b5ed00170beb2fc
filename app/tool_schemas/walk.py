"""The walk over a schema that applies the rules of a dialect to each schema below it."""

import re
from collections.abc import Mapping
from typing import Any, Final

from app.json_schema.references import MAPS, VALUES, resolve
from app.text import pointer
from app.tool_schemas.aliases import Rule
from app.tool_schemas.dialects import SchemaRules
from app.tool_schemas.losses import Action, Effect, Loss, sentence, short_json
from app.tool_schemas.merge import Contradiction, merge_all
from app.tool_schemas.property_names import property_aliases
from app.tool_schemas.sanitize import description_for, is_portable_pattern
from app.tool_schemas.undo_rules import needed_definitions, pruned, united_rules
from app.tool_schemas.values import (
    ANNOTATIONS,
    ARRAY_KEYWORDS,
    OBJECT_KEYWORDS,
    accepts_enum,
    are_disjoint,
    exclusive_groups,
    nullable,
    split_types,
    types_of,
)

Schema = dict[str, Any]
Result = tuple[Schema, Rule]

# These say nothing about values, so that nothing is lost where they are dropped.
_SILENT: Final = frozenset(
    {"deprecated", "readOnly", "writeOnly", "$comment", "$schema", "$id", "$anchor", "$defs", "definitions"}
)
_STRUCTURE: Final = frozenset({
    "not", "if", "then", "else", "dependentSchemas", "dependentRequired", "patternProperties",
    "propertyNames", "contains", "minContains", "maxContains", "unevaluatedProperties", "unevaluatedItems",
    "prefixItems", "oneOf", "allOf", "anyOf", "enum", "const", "additionalProperties", "uniqueItems",
})  # fmt: skip
_ONE: Final = frozenset({"not", "if", "then", "else", "contains", "propertyNames"})
_ONE_OR_FLAG: Final = frozenset({"unevaluatedProperties", "unevaluatedItems"})
_NEVER: Final[Mapping[str, Any]] = {"not": {}}
_JSON_TEXT: Final = "any JSON value, written as JSON text"
_MAX_RECURSION: Final = 3
_MAX_SCHEMAS: Final = 5_000
_MAX_NAME: Final = 40


class Walk:
    """Converts the schemas below a root; collects what is lost, and why it cannot be strict (`blockers`)."""

    def __init__(
        self,
        schema: Schema,
        rules: SchemaRules,
        *,
        property_pattern: str | None = None,
        description_max: int | None = None,
    ) -> None:
        self.schema = schema
        self.rules = rules
        self.losses: list[Loss] = []
        self.blockers: list[str] = []
        self.definitions: dict[str, Schema] = {}
        self.definition_rules: dict[str, Rule] = {}
        self._seen: set[tuple[str, str, str]] = set()
        self._open: list[str] = []
        self._names: dict[str, str] = {}
        self._converted = 0
        self._description_max = description_max
        self._places: dict[int, str] = {}
        self._kept: list[Schema] = []
        self._anchors: dict[str, Schema] = {}
        self._places_of(schema, "")
        self._aliases = property_aliases(schema, property_pattern)

    def _places_of(self, node: Any, at: str) -> None:
        if not isinstance(node, dict):
            return
        self._places.setdefault(id(node), at)
        if isinstance(node.get("$anchor"), str):
            self._anchors[node["$anchor"]] = node
        for key, value in node.items():
            below = pointer(at, key)
            if key in VALUES:
                continue
            if key in MAPS and isinstance(value, dict):
                for name, member in value.items():
                    self._places_of(member, pointer(below, name))
            elif isinstance(value, list):
                for index, member in enumerate(value):
                    self._places_of(member, pointer(below, index))
            else:
                self._places_of(value, below)

    # What is lost.

    def lose(self, at: str, keyword: str, value: Any, action: Action, effect: Effect) -> None:
        """Record what became of a keyword."""
        key = (at, keyword, action)
        if key not in self._seen:
            self._seen.add(key)
            where = pointer(at, keyword)
            self.losses.append(Loss(where, keyword, value, action, effect))

    def block(self, at: str, reason: str) -> None:
        """Record why the schema cannot be strict."""
        self.blockers.append(f"{reason} at {at or '/'}")

    def described(self, at: str, keyword: str, value: Any, effect: Effect) -> str:
        """Record that a keyword moves to the description; return its sentence."""
        self.lose(at, keyword, value, "moved-to-description", effect)
        return sentence(keyword, value)

    def contradiction(self, at: str) -> Contradiction:
        """Return what records keywords that cannot be merged."""

        def lost(keyword: str, value: Any) -> None:
            self.lose(at, keyword, value, "dropped", "looser")

        return lost

    # References.

    def types(self, node: Mapping[str, Any], default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return the types of a schema: those that it names, or that its keywords imply; else `default`."""
        names = node.get("type")
        if isinstance(names, str):
            return (names,)
        if names:
            return tuple(names)
        if any(node.get(key) for key in ("properties", "required", "patternProperties")):
            return ("object",)
        if node.get("additionalProperties") not in (None, True, False, {}):
            return ("object",)
        return ("array",) if "items" in node or "prefixItems" in node else default

    def resolved(self, node: Schema, path: tuple[str, ...]) -> Schema:
        """Return a schema without a reference and `allOf` of its own; recursive ones accept anything."""
        if len(path) > _MAX_RECURSION * 8 or self._converted > _MAX_SCHEMAS:
            return {}
        at = self._places.get(id(node), "")
        parts: list[Schema] = []
        reference = node.get("$ref")
        if isinstance(reference, str):
            if reference in path:
                self.lose(at, "$ref", reference, "cut", "looser")
            else:
                parts.append(self.resolved(self._target(reference), (*path, reference)))
        parts.append({key: value for key, value in node.items() if key not in ("$ref", "allOf")})
        parts += [self.resolved(member, path) for member in node.get("allOf", ())]
        merged = merge_all(parts, self.contradiction(at)) if len(parts) > 1 else parts[0]
        self._places.setdefault(id(merged), at)
        self._keep(merged)
        return merged

    def _keep(self, node: Schema) -> None:
        # Places are by identity, so that what has one must live as long as the walk.
        self._kept.append(node)

    def _target(self, reference: str) -> Schema:
        if reference[1:] in self._anchors:
            return self._anchors[reference[1:]]
        try:
            target = resolve(self.schema, reference)
        except LookupError:
            return {}
        return target if isinstance(target, dict) else {}

    def _reference(self, node: Schema, at: str, path: tuple[str, ...]) -> Result:
        reference = node["$ref"]
        siblings = {key: value for key, value in node.items() if key != "$ref" and key not in _SILENT}
        target = self._target(reference)
        if self.rules.references == "keep" and (not siblings or reference in path):
            if reference in self._open and not self.rules.recursion:
                self.block(at, "a recursive schema")
            for keyword, value in siblings.items():
                self.lose(at, keyword, value, "dropped", "hint" if keyword in ANNOTATIONS else "looser")
            return self._definition(reference, target)
        if self.rules.references == "keep" and self.rules.reference_siblings:
            kept, rule = self._definition(reference, target)
            beside, _ = self.node({**siblings}, at, path)
            return {**kept, **beside}, rule
        if path.count(reference) >= _MAX_RECURSION or self._converted > _MAX_SCHEMAS:
            self.lose(at, "$ref", reference, "cut", "looser")
            name = reference.rpartition("/")[2] or "the root"
            return self._free_form({"description": f"Same shape as {name}."}, at)
        place = self._places.get(id(target), at)
        constraints = siblings.keys() - ANNOTATIONS
        merged = (
            merge_all([target, siblings], self.contradiction(at)) if constraints else {**target, **siblings}
        )
        if self.rules.references == "inline":
            self.lose(at, "$ref", reference, "inlined", "none")
        return self.node(merged, place, (*path, reference))

    def _definition(self, reference: str, target: Schema) -> Result:
        name = self._names.get(reference)
        if name is None:
            raw = (
                re.sub(r"[^A-Za-z0-9_.-]+", "_", reference.rpartition("/")[2].lstrip("#"))[:_MAX_NAME]
                or "root"
            )
            name = raw
            while name in self.definitions:
                name = f"{raw}_{len(self.definitions)}"
            self._names[reference] = name
            self.definitions[name] = {}
            self._open.append(reference)
            self.definitions[name], rule = self.node(target, self._places.get(id(target), ""), (reference,))
            self._open.pop()
            if rule:
                self.definition_rules[name] = rule
        return {"$ref": f"#/$defs/{name}"}, {"definition": name}

    # Schemas.

    def root(self, node: Schema) -> Result:
        """Convert the root, which is an object also where it has no properties."""
        closed = not node.get("properties") and not self.rules.keeps("additionalProperties")
        if closed or (node.get("additionalProperties", False) is False and not node.get("properties")):
            node = {**node, "properties": {}, "additionalProperties": False}
        elif self.rules.closed and not node.get("properties"):
            self.block("", "free-form arguments")
        converted, rule = self.node(node, "", ("#",), is_root=True)
        needed = needed_definitions(self.definition_rules)
        rule = pruned(rule, needed)
        self.definition_rules = {name: pruned(self.definition_rules[name], needed) for name in sorted(needed)}
        if converted.get("type") != "object":
            converted = {**converted, "type": "object"}
        converted.setdefault("properties", {})
        return converted, rule

    def node(self, node: Schema, at: str, path: tuple[str, ...], *, is_root: bool = False) -> Result:
        """Return a schema in the dialect, and the rule that undoes it."""
        self._converted += 1
        at = self._places.get(id(node), at)
        if "$ref" in node:
            return self._reference(node, at, path)
        if "allOf" in node and self.rules.all_of == "merge":
            return self.node(self._merged(node, at, path), at, self._followed(node, path), is_root=is_root)
        types = self.types(node)
        if self._is_split(types):
            return self.node(split_types(node, types), at, path, is_root=is_root)
        choice = next((key for key in ("oneOf", "anyOf") if key in node), None)
        if choice is not None and self.rules.all_of == "merge":
            return self._choices(node, choice, at, path)
        if not is_root and self._is_free_form(node, types):
            return self._free_form(node, at)
        if not is_root and self.rules.maps != "keep" and self._is_map(node, types):
            return self._pairs(node, at, path)
        return self._plain(node, types, at, path)

    def _merged(self, node: Schema, at: str, path: tuple[str, ...]) -> Schema:
        self.lose(at, "allOf", len(node["allOf"]), "converted", "none")
        merged = self.resolved(node, path if self.rules.references == "keep" else ())
        self._places[id(merged)] = at
        return merged

    def _followed(self, node: Schema, path: tuple[str, ...]) -> tuple[str, ...]:
        references = (one.get("$ref") for one in node["allOf"])
        return (*path, *(one for one in references if isinstance(one, str)))

    def _is_split(self, types: tuple[str, ...]) -> bool:
        others = [name for name in types if name != "null"]
        if len(others) < 2 or self.rules.all_of != "merge":
            return False
        return self.rules.types == "nullable" or bool({"object", "array"} & set(others))

    def _choices(self, node: Schema, choice: str, at: str, path: tuple[str, ...]) -> Result:
        """Convert a choice; what stands beside it is merged into each branch."""
        outer = {key: value for key, value in node.items() if key in ANNOTATIONS}
        base = {key: value for key, value in node.items() if key != choice and key not in ANNOTATIONS}
        branches = node[choice]
        excluded = exclusive_groups(branches) if choice == "oneOf" and "properties" in base else None
        if excluded is not None:
            branches = [
                {"allOf": [_without(base, names), branch]}
                for names, branch in zip(excluded, branches, strict=True)
            ]
        elif base:
            branches = [{"allOf": [base, branch]} for branch in branches]
        result, rule, notes = self._annotations(outer, at)
        converted = [
            self.node(branch, pointer(at, choice, index), path) for index, branch in enumerate(branches)
        ]
        if choice == "oneOf":
            disjoint = excluded is not None or are_disjoint([self.resolved(one, path) for one in branches])
            self.lose(at, "oneOf", len(branches), "converted", "none" if disjoint else "looser")
        result["anyOf"] = [schema for schema, _ in converted]
        if any(below for _, below in converted):
            rule["any"] = [{"when": schema, "then": below} for schema, below in converted]
        return self._with_notes(result, notes), rule

    def _is_free_form(self, node: Schema, types: tuple[str, ...]) -> bool:
        if self.rules.free_form == "keep" or "enum" in node or "const" in node:
            return False
        if not types:
            return "anyOf" not in node and "oneOf" not in node
        if set(types) - {"null"} != {"object"} or node.get("properties") or node.get("required"):
            return False
        rest = node.get("additionalProperties")
        if rest is False:
            return not self.rules.empty_objects
        return rest in (None, True, {}) and not node.get("patternProperties")

    def _is_map(self, node: Schema, types: tuple[str, ...]) -> bool:
        if set(types) - {"null"} != {"object"} or node.get("properties") or node.get("required"):
            return False
        return isinstance(node.get("additionalProperties"), dict) or bool(node.get("patternProperties"))

    def _free_form(self, node: Schema, at: str) -> Result:
        if self.rules.free_form == "keep":
            return {key: value for key, value in node.items() if self.rules.keeps(key)}, {}
        if self.rules.free_form == "reject":
            self.block(at, "a free-form value")
            return {}, {}
        outer = {key: value for key, value in node.items() if key in ANNOTATIONS}
        result, _, notes = self._annotations(outer, at)
        self.lose(at, "type", node.get("type"), "converted", "none")
        for key, value in node.items():
            if key not in ANNOTATIONS and key not in ("type", *OBJECT_KEYWORDS):
                notes.append(self.described(at, key, value, "looser"))
        text = _JSON_TEXT if "object" not in self.types(node) else "a JSON object, written as JSON text"
        return self._with_notes({"type": "string", **result}, [text, *notes]), {"json_text": True}

    def _pairs(self, node: Schema, at: str, path: tuple[str, ...]) -> Result:
        """Convert a map to a list of pairs, where the dialect has no maps."""
        if self.rules.maps == "reject":
            self.block(at, "a map")
            return {}, {}
        members = node.get("additionalProperties")
        patterns = node.get("patternProperties") or {}
        if not isinstance(members, dict) or patterns:
            choices = [*patterns.values(), *([members] if isinstance(members, dict) else [])]
            members = choices[0] if len(choices) == 1 else {"anyOf": choices}
            self.lose(at, "patternProperties", list(patterns), "moved-to-description", "looser")
        value, rule = self.node(members, pointer(at, "additionalProperties"), path)
        outer = {key: value for key, value in node.items() if key in ANNOTATIONS}
        result, _, notes = self._annotations(outer, at)
        for key, member in node.items():
            number = {"minProperties": "minItems", "maxProperties": "maxItems"}.get(key)
            if number is not None and self._is_accepted(number, member):
                result[number] = member
                self.lose(at, key, member, "converted", "none")
            elif key not in ANNOTATIONS and key not in ("type", *OBJECT_KEYWORDS):
                notes.append(self.described(at, key, member, "looser"))
        notes += [f"keys: {short_json(list(patterns))}"] if patterns else []
        self.lose(at, "additionalProperties", members, "converted", "none")
        pair: Schema = {
            "type": "object",
            "properties": {"key": {"type": "string"}, "value": value},
            "required": ["key", "value"],
        }
        if self.rules.closed:
            pair["additionalProperties"] = False
        kind: Any = ["array", "null"] if "null" in self.types(node) else "array"
        result = {"type": kind, **result, "items": pair}
        return self._with_notes(result, ["a list of key and value pairs", *notes]), {"pairs": rule}

    def _plain(self, node: Schema, types: tuple[str, ...], at: str, path: tuple[str, ...]) -> Result:
        outer = {key: value for key, value in node.items() if key in ANNOTATIONS}
        result, rule, notes = self._annotations(outer, at)
        if types and (not self.rules.keeps("*") or "type" in node):
            result["type"] = types[0] if len(types) == 1 else list(types)
        if "object" in types or any(key in node for key in ("properties", "additionalProperties")):
            self._object(node, at, path, result, rule, notes)
        elif "required" in node and self.rules.keeps("*"):
            result["required"] = [self._alias(name) for name in node["required"]]
        if "array" in types or any(key in node for key in ARRAY_KEYWORDS):
            self._array(node, at, path, result, rule, notes)
        self._literals(node, at, result, rule, notes)
        for key, value in node.items():
            if key in ANNOTATIONS or key in (
                "type",
                "enum",
                "const",
                *ARRAY_KEYWORDS,
                "properties",
                "required",
            ):
                continue
            if key != "additionalProperties":
                self._keyword(key, value, at, path, result, rule, notes)
        order = {key: index for index, key in enumerate(node)}
        ordered = sorted(result, key=lambda key: order.get(key, len(order)))
        return self._with_notes({key: result[key] for key in ordered}, notes), rule

    def _annotations(self, node: Schema, at: str) -> tuple[Schema, Rule, list[str]]:
        """Return the title and the description of a schema, an empty rule, and sentences for the rest."""
        result: Schema = {}
        notes: list[str] = []
        for key, value in node.items():
            if key in ("$defs", "definitions", "$anchor", "$id") or value is None:
                if key == "default" and not self.rules.keeps("default"):
                    notes.append(self.described(at, key, value, "hint"))
                elif key == "default":
                    result[key] = value
            elif self.rules.keeps(key):
                result[key] = value
            elif key in _SILENT:
                self.lose(at, key, value, "dropped", "none")
            else:
                notes.append(self.described(at, key, value, "hint"))
        limit = self._description_max
        text = result.get("description")
        if limit is not None and at and isinstance(text, str) and len(text) > limit:
            self.lose(at, "description", len(text), "cut", "hint")
            result["description"] = description_for(text, limit=limit)
        return result, {}, notes

    def _with_notes(self, result: Schema, notes: list[str]) -> Schema:
        said = [note for note in dict.fromkeys(notes) if note]
        if said:
            text = f"({'; '.join(said)})"
            result["description"] = f"{result['description']} {text}" if result.get("description") else text
        return result

    def _object(
        self, node: Schema, at: str, path: tuple[str, ...], result: Schema, rule: Rule, notes: list[str]
    ) -> None:
        properties = dict(node.get("properties", {}))
        required = list(node.get("required", ()))
        if not self.rules.keeps("*"):
            properties |= {name: {} for name in required if name not in properties}
        converted: Schema = {}
        rules: dict[str, Rule] = {}
        for name, member in properties.items():
            where = pointer(at, "properties", name)
            if name not in required and (member == _NEVER or member.get("readOnly") is True):
                self.lose(pointer(at, "properties"), name, member, "dropped", "none")
                continue
            schema, below = self.node(member, where, path)
            alias = self._alias(name)
            if alias != name:
                below = {"name": name, **below}
                self.lose(pointer(at, "properties"), name, alias, "renamed", "none")
            if self.rules.all_required and name not in required:
                schema, below = self._optional(member, schema, below, where)
            converted[alias] = schema
            if below:
                rules[alias] = below
        if converted or "properties" in node or self.rules.closed:
            result["properties"] = converted
        if self.rules.all_required:
            result["required"] = list(converted)
        elif required:
            result["required"] = [self._alias(name) for name in required]
        elif "required" in node and self.rules.keeps("*"):
            result["required"] = []
        if rules:
            rule["properties"] = rules
        self._rest(node, at, path, result, rule, notes)

    def _rest(
        self, node: Schema, at: str, path: tuple[str, ...], result: Schema, rule: Rule, notes: list[str]
    ) -> None:
        """Convert what a schema says about members without a property."""
        rest = node.get("additionalProperties")
        if self.rules.closed:
            if isinstance(rest, dict) and rest != _NEVER:
                notes.append(self.described(at, "additionalProperties", rest, "narrower"))
            elif rest is True:
                self.lose(at, "additionalProperties", rest, "dropped", "narrower")
            result["additionalProperties"] = False
        elif isinstance(rest, dict):
            if self.rules.keeps("additionalProperties"):
                result["additionalProperties"], below = self.node(rest, at, path)
                if below:
                    rule["values"] = below
            else:
                notes.append(self.described(at, "additionalProperties", rest, "narrower"))
        elif rest is not None:
            if self.rules.keeps("additionalProperties"):
                result["additionalProperties"] = rest
            elif rest is False:
                self.described(at, "additionalProperties", rest, "hint")
                notes.append("no other properties")
            else:
                self.lose(at, "additionalProperties", rest, "dropped", "none")

    def _optional(self, member: Schema, schema: Schema, below: Rule, at: str) -> Result:
        """Return a property that may be null, because it may be absent where the dialect requires each."""
        if "json_text" in below:
            absent = nullable(schema)
            self.lose(at, "required", False, "converted", "none")
            return absent, {**below, "null": "absent"}
        takes_null = self._takes_null(member, 0) and not ("default" in member and member["default"] is None)
        self.lose(at, "required", False, "converted", "narrower" if takes_null else "none")
        return nullable(schema), {**below, "null": "absent"}

    def _takes_null(self, node: Schema, depth: int) -> bool:
        if depth > 8:
            return True
        if "$ref" in node:
            return self._takes_null(self._target(node["$ref"]), depth + 1)
        if "enum" in node or "const" in node:
            return None in node.get("enum", [node.get("const")])
        if "type" in node:
            return "null" in self.types(node)
        choices = [*node.get("anyOf", ()), *node.get("oneOf", ())]
        if choices:
            return any(self._takes_null(choice, depth + 1) for choice in choices)
        merged = node.get("allOf", ())
        if merged:
            return all(self._takes_null(one, depth + 1) for one in merged)
        return not self.types(node)

    def _array(
        self, node: Schema, at: str, path: tuple[str, ...], result: Schema, rule: Rule, notes: list[str]
    ) -> None:
        items = node.get("items")
        first = node.get("prefixItems")
        if first and not self.rules.keeps("prefixItems"):
            notes.append(self.described(at, "prefixItems", first, "looser"))
            rest = [items] if isinstance(items, dict) and items != _NEVER else [{}] if items is None else []
            choices = [*first, *rest]
            items = choices[0] if len(choices) == 1 else {"anyOf": choices}
        elif first:
            converted = [
                self.node(one, pointer(at, "prefixItems", index), path) for index, one in enumerate(first)
            ]
            result["prefixItems"] = [schema for schema, _ in converted]
            if any(below for _, below in converted):
                rule["prefix"] = [below for _, below in converted]
        if items is None and self.rules.items_required and "array" in self.types(node):
            items = {}
        if items is not None:
            result["items"], below = self.node(items, pointer(at, "items"), path)
            if below:
                rule["items"] = below

    def _literals(self, node: Schema, at: str, result: Schema, rule: Rule, notes: list[str]) -> None:
        """Convert `enum` and `const`."""
        if "const" in node and self.rules.const == "keep" and accepts_enum([node["const"]], self.rules.enum):
            result["const"] = node["const"]
        elif "const" in node and "enum" not in node:
            self.lose(at, "const", node["const"], "converted", "none")
            self._enum([node["const"]], at, result, rule, notes)
        if "enum" in node:
            self._enum(node["enum"], at, result, rule, notes)

    def _enum(self, values: list[Any], at: str, result: Schema, rule: Rule, notes: list[str]) -> None:
        form = self.rules.enum
        others = [value for value in values if value is not None]
        has_null = len(others) < len(values)
        if accepts_enum(values, form):
            result["enum"] = values
            if form == "primitives" and "type" not in result:
                result["type"] = types_of(values)
        elif not others:
            result["type"] = "null"
        elif form == "strings":
            texts = {value if isinstance(value, str) else short_json(value): value for value in others}
            if any(not isinstance(value, str) for value in others):
                self.lose(
                    at, "enum", values, "converted", "none" if len(texts) == len(others) else "narrower"
                )
                rule["literals"] = {
                    text: value for text, value in texts.items() if not isinstance(value, str)
                }
            for key in [key for key in result if key in _OF_NUMBERS]:
                del result[key]
            result["enum"] = list(texts)
            has_null = has_null and "null" in self.types({"type": result.get("type", "null")})
            result["type"] = ["string", "null"] if has_null else "string"
            result.pop("properties", None)
        elif form == "strings-and-numbers" and accepts_enum(others, form):
            result["enum"] = others
            self.lose(at, "enum", values, "converted", "narrower")
        else:
            notes.append(self.described(at, "enum", values, "looser"))
            if not result.get("type"):
                result["type"] = types_of(values)

    def _keyword(
        self,
        key: str,
        value: Any,
        at: str,
        path: tuple[str, ...],
        result: Schema,
        rule: Rule,
        notes: list[str],
    ) -> None:
        """Convert a keyword other than types, members, items and values."""
        if not self._is_accepted(key, value) or (key in _OF_NUMBERS and "literals" in rule):
            if not key.startswith("x-"):
                effect: Effect = "looser" if key in _STRUCTURE else "hint"
                notes.append(self.described(at, key, value, effect))
            else:
                self.lose(at, key, value, "dropped", "none")
        elif key in ("allOf", "anyOf", "oneOf"):
            converted = [self.node(one, pointer(at, key, index), path) for index, one in enumerate(value)]
            result[key] = [schema for schema, _ in converted]
            if any(below for _, below in converted) and key == "allOf":
                rule.update(united_rules([rule, *(below for _, below in converted)]))
            elif any(below for _, below in converted):
                rule["any"] = [{"when": schema, "then": below} for schema, below in converted]
        elif key in _ONE or (key in _ONE_OR_FLAG and isinstance(value, dict)):
            result[key], below = self.node(value, pointer(at, key), path)
            if below and key in ("then", "else"):
                rule.update(united_rules([rule, below]))
        elif key in MAPS:
            result[key] = {
                name if key != "dependentSchemas" else self._alias(name): self.node(
                    member, pointer(at, key, name), path
                )[0]
                for name, member in value.items()
            }
        elif key == "dependentRequired":
            result[key] = {
                self._alias(name): [self._alias(one) for one in names] for name, names in value.items()
            }
        else:
            result[key] = value

    def _is_accepted(self, key: str, value: Any) -> bool:
        if not self.rules.keeps(key):
            return False
        if key in self.rules.values and value not in self.rules.values[key]:
            return False
        if key == "format" and self.rules.formats is not None:
            return value in self.rules.formats
        return key != "pattern" or not self.rules.portable_patterns or is_portable_pattern(value)

    def _alias(self, name: str) -> str:
        return self._aliases.get(name, name)


def _without(schema: Schema, names: frozenset[str]) -> Schema:
    """Return the schema without some of its properties."""
    members = {name: member for name, member in schema["properties"].items() if name not in names}
    return {**schema, "properties": members}


_OF_NUMBERS: Final = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "format", "minLength",
     "maxLength", "pattern"}
)  # fmt: skip
