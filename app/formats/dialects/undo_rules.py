"""Unites and simplifies the rules that undo an export (app/formats/dialects/aliases.py)."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.formats.dialects.aliases import Rule


def unite_rules(rules: list[Rule]) -> Rule:
    """Return one rule for values to which all of the rules apply."""
    united: Rule = {}
    for rule in rules:
        for key, value in rule.items():
            known = united.get(key)
            united[key] = {**known, **value} if isinstance(known, dict) and isinstance(value, dict) else value
    return united


def has_ambiguous_texts(branches: Sequence[tuple[Mapping[str, Any], Rule]]) -> bool:
    """Return whether a text that stands for another value is also one that another branch accepts as it is.

    A branch is a schema of a choice with its rule.
    """
    texts = [rule for schema, rule in branches if accepts_text(schema)]
    return len(texts) > 1 and any("json_text" in rule or "literals" in rule for rule in texts)


def accepts_text(schema: Mapping[str, Any]) -> bool:
    """Return whether a schema accepts some string, as far as its own keywords say."""
    names = schema.get("type", "string")
    return "$ref" not in schema and "string" in ([names] if isinstance(names, str) else names)


def find_needed_definitions(definitions: Mapping[str, Rule]) -> frozenset[str]:
    """Return the names of the definitions whose rules change anything; recursive ones alone do not."""
    needed: frozenset[str] = frozenset()
    while True:
        changing = frozenset(name for name, rule in definitions.items() if prune_rule(rule, needed))
        if changing == needed:
            return needed
        needed = changing


def prune_rule(rule: Rule, needed: frozenset[str]) -> Rule:
    """Return the rule without the parts that change nothing."""
    if rule.get("definition", "") not in needed:
        rule = {key: value for key, value in rule.items() if key != "definition"}
    result: Rule = {}
    for key, value in rule.items():
        kept = value
        if key == "properties":
            members = {name: prune_rule(below, needed) for name, below in value.items()}
            kept = {name: below for name, below in members.items() if below}
        elif key in ("items", "values", "pairs"):
            kept = prune_rule(value, needed)
        elif key == "prefix":
            kept = [prune_rule(below, needed) for below in value]
            kept = kept if any(kept) else []
        elif key == "any":
            branches = [{**one, "then": prune_rule(one["then"], needed)} for one in value]
            kept = branches if any(one["then"] for one in branches) else []
        if kept or key == "pairs":
            result[key] = kept
    return result
