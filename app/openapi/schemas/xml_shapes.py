"""How values of a schema are written as XML: the XML Objects of the schemas that a body or a response uses.

OAS XML Object: `name`, `namespace`, `prefix`, `attribute`, `wrapped`; 3.2's `nodeType` in place of the last
two. The input schema of a tool does not have them, so they are in its argument plan, as a `shape`:

    {"root": the root element's name or null, "node": node, "types": {name: node}}

A node has the members of `XmlNode` (`app/formats/xml/shape.py`). What says nothing is left out: an element
with the name of its property has no node, unless it has elements, whose order is in it.
"""

from collections import deque
from typing import Any

from app.formats.xml.names import is_q_name
from app.openapi.model import Json
from app.openapi.reading.document import OpenApiDocument
from app.openapi.reading.refs import RefProblem
from app.openapi.report import OperationProblem

_NODE_TYPES = frozenset({"element", "attribute", "text", "cdata", "none"})
_HINTS = ("name", "namespace", "prefix", "node_type", "wrapped", "order")
_LISTS = ("all_of", "any_of")
_MAX_NAMES = 20_000
_MAX_DEPTH = 60


class _NamesExceededError(Exception):
    """Raised where the schemas of a body have more names than `_MAX_NAMES`."""


class _NodeReader:
    """Reads the nodes of one document; `refs` are the components that the last node refers to."""

    def __init__(self, document: OpenApiDocument) -> None:
        self._document = document
        self._names = 0
        self.refs: dict[tuple[str, ...], str] = {}

    def read_node(self, schema: Any, depth: int = 0) -> Json:
        """Return the node of a schema; raise _NamesExceededError."""
        if not isinstance(schema, dict) or depth > _MAX_DEPTH:
            return {}
        self._names += 1
        if self._names > _MAX_NAMES:
            raise _NamesExceededError
        reference = schema.get("$ref")
        if isinstance(reference, str):
            try:
                tokens, name = self._document.schemas.refer(reference, location="")
            except OperationProblem:
                return {}
            self.refs[tokens] = name
            beside = {word: one for word, one in schema.items() if word != "$ref"}
            beside_node = self.read_node(beside, depth + 1) if self._document.schemas.siblings else {}
            return {**beside_node, "ref": name}
        return _read_hints(schema.get("xml")) | self._read_inner(schema, depth)

    def _read_inner(self, schema: Json, depth: int) -> Json:
        node: Json = {}
        properties = schema.get("properties")
        if isinstance(properties, dict):
            self._names += len(properties)
            inner = {name: self.read_node(one, depth + 1) for name, one in properties.items()}
            node["properties"] = {name: one for name, one in inner.items() if one}
            node["order"] = list(properties)
        for word, key in (("items", "items"), ("additionalProperties", "additional")):
            if isinstance(schema.get(word), dict):
                node[key] = self.read_node(schema[word], depth + 1)
        for word, key in (("allOf", "all_of"), ("oneOf", "any_of"), ("anyOf", "any_of")):
            if isinstance(schema.get(word), list):
                parts = [self.read_node(one, depth + 1) for one in schema[word]]
                node[key] = [*node.get(key, ()), *parts]
        return {key: one for key, one in node.items() if one}


def _read_hints(xml: Any) -> Json:
    """Return the valid members of an XML Object, by their names in a node."""
    if not isinstance(xml, dict):
        return {}
    hints: Json = {}
    for word in ("name", "namespace", "prefix"):
        if isinstance(xml.get(word), str) and xml[word].strip():
            hints[word] = xml[word].strip()
    if "name" in hints and not is_q_name(hints["name"]):
        del hints["name"]
    if "prefix" in hints and (":" in hints["prefix"] or not is_q_name(hints["prefix"])):
        del hints["prefix"]
    node_type = xml.get("nodeType")
    if isinstance(node_type, str) and node_type in _NODE_TYPES:
        hints["node_type"] = node_type
    elif xml.get("attribute") is True:
        hints["node_type"] = "attribute"
    if xml.get("wrapped") is True:
        hints["wrapped"] = True
    return hints


