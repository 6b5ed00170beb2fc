"""Schema and value -> form. The work is bounded, whatever the schema is; what is beyond becomes JSON text."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from app.console.forms.schema_form import controls
from app.console.forms.schema_form.fields import (
    ArrayField,
    ChoiceField,
    ChoicesField,
    Field,
    FormView,
    JsonField,
    ObjectField,
    Option,
    Row,
    Submission,
    TextField,
    UnionField,
)  # fmt: skip
from app.console.forms.schema_form.shapes import (
    Schema,
    Shape,
    Shapes,
    compact,
    type_text,
)
from app.core.text import pointer as pointer_of

ROOT: Final = "#"
"""The name of the root, whose JSON pointer is empty: a control without a name is not submitted."""
MAX_FIELDS: Final = 400
MAX_DEPTH: Final = 10
MAX_ITEMS: Final = 100
_EAGER_DEPTH: Final = 2
"""Levels at which optional objects without a value show their members, and not only a button."""
_EAGER_MEMBERS: Final = 12
_SIMPLE: Final = frozenset({"string", "number", "integer", "choice", "choices", "any"})
_MAX_TEXT: Final = 2_000
_ABSENT: Final = object()


def build(
    schema: Mapping[str, Any],
    value: Any = None,
    errors: Iterable[Mapping[str, Any]] = (),
    submission: Submission | None = None,
    *,
    prefix: str = "f",
    gettext: controls.Gettext = str,
) -> FormView:
    """Return the form of a schema with a JSON value in it; None is a form that is not filled in.

    `errors` are the field errors of the API, each with `pointer` and `detail`. `submission` is what was
    parsed before, where the form is shown again: its texts that cannot be read, and chosen alternatives.
    `prefix` begins the ids of elements; `gettext` returns messages in the language of the page.
    """
    found = submission or Submission(None)
    builder = _Builder(Shapes(schema), found, prefix, gettext)
    root = builder.node(
        schema, _ABSENT if value is None else value, ROOT, "", _Place(required=True, must=True)
    )
    rest = _place_errors(root, [*found.errors, *errors])
    return FormView(root, rest, builder.has_files, builder.count)


class _Place:
    """Where a field stands: in an object (`is_item` is False) or as an item, row or root."""

    __slots__ = ("depth", "is_item", "key", "must", "removable", "required")

    def __init__(
        self, *, key: str = "", required: bool = False, must: bool = False, depth: int = 0,
        is_item: bool = False, removable: bool = False,
    ) -> None:  # fmt: skip
        self.key = key
        self.required = required
        self.must = must
        self.depth = depth
        self.is_item = is_item
        self.removable = removable


class _Builder:
    def __init__(
        self, shapes: Shapes, submission: Submission, prefix: str, gettext: controls.Gettext
    ) -> None:
        self._gettext = gettext
        self._shapes = shapes
        self._texts = submission.texts
        self._branches = submission.branches
        self._prefix = prefix
        self.count = 0
        self.has_files = False

    def node(self, schema: Any, value: Any, name: str, pointer: str, place: _Place) -> Field:
        """Return the field of a value."""
        shape = self._shapes.of(schema)
        common = self._build_common(shape, name, pointer, place)
        if pointer in self._texts and shape.kind != "any":
            return JsonField(**common, text=self._texts[pointer])
        if self.count > MAX_FIELDS or place.depth > MAX_DEPTH:
            return self._build_json(common, value)
        match shape.kind:
            case "string" | "number" | "integer" | "any":
                return self._build_text(shape, value, common, place)
            case "choice":
                return self._build_choice(shape, value, common, place)
            case "choices":
                return self._build_choices(shape, value, common, place)
            case "array":
                return self._build_array(shape, value, common, place)
            case "object":
                return self._build_object(shape, value, common, place)
            case _:
                return self._build_union(shape, value, common, place)

    def _build_common(self, shape: Shape, name: str, pointer: str, place: _Place) -> dict[str, Any]:
        """Return what all fields have, as arguments of their classes."""
        self.count += 1
        schema = shape.schema
        title, description = schema.get("title"), schema.get("description")
        says_more = isinstance(title, str) and _reduce_to_letters(title) != _reduce_to_letters(place.key)
        return {
            "name": name,
            "pointer": pointer,
            "id": f"{self._prefix}{self.count}",
            "label": place.key,
            "title": str(title)[:200] if says_more else "",
            "description": description[:_MAX_TEXT] if isinstance(description, str) else "",
            "type_text": type_text(shape, self._shapes),
            "required": place.required,
            "must": place.must and place.required,
            "deprecated": schema.get("deprecated") is True,
            "default": controls.short_text(schema["default"]) if schema.get("default") is not None else None,
            "limits": controls.limits_of(shape, self._gettext),
            "removable": place.removable,
        }

    @staticmethod
    def _build_json(common: dict[str, Any], value: Any) -> JsonField:
        return JsonField(**common, text="" if value is _ABSENT else controls.json_text(value))

    def _build_text(self, shape: Shape, value: Any, common: dict[str, Any], place: _Place) -> Field:
        special, specials = _list_specials(shape, value, place)
        text = ""
        if common["pointer"] in self._texts:
            text = self._texts[common["pointer"]]
        elif isinstance(value, dict | list):
            return self._build_json(common, value)
        elif value is not _ABSENT and not special and not (value is None and _is_blank(shape, place)):
            text = controls.scalar_text(shape, value)
            if not controls.reads_as(shape, text, value) or (not text and not place.is_item):
                return self._build_json(common, value)
        control, shown = controls.control_type(shape, place.key, text)
        takes_file = shape.kind == "string" and controls.is_binary(shape.schema)
        self.has_files = self.has_files or takes_file
        examples = shape.schema.get("examples")
        example = examples[0] if isinstance(examples, list) and examples else shape.schema.get("default")
        return TextField(
            **common,
            special=special,
            specials=specials,
            control=control,
            text=shown,
            placeholder=""
            if example is None or isinstance(example, dict | list)
            else controls.short_text(example),
            attributes=controls.validation_attributes(shape, control),
            suffix="UTC" if control == "datetime-local" else "",
            takes_file=takes_file,
        )

    def _build_choice(self, shape: Shape, value: Any, common: dict[str, Any], place: _Place) -> Field:
        chosen = None if value is _ABSENT else shape.option(value)
        is_blank = value is _ABSENT or (value is None and chosen is None and place.is_item)
        if chosen is None and not is_blank:
            return self._build_json(common, value)
        blank = is_blank or not place.required
        if len(shape.choices) == 1 and place.required and is_blank:
            blank, chosen = False, compact(shape.choices[0][0])
        options = tuple(
            Option(compact(one), label[:200], compact(one) == chosen) for one, label in shape.choices
        )
        return ChoiceField(**common, options=options, blank=blank)

    def _build_choices(self, shape: Shape, value: Any, common: dict[str, Any], place: _Place) -> Field:
        special, specials = _list_specials(shape, value, place)
        given = value if isinstance(value, list) else []
        options = [shape.option(one) for one in given]
        known = [compact(one) for one, _ in shape.choices]
        if value is not _ABSENT and not special and not isinstance(value, list):
            return self._build_json(common, value)
        if options != [one for one in known if one in options] or len(set(known)) != len(known):
            # Another order, an item twice, or another value: checkboxes could not say it.
            return self._build_array(shape, value, common, place, as_items=True)
        self.count += len(known) // 4
        shown = tuple(
            Option(compact(one), label[:200], compact(one) in options) for one, label in shape.choices
        )
        return ChoicesField(**common, special=special, specials=specials, options=shown)

    def _build_array(
        self, shape: Shape, value: Any, common: dict[str, Any], place: _Place, *, as_items: bool = False
    ) -> Field:
        special, specials = _list_specials(shape, value, place)
        given = value if isinstance(value, list) else []
        if (value is not _ABSENT and not special and not isinstance(value, list)) or len(given) > MAX_ITEMS:
            return self._build_json(common, value)
        name = common["name"]
        items = [
            self.node(
                item_schema(shape.schema, index),
                item,
                child_name(name, index),
                pointer_of(common["pointer"], index),
                _Place(key=str(index + 1), depth=place.depth + 1, is_item=True, removable=True),
            )
            for index, item in enumerate(given)
        ]
        longest = shape.schema.get("maxItems")
        can_add = not (isinstance(longest, int) and len(items) >= longest)
        return ArrayField(
            **common, special=special, specials=specials, items=items, can_add=can_add, as_items=as_items
        )

    def _build_object(self, shape: Shape, value: Any, common: dict[str, Any], place: _Place) -> Field:
        special, specials = _list_specials(shape, value, place)
        given = value if isinstance(value, dict) else {}
        if value is not _ABSENT and not special and not isinstance(value, dict):
            return self._build_json(common, value)
        members = _list_members(shape.schema)
        is_present = value is not _ABSENT or place.required or place.is_item
        field = ObjectField(**common, special=special, specials=specials, is_open=is_present)
        if not is_present and (
            place.depth > _EAGER_DEPTH
            or len(members) > _EAGER_MEMBERS
            or self.count + len(members) > MAX_FIELDS // 2
        ):
            field.is_offered = True
            return field
        field.is_given = isinstance(value, dict) and bool(value) and not place.required and not place.is_item
        field.removable = field.removable or (value is not _ABSENT and not place.required and place.depth > 0)
        rest = self._build_declared(field, members, given, place, must=place.must and is_present)
        self._build_rows(field, shape.schema, rest, place)
        return field

    def _build_declared(
        self, field: ObjectField, members: dict[str, Any], given: dict[str, Any], place: _Place, *, must: bool
    ) -> dict[str, Any]:
        """Add the fields of declared members; return the members of the value that have none."""
        required = members.required  # type: ignore[attr-defined]
        names = sorted(members, key=lambda name: name not in required)
        rest = {key: member for key, member in given.items() if key not in members}
        for name in names:
            is_given = name in given
            if not controls.is_name(name) or self.count >= MAX_FIELDS:
                field.omitted += 1
                if is_given:
                    rest[name] = given[name]
                continue
            here = _Place(
                key=name, required=name in required, must=must and name in required, depth=place.depth + 1
            )
            value = given[name] if is_given else _ABSENT
            field.members.append(
                self.node(
                    members[name], value, child_name(field.name, name), pointer_of(field.pointer, name), here
                )
            )
        return rest

    def _build_rows(self, field: ObjectField, schema: Schema, rest: dict[str, Any], place: _Place) -> None:
        """Add the rows of free members, or all of them as JSON where that is not possible."""
        free = free_members(schema)
        is_offered = free is not None and place.depth < MAX_DEPTH
        has_rows = all(controls.is_name(key) and key.strip() == key != "" for key in rest)
        text = self._texts.get(field.pointer + REST)
        if (
            not has_rows
            or field.omitted
            or len(rest) > MAX_ITEMS
            or self.count > MAX_FIELDS
            or text is not None
        ):
            field.rest = text if text is not None else controls.json_text(rest) if rest else ""
            return
        field.can_add_rows = is_offered
        shown = [*rest.items(), *([("", _ABSENT)] if is_offered else [])]
        for index, (key, value) in enumerate(shown):
            name = row_name(field.name, index)
            pointer = pointer_of(field.pointer, key) if key else row_name(field.pointer, index)
            row = Row(key=key, name=name, id=f"{field.id}-key{index}")
            if key or self._shapes.of(free).kind in _SIMPLE:
                inner = _Place(depth=place.depth + 1, is_item=True)
                row.value = self.node({} if free is None else free, value, name, pointer, inner)
                row.value.label = key
            field.rows.append(row)

    def _build_union(self, shape: Shape, value: Any, common: dict[str, Any], place: _Place) -> Field:
        index = self._branches.get(common["pointer"])
        if index is None or not 0 <= index < len(shape.branches):
            index = None if value is _ABSENT else best_branch(shape, value, self._shapes)
        if index is None and place.required:
            index = 0
        chosen = None
        if index is not None:
            here = _Place(
                key=place.key, required=True, must=place.must, depth=place.depth + 1, is_item=place.is_item
            )
            chosen = self.node(shape.branches[index].schema, value, common["name"], common["pointer"], here)
        options = tuple(
            Option(str(at), branch.label, at == index) for at, branch in enumerate(shape.branches)
        )
        return UnionField(**common, options=options, blank=not place.required, chosen=chosen)


_LEAST_KEYWORDS: Final = {
    "array": "minItems", "choices": "minItems", "object": "minProperties", "string": "minLength",
}  # fmt: skip
REST: Final = "~rest"
"""Stands behind the pointer of an object for the text of its other members; `~r` is in no pointer."""


def child_name(name: str, key: str | int) -> str:
    """Return the name of the control of a member or item."""
    return pointer_of("" if name == ROOT else name, key)


def row_name(name: str, index: int) -> str:
    """Return the name of the value of a row; no member's pointer has this form."""
    return f"{'' if name == ROOT else name}/~row{index}"


