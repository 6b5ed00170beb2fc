"""Parsing of XML documents from upstreams, in bounded time and memory.

Expat reads no external entity by itself; here, a document that declares an entity or refers to one outside of
it is rejected, so that none can expand to more than was sent ("billion laughs", XXE). A document type
declaration without entities is allowed; the default values that it gives to attributes are not read, because
each element would repeat them. Namespace names are limited, because Expat repeats them in the name of each
element.
"""

from dataclasses import dataclass, field
from typing import Final, NoReturn
from xml.parsers import expat

from app.formats.xml.names import XSI

MAX_NODES: Final = 500_000
"""The elements and attributes that a document may have together."""
MAX_DEPTH: Final = 200
MAX_NAMESPACE: Final = 2_000
"""The characters of one namespace name."""
_SEPARATOR: Final = " "


class InvalidXml(ValueError):
    """Bytes that are not a document of XML 1.0, or one that is not read: see the module."""


@dataclass(slots=True)
class XmlElement:
    """An element: its local name, its attributes by local name, the elements in it, and its own text."""

    name: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list["XmlElement"] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    is_nil: bool = False

    @property
    def text(self) -> str:
        """The text outside of the elements in it."""
        return "".join(self.texts)


def parse_xml(document: bytes, *, encoding: str | None = None) -> XmlElement:
    """Return the root element of a document; `encoding` replaces the one that it declares.

    Raises InvalidXml.
    """
    builder = _TreeBuilder()
    # The modules of the C library have no annotations that say so, but take None.
    parser = expat.ParserCreate(encoding, _SEPARATOR)
    parser.buffer_text = True
    parser.specified_attributes = True
    parser.StartNamespaceDeclHandler = builder.check_namespace
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.add_characters
    parser.EntityDeclHandler = builder.reject
    parser.UnparsedEntityDeclHandler = builder.reject
    parser.ExternalEntityRefHandler = builder.reject
    parser.SkippedEntityHandler = builder.reject
    try:
        parser.Parse(document, True)
    except (expat.ExpatError, LookupError, ValueError) as error:
        if isinstance(error, InvalidXml):
            raise
        raise InvalidXml("The bytes are not an XML document.") from None
    if builder.root is None:
        raise InvalidXml("The document has no element.")
    return builder.root


class _TreeBuilder:
    def __init__(self) -> None:
        self.root: XmlElement | None = None
        self._open: list[XmlElement] = []
        self._nodes = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._nodes += 1 + len(attributes)
        if self._nodes > MAX_NODES or len(self._open) >= MAX_DEPTH:
            raise InvalidXml("The document has too many elements, or they are nested too deeply.")
        element = XmlElement(name.rpartition(_SEPARATOR)[2])
        for key, value in attributes.items():
            uri, _, local = key.rpartition(_SEPARATOR)
            if uri != XSI:
                element.attributes[local] = value
            elif local == "nil":
                element.is_nil = value.strip() in ("true", "1")
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    def end(self, _name: str) -> None:
        self._open.pop()

    def add_characters(self, text: str) -> None:
        self._open[-1].texts.append(text)

    def check_namespace(self, _prefix: str | None, name: str | None) -> None:
        if name is not None and len(name) > MAX_NAMESPACE:
            raise InvalidXml(f"A namespace name has more than {MAX_NAMESPACE} characters.")

    def reject(self, *_given: object) -> NoReturn:
        raise InvalidXml("The document declares or uses entities.")
