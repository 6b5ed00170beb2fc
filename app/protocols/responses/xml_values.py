"""Reading the value of a schema from an XML document: the reverse of `app/formats/xml/writer.py`.

Elements are matched by their local names. What the schema does not have is decoded by its form alone: an
element is its text, or an object of its elements, of its attributes (`@name`) and of its text (`#text`), and
elements that repeat are a list.
"""

from typing import Any

from app.formats.xml.names import strip_prefix
from app.formats.xml.parser import XmlElement
from app.formats.xml.shape import CompiledXmlNode
from app.protocols.responses.response_schema import ResponseSchema


def xml_value(
    root: XmlElement, schema: ResponseSchema, node: CompiledXmlNode, *, is_described: bool, is_named: bool
) -> Any:
    """Return the value of a document by its schema.

    Without `is_described` there is none: the value is an object with the name of the root. Without `is_named`
    the schema may have the root element as its only property.
    """
    if not is_described:
        return {root.name: _undescribed(root)}
    if not is_named and set(schema.properties) == {root.name}:
        member = schema.properties[root.name]
        return {root.name: _value(root, member, node.member(root.name))}
    return _value(root, schema, node)


def _value(element: XmlElement, schema: ResponseSchema, node: CompiledXmlNode) -> Any:
    if element.is_nil:
        return None
    if schema.is_array:
        return _items(element.children, schema, node)
    if schema.properties:
        return _Members(element).object_of(schema, node)
    if schema.types and not schema.is_object and not element.children:
        return schema.coerce(element.text)
    found = _undescribed(element)
    return {} if found == "" and schema.is_object and "string" not in schema.types else found


def _items(elements: list[XmlElement], schema: ResponseSchema, node: CompiledXmlNode) -> list[Any]:
    inner = node.items
    return [_value(one, schema.items, inner) for one in elements]


def _undescribed(element: XmlElement) -> Any:
    if element.is_nil:
        return None
    if not element.children and not element.attributes:
        return element.text
    members: dict[str, Any] = {f"@{name}": text for name, text in element.attributes.items()}
    _add_undescribed(members, element.children)
    text = element.text
    return {**members, "#text": text} if text.strip() else members


def _add_undescribed(members: dict[str, Any], elements: list[XmlElement]) -> None:
    repeated: set[str] = set()
    for one in elements:
        value = _undescribed(one)
        if one.name in repeated:
            members[one.name].append(value)
        elif one.name in members:
            members[one.name] = [members[one.name], value]
            repeated.add(one.name)
        else:
            members[one.name] = value


class _Members:
    """The elements, attributes and text of an element that no property has taken yet."""

    def __init__(self, element: XmlElement) -> None:
        self._elements: dict[str, list[XmlElement]] = {}
        for one in element.children:
            self._elements.setdefault(one.name, []).append(one)
        self._attributes = dict(element.attributes)
        self._text = element.text

    def object_of(self, schema: ResponseSchema, node: CompiledXmlNode) -> dict[str, Any]:
        """Return the object of all members: those of the schema, and then the others."""
        value = self._described(schema, node)
        value |= {f"@{name}": text for name, text in self._attributes.items()}
        others = [one for elements in self._elements.values() for one in elements]
        _add_undescribed(value, others)
        if self._text.strip():
            value["#text"] = self._text
        return value

    def _described(self, schema: ResponseSchema, node: CompiledXmlNode) -> dict[str, Any]:
        value: dict[str, Any] = {}
        for name, member in schema.properties.items():
            inner = node.member(name)
            if inner.node_type == "none" and not member.is_array and member.properties:
                if group := self._described(member, inner):
                    value[name] = group
                continue
            found, is_present = self._take(name, member, inner)
            if is_present or (member.is_array and name in schema.required):
                value[name] = found
        return value

    def _take(self, name: str, schema: ResponseSchema, node: CompiledXmlNode) -> tuple[Any, bool]:
        """Return the value of a property, and whether the document has it."""
        wire = strip_prefix(node.choose_element_name(name))
        if node.node_type == "attribute":
            text = self._attributes.pop(wire, None)
            if text is None:
                return [], False
            if schema.is_array:
                return [schema.items.coerce(one) for one in text.split()], True
            return schema.coerce(text), True
        if node.node_type in ("text", "cdata"):
            own, self._text = self._text, ""
            return schema.coerce(own), bool(own)
        if schema.is_array and not node.wrapped:
            wire = strip_prefix(node.items.choose_element_name(node.choose_element_name(name)))
        elements = self._elements.pop(wire, [])
        if schema.is_array and node.wrapped:
            inside = [one for element in elements for one in element.children]
            return _items(inside, schema, node), bool(elements)
        if schema.is_array:
            return _items(elements, schema, node), bool(elements)
        values = [_value(one, schema, node) for one in elements]
        return (values[0] if len(values) == 1 else values), bool(values)
