"""Writing a JSON value as an XML 1.0 document by its shape.

What the specification leaves open: elements are written in the order of the schema, further members after
them; null is `xsi:nil="true"` for an element and left out as an attribute (as OAS 3.2 recommends); a list in
an attribute is separated by spaces (XML Schema's list types); a list that is the root is always wrapped.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from app.core.errors import FieldError, InvalidArguments
from app.core.text import pointer
from app.formats.xml.names import (
    XML,
    XSI,
    escape_attribute,
    escape_text,
    find_forbidden,
    is_q_name,
    strip_prefix,
)
from app.formats.xml.shape import CompiledXmlNode

_MAX_DEPTH: Final = 200
_BUILT_IN: Final = {"xml": XML}
# The names that the IANA has for charsets, by those of Python's codecs.
_LABELS: Final = {
    "utf-8": "UTF-8", "utf-16": "UTF-16", "ascii": "US-ASCII",
    "iso8859-1": "ISO-8859-1", "cp1252": "windows-1252",
}  # fmt: skip

ScalarText = Callable[[Any], str]
"""Returns the text of a string, a number, true or false."""


def write_document(
    value: Any, root: CompiledXmlNode, *, name: str | None, charset: str, text_of: ScalarText, location: str
) -> bytes:
    """Return the value as a document in a charset of Python's; `location` is the pointer of the value.

    `name` is that of the root element; where it is None, the value must be an object with one member, which
    is the root element. A list is one element with its items in it, since a document has one root.
    Raises InvalidArguments, with the pointer of what cannot be written.
    """
    if name is None:
        if not isinstance(value, dict) or len(value) != 1:
            _reject(location, "Give an object with one member: its name is that of the root element.")
        name = next(iter(value))
        root, value, location = root.member(name), value[name], pointer(location, name)
    writer = _XmlWriter(text_of, charset)
    if isinstance(value, list):
        writer.list_element(root.choose_element_name(name), value, root, _BUILT_IN, location, 0)
    else:
        writer.write_element(root.choose_element_name(name), value, root, _BUILT_IN, location, 0)
    text = f'<?xml version="1.0" encoding="{_LABELS.get(charset, charset)}"?>\n{"".join(writer.pieces)}'
    try:
        return text.encode(charset)
    except UnicodeEncodeError:
        detail = f"Use names of elements and attributes that can be written in {charset}."
        _reject(location, detail)


def _reject(location: str, detail: str) -> NoReturn:
    raise InvalidArguments("The value cannot be written as XML", errors=[FieldError(location, detail)])


class _XmlWriter:
    """Writes one document into `pieces`: markup and texts, each separate."""

    def __init__(self, text_of: ScalarText, charset: str) -> None:
        self.pieces: list[str] = []
        self._text_of = text_of
        self._charset = charset
        self._has_all_characters = charset.startswith("utf")

    def write_element(
        self,
        name: str,
        value: Any,
        node: CompiledXmlNode,
        scope: Mapping[str, str],
        location: str,
        depth: int,
    ) -> None:
        """Write an element with a value that is not a list; `scope` are the prefixes that are declared."""
        self._check_depth(location, depth)
        tag, scope, attributes = self._open(name, node, scope, location)
        members: list[tuple[str, Any, CompiledXmlNode]] = []
        if isinstance(value, dict):
            scope = self._list_declarations(value, node, scope, attributes, location)
            for key, member in value.items():
                inner = node.member(key)
                if inner.node_type != "attribute":
                    members.append((key, member, inner))
                elif member is not None:
                    where = pointer(location, key)
                    scope = self._write_attribute(key, member, inner, scope, attributes, tag, where)
        elif value is None:
            if scope.get("xsi") != XSI:
                attributes["xmlns:xsi"] = XSI
            attributes["xsi:nil"] = "true"
        self.pieces.append(f"<{tag}")
        for key, text in attributes.items():
            self.pieces += (f' {key}="', self._write_references(escape_attribute(text)), '"')
        self.pieces.append(">")
        if members:
            order = node.order
            members.sort(key=lambda one: order.get(one[0], len(order)))
            self._write_members(members, scope, location, depth)
        elif value is not None and not isinstance(value, dict):
            self._write_text(value, location, cdata=node.node_type == "cdata")
        if self.pieces[-1] == ">":
            self.pieces[-1] = "/>"
        else:
            self.pieces.append(f"</{tag}>")

    def list_element(
        self,
        name: str,
        items: list[Any],
        node: CompiledXmlNode,
        scope: Mapping[str, str],
        location: str,
        depth: int,
    ) -> None:
        """Write an element with the items of a list."""
        self._check_depth(location, depth)
        tag, scope, attributes = self._open(name, node, scope, location)
        self.pieces.append(f"<{tag}")
        for key, text in attributes.items():
            self.pieces += (f' {key}="', self._write_references(escape_attribute(text)), '"')
        self.pieces.append(">")
        self._write_items(strip_prefix(name), items, node, scope, location, depth + 1)
        if self.pieces[-1] == ">":
            self.pieces[-1] = "/>"
        else:
            self.pieces.append(f"</{tag}>")

    def _write_members(
        self,
        members: list[tuple[str, Any, CompiledXmlNode]],
        scope: Mapping[str, str],
        location: str,
        depth: int,
    ) -> None:
        for key, member, node in members:
            where = pointer(location, key)
            if node.node_type in ("text", "cdata"):
                if member is not None:
                    self._write_text(member, where, cdata=node.node_type == "cdata")
            elif node.node_type == "none" and isinstance(member, dict):
                self._check_depth(where, depth + 1)
                inner = [(name, one, node.member(name)) for name, one in member.items()]
                self._write_members(inner, scope, where, depth + 1)
            elif not isinstance(member, list):
                self.write_element(node.choose_element_name(key), member, node, scope, where, depth + 1)
            elif node.wrapped:
                self.list_element(node.choose_element_name(key), member, node, scope, where, depth + 1)
            else:
                self._write_items(node.choose_element_name(key), member, node, scope, where, depth + 1)

    def _write_items(
        self,
        name: str,
        items: list[Any],
        node: CompiledXmlNode,
        scope: Mapping[str, str],
        location: str,
        depth: int,
    ) -> None:
        self._check_depth(location, depth)
        inner = node.items
        for index, item in enumerate(items):
            where = pointer(location, index)
            if inner.node_type in ("text", "cdata"):
                if item is not None:
                    self._write_text(item, where, cdata=inner.node_type == "cdata")
            elif not isinstance(item, list):
                self.write_element(inner.choose_element_name(name), item, inner, scope, where, depth)
            elif inner.wrapped:
                self.list_element(inner.choose_element_name(name), item, inner, scope, where, depth)
            else:
                self._write_items(inner.choose_element_name(name), item, inner, scope, where, depth + 1)

    def _open(
        self, name: str, node: CompiledXmlNode, scope: Mapping[str, str], location: str
    ) -> tuple[str, Mapping[str, str], dict[str, str]]:
        """Return the name of an element, what is declared inside of it, and its namespace declarations."""
        tag = _add_prefix(name, node.prefix)
        if not is_q_name(tag):
            _reject(location, "This name cannot be that of an XML element.")
        attributes: dict[str, str] = {}
        if node.namespace is not None:
            prefix = tag.partition(":")[0] if ":" in tag else ""
            if scope.get(prefix) != node.namespace:
                attributes[f"xmlns:{prefix}" if prefix else "xmlns"] = node.namespace
                scope = {**scope, prefix: node.namespace}
        return tag, scope, attributes

    def _list_declarations(
        self,
        value: Mapping[str, Any],
        node: CompiledXmlNode,
        scope: Mapping[str, str],
        attributes: dict[str, str],
        location: str,
    ) -> Mapping[str, str]:
        """Add the namespace declarations that a document has as attributes of their own (`xmlns:xsi`)."""
        for key, member in value.items():
            inner = node.member(key)
            name = inner.choose_element_name(key)
            is_declaration = name == "xmlns" or name.startswith("xmlns:")
            if inner.node_type != "attribute" or not is_declaration or not isinstance(member, str):
                continue
            prefix = name.partition(":")[2]
            if attributes.get(name, member) != member:
                _reject(pointer(location, key), "The namespace of this element is another one.")
            attributes[name] = self._check_text(member, pointer(location, key))
            scope = {**scope, prefix: member}
        return scope

    def _write_attribute(
        self,
        key: str,
        value: Any,
        node: CompiledXmlNode,
        scope: Mapping[str, str],
        attributes: dict[str, str],
        tag: str,
        location: str,
    ) -> Mapping[str, str]:
        """Add an attribute of the element `tag`, and the declaration of its namespace; return what is
        declared now.
        """
        name = _add_prefix(node.choose_element_name(key), node.prefix)
        if name in attributes and (name == "xmlns" or name.startswith("xmlns:")):
            return scope
        prefix, separator, local = name.rpartition(":")
        if node.namespace is not None and prefix != "xml":
            if not separator:
                # An attribute without a prefix is in no namespace (Namespaces in XML 1.0, section 6.2).
                known = (one for one, uri in scope.items() if uri == node.namespace and one)
                prefix = next(known, None) or _find_unused_prefix(scope)
                name = f"{prefix}:{local}"
            elif scope.get(prefix) != node.namespace and prefix in _list_used_prefixes(tag, attributes):
                # A prefix means one namespace in all names of an element.
                prefix = _find_unused_prefix(scope)
                name = f"{prefix}:{local}"
            if scope.get(prefix) != node.namespace:
                attributes[f"xmlns:{prefix}"] = node.namespace
                scope = {**scope, prefix: node.namespace}
        if not is_q_name(name) or name in attributes:
            _reject(location, "This name cannot be that of an XML attribute of this element.")
        items = value if isinstance(value, list) else [value]
        if any(isinstance(item, (dict, list)) or item is None for item in items):
            _reject(location, "Give text, a number, true or false: this is an XML attribute.")
        attributes[name] = " ".join(self._check_text(self._text_of(item), location) for item in items)
        return scope

    def _write_text(self, value: Any, location: str, *, cdata: bool) -> None:
        items = value if isinstance(value, list) else [value]
        if any(isinstance(item, (dict, list)) for item in items):
            _reject(location, "Give text, a number, true or false: this is the text of an XML element.")
        text = " ".join(self._check_text(self._text_of(item), location) for item in items if item is not None)
        if cdata and text and self._write_references(text) == text:
            # A section cannot contain its end; what a parser would read as another line break is outside.
            inner = text.replace("]]>", "]]]]><![CDATA[>").replace("\r", "]]>&#13;<![CDATA[")
            self.pieces.append(f"<![CDATA[{inner}]]>")
        elif text:
            self.pieces.append(self._write_references(escape_text(text)))

    def _write_references(self, text: str) -> str:
        """Return a text with references to the characters that the charset does not have."""
        if self._has_all_characters or text.isascii():
            return text
        return text.encode(self._charset, "xmlcharrefreplace").decode(self._charset)

    def _check_text(self, text: str, location: str) -> str:
        forbidden = find_forbidden(text)
        if forbidden is not None:
            _reject(location, f"XML 1.0 has no character U+{ord(forbidden):04X}: leave it out.")
        return text

    def _check_depth(self, location: str, depth: int) -> None:
        if depth > _MAX_DEPTH:
            _reject(location, f"Nest at most {_MAX_DEPTH} elements.")


def _add_prefix(name: str, prefix: str | None) -> str:
    return name if prefix is None or ":" in name else f"{prefix}:{name}"


def _list_used_prefixes(tag: str, attributes: Mapping[str, str]) -> frozenset[str]:
    """Return the prefixes that the names of an element and of its attributes have, or that it declares."""
    names = (name.removeprefix("xmlns:") + ":" if name.startswith("xmlns:") else name for name in attributes)
    return frozenset(name.partition(":")[0] for name in (tag, *names) if ":" in name)


def _find_unused_prefix(scope: Mapping[str, str]) -> str:
    return next(name for name in (f"ns{number}" for number in range(1, len(scope) + 2)) if name not in scope)
