"""Texts of controls and the JSON values that they stand for, both ways.

A browser changes texts: line ends become CRLF, `date` and `number` drop what they cannot show, `email` and
`url` drop spaces at the ends. Where the text of a value would not survive that, the field is JSON.
"""

import json
import math
import re
from collections.abc import Callable, Sequence
from datetime import date
from typing import Any, Final, TypeGuard

from app.console.forms.schema_form.html_pattern import html_pattern
from app.console.forms.schema_form.shapes import Schema, Shape

_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?", re.ASCII)
_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)", re.ASCII)
_LOCAL_TIME: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2})(:[0-9]{2})?", re.ASCII)
_UTC_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", re.ASCII)
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_JSON_START: Final = frozenset('{["-0123456789')
_UNSUITABLE_IN_NAMES: Final = re.compile(r'[\x00-\x1f\x7f"\\\u2028\u2029\ud800-\udfff]')
_UNSUITABLE_IN_TEXTS: Final = re.compile("[\x00\r\ud800-\udfff\ufffe\uffff]")
_LONG_TEXTS: Final = frozenset(
    {"body", "text", "content", "contents", "message", "description", "comment", "prompt", "note", "notes",
     "markdown", "html", "source", "code", "sql", "instructions"}
)  # fmt: skip
MAX_NAME: Final = 500
_MAX_NESTING: Final = 200


Gettext = Callable[[str], str]
"""Returns a message in the language of the page."""


class Unreadable(Exception):
    """A text that is no JSON: a message with the values that are put into it."""

    def __init__(self, message: str, **values: Any) -> None:
        super().__init__(message)
        self._message = message
        self._values = values

    def text(self, gettext: Gettext) -> str:
        """Return what is wrong, in the language of the page."""
        return gettext(self._message) % self._values


def _(message: str) -> str:
    """Mark a message for translation."""
    return message


def is_name(key: str) -> bool:
    """Return whether a member's key can be in the name of a control: browsers change some characters."""
    return len(key) <= MAX_NAME and not _UNSUITABLE_IN_NAMES.search(key)


def json_text(value: Any) -> str:
    """Return a value as the text of a JSON field."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return json.dumps(value, indent=2) if _UNSUITABLE_IN_TEXTS.search(text) else text


def read_json(text: str) -> Any:
    """Return the value of JSON text; raise Unreadable. NaN, infinite numbers and repeated names are none."""
    try:
        value = json.loads(
            text, parse_constant=_reject_constant, parse_float=_read_finite, object_pairs_hook=_build_object
        )
    except RecursionError:
        raise Unreadable(_("The JSON is nested too deeply.")) from None
    except json.JSONDecodeError as error:
        raise Unreadable(
            _("This is not JSON: line %(line)s, column %(column)s: %(reason)s."),
            line=error.lineno, column=error.colno, reason=error.msg,
        ) from None  # fmt: skip
    except ValueError as error:
        raise Unreadable(_("This is not JSON: %(reason)s."), reason=error) from None
    if _is_deep(value):
        raise Unreadable(_("The JSON is nested too deeply."))
    return value


def _is_deep(value: Any) -> bool:
    """Return whether a value is nested deeper than what writes JSON can follow."""
    level = [value]
    for _level in range(_MAX_NESTING):
        level = [
            member
            for one in level
            if isinstance(one, dict | list)
            for member in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return True


def read_scalar(shape: Shape, text: str) -> Any:
    """Return the value of the text of a string or number field, or of one without a type.

    A text that is no number stays a text: the API says what is wrong with it. Raise Unreadable for JSON in a
    field without a type.
    """
    if shape.kind == "string":
        text = text.replace("\r\n", "\n")
        local = _LOCAL_TIME.fullmatch(text) if shape.schema.get("format") == "date-time" else None
        return f"{local[1]}{local[2] or ':00'}Z" if local else text
    if shape.kind in ("number", "integer"):
        return _read_number(text.strip())
    return _read_untyped(text)


def reads_as(shape: Shape, text: str, value: Any) -> bool:
    """Return whether the text of a control, as a browser submits it, stands for exactly this value."""
    if _UNSUITABLE_IN_TEXTS.search(text):
        return False
    try:
        read = read_scalar(shape, text)
    except Unreadable:
        return False
    return type(read) is type(value) and bool(read == value)


def scalar_text(shape: Shape, value: Any) -> str:
    """Return the text of a control for a value."""
    if isinstance(value, str):
        if shape.kind == "any" and not reads_as(shape, value, value):
            return json.dumps(value, ensure_ascii=False)
        return value
    return json.dumps(value)


def control_type(shape: Shape, name: str, text: str) -> tuple[str, str]:
    """Return the type of the input for a text, and the text as this input has it."""
    schema = shape.schema
    if shape.kind in ("number", "integer"):
        return ("number" if not text or _NUMBER.fullmatch(text) else "text"), text
    if shape.kind == "any":
        return "textarea", text
    if "\n" in text:
        return "textarea", text
    match schema.get("format"):
        case "password":
            return "password", text
        case "date" if not text or _is_date(text):
            return "date", text
        case "date-time" if not text or (_UTC_TIME.fullmatch(text) and _is_time(text)):
            return "datetime-local", text.removesuffix("Z")
        case "email" if text.isascii() and text == text.strip():
            return "email", text
        case "uri" | "url" if text == text.strip():
            return "url", text
    if is_binary(schema):
        return "textarea", text
    longest = schema.get("maxLength")
    is_short = isinstance(longest, int) and longest <= 300
    if not is_short and "format" not in schema and name.lower() in _LONG_TEXTS:
        return "textarea", text
    return ("textarea" if len(text) > 200 else "text"), text


def short_text(value: Any) -> str:
    """Return a value in at most 80 characters: a text as it is, anything else as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:79] + "…"


