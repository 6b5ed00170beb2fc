"""Resolves local references (RFC 6901 pointers and 3.1's identifiers) within the document."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from app.openapi.model import Json
from app.openapi.reading.identifiers import Identifiers, Tokens
from app.openapi.report import OperationProblem

#: A chain of references longer than this is a defect or an attack; real documents need three.
MAX_CHAIN = 50
_TEXTS = ("summary", "description")
_PERCENT = re.compile("%[0-9a-fA-F]{2}")


class RefProblem(OperationProblem):
    """A reference that is dangling, leads out of the document, or leads back to itself."""


def escape_token(token: str) -> str:
    """Return one reference token, escaped according to RFC 6901 section 3."""
    return token.replace("~", "~0").replace("/", "~1")


def _unescape_token(token: str) -> str:
    return token.replace("~1", "/").replace("~0", "~")


def _split_pointer(location: str) -> Tokens:
    return tuple(_unescape_token(token) for token in location.split("/")[1:])


def pointer(tokens: Tokens) -> str:
    """Return the JSON pointer of a path of tokens."""
    return "".join(f"/{escape_token(token)}" for token in tokens)


@dataclass(frozen=True, slots=True)
class ResolvedNode:
    """A node of the document and its JSON pointer."""

    node: Any
    pointer: str


class References:
    """Resolves the local references of one raw document. Nothing is ever fetched."""

    def __init__(self, raw: Json, identifiers: Identifiers | None = None, *, overrides: bool = False) -> None:
        """With `overrides`, texts beside a reference replace the texts of the object that it refers to."""
        self._raw = raw
        self._overrides = overrides
        # Only 3.1 and 3.2 have identifiers, and few documents use them.
        self._named = identifiers if identifiers and (identifiers.uris or identifiers.anchors) else None
        self._targets: dict[Tokens, ResolvedNode] = {}
        self._parsed: dict[str, Tokens] = {}

    def parse_reference(self, reference: str, *, location: str) -> Tokens:
        """Return the tokens of a `$ref` value at a pointer; raise RefProblem unless it leads into this
        document.
        """
        named = (
            None if self._named is None else self._named.resolve(reference, location=_split_pointer(location))
        )
        if named is not None:
            return named
        known = self._parsed.get(reference)
        if known is not None:
            return known
        if not reference.startswith("#"):
            raise RefProblem("refers to another document; only references inside the document are followed",
                             pointer=location)  # fmt: skip
        if not reference.startswith("#/"):
            raise RefProblem("has a reference that is not a JSON pointer (`#/...`)", pointer=location)
        tokens = tuple(_unescape_token(token) for token in reference[2:].split("/"))
        if _PERCENT.search(reference) and self._find(tokens) is None:
            # RFC 6901 section 6: in a URI fragment, tokens are percent-encoded; `~1` may itself be.
            tokens = tuple(_unescape_token(unquote(token)) for token in reference[2:].split("/"))
        self._parsed[reference] = tokens
        return tokens

    def resolve_dynamic(self, reference: str, *, location: str) -> Tokens | None:
        """Return the only schema that a `$dynamicRef` can mean; None if none or several have its anchor."""
        if self._named is None or self._named.dynamic.get(reference.partition("#")[2], 1) > 1:
            return None
        return self._named.resolve(reference, location=_split_pointer(location))

    def has(self, tokens: Tokens) -> bool:
        """Return whether there is a node at the tokens."""
        return self._find(tokens) is not None

    def get_target(self, tokens: Tokens, *, location: str) -> ResolvedNode:
        """Return the node at the tokens; raise RefProblem, which names `location`, where there is none."""
        resolved = self._find(tokens)
        if resolved is None:
            raise RefProblem(f"refers to `#{pointer(tokens)[:200]}`, which does not exist", pointer=location)
        return resolved

    def follow(self, node: Any, *, location: str) -> ResolvedNode:
        """Return the node itself, or the one that its chain of `$ref`s leads to.

        Raises RefProblem for a dangling, external or endless chain.
        """
        *_, resolved = self._follow_chain(node, location)
        return resolved

    def follow_described(self, node: Any, *, location: str) -> ResolvedNode:
        """Return what `follow` does, with the description beside the first reference that has one.

        OAS 3.1, Reference Object. A `summary` beside a reference describes an object without a description.
        """
        *references, resolved = self._follow_chain(node, location)
        if not references or not self._overrides or not isinstance(resolved.node, dict):
            return resolved
        texts: Json = {}
        for reference in reversed(references):
            texts |= {key: reference.node[key] for key in _TEXTS if isinstance(reference.node.get(key), str)}
        fallback = {"description": texts.pop("summary")} if "summary" in texts else {}
        return ResolvedNode({**fallback, **resolved.node, **texts}, resolved.pointer)

    def _follow_chain(self, node: Any, location: str) -> Iterator[ResolvedNode]:
        resolved = ResolvedNode(node, location)
        for _ in range(MAX_CHAIN):
            yield resolved
            if not isinstance(resolved.node, dict) or not isinstance(resolved.node.get("$ref"), str):
                return
            here = f"{resolved.pointer}/$ref"
            resolved = self.get_target(
                self.parse_reference(resolved.node["$ref"], location=here), location=here
            )
        raise RefProblem("has a chain of references that does not end", pointer=location)

    def _find(self, tokens: Tokens) -> ResolvedNode | None:
        known = self._targets.get(tokens)
        if known is None:
            known = self._walk(tokens)
            if known is not None:
                self._targets[tokens] = known
        return known

    def _walk(self, tokens: Tokens) -> ResolvedNode | None:
        node: Any = self._raw
        here = ""
        hops = MAX_CHAIN
        for token in tokens:
            # A pointer may lead through a reference (`#/paths/~1a/get/parameters/0/schema`).
            while isinstance(node, dict) and token not in node and isinstance(node.get("$ref"), str):
                hops -= 1
                if hops < 0 or not node["$ref"].startswith("#/"):
                    return None
                through = tuple(_unescape_token(unquote(part)) for part in node["$ref"][2:].split("/"))
                if len(through) > len(tokens) + MAX_CHAIN:
                    return None
                node, here = self._walk_plainly(through), pointer(through)
            if isinstance(node, dict) and token in node:
                node = node[token]
            elif isinstance(node, list) and token.isdecimal() and int(token[:9]) < len(node):
                node = node[int(token[:9])]
            else:
                return None
            here += f"/{escape_token(token)}"
        return ResolvedNode(node, here)

    def _walk_plainly(self, tokens: Tokens) -> Any:
        node: Any = self._raw
        for token in tokens:
            if isinstance(node, dict):
                node = node.get(token)
            elif isinstance(node, list) and token.isdecimal() and int(token[:9]) < len(node):
                node = node[int(token[:9])]
            else:
                return None
        return node