def read_xml_shape(document: OpenApiDocument, schema: Any, *, root: str | None = None) -> Json | None:
    """Return the shape of an XML document by the schema of its root; None where it is too large.

    `root` names the root element where neither the schema nor its component has a name. A reference that
    leads nowhere has no effect.
    """
    reader = _NodeReader(document)
    try:
        node = reader.read_node(schema)
        types: Json = {}
        pending = deque(reader.refs.items())
        while pending:
            tokens, name = pending.popleft()
            if name in types:
                continue
            try:
                target = document.references.get_target(tokens, location="").node
            except RefProblem:
                target = None
            types[name] = reader.read_node(target)
            pending.extend((key, one) for key, one in reader.refs.items() if one not in types)
            reader.refs.clear()
    except _NamesExceededError:
        return None
    live = _find_live_types(types)
    types = {name: _drop_silent(one, live) for name, one in types.items() if name in live}
    return {
        "root": _find_root_name(document, schema) or root,
        "node": _drop_silent(node, live),
        "types": types,
    }


def has_structure(document: OpenApiDocument, schema: Any) -> bool:
    """Return whether a schema describes the elements of an XML document, and not only its text."""
    try:
        resolved = document.references.follow(schema, location="").node
    except RefProblem:
        return True
    if not isinstance(resolved, dict):
        return False
    kinds = resolved.get("type")
    listed = kinds if isinstance(kinds, list) else [kinds]
    if any(
        word in resolved
        for word in ("properties", "items", "additionalProperties", "allOf", "oneOf", "anyOf")
    ):
        return True
    return bool({"object", "array"} & {one for one in listed if isinstance(one, str)})


def is_wrapper(document: OpenApiDocument, schema: Any) -> bool:
    """Return whether a schema without a name has one property: the root element, as in AWS' documents."""
    try:
        resolved = document.references.follow(schema, location="").node
    except RefProblem:
        return False
    properties = resolved.get("properties") if isinstance(resolved, dict) else None
    return isinstance(properties, dict) and len(properties) == 1


def _find_root_name(document: OpenApiDocument, schema: Any) -> str | None:
    """Return the name of the root element: `xml.name` of the schema, else the name of its component."""
    component: str | None = None
    for _ in range(_MAX_DEPTH):
        if not isinstance(schema, dict):
            return component
        reference = schema.get("$ref")
        siblings = not isinstance(reference, str) or document.schemas.siblings
        name = _read_hints(schema.get("xml")).get("name") if siblings else None
        if isinstance(name, str):
            return name
        if not isinstance(reference, str):
            return component
        try:
            tokens, _ = document.schemas.refer(reference, location="")
            schema = document.references.get_target(tokens, location="").node
        except OperationProblem:
            return component
        if component is None and len(tokens) > 1 and tokens[-2] in ("schemas", "definitions"):
            component = tokens[-1] if is_q_name(tokens[-1]) else None
    return component


def _find_live_types(types: Json) -> frozenset[str]:
    """Return the types with hints, and the types that refer to one of these."""
    users: dict[str, set[str]] = {}
    live: set[str] = set()
    for name, node in types.items():
        refs, says = _list_contents(node)
        if says:
            live.add(name)
        for reference in refs:
            users.setdefault(reference, set()).add(name)
    pending = list(live)
    while pending:
        for user in users.get(pending.pop(), ()):
            if user not in live:
                live.add(user)
                pending.append(user)
    return frozenset(live)


def _list_contents(node: Json) -> tuple[set[str], bool]:
    """Return the types that a node refers to, and whether the node itself has hints."""
    refs: set[str] = set()
    says = False
    pending = [node]
    while pending:
        part = pending.pop()
        says = says or any(word in part for word in _HINTS)
        if "ref" in part:
            refs.add(part["ref"])
        pending.extend(part.get("properties", {}).values())
        pending.extend(part[word] for word in ("items", "additional") if word in part)
        for word in _LISTS:
            pending.extend(part.get(word, ()))
    return refs, says


def _drop_silent(node: Json, live: frozenset[str]) -> Json:
    """Return a copy of a node without parts that have no hints."""
    out: Json = {word: node[word] for word in _HINTS if word in node}
    if node.get("ref") in live:
        out["ref"] = node["ref"]
    properties = {name: _drop_silent(one, live) for name, one in node.get("properties", {}).items()}
    out["properties"] = {name: one for name, one in properties.items() if one}
    for word in ("items", "additional"):
        out[word] = _drop_silent(node[word], live) if word in node else {}
    for word in _LISTS:
        out[word] = [one for one in (_drop_silent(part, live) for part in node.get(word, ())) if one]
    return {key: one for key, one in out.items() if one}
