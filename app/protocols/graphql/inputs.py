"""Conversion of GraphQL's input types to JSON Schema."""

from typing import Any, Final

from graphql import (
    GraphQLArgument,
    GraphQLEnumType,
    GraphQLInputField,
    GraphQLInputObjectType,
    GraphQLNamedType,
    get_named_type,
    is_list_type,
    is_non_null_type,
    is_required_argument,
    is_required_input_field,
)

Schema = dict[str, Any]

_MAX_OBJECTS: Final = 200
_SCALARS: Final[dict[str, Schema]] = {
    "Int": {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1},
    "Float": {"type": "number"},
    "String": {"type": "string"},
    "Boolean": {"type": "boolean"},
    "ID": {"type": ["string", "integer"]},
}


def arguments_schema(arguments: dict[str, GraphQLArgument]) -> Schema:
    """Return the schema of a tool's inputs; input objects, which may be recursive, are in `$defs`."""
    objects = _Objects()
    schema: Schema = {
        "type": "object",
        "properties": {name: objects.described(one) for name, one in arguments.items()},
        "required": [name for name, one in arguments.items() if is_required_argument(one)],
        "additionalProperties": False,
    }
    objects.finish()
    return schema | ({"$defs": objects.definitions} if objects.definitions else {})


def leaf_schema(named: GraphQLNamedType) -> Schema:
    """Return the schema of a scalar or an enum; that of a custom scalar allows any value."""
    if isinstance(named, GraphQLEnumType):
        return {"type": "string", "enum": list(named.values)}
    known = _SCALARS.get(named.name)
    return dict(known) if known is not None else {"description": f"GraphQL scalar {named.name}"}


def nullable(schema: Schema) -> Schema:
    """Return a schema that allows null as well."""
    kind = schema.get("type")
    if kind is None and "$ref" not in schema:
        return schema
    if kind is None or "enum" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    return {**schema, "type": [*(kind if isinstance(kind, list) else [kind]), "null"]}


class _Objects:
    """The input objects of one tool."""

    def __init__(self) -> None:
        self.definitions: dict[str, Schema] = {}
        self._waiting: list[GraphQLInputObjectType] = []
        self._named: set[str] = set()

    def described(self, one: GraphQLArgument | GraphQLInputField) -> Schema:
        """Return the schema of an argument or a field, with its description.

        A non-null type with a default does not allow null: it may only be omitted.
        """
        schema = self._schema(one.type)
        return {**schema, "description": one.description} if one.description else schema

    def finish(self) -> None:
        """Add the definitions of all referenced input objects, and of those that they reference."""
        while self._waiting:
            self._define(self._waiting.pop())

    def _define(self, named: GraphQLInputObjectType) -> None:
        fields = named.fields
        schema: Schema = {
            "type": "object",
            "properties": {name: self.described(one) for name, one in fields.items()},
            "required": [name for name, one in fields.items() if is_required_input_field(one)],
            "additionalProperties": False,
        }
        if named.description:
            schema["description"] = named.description
        self.definitions[named.name] = schema

    def _schema(self, of: Any) -> Schema:
        return self._bare(of.of_type) if is_non_null_type(of) else nullable(self._bare(of))

    def _bare(self, of: Any) -> Schema:
        if is_list_type(of):
            return {"type": "array", "items": self._schema(of.of_type)}
        named = get_named_type(of)
        if not isinstance(named, GraphQLInputObjectType):
            return leaf_schema(named)
        if named.name not in self._named:
            if len(self._named) >= _MAX_OBJECTS:
                return {"type": "object"}
            self._named.add(named.name)
            self._waiting.append(named)
        return {"$ref": f"#/$defs/{named.name}"}
