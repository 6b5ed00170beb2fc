"""Resolves `$id`, `$anchor` and `$dynamicAnchor` of a 3.1 document (JSON Schema 2020-12 core, section 8.2),
and `$self` of 3.2, which is the URI of the document itself.

Nothing is fetched: an identifier names a schema inside the document, or nothing.
"""

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from app.openapi.model import Json

Tokens = tuple[str, ...]

_MAX_IDENTIFIERS = 10_000
# Visiting so many nodes takes 0.7 s; identifiers beyond them are not found.
_MAX_NODES = 500_000
_KEYWORDS = (b"$id", b"$anchor", b"$dynamicAnchor", b"$self")


@dataclass(slots=True)
class Identifiers:
    """The schema resources of a document (the URI of each location at which one begins) and their anchors.

    `url` is the base URI of the document: its own URI where it has one, else its URL. `uris` is the inverse
    of `resources`, and has the document's own URI. `dynamic` counts the schemas that share a
    `$dynamicAnchor`.
    """

    url: str
    resources: dict[Tokens, str] = field(default_factory=dict)
    uris: dict[str, Tokens] = field(default_factory=dict)
    anchors: dict[tuple[str, str], Tokens] = field(default_factory=dict)
    dynamic: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, raw: Json, *, url: str) -> "Identifiers":
        """Collect all identifiers of a document in one pass; examples that look like schemas do no harm."""
        self_uri = raw.get("$self")
        if isinstance(self_uri, str) and self_uri:
            url = urldefrag(_resolve_uri(url, self_uri))[0]
        identifiers = cls(url)
        if isinstance(self_uri, str) and url:
            identifiers.uris[url] = ()
        stack: list[tuple[Any, Tokens, str]] = [(raw, (), url)]
        nodes = 0
        while (
            stack
            and nodes < _MAX_NODES
            and len(identifiers.resources) + len(identifiers.anchors) < _MAX_IDENTIFIERS
        ):
            nodes += 1
            node, tokens, base = stack.pop()
            if isinstance(node, dict):
                base = identifiers._register(node, tokens, base)
                stack.extend((one, (*tokens, key), base) for key, one in node.items() if one)
            elif isinstance(node, list):
                stack.extend((one, (*tokens, str(index)), base) for index, one in enumerate(node))
        return identifiers

    def _register(self, node: Json, tokens: Tokens, base: str) -> str:
        if isinstance(node.get("$id"), str) and tokens:
            base = _resolve_uri(base, node["$id"])
            self.resources.setdefault(tokens, base)
            self.uris.setdefault(base, tokens)
        for word in ("$anchor", "$dynamicAnchor"):
            if isinstance(node.get(word), str):
                self.anchors.setdefault((base, node[word]), tokens)
        if isinstance(node.get("$dynamicAnchor"), str):
            self.dynamic[node["$dynamicAnchor"]] = self.dynamic.get(node["$dynamicAnchor"], 0) + 1
        return base

    def resolve(self, reference: str, *, location: Tokens) -> Tokens | None:
        """Return the location that a reference at the location `location` names; None if it is not an
        identifier.
        """
        base = self._find_base(location)
        if reference.startswith("#/") and base == self.url:
            # A pointer from the document's root, which is resolved without its URI.
            return None
        whole, fragment = urldefrag(_resolve_uri(base, reference))
        if fragment and not fragment.startswith("/"):
            return self.anchors.get((whole, fragment))
        start = self.uris.get(whole)
        if start is None:
            return None
        parts = (part.replace("~1", "/").replace("~0", "~") for part in unquote(fragment).split("/")[1:])
        return (*start, *parts)

    def _find_base(self, location: Tokens) -> str:
        """Return the URI of the innermost resource that contains a location."""
        for length in range(len(location), 0, -1):
            if location[:length] in self.resources:
                return self.resources[location[:length]]
        return self.url


def may_have_identifiers(document: bytes) -> bool:
    """Return whether the bytes of a document may contain an identifier; always True for UTF-16 and UTF-32."""
    return b"\x00" in document[:4] or any(word in document for word in _KEYWORDS)


def _resolve_uri(base: str, reference: str) -> str:
    try:
        joined = urljoin(base, reference)
    except ValueError:
        return reference
    # `urljoin` knows no `urn:` and keeps only the fragment.
    return base + reference if reference.startswith("#") and not joined.startswith(base) else joined
