"""Schemas with each keyword and shape that a dialect treats in its own way."""

from typing import Any


def _with(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {
            "type": "object",
            "properties": {"a": schema},
            "required": ["a"],
            "additionalProperties": False,
        }
    return schema


_TREE = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}

SCHEMAS: dict[str, dict[str, Any]] = {
    "empty": {"type": "object", "properties": {}},
    "plain": {**_with(id={"type": "integer"}, q={"type": "string", "description": "Words."}), "required": ["id"]},
    "bounds": _with(n={"type": "integer", "minimum": 1, "maximum": 9}, x={"type": "number", "exclusiveMinimum": 0, "multipleOf": 2}),
    "lengths": _with(s={"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]+$"}),
    "look-ahead": _with(s={"type": "string", "pattern": "^(?=a)a+$"}),
    "formats": _with(at={"type": "string", "format": "date-time"}, to={"type": "string", "format": "uri-reference"}),
    "default": _with(lang={"type": "string", "default": "en", "examples": ["de"]}),
    "nullable": _with(s={"type": ["string", "null"]}, t={"type": ["string", "null"], "default": None}),
    "types": _with(v={"type": ["string", "integer"]}, w={"type": ["string", "object"], "properties": {"a": {"type": "string"}}}),
    "free-form": _with(any={}, object={"type": "object"}, list={"type": "array"}),
    "map": _with(labels={"type": "object", "additionalProperties": {"type": "integer"}}),
    "map-and-properties": _with(o={"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "integer"}}),
    "open": _with(o={"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": True}),
    "enum": _with(e={"type": "string", "enum": ["a", "b"]}, n={"type": "integer", "enum": [1, 2]}, m={"enum": ["a", None]}),
    "const": {**_with(kind={"const": "book"}, flag={"const": True}), "required": ["kind"]},
    "one-of": _with(v={"oneOf": [{"type": "string"}, {"type": "integer"}]}),
    "one-of-overlapping": _with(v={"oneOf": [{"type": "string"}, {"type": "string", "maxLength": 3}]}),
    "tagged": _with(v={"oneOf": [
        {"type": "object", "properties": {"kind": {"const": "a"}, "x": {"type": "integer"}}, "required": ["kind", "x"]},
        {"type": "object", "properties": {"kind": {"const": "b"}, "y": {"type": "string"}}, "required": ["kind"]},
    ]}),
    "groups": _with(f={"type": "object", "properties": {"data": {"type": "string"}, "text": {"type": "string"}},
                       "oneOf": [{"required": ["data"]}, {"required": ["text"]}]}),
    "all-of": _with(v={"allOf": [
        {"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}, "required": ["a"]},
        {"properties": {"a": {"maximum": 5}, "b": {"type": "string"}}},
    ]}),
    "contradiction": _with(v={"allOf": [{"type": "string", "pattern": "a"}, {"pattern": "b"}]}),
    "root-any-of": {"type": "object", "anyOf": [
        {"properties": {"id": {"type": "integer"}}, "required": ["id"]},
        {"properties": {"name": {"type": "string"}}, "required": ["name"]},
    ]},
    "conditional": _with(v={"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                            "if": {"required": ["a"]}, "then": {"required": ["b"]}, "not": {"required": ["c"]}}),
    "tuple": _with(v={"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "minItems": 2, "uniqueItems": True}),
    "reference": {**_with(a={"$ref": "#/$defs/address", "description": "Where to."}, b={"$ref": "#/$defs/address"}),
                  "$defs": {"address": {"type": "object", "properties": {"street": {"type": "string"}}, "required": ["street"]}}},
    "recursive": {**_with(tree={"$ref": "#/$defs/tree"}), "$defs": {"tree": _TREE}},
    "names": {**_with(**{"first name": {"type": "string"}, "größe": {"type": "integer"}, "$ref": {"type": "string"}, "x" * 70: {"type": "string"}}),
              "required": ["first name"]},
    "keywords-as-names": _with(properties={"type": "string"}, required={"type": "boolean"}, enum={"type": "array", "items": {"type": "string"}}),
    "read-only": _with(id={"type": "integer", "readOnly": True}, name={"type": "string"}),
    "depth-10": _nested(10),
    "depth-11": _nested(11),
    "optional-25": _with(**{f"p{number}": {"type": "string"} for number in range(25)}),
    "not-an-object": {"type": "array", "items": {"type": "string"}},
    "long-description": _with(s={"type": "string", "description": "A sentence. " * 40}),
}  # fmt: skip
