"""Undoes what an export did to a tool's arguments: a call of the exported schema becomes one of the original.

A record is computed from the tool, the format and the strictness alone, so that each worker can make it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import jsonschema_rs

from app.core.exact_json import load_exactly

Rule = dict[str, Any]
"""How to undo the export of one schema, as JSON; `{}` where a value is to stay as it is.

- `properties`: rules by exported name; a member's `name` is the original name, its `null: "absent"` says that
  null stands for a member that is not there;
- `items`, `prefix`, `values`: rules of the items of a list, of its first ones, and of the members of a map;
- `pairs`: a list of `{"key", "value"}` stands for an object, whose values have this rule;
- `json_text`: a string has the value as JSON (`"object"`: other values than objects are no such text);
  `literals`: strings stand for these values;
- `any`: pairs of a schema (`when`) and the rule (`then`) of the values that it accepts, the first counts;
- `definition`: the rule of this name in `definitions`.
"""

_MAX_DEPTH: Final = 200


@dataclass(slots=True)
class AliasRecord:
    """How calls of an exported tool become calls of the original: `tool` is its name, `rule` that of the
    arguments.

    `body`: the arguments of the original are the member `body`. `schemas` are definitions that `when` uses.
    """

    tool: str = ""
    rule: Rule = field(default_factory=dict)
    definitions: dict[str, Rule] = field(default_factory=dict)
    schemas: dict[str, Any] = field(default_factory=dict)
    body: bool = False
    _validators: dict[int, Any] = field(default_factory=dict, repr=False, compare=False)

    def to_json(self) -> dict[str, Any]:
        """Return `{"tool"}`, and the members `rule`, `definitions`, `schemas` and `body` that it has."""
        members: dict[str, Any] = {"tool": self.tool, "rule": self.rule}
        if self.rule:
            members |= {"definitions": self.definitions, "schemas": self.schemas}
        if self.body:
            members |= {"body": True}
        return {key: value for key, value in members.items() if value}

    def accepts(self, when: Mapping[str, Any], value: Any) -> bool:
        """Return whether a schema of a rule accepts the value."""
        validator = self._validators.get(id(when))
        if validator is None:
            schema = {**when, "$defs": self.schemas} if self.schemas else dict(when)
            validator = self._validators[id(when)] = jsonschema_rs.Draft202012Validator(
                schema, retriever=_reject_reference
            )
        return bool(validator.is_valid(value))


def _reject_reference(_uri: str) -> NoReturn:
    raise ValueError("References are never fetched.")


def undo(arguments: Any, record: AliasRecord) -> Any:
    """Return the arguments of a call as the original schema describes them.

    What does not have the form of the export stays as it is, and validation tells what is wrong with it.
    """
    original = _undo_value(arguments, record.rule, record, 0) if record.rule else arguments
    return original.get("body", {}) if record.body and isinstance(original, dict) else original


def _undo_value(value: Any, rule: Rule, record: AliasRecord, depth: int) -> Any:
    if not rule or depth > _MAX_DEPTH:
        return value
    if "definition" in rule:
        return _undo_value(value, record.definitions.get(rule["definition"], {}), record, depth + 1)
    for choice in rule.get("any", ()):
        if record.accepts(choice["when"], value):
            value = _undo_value(value, choice["then"], record, depth + 1)
            break
    if isinstance(value, str):
        return _of_text(value, rule)
    if isinstance(value, list):
        return _of_list(value, rule, record, depth)
    return _of_object(value, rule, record, depth) if isinstance(value, dict) else value


def _of_text(value: str, rule: Rule) -> Any:
    literals = rule.get("literals", {})
    if value in literals:
        return literals[value]
    if not rule.get("json_text"):
        return value
    try:
        decoded = load_exactly(value.encode())
    except (ValueError, RecursionError):
        return value
    return decoded if rule["json_text"] is True or isinstance(decoded, dict) else value


def _of_list(value: list[Any], rule: Rule, record: AliasRecord, depth: int) -> Any:
    pairs = rule.get("pairs")
    if pairs is not None:
        entries = [one for one in value if isinstance(one, dict) and isinstance(one.get("key"), str)]
        if len(entries) != len(value):
            return value
        return {one["key"]: _undo_value(one.get("value"), pairs, record, depth + 1) for one in entries}
    first = rule.get("prefix", ())
    rest = rule.get("items", {})
    return [
        _undo_value(one, first[index] if index < len(first) else rest, record, depth + 1)
        for index, one in enumerate(value)
    ]


def _of_object(value: dict[str, Any], rule: Rule, record: AliasRecord, depth: int) -> dict[str, Any]:
    members = rule.get("properties", {})
    result = {}
    for key, member in value.items():
        known = members.get(key)
        if known is None:
            result[key] = _undo_value(member, rule.get("values", {}), record, depth + 1)
        elif member is not None or known.get("null") != "absent":
            result[known.get("name", key)] = _undo_value(member, known, record, depth + 1)
    return result
