"""Examples that stand beside a schema: of Parameter Objects and of Media Type Objects."""

from collections.abc import Iterator, Sequence
from typing import Any

from app.openapi.model import Json
from app.openapi.reading.document import OpenApiDocument
from app.openapi.reading.refs import RefProblem, escape_token
from app.openapi.schemas.keywords import is_small

_MAX_EXAMPLES = 3
_MAX_MEDIA_SIZE = 500


def list_declared_examples(document: OpenApiDocument, holders: Sequence[Json], schema: Json) -> list[Any]:
    """Return the examples of the first of a Parameter Object and its Media Type Object that has some.

    A serialised example (`serializedValue`, `externalValue`) is not the value that an argument has.
    """
    if "examples" in schema:
        return []
    for holder in holders:
        small_values = [value for value in _list_values(document, holder) if is_small(value, 200)]
        if small_values:
            return small_values[:_MAX_EXAMPLES]
    return []


def media_type_examples(document: OpenApiDocument, holder: Json, schema: Json) -> list[Any]:
    """Return the first small example of the Media Type Object of JSON; none where its schema has examples."""
    if "examples" in schema:
        return []
    whole = [holder["example"]] if isinstance(holder.get("example"), dict | list) else []
    small_values = (
        value for value in (*whole, *_list_values(document, holder)) if is_small(value, _MAX_MEDIA_SIZE)
    )
    return [value for value, _ in zip(small_values, range(1), strict=False)]


def _list_values(document: OpenApiDocument, holder: Json) -> Iterator[Any]:
    if isinstance(holder.get("example"), str | int | float):
        yield holder["example"]
    listed = holder.get("examples")
    if isinstance(listed, list):
        # As in a schema, which the specification does not allow here.
        yield from listed
    for name, example in listed.items() if isinstance(listed, dict) else ():
        try:
            node = document.references.follow(example, location=f"/examples/{escape_token(str(name))}").node
        except RefProblem:
            continue
        for key in ("dataValue", "value"):
            if isinstance(node, dict) and key in node:
                yield node[key]
                break
