"""Calls as a model writes them that is bound to an exported schema: what `undo` takes back, for a call of the original."""

import json
from typing import Any

from app.formats.dialects.aliases import AliasRecord, Rule


def record_of(alias: dict[str, Any]) -> AliasRecord:
    """Return the record that an export has for a tool in `aliases`."""
    return AliasRecord(**alias)


def as_exported(arguments: Any, record: AliasRecord) -> Any:
    """Return the call of the exported tool that means these arguments of the original (a schema of something else than an
    object is that of its property `body`).
    """
    return _exported(arguments, record.rule, record)


def _exported(value: Any, rule: Rule, record: AliasRecord) -> Any:
    if "definition" in rule:
        return _exported(value, record.definitions.get(rule["definition"], {}), record)
    for choice in rule.get("any", ()):
        written = _exported(value, choice["then"], record)
        if record.accepts(choice["when"], written):
            value = written
            break
    if rule.get("json_text") is True or (rule.get("json_text") == "object" and isinstance(value, dict)):
        return json.dumps(value)
    for text, literal in rule.get("literals", {}).items():
        if literal == value and type(literal) is type(value):
            return text
    if "pairs" in rule and isinstance(value, dict):
        return [
            {"key": key, "value": _exported(member, rule["pairs"], record)} for key, member in value.items()
        ]
    if isinstance(value, list):
        first, rest = rule.get("prefix", ()), rule.get("items", {})
        return [
            _exported(one, first[index] if index < len(first) else rest, record)
            for index, one in enumerate(value)
        ]
    return _exported_object(value, rule, record) if isinstance(value, dict) else value


def _exported_object(value: dict[str, Any], rule: Rule, record: AliasRecord) -> dict[str, Any]:
    aliases = {below.get("name", alias): alias for alias, below in rule.get("properties", {}).items()}
    result = {}
    for name, member in value.items():
        alias = aliases.get(name)
        if alias is None:
            result[name] = _exported(member, rule.get("values", {}), record)
        else:
            result[alias] = _exported(member, rule["properties"][alias], record)
    absent = (alias for alias, below in rule.get("properties", {}).items() if below.get("null") == "absent")
    return result | {alias: None for alias in absent if alias not in result}
