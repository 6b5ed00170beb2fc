"""Generation of selection sets: all fields without required arguments, to a maximum depth, without cycles."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from graphql import (
    GraphQLField,
    GraphQLInterfaceType,
    GraphQLNamedType,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLOutputType,
    GraphQLSchema,
    GraphQLString,
    GraphQLUnionType,
    get_named_type,
    is_leaf_type,
    is_list_type,
    is_non_null_type,
    is_required_argument,
)

from app.protocols.graphql.inputs import leaf_schema, nullable

DEPTH: Final = 4
"""Levels of objects below the selected root field."""

MAX_FIELDS: Final = 250
_MAX_MEMBERS: Final = 20


@dataclass(slots=True)
class Node:
    """A field of a selection. `on` is the type of its inline fragment, "" where it is in none."""

    name: str
    type: GraphQLOutputType
    alias: str = ""
    on: str = ""
    below: list["Node"] = field(default_factory=list)

    @property
    def key(self) -> str:
        """Its name in the response."""
        return self.alias or self.name


class Selector:
    """Builds the selections of the tools of one schema."""

    def __init__(self, schema: GraphQLSchema) -> None:
        self._schema = schema
        self._remaining_fields = MAX_FIELDS

    def select(self, of: GraphQLOutputType) -> list[Node]:
        """Return the selection of a field of this type; empty for scalars and enums."""
        self._remaining_fields = MAX_FIELDS
        return self._below(get_named_type(of), DEPTH, frozenset())

    def _below(self, named: GraphQLNamedType, depth: int, path: frozenset[str]) -> list[Node]:
        if is_leaf_type(named):
            return []
        path |= {named.name}
        nodes = [_typename()] if isinstance(named, (GraphQLUnionType, GraphQLInterfaceType)) else []
        if isinstance(named, (GraphQLObjectType, GraphQLInterfaceType)):
            nodes += self._fields(named, depth, path, on="")
        if isinstance(named, (GraphQLUnionType, GraphQLInterfaceType)):
            own = {node.name: str(node.type) for node in nodes}
            for member in self._schema.get_possible_types(named)[:_MAX_MEMBERS]:
                nodes += self._member(member, depth, path, own)
        return nodes or [_typename()]

    def _member(
        self, member: GraphQLObjectType, depth: int, path: frozenset[str], known: dict[str, str]
    ) -> Iterator[Node]:
        """Yield the fields of a possible type that its interface does not have.

        A field that has another type in another possible type gets an alias: both could not be merged in one
        selection (GraphQL section 5.3.2).
        """
        interface = frozenset(name for name, kind in known.items() if not kind.endswith("\x00"))
        for node in self._fields(member, depth, path | {member.name}, on=member.name, without=interface):
            kind = f"{node.type}\x00"
            if known.setdefault(node.name, kind) != kind:
                node.alias = f"{member.name}_{node.name}"
            yield node

    def _fields(
        self,
        named: GraphQLObjectType | GraphQLInterfaceType,
        depth: int,
        path: frozenset[str],
        *,
        on: str,
        without: frozenset[str] = frozenset(),
    ) -> list[Node]:
        """Return the fields of a type, scalars first: they have priority in the number of fields."""
        usable = [(name, one) for name, one in named.fields.items() if name not in without and _is_plain(one)]
        leaves = [pair for pair in usable if is_leaf_type(get_named_type(pair[1].type))]
        nodes = [Node(name, one.type, on=on) for name, one in leaves[: max(0, self._remaining_fields)]]
        self._remaining_fields -= len(nodes)
        for name, one in usable:
            inner = get_named_type(one.type)
            if is_leaf_type(inner) or depth <= 1 or inner.name in path or self._remaining_fields <= 0:
                continue
            self._remaining_fields -= 1
            nodes.append(Node(name, one.type, on=on, below=self._below(inner, depth - 1, path)))
        return nodes


def selection_text(nodes: list[Node]) -> str:
    """Return a selection in GraphQL's syntax, with its braces; "" for an empty one."""
    if not nodes:
        return ""
    parts = [_text(node) for node in nodes if not node.on]
    for member in dict.fromkeys(node.on for node in nodes if node.on):
        inside = " ".join(_text(node) for node in nodes if node.on == member)
        parts.append(f"... on {member} {{ {inside} }}")
    return f" {{ {' '.join(parts)} }}"


def response_schema(of: GraphQLOutputType, nodes: list[Node]) -> dict[str, Any]:
    """Return the JSON Schema of the value of a field with this selection."""
    if is_non_null_type(of):
        return _bare(of.of_type, nodes)
    return nullable(_bare(of, nodes))


def _bare(of: GraphQLOutputType, nodes: list[Node]) -> dict[str, Any]:
    if is_list_type(of):
        return {"type": "array", "items": response_schema(of.of_type, nodes)}
    named = get_named_type(of)
    if is_leaf_type(named):
        return leaf_schema(named)
    return {
        "type": "object",
        "properties": {node.key: response_schema(node.type, node.below) for node in nodes},
    }


def _text(node: Node) -> str:
    return (
        f"{node.alias}: {node.name}{selection_text(node.below)}"
        if node.alias
        else node.name + selection_text(node.below)
    )


def _is_plain(one: GraphQLField) -> bool:
    return one.deprecation_reason is None and not any(map(is_required_argument, one.args.values()))


def _typename() -> Node:
    return Node("__typename", GraphQLNonNull(GraphQLString))
