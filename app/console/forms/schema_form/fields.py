"""The fields of a form: what `builder` makes of a schema and a value, and `templates/schema_form.html` shows.

`name` is the name of the field's control; `pointer` is the JSON pointer of its value, which differs from the
name only in rows of free members, whose keys are typed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar


@dataclass(kw_only=True, slots=True)
class Field:
    """What all fields have. `must` says that the browser may ask for a value: no ancestor can be left out."""

    kind: ClassVar[str] = ""
    name: str
    pointer: str
    id: str
    label: str = ""
    title: str = ""
    description: str = ""
    type_text: str = ""
    """The type in the words of JSON Schema, e.g. `integer` or `array of string`."""
    required: bool = False
    must: bool = False
    deprecated: bool = False
    default: str | None = None
    """The default of the schema as text; None without one."""
    limits: tuple[str, ...] = ()
    """What else the schema demands, e.g. `1 to 100`, `pattern ^[a-z]+$`."""
    errors: list[str] = field(default_factory=list)
    special: str = ""
    """What the field states in place of its control: `""`, `empty` or `null`."""
    specials: tuple[str, ...] = ()
    """What it could state so."""
    removable: bool = False
    """Whether a button removes it: an item, a row, or an object that was added."""


@dataclass(kw_only=True, slots=True)
class TextField(Field):
    """One line or several of text, a number, a date, or bytes; `control` is the type of the input."""

    kind: ClassVar[str] = "text"
    control: str = "text"
    text: str = ""
    placeholder: str = ""
    attributes: tuple[tuple[str, str], ...] = ()
    """Attributes of HTML validation."""
    suffix: str = ""
    """What is written behind the control, e.g. `UTC`."""
    takes_file: bool = False
    as_kind: str = ""
    """How the control is read where that does not follow from the schema."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a choice: `value` is JSON text."""

    value: str
    label: str
    selected: bool = False


@dataclass(kw_only=True, slots=True)
class ChoiceField(Field):
    """One of some values: an enum, a boolean, a constant. Without `blank` one of them is always chosen."""

    kind: ClassVar[str] = "choice"
    options: tuple[Option, ...] = ()
    blank: bool = True


@dataclass(kw_only=True, slots=True)
class ChoicesField(Field):
    """Several of some values, as checkboxes."""

    kind: ClassVar[str] = "choices"
    options: tuple[Option, ...] = ()


@dataclass(kw_only=True, slots=True)
class ArrayField(Field):
    """Items, with buttons that add and remove them. `as_items` where the schema would be checkboxes."""

    kind: ClassVar[str] = "array"
    items: list[Field] = field(default_factory=list)
    can_add: bool = True
    as_items: bool = False


@dataclass(kw_only=True, slots=True)
class Row:
    """A free member of an object: its key is a control, too. An empty row may have no field for the value."""

    key: str
    name: str
    id: str
    value: Field | None = None


@dataclass(kw_only=True, slots=True)
class ObjectField(Field):
    """Members: declared ones as fields, free ones as rows, and the `rest` as the text of a JSON object.

    `is_open` is False where it can be folded away: an optional object without a value. `is_offered` means
    that only a button is shown, which adds it.
    """

    kind: ClassVar[str] = "object"
    members: list[Field] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    can_add_rows: bool = False
    rest: str | None = None
    rest_errors: list[str] = field(default_factory=list)
    omitted: int = 0
    """How many members of the schema have no field, because there are too many."""
    is_open: bool = True
    is_given: bool = False
    """Whether the value has it although it need not: it stays there when its members are emptied."""
    is_offered: bool = False


@dataclass(kw_only=True, slots=True)
class UnionField(Field):
    """Alternatives, of which one is chosen; `chosen` has the fields of that one, None before a choice."""

    kind: ClassVar[str] = "union"
    options: tuple[Option, ...] = ()
    blank: bool = True
    chosen: Field | None = None


@dataclass(kw_only=True, slots=True)
class JsonField(Field):
    """A value as the text of JSON: for what no other field can show."""

    kind: ClassVar[str] = "json"
    text: str = ""


@dataclass(frozen=True, slots=True)
class FormView:
    """A form. `errors` are those of no field; `has_files` demands `multipart/form-data`."""

    root: Field
    errors: Sequence[tuple[str, str]]
    has_files: bool
    field_count: int


@dataclass(frozen=True, slots=True)
class Submission:
    """What was submitted: the JSON `value`, and what is needed to show the form again.

    `errors` are texts that cannot be read (pointer and detail), `texts` what was typed there, by pointer;
    `branches` are the chosen alternatives by pointer. `is_edit` says that a button has only changed the form.
    """

    value: Any
    errors: tuple[dict[str, str], ...] = ()
    texts: dict[str, str] = field(default_factory=dict)
    branches: dict[str, int] = field(default_factory=dict)
    is_edit: bool = False
