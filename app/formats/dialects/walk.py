"""The walk over a schema that applies the rules of a dialect to each schema below it."""

import re
from collections.abc import Mapping
from typing import Any, Final

from app.core.text import pointer
from app.formats.dialects.aliases import Rule
from app.formats.dialects.dialects import SchemaRules
from app.formats.dialects.literals import OF_ONE_TYPE, Parts, convert_literals
from app.formats.dialects.losses import Effect, LossRecorder, short_json
from app.formats.dialects.merge import merge_all
from app.formats.dialects.portable_patterns import portable_pattern
from app.formats.dialects.property_names import property_aliases
from app.formats.dialects.sanitize import description_for
from app.formats.dialects.source import SourceSchema, named_types
from app.formats.dialects.undo_rules import has_ambiguous_texts, needed_definitions, pruned, united_rules
from app.formats.dialects.values import (
    ANNOTATIONS,
    ARRAY_KEYWORDS,
    OBJECT_KEYWORDS,
    are_disjoint,
    exclusive_groups,
    nullable,
    split_types,
)
from app.formats.json_schema.references import MAPS

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
_MAX_MERGED: Final = 5_000
"""Schemas that are merged, eight properties counted as another: `allOf` of references doubles them at each
step.
"""
_MAX_NAME: Final = 40


