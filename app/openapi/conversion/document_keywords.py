"""The keywords of tools (`x-keywords`): those of the operation and of all that it belongs to."""

from collections.abc import Iterable
from itertools import chain
from typing import Any, Final

from app.core.tool_keywords import KEYWORDS_EXTENSION, MAX_KEYWORDS, drop_repeated, read_keywords
from app.openapi.conversion.operations import Operation
from app.openapi.conversion.text import label
from app.openapi.reading.document import OpenApiDocument

_MAX_DECLARED: Final = 10_000


class DocumentKeywords:
    """The keywords that the document gives to all of its operations and to those of a tag.

    What cannot be read becomes a warning about the document.
    """

    def __init__(self, document: OpenApiDocument) -> None:
        self._document = document
        self._common = self._read(document.get_mapping("info"), "/info")
        self._by_tag: dict[str, tuple[str, ...]] = {}
        declared = document.raw.get("tags")
        for index, tag in enumerate(declared[:_MAX_DECLARED] if isinstance(declared, list) else ()):
            keywords = self._read(tag, f"/tags/{index}")
            if keywords:
                self._by_tag.setdefault(label(tag.get("name")), keywords)

    def of(self, operation: Operation, *, tags: Iterable[str], notes: list[str]) -> tuple[str, ...]:
        """Return the keywords of an operation with these tags: its own, then those of its path, of its tags
        and of the document. Of more than 50 together the first 50 are returned, with a note.
        """
        own_keywords = self._read(operation.node, operation.pointer)
        of_path = self._read(operation.item, operation.item_pointer)
        of_tags = chain.from_iterable(self._by_tag.get(tag, ()) for tag in tags)
        keywords = drop_repeated(chain(own_keywords, of_path, of_tags, self._common))
        if len(keywords) > MAX_KEYWORDS:
            notes.append(f"{len(keywords) - MAX_KEYWORDS} of its keywords were left out: {MAX_KEYWORDS} stay")
        return keywords[:MAX_KEYWORDS]

    def _read(self, node: Any, pointer: str) -> tuple[str, ...]:
        if not isinstance(node, dict) or KEYWORDS_EXTENSION not in node:
            return ()
        keywords, problems = read_keywords(
            node[KEYWORDS_EXTENSION], location=f"{pointer}/{KEYWORDS_EXTENSION}"
        )
        for problem in problems:
            self._document.warnings.add(problem.pointer, problem.detail)
        return keywords
