"""The tags of tools: those of the operation, and those that these are nested under (OAS 3.2, Tag Object)."""

from typing import Any

from app.openapi.conversion.text import label
from app.openapi.reading.document import OpenApiDocument

_MAX_TAGS = 50
_MAX_DECLARED = 10_000


class TagHierarchy:
    """The tags that the document declares, with their parents."""

    def __init__(self, document: OpenApiDocument) -> None:
        declared = document.raw.get("tags")
        self._parents: dict[str, str] = {}
        pointers: dict[str, str] = {}
        for index, tag in enumerate(declared[:_MAX_DECLARED] if isinstance(declared, list) else ()):
            name, parent = _name_and_parent(tag)
            if name and parent and name not in self._parents:
                self._parents[name], pointers[name] = parent, f"/tags/{index}/parent"
        for name, pointer in pointers.items():
            if name in self._list_ancestors(name):
                document.warnings.add(pointer, "a tag is nested under itself")

    def of(self, listed: Any) -> tuple[str, ...]:
        """Return the tags of an operation: its own first, then those that they are nested under."""
        if not isinstance(listed, list):
            return ()
        own_tags = list(dict.fromkeys(filter(None, map(label, listed[:_MAX_TAGS]))))
        around = [above for tag in own_tags for above in self._list_ancestors(tag)]
        return tuple(dict.fromkeys([*own_tags, *around]))[:_MAX_TAGS]

    def _list_ancestors(self, tag: str) -> list[str]:
        """Return the tags that a tag is nested under, the nearest first; a cycle ends where it began."""
        ancestors: dict[str, None] = {}
        parent = self._parents.get(tag)
        while parent is not None and parent not in ancestors and len(ancestors) < _MAX_TAGS:
            ancestors[parent] = None
            parent = self._parents.get(parent)
        return list(ancestors)


def _name_and_parent(tag: Any) -> tuple[str, str]:
    return (label(tag.get("name")), label(tag.get("parent"))) if isinstance(tag, dict) else ("", "")
