"""The types of arguments: each as a JSON Schema with all of its constraints.

Patterns are matched in linear time, so look-around and back-references are rejected. What a pattern cannot
say exactly is a `format`, which `formats.CHECKERS` checks.
"""

import re
from typing import Annotated, Any, Final, Literal

from pydantic import Field, TypeAdapter

from app.core.errors import FieldError, InvalidDocument
from app.formats.json_schema.validator import is_usable_pattern, is_valid_pattern
from app.formats.toolclad.contract import ArgumentType, ManifestModel, Scalar

_CLEAN: Final = r"[^;|&$`(){}\[\]<>!\n\r]"
"""A character that shells do not interpret: text that is checked for injection has only such characters."""
_CLEAN_PATTERN: Final = rf"^{_CLEAN}*$"
MAX_TEXT: Final = 65_536
_DURATION: Final = r"^(?:[0-9]+|(?:[0-9]+h)?(?:[0-9]+m)?(?:[0-9]+s)?(?:[0-9]+ms)?)$"
_TARGET: Final = r"^[A-Za-z0-9:][A-Za-z0-9.:/-]*$"
_CIDR: Final = r"^[0-9A-Fa-f.:]+/[0-9]{1,3}$"
_OPTION: Final = r"\s*(?:(?:set )?[A-Z][A-Z0-9_]* [^;|&$`(){}\[\]<>!\n\r]+)?\s*"
_OPTIONS: Final = rf"^{_OPTION}(?:;{_OPTION})*$"
# An absolute path, a drive, or a part that leads upwards.
_NOT_RELATIVE: Final = r"^(?:[/\\]|.:)|(?:^|[/\\])\.\.(?:[/\\]|$)"
_SCHEME: Final = r"^[A-Za-z][A-Za-z0-9+.-]{0,30}$"

_BUILT_IN_TYPE: Final[TypeAdapter[ArgumentType]] = TypeAdapter(ArgumentType)
_TEXTUAL: Final = frozenset(
    {"string", "url", "path", "credential_file", "regex_match", "duration", "msf_options"}
)
_BOUNDED: Final = frozenset({"integer", "number", "port"})


class Constraints(ManifestModel):
    """The constraints of an argument or of a type of the project."""

    allowed: list[Annotated[str, Field(max_length=1_000)]] = Field(default_factory=list, max_length=1_000)
    pattern: str = Field(default="", max_length=2_000)
    min: int | None = None
    max: int | None = None
    min_float: float | None = Field(default=None, allow_inf_nan=False)
    max_float: float | None = Field(default=None, allow_inf_nan=False)


class CustomType(Constraints):
    """`[types.NAME]` of the project file: a built-in type with constraints."""

    base: ArgumentType


class ArgumentSection(Constraints):
    """`[args.NAME]`. `type` is that of a built-in type or of the project."""

    type: str = Field(default="string", min_length=1, max_length=100)
    position: int = Field(default=0, ge=0, le=10_000)
    required: bool = False
    description: str = Field(default="", max_length=20_000)
    default: Scalar | None = None
    sanitize: list[Literal["injection"]] = Field(default_factory=list, max_length=10)
    clamp: bool = False
    schemes: list[Annotated[str, Field(pattern=_SCHEME)]] = Field(default_factory=list, max_length=50)
    scope_check: bool = False

    @property
    def built_in(self) -> ArgumentType:
        """The type, once it is a built-in one."""
        return _BUILT_IN_TYPE.validate_python(self.type)


def resolve_type(section: ArgumentSection, types: dict[str, CustomType], *, location: str) -> ArgumentSection:
    """Return the argument with a built-in type: constraints of a type of the project precede its own.

    Raise InvalidDocument for a type that is neither.
    """
    custom = types.get(section.type)
    if custom is None:
        if section.type not in BUILT_IN:
            detail = "There is no such type: name a built-in one, or one of [types] of toolclad.toml."
            raise _reject_argument(f"{location}/type", detail, expected=sorted(BUILT_IN))
        return section
    changes: dict[str, Any] = {"type": custom.base}
    for name in Constraints.model_fields:
        value = getattr(custom, name)
        if value not in (None, "", []):
            changes[name] = value
    return section.model_copy(update=changes)


