"""How values are written as XML, as a call template says it, and the rules of names that follow from it.

OAS XML Object (3.0.4 and 3.1.1, sections 4.7.26 and 4.8.26): an element has the name of its property; `name`
replaces it. The items of a list have the name of the list, unless `items` has a name; `wrapped` puts them
into an element of their own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

NodeType = Literal["element", "attribute", "text", "cdata", "none"]

_MAX_PARTS: Final = 1_000


class _XmlModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class XmlNode(_XmlModel):
    """How a value is written as XML: the XML Object of its schema, and those of the schemas inside it.

    `ref` is a type of the shape, whose members count where the node has none of its own. `order` are the
    properties in the order of the schema, in which elements are written; `properties` are those that have
    something to say. `items` are those of a list, `additional` properties that the schema does not name,
    `all_of` and `any_of` the parts of `allOf`, and of `oneOf` and `anyOf`. `wrapped` is about lists.
    `node_type` is that of OpenAPI 3.2; None means element, or for a list as `wrapped` says.
    """

    ref: str | None = None
    name: str | None = None
    namespace: str | None = None
    prefix: str | None = None
    node_type: NodeType | None = None
    wrapped: bool = False
    order: list[str] = Field(default_factory=list)
    properties: dict[str, "XmlNode"] = Field(default_factory=dict)
    items: "XmlNode | None" = None
    additional: "XmlNode | None" = None
    all_of: list["XmlNode"] = Field(default_factory=list)
    any_of: list["XmlNode"] = Field(default_factory=list)

    @model_serializer(mode="wrap")
    def _without_defaults(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in serialise(self).items() if value not in (None, False, [], {})}


class XmlShape(_XmlModel):
    """How a value is written as an XML document.

    `root` is the name of the root element; None where the document does not name it: then the value is an
    object with one member, whose name is that of the root. `types` are the nodes that others refer to.
    """

    root: str | None = None
    node: XmlNode = Field(default_factory=XmlNode)
    types: dict[str, XmlNode] = Field(default_factory=dict)

    def compile(self) -> "CompiledXmlNode":
        """Return the node of the root, with everything that references add to it."""
        return CompiledXmlNode(self.node, _Types(self.types))


_NOTHING: Final = XmlNode()


@dataclass(eq=False)
class _Types:
    """The types of a shape; `compiled` are the nodes that have been in use, by identity."""

    nodes: Mapping[str, XmlNode] = field(default_factory=dict)
    compiled: "dict[int, CompiledXmlNode]" = field(default_factory=dict)

    def of(self, node: XmlNode) -> "CompiledXmlNode":
        known = self.compiled.get(id(node))
        if known is None:
            known = self.compiled[id(node)] = CompiledXmlNode(node, self)
        return known


class CompiledXmlNode:
    """A node of a shape with the parts that apply to the same value; what it contains is compiled when it is
    first used, because types may contain themselves.
    """

    def __init__(self, node: XmlNode, types: _Types) -> None:
        self._types = types
        parts = _list_applied(node, types, every=False)[::-1]
        self.name = next((one.name for one in parts if one.name is not None), None)
        self.namespace = next((one.namespace for one in parts if one.namespace is not None), None)
        self.prefix = next((one.prefix for one in parts if one.prefix is not None), None)
        self.node_type: NodeType | None = next(
            (one.node_type for one in parts if one.node_type is not None), None
        )
        self.wrapped = any(one.wrapped for one in parts) or self.node_type == "element"
        self._parts = _list_applied(node, types, every=True)

    @cached_property
    def order(self) -> Mapping[str, int]:
        """The position of each property among the elements of an object."""
        names = dict.fromkeys(name for part in self._parts for name in part.order or part.properties)
        return {name: position for position, name in enumerate(names)}

    @cached_property
    def properties(self) -> "Mapping[str, CompiledXmlNode]":
        """The properties that have something to say."""
        nodes: dict[str, CompiledXmlNode] = {}
        for part in reversed(self._parts):
            for name, node in part.properties.items():
                nodes.setdefault(name, self._types.of(node))
        return nodes

    @cached_property
    def items(self) -> "CompiledXmlNode":
        """The items of a list."""
        return self._types.of(next((part.items for part in self._parts if part.items), _NOTHING))

    @cached_property
    def _additional(self) -> "CompiledXmlNode":
        return self._types.of(next((part.additional for part in self._parts if part.additional), _NOTHING))

    def member(self, name: str) -> "CompiledXmlNode":
        """Return the node of a property of an object."""
        node = self.properties.get(name)
        return self._additional if node is None else node

    def choose_element_name(self, inherited: str) -> str:
        """Return the name of the element; `inherited` is that of the property, the list or the root."""
        return self.name or inherited


def _list_applied(node: XmlNode, types: _Types, *, every: bool) -> list[XmlNode]:
    """Return a node, last, after the types and parts that apply to the same value: each after its own parts.

    Without `every`, those of `oneOf` and `anyOf` are left out: a value has only one of them.
    """
    applied: list[XmlNode] = []
    seen = {id(node)}
    stack = [(node, iter(_list_parts(node, types, every=every)))]
    while stack:
        node_of_stack, rest = stack[-1]
        part = next(rest, None)
        if part is None:
            stack.pop()
            applied.append(node_of_stack)
        elif id(part) not in seen and len(seen) < _MAX_PARTS:
            seen.add(id(part))
            stack.append((part, iter(_list_parts(part, types, every=every))))
    return applied


def _list_parts(node: XmlNode, types: _Types, *, every: bool) -> list[XmlNode]:
    named = types.nodes.get(node.ref) if node.ref is not None else None
    return [*([] if named is None else [named]), *node.all_of, *(node.any_of if every else ())]
