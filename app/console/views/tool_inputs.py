"""The inputs and outputs of a tool as rows of a table: one for each member, nested ones indented."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from app.console.forms.schema_form import controls
from app.console.forms.schema_form.controls import Gettext
from app.console.forms.schema_form.shapes import Shapes, type_text

MAX_ROWS: Final = 300
_MAX_DEPTH: Final = 5
_MAX_VALUES: Final = 12


@dataclass(frozen=True, slots=True)
class InputRow:
    """A member: `path` are the names that lead to it, of which the last one is its own."""

    path: tuple[str, ...]
    type_text: str
    required: bool
    description: str
    limits: tuple[str, ...]
    default: str | None
    deprecated: bool

    @property
    def depth(self) -> int:
        """Levels above it."""
        return len(self.path) - 1


def input_rows(schema: Mapping[str, Any], gettext: Gettext) -> list[InputRow]:
    """Return the rows of a schema, at most 300 and five levels deep; a recursion is not followed."""
    shapes = Shapes(schema)
    rows: list[InputRow] = []
    for row in _list_rows(shapes, schema, (), (), gettext):
        rows.append(row)
        if len(rows) >= MAX_ROWS:
            break
    return rows


def _list_rows(
    shapes: Shapes, schema: Any, path: tuple[str, ...], above: tuple[int, ...], gettext: Gettext
) -> Iterator[InputRow]:
    node = shapes.merged(schema)
    properties = node.get("properties")
    if isinstance(properties, dict):
        required = node.get("required")
        listed = required if isinstance(required, list) else []
        names = frozenset(name_of_member for name_of_member in listed if isinstance(name_of_member, str))
        for name in sorted(properties, key=lambda name_of_member: name_of_member not in names):
            member = properties[name]
            yield _build_row(shapes, member, (*path, name), gettext, required=name in names)
            if len(path) < _MAX_DEPTH - 1 and id(member) not in above:
                yield from _list_rows(shapes, member, (*path, name), (*above, id(member)), gettext)
    items = node.get("items")
    if isinstance(items, dict) and path and len(path) < _MAX_DEPTH and id(items) not in above:
        yield from _list_rows(shapes, items, (*path[:-1], path[-1] + "[]"), (*above, id(items)), gettext)


def _build_row(
    shapes: Shapes, member: Any, path: tuple[str, ...], gettext: Gettext, *, required: bool
) -> InputRow:
    shape = shapes.of(member)
    schema = shape.schema
    limits = list(controls.limits_of(shape, gettext))
    if shape.kind in ("choice", "choices") and shape.lists_values:
        labels = [label for _, label in shape.choices]
        more = f", … ({len(labels)})" if len(labels) > _MAX_VALUES else ""
        limits.append(", ".join(labels[:_MAX_VALUES]) + more)
    default, description = schema.get("default"), schema.get("description")
    return InputRow(
        path,
        type_text(shape, shapes),
        required,
        description if isinstance(description, str) else "",
        tuple(limits),
        None if default is None else controls.short_text(default),
        schema.get("deprecated") is True,
    )