def build_argument_schema(section: ArgumentSection, *, location: str) -> dict[str, Any]:
    """Return the JSON Schema of an argument, whose type is a built-in one.

    Raise InvalidDocument, with pointers below `location`, for constraints that contradict each other, a
    pattern that cannot be matched in linear time, and a default that is not valid.
    """
    _check_constraints(section, location)
    schema = _SCHEMAS[section.type](section)
    if section.description:
        schema["description"] = section.description
    if section.pattern:
        pattern_schema = {"pattern": _anchor_pattern(section.pattern)}
        schema = (
            {**schema, "allOf": [pattern_schema]} if "pattern" in schema else {**schema, **pattern_schema}
        )
    if section.default is not None:
        schema["default"] = _read_default(section, location)
    return schema


def _reject_argument(location: str, detail: str, *, expected: Any = None) -> InvalidDocument:
    return InvalidDocument(
        "An argument of the manifest is not valid", errors=[FieldError(location, detail, expected)]
    )


def _check_constraints(section: ArgumentSection, location: str) -> None:
    kind = section.type
    if kind == "enum" and not section.allowed:
        raise _reject_argument(f"{location}/allowed", "An enum has a list of allowed values.")
    if kind == "regex_match" and not section.pattern:
        raise _reject_argument(f"{location}/pattern", "The type regex_match has a pattern.")
    if section.pattern and kind not in _TEXTUAL:
        raise _reject_argument(f"{location}/pattern", f"The type {kind} has no pattern.")
    if section.pattern:
        _check_pattern(section.pattern, f"{location}/pattern")
    if section.schemes and kind != "url":
        raise _reject_argument(f"{location}/schemes", "Only the type url has schemes.")
    if section.clamp and kind not in ("integer", "number"):
        raise _reject_argument(f"{location}/clamp", "Only the types integer and number can be clamped.")
    low, high = _get_bounds(section)
    if (low is not None or high is not None) and kind not in _BOUNDED:
        raise _reject_argument(
            f"{location}/min" if low is not None else f"{location}/max", f"The type {kind} has no range."
        )
    if low is not None and high is not None and low > high:
        raise _reject_argument(f"{location}/min", "The minimum is greater than the maximum.")
    if section.clamp and low is None and high is None:
        raise _reject_argument(f"{location}/clamp", "There is no min or max to clamp to.")


def _check_pattern(pattern: str, location: str) -> None:
    anchored = _anchor_pattern(pattern)
    if is_usable_pattern(anchored):
        return
    if is_valid_pattern(anchored):
        detail = "The pattern cannot be matched in linear time: leave out look-around and back-references."
    else:
        detail = "The pattern is no regular expression."
    raise _reject_argument(location, detail)


def _anchor_pattern(pattern: str) -> str:
    """Return a pattern that is matched from the beginning of the text, as Python's `re.match` does."""
    return pattern if pattern.startswith("^") and "|" not in pattern else f"^(?:{pattern})"


def _get_bounds(section: ArgumentSection) -> tuple[int | float | None, int | float | None]:
    if section.type == "number":
        low = section.min if section.min_float is None else section.min_float
        return low, section.max if section.max_float is None else section.max_float
    return section.min, section.max


def _read_default(section: ArgumentSection, location: str) -> Scalar:
    """Return the default as a value of the type; raise InvalidDocument where it is none."""
    value = section.default
    kinds: dict[str, tuple[type, ...]] = {
        "integer": (int,), "port": (int,), "number": (int, float), "boolean": (bool,),
    }  # fmt: skip
    expected = kinds.get(section.type, (str,))
    converted = _from_text(value, section.type) if isinstance(value, str) else value
    is_boolean = isinstance(converted, bool)
    if (
        converted is None
        or not isinstance(converted, expected)
        or is_boolean is not (section.type == "boolean")
    ):
        raise _reject_argument(f"{location}/default", f"The default is no value of the type {section.type}.")
    if section.type == "enum" and converted not in section.allowed:
        raise _reject_argument(f"{location}/default", "The default is none of the allowed values.")
    return converted