class Walk:
    """Converts the schemas below the root of `source`; `report` has what is lost."""

    def __init__(
        self,
        schema: Schema,
        rules: SchemaRules,
        *,
        property_pattern: str | None = None,
        description_max: int | None = None,
    ) -> None:
        self.source = SourceSchema(schema)
        self.rules = rules
        self.report = LossRecorder()
        self.definitions: dict[str, Schema] = {}
        self.definition_rules: dict[str, Rule] = {}
        self._open: list[str] = []
        self._names: dict[str, str] = {}
        self._converted = 0
        self._merged_schemas = 0
        self._description_max = description_max
        self._aliases = property_aliases(schema, property_pattern)

    # References.

    def resolved(self, node: Schema, path: tuple[str, ...]) -> Schema:
        """Return a schema without a reference and `allOf` of its own; recursive ones accept anything."""
        at = self.source.place(node, "")
        properties = node.get("properties")
        self._merged_schemas += 1 + (len(properties) // 8 if isinstance(properties, dict) else 0)
        if self._merged_schemas > _MAX_MERGED:
            self.report.lose(at, "allOf", len(node.get("allOf", ())), "cut", "looser")
            return {}
        if len(path) > _MAX_RECURSION * 8 or self._converted > _MAX_SCHEMAS:
            return {}
        parts: list[Schema] = []
        reference = node.get("$ref")
        if isinstance(reference, str):
            if reference in path:
                self.report.lose(at, "$ref", reference, "cut", "looser")
            else:
                parts.append(self.resolved(self.source.target(reference), (*path, reference)))
        parts.append({key: value for key, value in node.items() if key not in ("$ref", "allOf")})
        parts += [self.resolved(member, path) for member in node.get("allOf", ())]
        merged = merge_all(parts, self.report.contradiction(at)) if len(parts) > 1 else parts[0]
        self.source.add(merged, at)
        return merged

    def _reference(self, node: Schema, at: str, path: tuple[str, ...]) -> Result:
        reference = node["$ref"]
        siblings = {key: value for key, value in node.items() if key != "$ref" and key not in _SILENT}
        target = self.source.target(reference)
        if self.rules.references == "keep" and (not siblings or reference in path):
            if reference in self._open and not self.rules.recursion:
                self.report.block(at, "a recursive schema")
            for keyword, value in siblings.items():
                self.report.lose(
                    at, keyword, value, "dropped", "hint" if keyword in ANNOTATIONS else "looser"
                )
            return self._definition(reference, target)
        if self.rules.references == "keep" and self.rules.reference_siblings:
            kept, rule = self._definition(reference, target)
            beside, _ = self.node({**siblings}, at, path)
            return {**kept, **beside}, rule
        if path.count(reference) >= _MAX_RECURSION or self._converted > _MAX_SCHEMAS:
            self.report.lose(at, "$ref", reference, "cut", "looser")
            name = reference.rpartition("/")[2] or "the root"
            return self._free_form({"description": f"Same shape as {name}."}, at)
        place = self.source.place(target, at)
        constraints = siblings.keys() - ANNOTATIONS
        merged = (
            merge_all([target, siblings], self.report.contradiction(at))
            if constraints
            else {**target, **siblings}
        )
        if self.rules.references == "inline":
            self.report.lose(at, "$ref", reference, "inlined", "none")
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
            self.definitions[name], rule = self.node(target, self.source.place(target, ""), (reference,))
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
            self.report.block("", "free-form arguments")
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
        at = self.source.place(node, at)
        if "$ref" in node:
            return self._reference(node, at, path)
        if "allOf" in node and self.rules.all_of == "merge":
            return self.node(self._merged(node, at, path), at, self._followed(node, path), is_root=is_root)
        types = named_types(node)
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
        self.report.lose(at, "allOf", len(node["allOf"]), "converted", "none")
        merged = self.resolved(node, path if self.rules.references == "keep" else ())
        self.source.move(merged, at)
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
        if self.rules.free_form == "json-text" and any(not one.keys() - ANNOTATIONS for one in branches):
            # One of them accepts any value, so all of them do; JSON text must not be mixed with other texts.
            anything, _, notes = self._annotations(outer, at)
            notes.append(self.report.described(at, choice, branches, "hint"))
            return self.node({**self._with_notes(anything, notes), **base}, at, path)
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
            self.report.lose(at, "oneOf", len(branches), "converted", "none" if disjoint else "looser")
        result["anyOf"] = [schema for schema, _ in converted]
        if any(below for _, below in converted):
            # A text that is JSON of an object is rather that than any other text.
            ordered = sorted(converted, key=lambda one: "json_text" not in one[1])
            rule["any"] = [{"when": schema, "then": below} for schema, below in ordered]
            if has_ambiguous_texts(converted):
                self.report.lose(at, choice, branches, "converted", "narrower")
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
            self.report.block(at, "a free-form value")
            return {}, {}
        outer = {key: value for key, value in node.items() if key in ANNOTATIONS}
        result, _, notes = self._annotations(outer, at)
        self.report.lose(at, "type", node.get("type"), "converted", "none")
        for key, value in node.items():
            if key not in ANNOTATIONS and key not in ("type", *OBJECT_KEYWORDS):
                notes.append(self.report.described(at, key, value, "looser"))
        is_object = "object" in named_types(node)
        text = "a JSON object, written as JSON text" if is_object else _JSON_TEXT
        # Without a type that says so, the text may be that of another value, too.
        rule: Rule = {"json_text": "object" if node.get("type") in ("object", ["object"]) else True}
        return self._with_notes({"type": "string", **result}, [text, *notes]), rule

    def _pairs(self, node: Schema, at: str, path: tuple[str, ...]) -> Result:
        """Convert a map to a list of pairs, where the dialect has no maps."""
        if self.rules.maps == "reject":
            self.report.block(at, "a map")
            return {}, {}
        members = node.get("additionalProperties")
        patterns = node.get("patternProperties") or {}
        if not isinstance(members, dict) or patterns:
            choices = [*patterns.values(), *([members] if isinstance(members, dict) else [])]
            members = choices[0] if len(choices) == 1 else {"anyOf": choices}
            self.report.lose(at, "patternProperties", list(patterns), "moved-to-description", "looser")
        value, rule = self.node(members, pointer(at, "additionalProperties"), path)
        outer = {key: value for key, value in node.items() if key in ANNOTATIONS}
        result, _, notes = self._annotations(outer, at)
        for key, member in node.items():
            number = {"minProperties": "minItems", "maxProperties": "maxItems"}.get(key)
            if number is not None and self._is_accepted(number, member):
                result[number] = member
                self.report.lose(at, key, member, "converted", "none")
            elif key not in ANNOTATIONS and key not in ("type", *OBJECT_KEYWORDS):
                notes.append(self.report.described(at, key, member, "looser"))
        notes += [f"keys: {short_json(list(patterns))}"] if patterns else []
        self.report.lose(at, "additionalProperties", members, "converted", "none")
        pair: Schema = {
            "type": "object",
            "properties": {"key": {"type": "string"}, "value": value},
            "required": ["key", "value"],
        }
        if self.rules.closed:
            pair["additionalProperties"] = False
        kind: Any = ["array", "null"] if "null" in named_types(node) else "array"
        result = {"type": kind, **result, "items": pair}
        return self._with_notes(result, ["a list of key and value pairs", *notes]), {"pairs": rule}

    def _plain(self, node: Schema, types: tuple[str, ...], at: str, path: tuple[str, ...]) -> Result:
        outer = {key: value for key, value in node.items() if key in ANNOTATIONS}
        result, rule, notes = self._annotations(outer, at)
        if types and (not self.rules.keeps("*") or "type" in node):
            if "type" not in node:
                self.report.lose(at, "type", None, "converted", "none")
            result["type"] = types[0] if len(types) == 1 else list(types)
        if "object" in types or any(key in node for key in ("properties", "additionalProperties")):
            self._object(node, at, path, result, rule, notes)
        elif "required" in node and self.rules.keeps("*"):
            result["required"] = [self._alias(name) for name in node["required"]]
        if "array" in types or any(key in node for key in ARRAY_KEYWORDS):
            self._array(node, at, path, result, rule, notes)
        convert_literals(node, at, self.rules, self.report, Parts(result, rule, notes))
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
                    notes.append(self.report.described(at, key, value, "hint"))
                elif key == "default":
                    result[key] = value
            elif self.rules.keeps(key):
                result[key] = value
            elif key in _SILENT:
                self.report.lose(at, key, value, "dropped", "none")
            else:
                notes.append(self.report.described(at, key, value, "hint"))
        limit = self._description_max
        text = result.get("description")
        if limit is not None and at and isinstance(text, str) and len(text) > limit:
            self.report.lose(at, "description", len(text), "cut", "hint")
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
                self.report.lose(pointer(at, "properties"), name, member, "dropped", "none")
                continue
            schema, below = self.node(member, where, path)
            alias = self._alias(name)
            if alias != name:
                below = {"name": name, **below}
                self.report.lose(pointer(at, "properties"), name, alias, "renamed", "none")
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
                notes.append(self.report.described(at, "additionalProperties", rest, "narrower"))
            elif rest is True:
                self.report.lose(at, "additionalProperties", rest, "dropped", "narrower")
            result["additionalProperties"] = False
        elif isinstance(rest, dict):
            if self.rules.keeps("additionalProperties"):
                result["additionalProperties"], below = self.node(rest, at, path)
                if below:
                    rule["values"] = below
            else:
                notes.append(self.report.described(at, "additionalProperties", rest, "narrower"))
        elif rest is not None:
            if self.rules.keeps("additionalProperties"):
                result["additionalProperties"] = rest
            elif rest is False:
                self.report.described(at, "additionalProperties", rest, "hint")
                notes.append("no other properties")
            else:
                self.report.lose(at, "additionalProperties", rest, "dropped", "none")

    def _optional(self, member: Schema, schema: Schema, below: Rule, at: str) -> Result:
        """Return a property that may be null, because it may be absent where the dialect requires each."""
        if "json_text" in below:
            absent = nullable(schema)
            self.report.lose(at, "required", False, "converted", "none")
            return absent, {**below, "null": "absent"}
        # Null is another call than absence, also where it is the default: upstreams clear members by it.
        self.report.lose(
            at, "required", False, "converted", "narrower" if self.source.takes_null(member) else "none"
        )
        return nullable(schema), {**below, "null": "absent"}

    def _array(
        self, node: Schema, at: str, path: tuple[str, ...], result: Schema, rule: Rule, notes: list[str]
    ) -> None:
        items = node.get("items")
        first = node.get("prefixItems")
        if first and not self.rules.keeps("prefixItems"):
            notes.append(self.report.described(at, "prefixItems", first, "looser"))
            rest = [items] if isinstance(items, dict) and items != _NEVER else [{}] if items is None else []
            choices = [*first, *rest]
            items = choices[0] if len(choices) == 1 else {} if {} in choices else {"anyOf": choices}
        elif first:
            converted = [
                self.node(one, pointer(at, "prefixItems", index), path) for index, one in enumerate(first)
            ]
            result["prefixItems"] = [schema for schema, _ in converted]
            if any(below for _, below in converted):
                rule["prefix"] = [below for _, below in converted]
        if items is None and self.rules.items_required and "array" in named_types(node):
            items = {}
        if items is not None:
            result["items"], below = self.node(items, pointer(at, "items"), path)
            if below:
                rule["items"] = below

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
        if not self._is_accepted(key, value) or (key in OF_ONE_TYPE and "literals" in rule):
            if not key.startswith("x-"):
                effect: Effect = "looser" if key in _STRUCTURE else "hint"
                notes.append(self.report.described(at, key, value, effect))
            else:
                self.report.lose(at, key, value, "dropped", "none")
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
            result[key] = self._rewrite_pattern(value, at) if key == "pattern" else value

    def _rewrite_pattern(self, pattern: str, at: str) -> str | None:
        rewritten = portable_pattern(pattern) if self.rules.portable_patterns else pattern
        if rewritten != pattern:
            self.report.lose(at, "pattern", pattern, "converted", "none")
        return rewritten

    def _is_accepted(self, key: str, value: Any) -> bool:
        if not self.rules.keeps(key):
            return False
        if key in self.rules.values and value not in self.rules.values[key]:
            return False
        if key == "format" and self.rules.formats is not None:
            return value in self.rules.formats
        return key != "pattern" or not self.rules.portable_patterns or portable_pattern(value) is not None

    def _alias(self, name: str) -> str:
        return self._aliases.get(name, name)


def _without(schema: Schema, names: frozenset[str]) -> Schema:
    """Return the schema without some of its properties."""
    members = {name: member for name, member in schema["properties"].items() if name not in names}
    return {**schema, "properties": members}