def item_schema(schema: Schema, index: int) -> Any:
    """Return the schema of an item."""
    first = schema.get("prefixItems")
    if isinstance(first, list) and index < len(first):
        return first[index]
    return schema.get("items", {})


def free_members(schema: Schema) -> Any:
    """Return the schema of members that are not declared; None where none are to be added."""
    free = schema.get("additionalProperties")
    patterns = schema.get("patternProperties")
    if isinstance(patterns, dict) and patterns:
        return next(iter(patterns.values())) if len(patterns) == 1 and free is False else {}
    if isinstance(free, dict):
        return None if free == {"not": {}} else free
    if free is None:
        return None if schema.get("properties") else {}
    return {} if free is True else None


def best_branch(shape: Shape, value: Any, shapes: Shapes) -> int:
    """Return the alternative that a value fits best, by its type, constants and members."""
    scores = [_score(shapes.of(branch.schema), value, shapes) for branch in shape.branches]
    return max(range(len(scores)), key=scores.__getitem__)


def _score(shape: Shape, value: Any, shapes: Shapes) -> float:
    match shape.kind, value:
        case "choice", _:
            return 3 if shape.option(value) is not None else 0
        case "any", _:
            return 0.5
        case ("string", str()) | ("array" | "choices", list()):
            return 2
        case ("number" | "integer", int() | float()) if not isinstance(value, bool):
            is_whole = isinstance(value, int) or value == int(value)
            return 2 if shape.kind == "number" or is_whole else 0.5
        case "object", dict():
            members = _list_members(shape.schema)
            score = 2.0
            for name in members.required:
                score += 0.5 if name in value else -1
            for name, member in value.items():
                if name not in members:
                    score -= 0.25
                    continue
                fixed = shapes.merged(members[name])
                if "const" in fixed:
                    score += 2 if fixed["const"] == member else -2
                elif isinstance(fixed.get("enum"), list):
                    score += 1 if member in fixed["enum"] else -1
            return max(score, 0.75)
    return 1 if shape.nullable and value is None else 0


