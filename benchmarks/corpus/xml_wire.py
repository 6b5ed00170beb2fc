"""The XML that OpenAPI's XML Object prescribes, read literally, beside a document as parsed by ElementTree.

OAS 3.0.4 section 4.7.26. What it leaves open raises UndefinedError and is not compared: null, values of
`oneOf` and `anyOf`, lists in attributes or directly in lists, attributes with a namespace but no prefix,
prefixes without a namespace, and names and characters that XML does not have. The order of elements with
different names is not defined, either.
"""

import re
from typing import Any
from xml.etree import ElementTree as ET

from benchmarks.corpus.reading import Json, Reading, UnresolvedError
from benchmarks.corpus.wire import UndefinedError, text_of

Tree = tuple[str, tuple[tuple[str, str], ...], str, tuple[Any, ...]]
"""The name of an element, its attributes, its text, and the elements in it; names are `{uri}local`."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def is_structured(reading: Reading, schema: Any) -> bool:
    """Return whether a schema describes elements, and not only a text."""
    try:
        found = reading.follow(schema)
    except UnresolvedError:
        return False
    if not isinstance(found, dict):
        return False
    words = {"properties", "items", "additionalProperties", "allOf", "oneOf", "anyOf"}
    return bool(words & found.keys()) or found.get("type") in ("object", "array")


def root_name(reading: Reading, schema: Any) -> str | None:
    """Return the name of the root: `xml.name`, or that of the component; None where it has none."""
    component = None
    if isinstance(schema, dict) and isinstance(schema.get("$ref"), str):
        component = schema["$ref"].rpartition("/")[2] if "/schemas/" in schema["$ref"] else None
    named = _hint(_own(reading, schema), "name")
    return named or (component if component and _NAME.fullmatch(component) else None)


def is_wrapper(reading: Reading, schema: Any) -> bool:
    """Return whether a schema without a name has one property, which is the root."""
    found = reading.follow(schema)
    properties = found.get("properties") if isinstance(found, dict) else None
    return isinstance(properties, dict) and len(properties) == 1


def check_xml(reading: Reading, schema: Any, value: Any, content: bytes) -> str:
    """Return the error in a document, "" if it is correct. Raises UndefinedError."""
    wanted = expected(reading, schema, value)
    try:
        got = _parsed(ET.fromstring(content))
    except ET.ParseError as problem:
        return f"no XML: {problem}"
    return "" if got == wanted else f"{got}, not {wanted}"[:1000]


def expected(reading: Reading, schema: Any, value: Any) -> Tree:
    """Return the document of a value. Raises UndefinedError."""
    name = root_name(reading, schema)
    if name is None:
        if not isinstance(value, dict) or len(value) != 1:
            raise UndefinedError("a document without one root element")
        [(name, value)] = value.items()
        wrapper = is_wrapper(reading, schema)
        schema = reading.follow(schema)["properties"].get(name, {}) if wrapper else schema
        name = (_hint(_own(reading, schema), "name") or name) if wrapper else name
    if isinstance(value, list):
        items = _list(reading, schema, name, value, {})
        return _named(reading, schema, name, {})[0], (), "", _ordered(items)
    return _element(reading, schema, name, value, {})


def _own(reading: Reading, schema: Any) -> list[Json]:
    """Return the parts of a schema that all apply to its value, the nearest first."""
    parts = reading.parts(schema)
    if any("oneOf" in part or "anyOf" in part for part in parts):
        raise UndefinedError("a choice of schemas")
    return parts


def _hint(parts: list[Json], word: str) -> Any:
    for part in parts:
        xml = part.get("xml")
        if isinstance(xml, dict) and xml.get(word):
            return xml[word]
    return None


def _property(parts: list[Json], name: str) -> Any:
    for part in parts:
        properties = part.get("properties")
        if isinstance(properties, dict) and name in properties:
            return properties[name]
    return next((one["additionalProperties"] for one in parts if "additionalProperties" in one), {})


def _named(reading: Reading, schema: Any, name: str, scope: dict[str, str]) -> tuple[str, dict[str, str]]:
    """Return the name of an element as `{uri}local`, and the namespaces that are declared inside of it."""
    parts = _own(reading, schema)
    local = _hint(parts, "name") or name
    prefix, namespace = _hint(parts, "prefix") or "", _hint(parts, "namespace")
    if not isinstance(local, str) or not _NAME.fullmatch(local):
        raise UndefinedError("a name that XML does not have")
    if namespace is not None:
        scope = {**scope, prefix: namespace}
    if prefix and prefix not in scope:
        raise UndefinedError("a prefix without a namespace")
    uri = scope.get(prefix)
    return f"{{{uri}}}{local}" if uri else local, scope


def _element(reading: Reading, schema: Any, name: str, value: Any, scope: dict[str, str]) -> Tree:
    tag, scope = _named(reading, schema, name, scope)
    if not isinstance(value, dict):
        return tag, (), _text(value), ()
    parts = _own(reading, schema)
    attributes: list[tuple[str, str]] = []
    children: list[Tree] = []
    for key, member in value.items():
        inner = _property(parts, key)
        own = _own(reading, inner)
        if _hint(own, "attribute") is True:
            attributes.append((_attribute(own, key, scope), _text(member)))
        elif not isinstance(member, list):
            children.append(_element(reading, inner, key, member, scope))
        elif _hint(own, "wrapped") is True:
            outer, deeper = _named(reading, inner, key, scope)
            local = _hint(own, "name") or key
            children.append((outer, (), "", _ordered(_list(reading, inner, local, member, deeper))))
        else:
            children += _list(reading, inner, _hint(own, "name") or key, member, scope)
    return tag, tuple(sorted(attributes)), "", _ordered(children)


def _attribute(parts: list[Json], key: str, scope: dict[str, str]) -> str:
    local, prefix, namespace = (_hint(parts, word) for word in ("name", "prefix", "namespace"))
    local = local or key
    if not isinstance(local, str) or not _NAME.fullmatch(local) or local.startswith("xmlns"):
        raise UndefinedError("a name that XML does not have")
    if not prefix and not namespace:
        return local
    uri = namespace or scope.get(prefix)
    if not prefix or not uri:
        raise UndefinedError("an attribute without a prefix, or without a namespace")
    return f"{{{uri}}}{local}"


def _list(reading: Reading, schema: Any, name: str, items: list[Any], scope: dict[str, str]) -> list[Tree]:
    inner: Any = next((part["items"] for part in _own(reading, schema) if "items" in part), {})
    if any(isinstance(item, list) for item in items):
        raise UndefinedError("a list in a list")
    return [_element(reading, inner, name, item, scope) for item in items]


def _text(value: Any) -> str:
    text = text_of(value)
    if _FORBIDDEN.search(text):
        raise UndefinedError("a character that XML does not have")
    return text


def _ordered(children: list[Tree]) -> tuple[Tree, ...]:
    """Return elements sorted by their names; those of one name stay in their order."""
    return tuple(sorted(children, key=lambda one: one[0]))


def _parsed(element: ET.Element) -> Tree:
    children = [_parsed(one) for one in element]
    return element.tag, tuple(sorted(element.attrib.items())), element.text or "", _ordered(children)
