"""Schemas of inputs that make released clients of agents lose the whole list of a server that publishes them unchanged."""

from typing import Any

import httpx2

PROVIDER = "torture"
DECIMAL = r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$"
"""What pydantic writes for a Decimal."""


def _with(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)[:1]}


_NODE = {
    "type": "object",
    "properties": {
        "value": {"type": "string"},
        "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
        "parent": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]},
    },
}
_ADDRESS = {"type": "object", "properties": {"street": {"type": "string"}}, "required": ["street"]}

SCHEMAS: dict[str, dict[str, Any]] = {
    "reference": _with(home={"$ref": "#/$defs/Address"}, work={"$ref": "#/$defs/Address", "description": "By day."})
    | {"$defs": {"Address": _ADDRESS}},
    "references": _with(a={"$ref": "#/$defs/A"}) | {"$defs": {
        "A": {"type": "object", "properties": {"b": {"$ref": "#/$defs/B"}}},
        "B": {"type": "object", "properties": {"c": {"type": "array", "items": {"$ref": "#/$defs/C"}}}},
        "C": {"type": "string", "enum": ["x", "y"]},
    }},
    "doubling": _with(a={"$ref": "#/$defs/A0"}) | {"$defs": {
        **{f"A{n}": _with(l={"$ref": f"#/$defs/A{n + 1}"}, r={"$ref": f"#/$defs/A{n + 1}"}) for n in range(16)},
        "A16": {"type": "string"},
    }},
    "recursive": _with(root={"$ref": "#/$defs/Node"}) | {"$defs": {"Node": _NODE}},
    "recursive_root": {"type": "object", "properties": {"name": {"type": "string"}, "below": {"type": "array", "items": {"$ref": "#"}}}},
    "mutual": _with(a={"$ref": "#/$defs/A"}) | {"$defs": {
        "A": {"type": "object", "properties": {"b": {"$ref": "#/$defs/B"}}},
        "B": {"type": "object", "properties": {"as": {"type": "array", "items": {"$ref": "#/$defs/A"}}}},
    }},
    "recursive_union": _with(filter={"$ref": "#/$defs/Filter"}) | {"$defs": {"Filter": {"anyOf": [
        {"type": "object", "properties": {"and": {"type": "array", "items": {"$ref": "#/$defs/Filter"}}}},
        {"type": "object", "properties": {"not": {"$ref": "#/$defs/Filter"}}},
        {"type": "string"},
    ]}}},
    "no_items": _with(list={"type": "array"}, nested={"type": "array", "items": {"type": "array"}}),
    "tuple": _with(pair={"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]}),
    "decimal": _with(price={"anyOf": [{"type": "number"}, {"type": "string", "pattern": DECIMAL}]}),
    "decimal_text": _with(price={"type": "string", "pattern": DECIMAL}),
    "look_ahead": _with(password={"type": "string", "pattern": r"^(?=.*\d)(?=.*[a-z]).{8,}$"}),
    "look_behind": _with(name={"type": "string", "pattern": r"(?<!x)y$"}),
    "unicode_pattern": _with(name={"type": "string", "pattern": r"^\p{L}+$"}),
    "no_type": _with(any={}, described={"description": "Anything."}, default={"default": 1}),
    "implied_type": _with(filter={"properties": {"a": {"type": "string"}}}, list={"items": {"type": "string"}}),
    "type_list": _with(a={"type": ["string", "null"]}, b={"type": ["string", "integer", "boolean"], "description": "b"}),
    "type_list_items": _with(a={"type": "array", "items": {"type": ["string", "null"]}}),
    "type_list_object": _with(a={"type": ["object", "null"], "properties": {"b": {"type": "string"}}}),
    "enum_without_type": _with(kind={"enum": ["a", "b"]}, mixed={"enum": ["a", 1, None]}, only={"const": "x"}),
    "nested_union": _with(a={"anyOf": [{"anyOf": [{"type": "string"}, {"type": "integer"}]}, {"type": "null"}]}),
    "union_of_anything": _with(a={"anyOf": [{"type": "string"}, {}]}),
    "one_of": _with(a={"oneOf": [{"type": "string"}, {"type": "object", "properties": {"b": {"type": "integer"}}}]}),
    "all_of": _with(a={"allOf": [{"$ref": "#/$defs/Address"}, {"properties": {"zip": {"type": "string"}}}]})
    | {"$defs": {"Address": _ADDRESS}},
    "formats": _with(a={"type": "string", "format": "uri-reference"}, b={"type": "string", "format": "odd"},
                     c={"type": "string", "format": "email"}, d={"type": "string", "format": "date-time"}),
    "map": _with(a={"type": "object", "additionalProperties": {"type": "string"}}, b={"type": "object", "additionalProperties": True}),
    "pattern_properties": _with(a={"type": "object", "patternProperties": {"^(?!x)": {"type": "string"}}}),
    "conditional": _with(a={"type": "string"}) | {"if": {"required": ["a"]}, "then": {"required": ["a"]}},
    "never": _with(a={"type": "string"}, b={"not": {}}),
    "root_choice": {"type": "object", "anyOf": [_with(id={"type": "integer"}), _with(name={"type": "string"})]},
    "null_default": _with(a={"type": "string"}, b={"type": ["string", "null"], "default": None}),
    "keyword_names": _with(type={"type": "string"}, properties={"type": "string"}),
    "names": _with(**{"from": {"type": "string"}, "first-name": {"type": "string"}, "schema": {"type": "string"}}),
    "nothing": {"type": "object"},
}  # fmt: skip
"""Schemas of inputs by the names of tools."""


def register(admin: httpx2.Client, url: str = "https://a.example/x") -> list[str]:
    """Register a tool for each schema; return the names by which agents call them."""
    template = {"call_template_type": "http", "url": url, "http_method": "POST", "body_field": "body"}
    tools = [
        {"name": name, "description": f"Shows {name}.", "inputs": schema, "tool_call_template": template}
        for name, schema in SCHEMAS.items()
    ]
    manual = {"utcp_version": "1.0.1", "manual_version": "1.0.0", "tools": tools}
    created = admin.post("/providers", json={"name": PROVIDER, "source": {"manual": manual}})
    assert created.status_code == 201, created.text
    return sorted(f"{PROVIDER}_{name}" for name in SCHEMAS)
