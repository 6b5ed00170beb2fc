"""Submitted controls -> JSON value: the inverse of `builder`.

Names of controls, where P is the name of a field (its JSON pointer, `#` for the root):

    P           text of a value; of choices and checkboxes JSON text
    file:P      a file, which becomes base64
    has:P       the value has this object, though it need not
    is:P        `empty` or `null` in place of what P has
    as:P        `json`: P is JSON text; `items`: a list that is no checkboxes
    branch:P    index of the alternative of a union
    item:P      once for each item: its index in the name P/INDEX
    key:P       the key of a row; P is OBJECT/~rowN
    rest:P      other members of an object, as the text of a JSON object
    add:P  remove:P  update:P   buttons, which change the form
"""

import base64
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from app.console.forms.schema_form import controls
from app.console.forms.schema_form.builder import (
    MAX_DEPTH,
    REST,
    ROOT,
    child_name,
    free_members,
    item_schema,
)  # fmt: skip
from app.console.forms.schema_form.fields import Submission
from app.console.forms.schema_form.shapes import Shape, Shapes
from app.core.text import pointer as pointer_of

_BUTTONS: Final = ("add:", "remove:", "update:")
_PREFIXES: Final = (*_BUTTONS, "file:", "has:", "is:", "as:", "branch:", "item:", "key:", "rest:")
_INDEX: Final = re.compile(r"[0-9]{1,6}", re.ASCII)
_ROW: Final = re.compile(r"(.*)/~row([0-9]{1,6})", re.DOTALL | re.ASCII)
_MAX_CONTROLS: Final = 20_000
_MAX_LEVELS: Final = 8 * MAX_DEPTH
_ABSENT: Final = object()


def _(message: str) -> str:
    """Mark a message for translation."""
    return message


def parse(
    items: Iterable[tuple[str, str | bytes]], schema: Mapping[str, Any], gettext: controls.Gettext = str
) -> Submission:
    """Return the JSON value that the controls of a form stand for; files are given as bytes.

    `gettext` returns messages in the language of the page. It never raises: what cannot be read is among the
    errors, and is left out of the value.
    """
    return _Parser(items, schema, gettext).submission()