def _from_text(value: str, kind: str) -> Scalar | None:
    """Return a text as the type has it: ToolClad's values are texts, so "80" is a default of a port."""
    if kind in ("integer", "port"):
        return int(value) if re.fullmatch(r"-?[0-9]{1,18}", value) else None
    if kind == "number":
        return float(value) if re.fullmatch(r"-?[0-9]{1,300}(?:\.[0-9]{1,300})?", value) else None
    if kind == "boolean":
        return {"true": True, "false": False}.get(value)
    return value


def _build_string(section: ArgumentSection) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "maxLength": MAX_TEXT, "pattern": _CLEAN_PATTERN}
    # A default that is empty makes the empty text a value.
    return schema if section.default == "" else {**schema, "minLength": 1}


def _build_integer(section: ArgumentSection) -> dict[str, Any]:
    return {"type": "integer"} | _build_range(section)


def _build_number(section: ArgumentSection) -> dict[str, Any]:
    return {"type": "number"} | _build_range(section)


def _build_range(section: ArgumentSection) -> dict[str, Any]:
    low, high = _get_bounds(section)
    bounds = {"minimum": low, "maximum": high}
    return {name: value for name, value in bounds.items() if value is not None}


def _build_port(section: ArgumentSection) -> dict[str, Any]:
    low, high = _get_bounds(section)
    return {
        "type": "integer",
        "minimum": max(1, int(low)) if low is not None else 1,
        "maximum": min(65535, int(high)) if high is not None else 65535,
    }


def _build_boolean(_: ArgumentSection) -> dict[str, Any]:
    return {"type": "boolean"}


def _build_enum(section: ArgumentSection) -> dict[str, Any]:
    return {"type": "string", "enum": list(dict.fromkeys(section.allowed))}


def _build_scope_target(_: ArgumentSection) -> dict[str, Any]:
    return {
        "type": "string", "format": "scope-target", "minLength": 1, "maxLength": 253, "pattern": _TARGET,
        "not": {"pattern": r"(?:^|\.)[xX][nN]--"},
    }  # fmt: skip


def _build_url(section: ArgumentSection) -> dict[str, Any]:
    schemes = "|".join(re.escape(one) for one in dict.fromkeys(section.schemes))
    scheme = f"(?:{schemes})" if schemes else "[A-Za-z][A-Za-z0-9+.-]*"
    pattern = rf"^{scheme}://[^;|&$`(){{}}\[\]<>!\s/?#]+(?:[/?#]{_CLEAN}*)?$"
    return {
        "type": "string", "format": "scope-url" if section.scope_check else "uri", "maxLength": 8192,
        "pattern": pattern,
    }  # fmt: skip


def _build_path(section: ArgumentSection) -> dict[str, Any]:
    return {**_build_string(section), "maxLength": 4096, "not": {"pattern": _NOT_RELATIVE}}


def _build_ip_address(_: ArgumentSection) -> dict[str, Any]:
    return {"type": "string", "anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]}


def _build_cidr(_: ArgumentSection) -> dict[str, Any]:
    return {"type": "string", "format": "cidr", "maxLength": 64, "pattern": _CIDR}


def _build_msf_options(_: ArgumentSection) -> dict[str, Any]:
    return {"type": "string", "maxLength": MAX_TEXT, "pattern": _OPTIONS}


def _build_duration(_: ArgumentSection) -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "maxLength": 100, "pattern": _DURATION}


_SCHEMAS: Final = {
    "string": _build_string,
    "integer": _build_integer,
    "number": _build_number,
    "port": _build_port,
    "boolean": _build_boolean,
    "enum": _build_enum,
    "scope_target": _build_scope_target,
    "url": _build_url,
    "path": _build_path,
    "ip_address": _build_ip_address,
    "cidr": _build_cidr,
    "msf_options": _build_msf_options,
    "credential_file": _build_path,
    "duration": _build_duration,
    "regex_match": _build_string,
}
BUILT_IN: Final = frozenset(_SCHEMAS)
"""The names of the built-in types."""