class _Members(dict[str, Any]):
    """The declared members of an object; `required` are the names of those that it must have."""

    required: frozenset[str] = frozenset()


def _list_members(schema: Schema) -> _Members:
    declared = schema.get("properties")
    declared_members = _Members(declared if isinstance(declared, dict) else {})
    required = schema.get("required")
    declared_members.required = frozenset(
        name
        for name in (required if isinstance(required, list) else ())
        if isinstance(name, str) and name in declared_members
    )
    return declared_members


def _reduce_to_letters(text: str) -> str:
    """Return what a name and a title made of it have in common: `Book Id` is made of `book_id`."""
    return re.sub(r"[\W_]", "", text).casefold()


def _list_specials(shape: Shape, value: Any, place: _Place) -> tuple[str, tuple[str, ...]]:
    """Return what a field states in place of its control, and what it could."""
    possible: list[str] = []
    least = shape.schema.get(_LEAST_KEYWORDS.get(shape.kind, ""))
    can_be_empty = (
        shape.kind in ("array", "choices")
        or (shape.kind == "object" and not place.required and not place.is_item)
        or (shape.kind == "string" and not place.is_item)
    )
    if can_be_empty and (not least or value in ("", [], {})):
        possible.append("empty")
    if shape.nullable:
        possible.append("null")
    stated = ""
    if value is None and "null" in possible:
        stated = "null"
    elif isinstance(value, str | list | dict) and not value and "empty" in possible:
        kinds = {"string": str, "array": list, "choices": list, "object": dict}
        stated = "empty" if isinstance(value, kinds.get(shape.kind, type(None))) else ""
    return stated, tuple(possible)