class _Parser:
    def __init__(
        self, items: Iterable[tuple[str, str | bytes]], schema: Mapping[str, Any], gettext: controls.Gettext
    ) -> None:
        self._gettext = gettext
        self._schema = schema
        self._shapes = Shapes(schema)
        self._given: dict[str, list[str | bytes]] = {}
        self._inner: set[str] = set()
        self._rows: dict[str, list[int]] = {}
        self.errors: list[dict[str, str]] = []
        self.texts: dict[str, str] = {}
        self.branches: dict[str, int] = {}
        self.is_edit = False
        # How often something was stated that a form does not state by itself, as it does required constants.
        self._statements = 0
        for count, (name, value) in enumerate(items):
            if count >= _MAX_CONTROLS:
                break
            if name.count("/") > _MAX_LEVELS:
                # Such a field is in no form; the names of all above it would take memory without limit.
                continue
            self._given.setdefault(name, []).append(value)
            self._note(name)

    def _note(self, name: str) -> None:
        """Note which fields have controls below them, and rows."""
        prefix, colon, rest = name.partition(":")
        # A pointer begins with `/`, so a prefix is none.
        pointer = rest if colon and prefix + colon in _PREFIXES else name
        self.is_edit = self.is_edit or (pointer != name and prefix + colon in _BUTTONS)
        row = _ROW.fullmatch(pointer) if prefix == "key" else None
        if row is not None:
            self._rows.setdefault(row[1] or ROOT, []).append(int(row[2]))
        while pointer and pointer not in self._inner:
            self._inner.add(pointer)
            pointer = pointer.rpartition("/")[0] if "/" in pointer else ""

    def submission(self) -> Submission:
        value = self._parse_node(self._schema, ROOT, "", required=True, is_item=False, depth=0)
        return Submission(
            {} if value is _ABSENT else value,
            tuple(self.errors),
            self.texts,
            self.branches,
            self.is_edit,
        )

    def _read_text(self, name: str) -> str:
        value = self._given.get(name, [""])[-1]
        return value if isinstance(value, str) else ""

    def _read_texts(self, name: str) -> list[str]:
        return [value for value in self._given.get(name, ()) if isinstance(value, str)]

    def _fail(self, pointer: str, detail: str, text: str | None = None) -> None:
        self.errors.append({"pointer": pointer, "detail": detail})
        if text is not None:
            self.texts[pointer] = text

    def _parse_node(
        self, schema: Any, name: str, pointer: str, *, required: bool, is_item: bool, depth: int
    ) -> Any:
        """Return the value of a field, _ABSENT where nothing is stated."""
        if depth > 4 * MAX_DEPTH:
            return _ABSENT
        shape = self._shapes.of(schema)
        if "remove:" + name in self._given and not is_item:
            return _ABSENT
        is_changed = "update:" + name in self._given
        if shape.kind == "union":
            return self._parse_union(shape, name, pointer, required=required, is_item=is_item, depth=depth)
        if self._read_text("as:" + name) == "json" and not is_changed:
            return self._parse_json(name, pointer, is_item=is_item)
        special = self._read_text("is:" + name)
        self._statements += bool(special)
        value = self._parse_stated(
            shape, name, pointer, special, must=required or is_item, is_item=is_item, depth=depth
        )
        # What somebody typed precedes a null that was chosen before.
        is_empty = value is _ABSENT or (is_item and not value) or value in ({}, [])
        return None if special == "null" and is_empty else value

    def _parse_stated(
        self, shape: Shape, name: str, pointer: str, special: str, *, must: bool, is_item: bool, depth: int
    ) -> Any:
        """Return what the control of a field states, or those of its members."""
        match shape.kind:
            case "string" | "number" | "integer" | "any":
                return self._parse_scalar(shape, name, pointer, special, is_item=is_item)
            case "choice":
                return self._parse_choice(name, is_item=is_item, is_fixed=must and len(shape.choices) == 1)
            case "choices" if self._read_text("as:" + name) != "items":
                return self._parse_choices(name, special, is_item=is_item)
            case "array" | "choices":
                return self._parse_array(shape, name, pointer, special, is_item=is_item, depth=depth)
            case _:
                return self._parse_object(shape, name, pointer, special, required=must, depth=depth)

    def _parse_json(self, name: str, pointer: str, *, is_item: bool) -> Any:
        text = self._read_text(name)
        if not text.strip():
            return None if is_item else _ABSENT
        self._statements += 1
        try:
            return controls.read_json(text)
        except controls.Unreadable as error:
            self._fail(pointer, error.text(self._gettext), text)
            return None if is_item else _ABSENT

    def _parse_scalar(self, shape: Shape, name: str, pointer: str, special: str, *, is_item: bool) -> Any:
        file = next(
            (one for one in self._given.get("file:" + name, ()) if isinstance(one, bytes) and one), None
        )
        if file is not None:
            self._statements += 1
            return base64.b64encode(file).decode()
        text = self._read_text(name)
        if not text:
            if special == "empty":
                return ""
            if not is_item:
                return _ABSENT
            return None if shape.kind in ("number", "integer") else ""
        self._statements += 1
        try:
            return controls.read_scalar(shape, text)
        except controls.Unreadable as error:
            self._fail(pointer, error.text(self._gettext), text)
            return None if is_item else _ABSENT

    def _parse_choice(self, name: str, *, is_item: bool, is_fixed: bool) -> Any:
        text = self._read_text(name)
        if not text:
            return None if is_item else _ABSENT
        self._statements += not is_fixed
        return self._read_value(text)

    def _read_value(self, text: str) -> Any:
        """Return the value of an option; a text that is no JSON, as in a link made by hand, is itself."""
        try:
            return controls.read_json(text)
        except controls.Unreadable:
            return text

    def _parse_choices(self, name: str, special: str, *, is_item: bool) -> Any:
        chosen = [self._read_value(text) for text in self._read_texts(name)]
        self._statements += bool(chosen)
        return chosen if chosen or special == "empty" or is_item else _ABSENT

    def _parse_array(
        self, shape: Shape, name: str, pointer: str, special: str, *, is_item: bool, depth: int
    ) -> Any:
        indices = [int(text) for text in self._read_texts("item:" + name) if _INDEX.fullmatch(text)]
        items: list[Any] = []
        for index in dict.fromkeys(indices):
            item_name = child_name(name, index)
            if "remove:" + item_name in self._given:
                continue
            schema = item_schema(shape.schema, index)
            place = pointer_of(pointer, len(items))
            value = self._parse_node(schema, item_name, place, required=True, is_item=True, depth=depth + 1)
            items.append(None if value is _ABSENT else value)
        if "add:" + name in self._given:
            items.append(self._build_blank(item_schema(shape.schema, len(items))))
        self._statements += bool(items)
        return items if items or special == "empty" or is_item else _ABSENT

    def _build_blank(self, schema: Any) -> Any:
        """Return the value of an item that is to be filled in."""
        shape = self._shapes.of(schema)
        if shape.kind == "choice" and len(shape.choices) == 1:
            return shape.choices[0][0]
        if shape.kind == "union":
            first = self._shapes.of(shape.branches[0].schema)
            shape = first if first.kind != "union" else shape
        return {"string": "", "any": "", "object": {}, "array": [], "choices": []}.get(shape.kind)

    def _parse_object(
        self, shape: Shape, name: str, pointer: str, special: str, *, required: bool, depth: int
    ) -> Any:
        members: dict[str, Any] = {}
        before = self._statements
        declared = shape.schema.get("properties")
        names = declared if isinstance(declared, dict) else {}
        listed = shape.schema.get("required")
        must = frozenset(one for one in listed if isinstance(one, str)) if isinstance(listed, list) else ()
        for key, member in names.items():
            member_name = child_name(name, key)
            if member_name in self._inner:
                value = self._parse_node(
                    member,
                    member_name,
                    pointer_of(pointer, key),
                    required=key in must,
                    is_item=False,
                    depth=depth + 1,
                )
                if value is not _ABSENT:
                    members[key] = value
        self._add_rows(shape, name, pointer, members, depth)
        self._add_rest(name, pointer, members)
        is_given = "has:" + name in self._given or "add:" + name in self._given
        self._statements += is_given
        return members if required or special == "empty" or self._statements > before else _ABSENT

    def _add_rows(self, shape: Shape, name: str, pointer: str, members: dict[str, Any], depth: int) -> None:
        free = free_members(shape.schema)
        for index in dict.fromkeys(self._rows.get(name, ())):
            row = f"{'' if name == ROOT else name}/~row{index}"
            key = self._read_text("key:" + row)
            if "remove:" + row in self._given:
                continue
            if not key:
                if self._read_text(row).strip():
                    self._fail(
                        pointer, self._gettext(_("A member without a name was left out: give it a name."))
                    )
                continue
            self._statements += 1
            if key in members:
                self._fail(pointer_of(pointer, key), self._gettext(_("There are two members of this name.")))
                continue
            value = self._parse_node(
                {} if free is None else free,
                row,
                pointer_of(pointer, key),
                required=True,
                is_item=True,
                depth=depth + 1,
            )
            members[key] = None if value is _ABSENT else value

    def _add_rest(self, name: str, pointer: str, values: dict[str, Any]) -> None:
        text = self._read_text("rest:" + name)
        if not text.strip():
            return
        self._statements += 1
        try:
            members = controls.read_json(text)
        except controls.Unreadable as error:
            self._fail(pointer + REST, error.text(self._gettext), text)
            return
        if not isinstance(members, dict):
            self._fail(pointer + REST, self._gettext(_("Give a JSON object with the other members.")), text)
            return
        twice = members.keys() & values.keys()
        if twice:
            detail = self._gettext(_("This member has a field of its own: %(name)s."))
            self._fail(pointer + REST, detail % {"name": min(twice)}, text)
            return
        values |= members

    def _parse_union(
        self, shape: Shape, name: str, pointer: str, *, required: bool, is_item: bool, depth: int
    ) -> Any:
        text = self._read_text("branch:" + name)
        is_changed = "update:" + name in self._given
        if not _INDEX.fullmatch(text) or int(text) >= len(shape.branches):
            if self._read_text("as:" + name) == "json":
                return self._parse_json(name, pointer, is_item=is_item)
            return self._build_blank(shape.branches[0].schema) if is_item else _ABSENT
        index = int(text)
        self.branches[pointer] = index
        self._statements += not required or is_changed
        if self._read_text("as:" + name) == "json":
            value = _ABSENT if is_changed else self._parse_json(name, pointer, is_item=is_item)
            if value is _ABSENT and is_item:
                return self._build_blank(shape.branches[index].schema)
            return value
        return self._parse_node(
            shape.branches[index].schema, name, pointer, required=True, is_item=is_item, depth=depth + 1
        )
