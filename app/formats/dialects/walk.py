"""The walk over a schema that applies the rules of a dialect to each schema below it."""

import re
from collections.abc import Mapping
from typing import Any, Final

from app.core.text import pointer
from app.formats.dialects.aliases import Rule
from app.formats.dialects.dialects import SchemaRules
from app.formats.dialects.literals import OF_ONE_TYPE, Parts, convert_literals
from app.formats.dialects.losses import Effect, LossRecorder, shorten_json
from app.formats.dialects.merge import merge_all
from app.formats.dialects.portable_patterns import make_portable_pattern
from app.formats.dialects.property_names import choose_property_aliases
from app.formats.dialects.sanitize import choose_description
from app.formats.dialects.source import SourceSchema, list_named_types
from app.formats.dialects.undo_rules import (
    find_needed_definitions,
    has_ambiguous_texts,
    prune_rule,
    unite_rules,
)
from app.formats.dialects.values import (
    ANNOTATIONS,
    ARRAY_KEYWORDS,
    OBJECT_KEYWORDS,
    accept_null,
    are_disjoint,
    find_exclusive_groups,
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
        self._aliases = choose_property_aliases(schema, property_pattern)

    # References.

    def resolve_node(self, node: Schema, path: tuple[str, ...]) -> Schema:
        """Return a schema without a reference and `allOf` of its own; recursive ones accept anything."""
        location = self.source.place(node, "")
        properties = node.get("properties")
        self._merged_schemas += 1 + (len(properties) // 8 if isinstance(properties, dict) else 0)
        if self._merged_schemas > _MAX_MERGED:
            self.report.lose(location, "allOf", len(node.get("allOf", ())), "cut", "looser")
            return {}
        if len(path) > _MAX_RECURSION * 8 or self._converted > _MAX_SCHEMAS:
            return {}
        parts: list[Schema] = []
        reference = node.get("$ref")
        if isinstance(reference, str):
            if reference in path:
                self.report.lose(location, "$ref", reference, "cut", "looser")
            else:
                parts.append(self.resolve_node(self.source.get_target(reference), (*path, reference)))
        parts.append({key: value for key, value in node.items() if key not in ("$ref", "allOf")})
        parts += [self.resolve_node(member, path) for member in node.get("allOf", ())]
        merged = merge_all(parts, self.report.build_contradiction(location)) if len(parts) > 1 else parts[0]
        self.source.add(merged, location)
        return merged

    def _convert_reference(self, node: Schema, location: str, path: tuple[str, ...]) -> Result:
        reference = node["$ref"]
        siblings = {key: value for key, value in node.items() if key != "$ref" and key not in _SILENT}
        target = self.source.get_target(reference)
        if self.rules.references == "keep" and (not siblings or reference in path):
            if reference in self._open and not self.rules.recursion:
                self.report.block(location, "a recursive schema")
            for keyword, value in siblings.items():
                self.report.lose(
                    location, keyword, value, "dropped", "hint" if keyword in ANNOTATIONS else "looser"
                )
            return self._convert_definition(reference, target)
        if self.rules.references == "keep" and self.rules.reference_siblings:
            kept, rule = self._convert_definition(reference, target)
            beside, _ = self.convert_node({**siblings}, location, path)
            return {**kept, **beside}, rule
        if path.count(reference) >= _MAX_RECURSION or self._converted > _MAX_SCHEMAS:
            self.report.lose(location, "$ref", reference, "cut", "looser")
            name = reference.rpartition("/")[2] or "the root"
            return self._free_form({"description": f"Same shape as {name}."}, location)
        place = self.source.place(target, location)
        constraints = siblings.keys() - ANNOTATIONS
        merged = (
            merge_all([target, siblings], self.report.build_contradiction(location))
            if constraints
            else {**target, **siblings}
        )
        if self.rules.references == "inline":
            self.report.lose(location, "$ref", reference, "inlined", "none")
        return self.convert_node(merged, place, (*path, reference))

    def _convert_definition(self, reference: str, target: Schema) -> Result:
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
            self.definitions[name], rule = self.convert_node(
                target, self.source.place(target, ""), (reference,)
            )
            self._open.pop()
            if rule:
                self.definition_rules[name] = rule
        return {"$ref": f"#/$defs/{name}"}, {"definition": name}

    # Schemas.

    def convert_root(self, node: Schema) -> Result:
        """Convert the root, which is an object also where it has no properties."""
        closed = not node.get("properties") and not self.rules.keeps("additionalProperties")
        if closed or (node.get("additionalProperties", False) is False and not node.get("properties")):
            node = {**node, "properties": {}, "additionalProperties": False}
        elif self.rules.closed and not node.get("properties"):
            self.report.block("", "free-form arguments")
        converted, rule = self.convert_node(node, "", ("#",), is_root=True)
        needed = find_needed_definitions(self.definition_rules)
        rule = prune_rule(rule, needed)
        self.definition_rules = {
            name: prune_rule(self.definition_rules[name], needed) for name in sorted(needed)
        }
        if converted.get("type") != "object":
            converted = {**converted, "type": "object"}
        converted.setdefault("properties", {})
        return converted, rule

    def convert_node(
        self, node: Schema, location: str, path: tuple[str, ...], *, is_root: bool = False
    ) -> Result:
        """Return a schema in the dialect, and the rule that undoes it."""
        self._converted += 1
        location = self.source.place(node, location)
        if "$ref" in node:
            return self._convert_reference(node, location, path)
        if "allOf" in node and self.rules.all_of == "merge":
            return self.convert_node(
                self._merge_all_of(node, location, path),
                location,
                self._follow_references(node, path),
                is_root=is_root,
            )
        types = list_named_types(node)
        if self._is_split(types):
            return self.convert_node(split_types(node, types), location, path, is_root=is_root)
        choice = next((key for key in ("oneOf", "anyOf") if key in node), None)
        if choice is not None and self.rules.all_of == "merge":
            return self._convert_choices(node, choice, location, path)
        if not is_root and self._is_free_form(node, types):
            return self._free_form(node, location)
        if not is_root and self.rules.maps != "keep" and self._is_map(node, types):
            return self._convert_map_to_pairs(node, location, path)
        return self._convert_plain(node, types, location, path)

    def _merge_all_of(self, node: Schema, location: str, path: tuple[str, ...]) -> Schema:
        self.report.lose(location, "allOf", len(node["allOf"]), "converted", "none")
        merged = self.resolve_node(node, path if self.rules.references == "keep" else ())
        self.source.move(merged, location)
        return merged

    def _follow_references(self, node: Schema, path: tuple[str, ...]) -> tuple[str, ...]:
        references = (one.get("$ref") for one in node["allOf"])
        return (*path, *(one for one in references if isinstance(one, str)))

    def _is_split(self, types: tuple[str, ...]) -> bool:
        others = [name for name in types if name != "null"]
        if len(others) < 2 or self.rules.all_of != "merge":
            return False
        return self.rules.types == "nullable" or bool({"object", "array"} & set(others))

    def _convert_choices(self, node: Schema, choice: str, location: str, path: tuple[str, ...]) -> Result:
        """Convert a choice; what stands beside it is merged into each branch."""
        outer = {key: value for key, value in node.items() if key in ANNOTATIONS}
        base = {key: value for key, value in node.items() if key != choice and key not in ANNOTATIONS}
        branches = node[choice]
        if self.rules.free_form == "json-text" and any(not one.keys() - ANNOTATIONS for one in branches):
            # One of them accepts any value, so all of them do; JSON text must not be mixed with other texts.
            anything, _, notes = self._convert_annotations(outer, location)
            notes.append(self.report.describe_moved(location, choice, branches, "hint"))
            return self.convert_node({**self._with_notes(anything, notes), **base}, location, path)
        excluded = find_exclusive_groups(branches) if choice == "oneOf" and "properties" in base else None
        if excluded is not None:
            branches = [
                {"allOf": [_without(base, names), branch]}
                for names, branch in zip(excluded, branches, strict=True)
            ]
        elif base:
            branches = [{"allOf": [base, branch]} for branch in branches]
        result, rule, notes = self._convert_annotations(outer, location)
        converted = [
            self.convert_node(branch, pointer(location, choice, index), path)
            for index, branch in enumerate(branches)
        ]
        if choice == "oneOf":
            disjoint = excluded is not None or are_disjoint(
                [self.resolve_node(one, path) for one in branches]
            )
            self.report.lose(location, "oneOf", len(branches), "converted", "none" if disjoint else "looser")
        result["anyOf"] = [schema for schema, _ in converted]
        if any(below for _, below in converted):
            # A text that is JSON of an object is rather that than any other text.
            ordered = sorted(converted, key=lambda one: "json_text" not in one[1])
            rule["any"] = [{"when": schema, "then": below} for schema, below in ordered]
            if has_ambiguous_texts(converted):
                self.report.lose(location, choice, branches, "converted", "narrower")
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

    def _free_form(self, node: Schema, location: str) -> Result:
        if self.rules.free_form == "keep":
            return {key: value for key, value in node.items() if self.rules.keeps(key)}, {}
        if self.rules.free_form == "reject":
            self.report.block(location, "a free-form value")
            return {}, {}
        outer = {key: value for key, value in node.items() if key in ANNOTATIONS}
        result, _, notes = self._convert_annotations(outer, location)
        self.report.lose(location, "type", node.get("type"), "converted", "none")
        for key, value in node.items():
            if key not in ANNOTATIONS and key not in ("type", *OBJECT_KEYWORDS):
                notes.append(self.report.describe_moved(location, key, value, "looser"))
        is_object = "object" in list_named_types(node)
        text = "a JSON object, written as JSON text" if is_object else _JSON_TEXT
        # Without a type that says so, the text may be that of another value, too.
        rule: Rule = {"json_text": "object" if node.get("type") in ("object", ["object"]) else True}
        return self._with_notes({"type": "string", **result}, [text, *notes]), rule

    def _convert_map_to_pairs(self, node: Schema, location: str, path: tuple[str, ...]) -> Result:
        """Convert a map to a list of pairs, where the dialect has no maps."""
        if self.rules.maps == "reject":
            self.report.block(location, "a map")
            return {}, {}
        members = node.get("additionalProperties")
        patterns = node.get("patternProperties") or {}
        if not isinstance(members, dict) or patterns:
            choices = [*patterns.values(), *([members] if isinstance(members, dict) else [])]
            members = choices[0] if len(choices) == 1 else {"anyOf": choices}
            self.report.lose(location, "patternProperties", list(patterns), "moved-to-description", "looser")
        value, rule = self.convert_node(members, pointer(location, "additionalProperties"), path)
        outer = {key: value for key, value in node.items() if key in ANNOTATIONS}
        result, _, notes = self._convert_annotations(outer, location)
        for key, member in node.items():
            number = {"minProperties": "minItems", "maxProperties": "maxItems"}.get(key)
            if number is not None and self._is_accepted(number, member):
                result[number] = member
                self.report.lose(location, key, member, "converted", "none")
            elif key not in ANNOTATIONS and key not in ("type", *OBJECT_KEYWORDS):
                notes.append(self.report.describe_moved(location, key, member, "looser"))
        notes += [f"keys: {shorten_json(list(patterns))}"] if patterns else []
        self.report.lose(location, "additionalProperties", members, "converted", "none")
        pair: Schema = {
            "type": "object",
            "properties": {"key": {"type": "string"}, "value": value},
            "required": ["key", "value"],
        }
        if self.rules.closed:
            pair["additionalProperties"] = False
        kind: Any = ["array", "null"] if "null" in list_named_types(node) else "array"
        result = {"type": kind, **result, "items": pair}
        return self._with_notes(result, ["a list of key and value pairs", *notes]), {"pairs": rule}

    def _convert_plain(
        self, node: Schema, types: tuple[str, ...], location: str, path: tuple[str, ...]
    ) -> Result:
        outer = {key: value for key, value in node.items() if key in ANNOTATIONS}
        result, rule, notes = self._convert_annotations(outer, location)
        if types and (not self.rules.keeps("*") or "type" in node):
            if "type" not in node:
                self.report.lose(location, "type", None, "converted", "none")
            result["type"] = types[0] if len(types) == 1 else list(types)
        if "object" in types or any(key in node for key in ("properties", "additionalProperties")):
            self._convert_object(node, location, path, result, rule, notes)
        elif "required" in node and self.rules.keeps("*"):
            result["required"] = [self._get_alias(name) for name in node["required"]]
        if "array" in types or any(key in node for key in ARRAY_KEYWORDS):
            self._convert_array(node, location, path, result, rule, notes)
        convert_literals(node, location, self.rules, self.report, Parts(result, rule, notes))
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
                self._convert_keyword(key, value, location, path, result, rule, notes)
        order = {key: index for index, key in enumerate(node)}
        ordered = sorted(result, key=lambda key: order.get(key, len(order)))
        return self._with_notes({key: result[key] for key in ordered}, notes), rule

    def _convert_annotations(self, node: Schema, location: str) -> tuple[Schema, Rule, list[str]]:
        """Return the title and the description of a schema, an empty rule, and sentences for the rest."""
        result: Schema = {}
        notes: list[str] = []
        for key, value in node.items():
            if key in ("$defs", "definitions", "$anchor", "$id") or value is None:
                if key == "default" and not self.rules.keeps("default"):
                    notes.append(self.report.describe_moved(location, key, value, "hint"))
                elif key == "default":
                    result[key] = value
            elif self.rules.keeps(key):
                result[key] = value
            elif key in _SILENT:
                self.report.lose(location, key, value, "dropped", "none")
            else:
                notes.append(self.report.describe_moved(location, key, value, "hint"))
        limit = self._description_max
        text = result.get("description")
        if limit is not None and location and isinstance(text, str) and len(text) > limit:
            self.report.lose(location, "description", len(text), "cut", "hint")
            result["description"] = choose_description(text, limit=limit)
        return result, {}, notes

    def _with_notes(self, result: Schema, notes: list[str]) -> Schema:
        said = [note for note in dict.fromkeys(notes) if note]
        if said:
            text = f"({'; '.join(said)})"
            result["description"] = f"{result['description']} {text}" if result.get("description") else text
        return result

    def _convert_object(
        self, node: Schema, location: str, path: tuple[str, ...], result: Schema, rule: Rule, notes: list[str]
    ) -> None:
        properties = dict(node.get("properties", {}))
        required = list(node.get("required", ()))
        if not self.rules.keeps("*"):
            properties |= {name: {} for name in required if name not in properties}
        converted: Schema = {}
        rules: dict[str, Rule] = {}
        for name, member in properties.items():
            where = pointer(location, "properties", name)
            if name not in required and (member == _NEVER or member.get("readOnly") is True):
                self.report.lose(pointer(location, "properties"), name, member, "dropped", "none")
                continue
            schema, below = self.convert_node(member, where, path)
            alias = self._get_alias(name)
            if alias != name:
                below = {"name": name, **below}
                self.report.lose(pointer(location, "properties"), name, alias, "renamed", "none")
            if self.rules.all_required and name not in required:
                schema, below = self._make_optional(member, schema, below, where)
            converted[alias] = schema
            if below:
                rules[alias] = below
        if converted or "properties" in node or self.rules.closed:
            result["properties"] = converted
        if self.rules.all_required:
            result["required"] = list(converted)
        elif required:
            result["required"] = [self._get_alias(name) for name in required]
        elif "required" in node and self.rules.keeps("*"):
            result["required"] = []
        if rules:
            rule["properties"] = rules
        self._convert_rest(node, location, path, result, rule, notes)

    def _convert_rest(
        self, node: Schema, location: str, path: tuple[str, ...], result: Schema, rule: Rule, notes: list[str]
    ) -> None:
        """Convert what a schema says about members without a property."""
        rest = node.get("additionalProperties")
        if self.rules.closed:
            if isinstance(rest, dict) and rest != _NEVER:
                notes.append(self.report.describe_moved(location, "additionalProperties", rest, "narrower"))
            elif rest is True:
                self.report.lose(location, "additionalProperties", rest, "dropped", "narrower")
            result["additionalProperties"] = False
        elif isinstance(rest, dict):
            if self.rules.keeps("additionalProperties"):
                result["additionalProperties"], below = self.convert_node(rest, location, path)
                if below:
                    rule["values"] = below
            else:
                notes.append(self.report.describe_moved(location, "additionalProperties", rest, "narrower"))
        elif rest is not None:
            if self.rules.keeps("additionalProperties"):
                result["additionalProperties"] = rest
            elif rest is False:
                self.report.describe_moved(location, "additionalProperties", rest, "hint")
                notes.append("no other properties")
            else:
                self.report.lose(location, "additionalProperties", rest, "dropped", "none")

    def _make_optional(self, member: Schema, schema: Schema, below: Rule, location: str) -> Result:
        """Return a property that may be null, because it may be absent where the dialect requires each."""
        if "json_text" in below:
            absent = accept_null(schema)
            self.report.lose(location, "required", False, "converted", "none")
            return absent, {**below, "null": "absent"}
        # Null is another call than absence, also where it is the default: upstreams clear members by it.
        self.report.lose(
            location, "required", False, "converted", "narrower" if self.source.takes_null(member) else "none"
        )
        return accept_null(schema), {**below, "null": "absent"}

    def _convert_array(
        self, node: Schema, location: str, path: tuple[str, ...], result: Schema, rule: Rule, notes: list[str]
    ) -> None:
        items = node.get("items")
        first = node.get("prefixItems")
        if first and not self.rules.keeps("prefixItems"):
            notes.append(self.report.describe_moved(location, "prefixItems", first, "looser"))
            rest = [items] if isinstance(items, dict) and items != _NEVER else [{}] if items is None else []
            choices = [*first, *rest]
            items = choices[0] if len(choices) == 1 else {} if {} in choices else {"anyOf": choices}
        elif first:
            converted = [
                self.convert_node(one, pointer(location, "prefixItems", index), path)
                for index, one in enumerate(first)
            ]
            result["prefixItems"] = [schema for schema, _ in converted]
            if any(below for _, below in converted):
                rule["prefix"] = [below for _, below in converted]
        if items is None and self.rules.items_required and "array" in list_named_types(node):
            items = {}
        if items is not None:
            result["items"], below = self.convert_node(items, pointer(location, "items"), path)
            if below:
                rule["items"] = below

    def _convert_keyword(
        self,
        key: str,
        value: Any,
        location: str,
        path: tuple[str, ...],
        result: Schema,
        rule: Rule,
        notes: list[str],
    ) -> None:
        """Convert a keyword other than types, members, items and values."""
        if not self._is_accepted(key, value) or (key in OF_ONE_TYPE and "literals" in rule):
            if not key.startswith("x-"):
                effect: Effect = "looser" if key in _STRUCTURE else "hint"
                notes.append(self.report.describe_moved(location, key, value, effect))
            else:
                self.report.lose(location, key, value, "dropped", "none")
        elif key in ("allOf", "anyOf", "oneOf"):
            converted = [
                self.convert_node(one, pointer(location, key, index), path) for index, one in enumerate(value)
            ]
            result[key] = [schema for schema, _ in converted]
            if any(below for _, below in converted) and key == "allOf":
                rule.update(unite_rules([rule, *(below for _, below in converted)]))
            elif any(below for _, below in converted):
                rule["any"] = [{"when": schema, "then": below} for schema, below in converted]
        elif key in _ONE or (key in _ONE_OR_FLAG and isinstance(value, dict)):
            result[key], below = self.convert_node(value, pointer(location, key), path)
            if below and key in ("then", "else"):
                rule.update(unite_rules([rule, below]))
        elif key in MAPS:
            result[key] = {
                name if key != "dependentSchemas" else self._get_alias(name): self.convert_node(
                    member, pointer(location, key, name), path
                )[0]
                for name, member in value.items()
            }
        elif key == "dependentRequired":
            result[key] = {
                self._get_alias(name): [self._get_alias(one) for one in names]
                for name, names in value.items()
            }
        else:
            result[key] = self._rewrite_pattern(value, location) if key == "pattern" else value

    def _rewrite_pattern(self, pattern: str, location: str) -> str | None:
        rewritten = make_portable_pattern(pattern) if self.rules.portable_patterns else pattern
        if rewritten != pattern:
            self.report.lose(location, "pattern", pattern, "converted", "none")
        return rewritten

    def _is_accepted(self, key: str, value: Any) -> bool:
        if not self.rules.keeps(key):
            return False
        if key in self.rules.values and value not in self.rules.values[key]:
            return False
        if key == "format" and self.rules.formats is not None:
            return value in self.rules.formats
        if key != "pattern" or not self.rules.portable_patterns:
            return True
        return make_portable_pattern(value) is not None

    def _get_alias(self, name: str) -> str:
        return self._aliases.get(name, name)


def _without(schema: Schema, names: frozenset[str]) -> Schema:
    """Return the schema without some of its properties."""
    members = {name: member for name, member in schema["properties"].items() if name not in names}
    return {**schema, "properties": members}