def _is_blank(shape: Shape, place: _Place) -> bool:
    """Return whether an empty control of an item stands for null: a number that was not typed yet."""
    return place.is_item and shape.kind in ("number", "integer")


def _place_errors(root: Field, errors: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Add errors to the fields at their pointers, or to the nearest ones around; return those of no field."""
    targets: dict[str, list[str]] = {}
    _collect(root, targets)
    rest = []
    for error in errors:
        pointer, detail = str(error.get("pointer", "")), str(error.get("detail", ""))
        place = pointer
        while place and place not in targets:
            place = place.rpartition("/")[0]
        if place and place in targets:
            targets[place].append(detail if place == pointer else f"{pointer.removeprefix(place)}: {detail}")
        else:
            rest.append((pointer, detail))
    return rest


def _collect(field: Field, targets: dict[str, list[str]]) -> None:
    targets.setdefault(field.pointer, field.errors)
    if isinstance(field, ObjectField):
        targets[field.pointer + REST] = field.rest_errors
        for member in field.members:
            _collect(member, targets)
        for row in field.rows:
            if row.value is not None:
                _collect(row.value, targets)
    elif isinstance(field, ArrayField):
        for item in field.items:
            _collect(item, targets)
    elif isinstance(field, UnionField) and field.chosen is not None:
        # The errors are shown once, at the fields of the alternative.
        targets.pop(field.pointer, None)
        _collect(field.chosen, targets)