def is_binary(schema: Schema) -> bool:
    """Return whether a text is bytes in base64."""
    return schema.get("contentEncoding") == "base64" or schema.get("format") in ("byte", "binary")


def validation_attributes(shape: Shape, control: str) -> tuple[tuple[str, str], ...]:
    """Return the attributes of HTML validation for an input."""
    schema = shape.schema
    attributes: dict[str, str] = {}
    if control == "number":
        attributes = _list_number_attributes(shape.kind, schema)
    elif control in ("text", "password", "email", "url", "textarea") and shape.kind == "string":
        if not is_binary(schema):
            for keyword, name in (("minLength", "minlength"), ("maxLength", "maxlength")):
                if isinstance(schema.get(keyword), int) and 0 <= schema[keyword] < 2**31:
                    attributes[name] = str(schema[keyword])
        pattern = html_pattern(schema.get("pattern")) if control != "textarea" else None
        if pattern:
            attributes["pattern"] = pattern
    elif control == "datetime-local":
        attributes["step"] = "1"
    if shape.kind in ("number", "integer") and control == "text":
        attributes["inputmode"] = "decimal"
    return tuple(attributes.items())


def _list_number_attributes(kind: str, schema: Schema) -> dict[str, str]:
    """Return `step`, `min` and `max` of a number; `step` counts from `min`, so both must fit."""
    low, high, step = schema.get("minimum"), schema.get("maximum"), schema.get("multipleOf")
    lows: Sequence[int | float] = [low] if _is_number(low) else []
    highs: Sequence[int | float] = [high] if _is_number(high) else []
    attributes = {"step": "any"}
    if kind == "integer":
        above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
        lows = [*map(math.ceil, lows), *([math.floor(above) + 1] if _is_number(above) else [])]
        highs = [*map(math.floor, highs), *([math.ceil(below) - 1] if _is_number(below) else [])]
        is_multiple = isinstance(step, int) and step > 1 and (not lows or max(lows) % step == 0)
        attributes["step"] = str(step) if is_multiple else "1"
    if lows:
        attributes["min"] = _write_plain(max(lows))
    if highs:
        attributes["max"] = _write_plain(min(highs))
    return attributes


def limits_of(shape: Shape, gettext: Gettext) -> tuple[str, ...]:
    """Return what a schema demands beside its type, in short words."""
    schema = shape.schema
    limits = [
        gettext(texts[form]) % values
        for low, high, texts in _RANGES
        if (form := _choose_form(schema.get(low), schema.get(high), low)) is not None
        for values in [{"low": _write_plain(schema.get(low)), "high": _write_plain(schema.get(high))}]
    ]
    limits += [
        gettext(text) % {"value": _write_plain(schema[keyword])}
        for keyword, text in _SINGLE
        if _is_number(schema.get(keyword))
    ]
    if isinstance(schema.get("pattern"), str):
        limits.append(gettext(_("pattern %(value)s")) % {"value": schema["pattern"][:100]})
    if schema.get("uniqueItems") is True and shape.kind == "array":
        limits.append(gettext(_("no item twice")))
    return tuple(limits)


_RANGES: Final = (
    ("minimum", "maximum", (_("%(low)s to %(high)s"), _("at least %(low)s"), _("at most %(high)s"))),
    (
        "minLength", "maxLength",
        (
            _("%(low)s to %(high)s characters"),
            _("at least %(low)s characters"),
            _("at most %(high)s characters"),
        ),
    ),
    (
        "minItems", "maxItems",
        (_("%(low)s to %(high)s items"), _("at least %(low)s items"), _("at most %(high)s items")),
    ),
    (
        "minProperties", "maxProperties",
        (_("%(low)s to %(high)s members"), _("at least %(low)s members"), _("at most %(high)s members")),
    ),
)  # fmt: skip
_SINGLE: Final = (
    ("exclusiveMinimum", _("greater than %(value)s")),
    ("exclusiveMaximum", _("less than %(value)s")),
    ("multipleOf", _("multiple of %(value)s")),
)


def _choose_form(low: Any, high: Any, keyword: str) -> int | None:
    """Return which text a range has: both ends, the lower one, the upper one; None where it is no limit."""
    has_low = _is_number(low) and (keyword == "minimum" or low > 0)
    if _is_number(high):
        return 0 if has_low else 2
    return 1 if has_low else None


def _write_plain(value: Any) -> str:
    return json.dumps(int(value) if isinstance(value, float) and value.is_integer() else value)


def _is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _read_number(text: str) -> Any:
    if _INTEGER.fullmatch(text) and len(text) <= 300:
        return int(text)
    if _NUMBER.fullmatch(text):
        value = float(text)
        return value if math.isfinite(value) else text
    return text


def _read_untyped(text: str) -> Any:
    text = text.replace("\r\n", "\n")
    try:
        return read_json(text)
    except Unreadable:
        if text.strip()[:1] in _JSON_START:
            raise
        return text


def _is_date(text: str) -> bool:
    if not _DATE.fullmatch(text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_time(text: str) -> bool:
    """Return whether a browser's input accepts a time in UTC: no leap second, no 24 o'clock."""
    return _is_date(text[:10]) and text[11:13] < "24" and text[14:16] < "60" and text[17:19] < "60"


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is not allowed")


def _read_finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number is too large")
    return value


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a name is repeated in an object")
    return members
