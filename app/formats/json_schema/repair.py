"""Repairs arguments that a model wrote in the wrong form: lossless changes after which they are valid.

Only what does not validate is changed, and only where the schema leaves one choice; values are never guessed.

    types       "42" -> 42, "true" -> true, 42 -> "42", a lone value -> a list of it, JSON text -> the value
    names       a property in another case, or with other separators (`_`, `-`, `.`)
    enum values in another case
    dates       ISO 8601 forms that RFC 3339 does not have: `20260131`, a blank or small `t` and `z`
    nulls       null for an optional property that does not take it: the property is left out. It may be
                declared in `properties` or `patternProperties`, also of a schema that `$ref`, `allOf`,
                `anyOf`, `oneOf`, `then`, `else` or `dependentSchemas` names. The members of a map
                (`additionalProperties`) stay as they are: there, a name with null is data.

Two repairs hold whatever a call allows, because they guess nothing: nulls, which clients send for each input
that has no value, and a number that is pulled into its range, where the tool says so.
"""

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Literal, NoReturn

import orjson

from app.core import exact_json
from app.core.exact_json import BeyondDouble, dumps, parse_float
from app.core.text import pointer
from app.formats.json_schema.error_search import MAX_SECONDS, ErrorSearch
from app.formats.json_schema.examples import name_type

RepairScope = Literal["all", "types", "rules"]
_MAX_DEPTH: Final = 50
_MAX_REPAIRS: Final = 100
"""How many repairs a value may need, and how many are reported. Nulls do not count: clients may send one for
each input of each item of a list.
"""
_MAX_JSON_TEXT: Final = 64 << 10
_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,19})")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_MIN_INTEGER: Final = -(2**63)
_MAX_INTEGER: Final = 2**64
_BASIC_DATE: Final = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})")
_DATE_TIME: Final = re.compile(
    r"([0-9]{4})-?([0-9]{2})-?([0-9]{2})[Tt ]([0-9]{2}):?([0-9]{2}):?([0-9]{2})(\.[0-9]+)?"
    r"(?:([Zz])|([+-][0-9]{2}):?([0-9]{2}))"
)
_SEPARATORS: Final = str.maketrans("", "", "_-.")


@dataclass(frozen=True, slots=True)
class Repair:
    """One repair: a JSON pointer to the value as the client sent it, its kind, and a sentence without the
    value.
    """

    pointer: str
    kind: str
    """type, list, json, name, enum, date, null or clamp."""
    detail: str


@dataclass(frozen=True, slots=True)
class Repaired:
    """A valid value, and the repairs that made it valid."""

    value: Any
    repairs: tuple[Repair, ...]


def repair(
    search: ErrorSearch,
    value: Any,
    *,
    scope: RepairScope = "all",
    clamped: frozenset[str] = frozenset(),
    seconds: float = MAX_SECONDS,
) -> Repaired | None:
    """Return a value that is not valid for the schema of `search`, repaired; None where that is impossible.

    `value` is not changed. The scope `types` leaves names, enum values and dates as they are; `rules` repairs
    nulls, and the properties `clamped`, whose numbers are pulled into their range. It gives up after
    `seconds` of CPU time.
    """
    run = _Run(search, scope, time.thread_time() + seconds)
    try:
        repaired, repairs = _clamp_members(value, search.schema, clamped, takes_text=scope != "rules")
        repaired, more = run.repair_value("", search.schema, repaired, "", 0)
        repairs += more
        if not repairs or not search.is_valid_at("", repaired):
            return None
        # JSON in a text may be nested more deeply than can be written.
        dumps(repaired)
    except (_GaveUp, LookupError, ValueError, RecursionError, orjson.JSONEncodeError):
        return None
    return Repaired(repaired, tuple(_select_reported(repairs)))


def _select_reported(repairs: list[Repair]) -> list[Repair]:
    """Return at most 100 repairs; of more, all but nulls before any null."""
    if len(repairs) <= _MAX_REPAIRS:
        return repairs
    return sorted(repairs, key=lambda repair: repair.kind == "null")[:_MAX_REPAIRS]


def _clamp_members(
    value: Any, schema: Mapping[str, Any], names: frozenset[str], *, takes_text: bool
) -> tuple[Any, list[Repair]]:
    """Return an object with these properties within their ranges, and the repairs.

    With `takes_text`, the text of a number outside of its range is taken as a number, too.
    """
    properties = _get_mapping(schema, "properties")
    changes: dict[str, Any] = {}
    repairs: list[Repair] = []
    for name in sorted(names & value.keys()) if isinstance(value, dict) else ():
        location, one = pointer("", name), value[name]
        member_schema = _get_mapping(properties, name)
        candidates = (
            _of_text(one, _list_types(member_schema), location) if isinstance(one, str) and takes_text else ()
        )
        number, converted = next(iter(candidates), (one, None))
        if isinstance(number, bool) or not isinstance(number, int | float | Decimal):
            continue
        if "integer" in _list_types(member_schema) and not _is_whole(number):
            continue
        low, high = member_schema.get("minimum"), member_schema.get("maximum")
        limit = (
            low if low is not None and number < low else high if high is not None and number > high else None
        )
        if limit is None:
            continue
        changes[name] = limit
        repairs += [] if converted is None else [converted]
        repairs.append(Repair(location, "clamp", f"The number was pulled into its range: {limit}."))
    return ({**value, **changes}, repairs) if changes else (value, [])


def _is_whole(number: float | Decimal) -> bool:
    if isinstance(number, Decimal):
        return number == number.to_integral_value()
    return float(number).is_integer() if isinstance(number, float) else True


class _GaveUp(Exception):
    """There is no time left, or there are too many repairs."""


class _Run:
    __slots__ = ("_deadline", "_scope", "_search")

    def __init__(self, search: ErrorSearch, scope: RepairScope, deadline: float) -> None:
        self._search = search
        self._scope = scope
        self._deadline = deadline

    def repair_value(
        self, location: str, schema: Any, value: Any, value_pointer: str, depth: int
    ) -> tuple[Any, list[Repair]]:
        """Return the value as far as it can be repaired for the subschema at `location`, and the repairs."""
        if depth > _MAX_DEPTH or time.thread_time() > self._deadline:
            raise _GaveUp
        if not isinstance(schema, Mapping) or self._search.is_valid_at(location, value):
            return value, []
        repairs: list[Repair] = []
        for inner_location, inner in self._list_in_place(location, schema):
            value, more = self.repair_value(inner_location, inner, value, value_pointer, depth + 1)
            repairs += more
        if not self._search.is_valid_at(location, value):
            value, more = self._repair_own(location, schema, value, value_pointer, depth)
            repairs += more
        # Once the schema's own members are repaired, on which it depends what applies.
        if not self._search.is_valid_at(location, value):
            for inner_location, inner in self._list_conditional(location, schema, value):
                value, more = self.repair_value(inner_location, inner, value, value_pointer, depth + 1)
                repairs += more
        if not self._search.is_valid_at(location, value):
            value, more = self._repair_alternative(location, schema, value, value_pointer, depth)
            repairs += more
        if len(repairs) > _MAX_REPAIRS and sum(one.kind != "null" for one in repairs) > _MAX_REPAIRS:
            raise _GaveUp
        return value, repairs

    def _list_in_place(self, location: str, schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        if isinstance(schema.get("$ref"), str):
            yield self._search.get_target(schema["$ref"])
        for index, inner in enumerate(_get_list(schema, "allOf")):
            yield pointer(location, "allOf", index), inner

    def _list_conditional(
        self, location: str, schema: Mapping[str, Any], value: Any
    ) -> Iterator[tuple[str, Any]]:
        """Yield the subschemas that apply to a value because of what it contains."""
        if "if" in schema:
            keyword = "then" if self._search.is_valid_at(pointer(location, "if"), value) else "else"
            if keyword in schema:
                yield pointer(location, keyword), schema[keyword]
        for name, inner in _get_mapping(schema, "dependentSchemas").items():
            if isinstance(value, dict) and name in value:
                yield pointer(location, "dependentSchemas", name), inner

    def _repair_own(
        self, location: str, schema: Mapping[str, Any], value: Any, value_pointer: str, depth: int
    ) -> tuple[Any, list[Repair]]:
        """Repair by the keywords of the schema itself."""
        if isinstance(value, dict) and _allows(schema, "object"):
            return self._repair_members(location, schema, value, value_pointer, depth)
        if isinstance(value, list) and _allows(schema, "array"):
            return self._repair_items(location, schema, value, value_pointer, depth)
        for candidate, repair in self._list_candidates(schema, value, value_pointer):
            changed, more = self._repair_inside(location, schema, candidate, value_pointer, depth)
            if self._search.is_valid_at(location, changed):
                return changed, [repair, *more]
        return value, []

    def _repair_inside(
        self, location: str, schema: Mapping[str, Any], value: Any, value_pointer: str, depth: int
    ) -> tuple[Any, list[Repair]]:
        if isinstance(value, dict):
            return self._repair_members(location, schema, value, value_pointer, depth)
        if isinstance(value, list):
            return self._repair_items(location, schema, value, value_pointer, depth)
        return value, []

    def _repair_members(
        self, location: str, schema: Mapping[str, Any], value: dict[str, Any], value_pointer: str, depth: int
    ) -> tuple[Any, list[Repair]]:
        listed = _get_mapping(schema, "properties")
        repairs: list[Repair] = []
        if self._scope == "all":
            value, repairs = _rename_members(value, schema, listed, value_pointer)
        changed = dict(value)
        required = _get_list(schema, "required")
        for name, inner_location, inner in self._list_declared(location, schema, value):
            if name not in changed:
                continue
            inner_at = pointer(value_pointer, name)
            if (
                changed[name] is None
                and name not in required
                and not self._search.is_valid_at(inner_location, None)
            ):
                del changed[name]
                detail = "The null was taken as no value: the input is optional, and takes no null."
                repairs.append(Repair(inner_at, "null", detail))
                continue
            changed[name], more = self.repair_value(inner_location, inner, changed[name], inner_at, depth + 1)
            repairs += more
        return changed, repairs

    def _list_declared(
        self, location: str, schema: Mapping[str, Any], value: dict[str, Any]
    ) -> Iterator[tuple[str, str, Any]]:
        """Yield the name of each member that is declared, with the location and the schema of its subschema,
        once for each subschema.
        """
        for name, inner in _get_mapping(schema, "properties").items():
            if name in value:
                yield name, pointer(location, "properties", name), inner
        for pattern, inner in _get_mapping(schema, "patternProperties").items():
            names = self._search.compile_shallow({"pattern": pattern})
            for name in value:
                if names.is_valid(name):
                    yield name, pointer(location, "patternProperties", pattern), inner

    def _repair_items(
        self, location: str, schema: Mapping[str, Any], value: list[Any], value_pointer: str, depth: int
    ) -> tuple[Any, list[Repair]]:
        first = _get_list(schema, "prefixItems")
        changed, repairs = [], []
        for index, item in enumerate(value):
            if index < len(first):
                inner_location, inner = pointer(location, "prefixItems", index), first[index]
            elif "items" in schema:
                inner_location, inner = pointer(location, "items"), schema["items"]
            else:
                changed += value[index:]
                break
            fixed, more = self.repair_value(
                inner_location, inner, item, pointer(value_pointer, index), depth + 1
            )
            changed.append(fixed)
            repairs += more
        return changed, repairs

    def _repair_alternative(
        self, location: str, schema: Mapping[str, Any], value: Any, value_pointer: str, depth: int
    ) -> tuple[Any, list[Repair]]:
        """Repair for one of the alternatives, where only one repaired value is valid."""
        repaired_values: dict[bytes, tuple[Any, list[Repair]]] = {}
        for keyword in ("anyOf", "oneOf"):
            for index, branch in enumerate(_get_list(schema, keyword)):
                changed, repairs = self.repair_value(
                    pointer(location, keyword, index), branch, value, value_pointer, depth + 1
                )
                if repairs and self._search.is_valid_at(location, changed):
                    repaired_values.setdefault(_identify(changed), (changed, repairs))
        return next(iter(repaired_values.values())) if len(repaired_values) == 1 else (value, [])

    def _list_candidates(
        self, schema: Mapping[str, Any], value: Any, value_pointer: str
    ) -> Iterator[tuple[Any, Repair]]:
        """Yield the values of the schema's types that have the meaning of `value`, the closest first."""
        if self._scope == "rules":
            return
        types = _list_types(schema)
        if isinstance(value, str):
            yield from _of_text(value, types, value_pointer)
            if self._scope == "all":
                yield from _of_form(value, schema, value_pointer)
        elif type(value) is int and "string" in types:
            yield str(value), Repair(value_pointer, "type", "The integer was taken as a string.")
        if "array" in types and value is not None and not isinstance(value, list):
            yield [value], Repair(value_pointer, "list", "The value was put into a list.")


def _of_text(text: str, types: frozenset[str], value_pointer: str) -> Iterator[tuple[Any, Repair]]:
    if types & {"integer", "number"} and _INTEGER.fullmatch(text):
        number = int(text)
        if _MIN_INTEGER <= number < _MAX_INTEGER and text != "-0":
            yield number, Repair(value_pointer, "type", "The string was taken as a number.")
    elif "number" in types and _NUMBER.fullmatch(text):
        exact = parse_float(text)
        if not isinstance(exact, BeyondDouble):
            yield exact, Repair(value_pointer, "type", "The string was taken as a number.")
    if "boolean" in types and text.lower() in ("true", "false"):
        yield text.lower() == "true", Repair(value_pointer, "type", "The string was taken as a boolean.")
    if "null" in types and text == "null":
        yield None, Repair(value_pointer, "type", "The string was taken as null.")
    begin = text.lstrip()[:1]
    if (begin == "{" and "object" in types) or (begin == "[" and "array" in types):
        try:
            parsed = _parse_text(text)
        except (ValueError, RecursionError):
            return
        kind = "object" if begin == "{" else "list"
        yield (
            parsed,
            Repair(value_pointer, "json", f"The JSON text was taken as the {kind} that it contains."),
        )


def _of_form(text: str, schema: Mapping[str, Any], value_pointer: str) -> Iterator[tuple[Any, Repair]]:
    options = [*_get_list(schema, "enum"), *([schema["const"]] if "const" in schema else [])]
    folded = text.strip().casefold()
    same = {one for one in options if isinstance(one, str) and one.casefold() == folded}
    if len(same) == 1:
        yield same.pop(), Repair(value_pointer, "enum", "The value was written as in the list of values.")
    declared = schema.get("format")
    formatted = (
        _read_date(text) if declared == "date" else _read_date_time(text) if declared == "date-time" else None
    )
    if formatted is not None and formatted != text:
        yield formatted, Repair(value_pointer, "date", "The time was written in the form of RFC 3339.")


def _read_date(text: str) -> str | None:
    match = _BASIC_DATE.fullmatch(text)
    return None if match is None else "-".join(match.groups())


def _read_date_time(text: str) -> str | None:
    match = _DATE_TIME.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, utc, hours, minutes = match.groups()
    zone = "Z" if utc else f"{hours}:{minutes}"
    return f"{year}-{month}-{day}T{hour}:{minute}:{second}{fraction or ''}{zone}"


def _rename_members(
    value: dict[str, Any], schema: Mapping[str, Any], listed: Mapping[str, Any], value_pointer: str
) -> tuple[dict[str, Any], list[Repair]]:
    """Return the object with the names of properties spelled as the schema has them.

    A name is changed where it is not allowed, or where the property that it stands for is required and
    missing; where exactly one name of the object stands for exactly one property.
    """
    strict = schema.get("additionalProperties") is False and "patternProperties" not in schema
    required = _get_list(schema, "required")
    unknown: dict[str, list[str]] = {}
    for name in value:
        if name not in listed:
            unknown.setdefault(_simplify_name(name), []).append(name)
    wanted: dict[str, list[str]] = {}
    for name in listed:
        if _simplify_name(name) in unknown:
            wanted.setdefault(_simplify_name(name), []).append(name)
    names: dict[str, str] = {}
    for plain, (target, *others) in wanted.items():
        given = unknown[plain]
        if not others and len(given) == 1 and target not in value and (strict or target in required):
            names[given[0]] = target
    if not names:
        return value, []
    repairs = [
        Repair(pointer(value_pointer, given), "name", f"The property was taken as `{target}`.")
        for given, target in names.items()
    ]
    return {names.get(name, name): member for name, member in value.items()}, repairs


def _simplify_name(name: str) -> str:
    return name.translate(_SEPARATORS).casefold()


def _parse_text(text: str) -> Any:
    """Return the value of JSON text, its numbers exact; raise ValueError where it is not exactly one."""
    if len(text) > _MAX_JSON_TEXT:
        raise ValueError
    orjson.loads(text)
    return json.loads(
        text,
        parse_int=_parse_integer,
        parse_float=_parse_double,
        parse_constant=_reject,
        object_pairs_hook=_build_object,
    )


def _parse_integer(text: str) -> int:
    if len(text) > 20 or not _MIN_INTEGER <= int(text) < _MAX_INTEGER:
        raise ValueError
    return int(text)


def _parse_double(text: str) -> Any:
    number = parse_float(text)
    if isinstance(number, BeyondDouble):
        raise ValueError  # noqa: TRY004 - a text that is no number that can be sent.
    return number


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError
    return members


def _reject(_: str) -> NoReturn:
    raise ValueError


def _identify(value: Any) -> bytes:
    return exact_json.dumps(value, default=str, option=orjson.OPT_SORT_KEYS)


def _list_types(schema: Mapping[str, Any]) -> frozenset[str]:
    """Return the types that the keywords of the schema itself name."""
    kinds = schema.get("type")
    if isinstance(kinds, str):
        return frozenset((kinds,))
    if isinstance(kinds, list):
        return frozenset(one for one in kinds if isinstance(one, str))
    options = [*_get_list(schema, "enum"), *([schema["const"]] if "const" in schema else [])]
    return frozenset(name_type(one) for one in options)


def _allows(schema: Mapping[str, Any], kind: str) -> bool:
    kinds = schema.get("type")
    return kinds is None or kind in (kinds if isinstance(kinds, list) else [kinds])


def _get_list(schema: Mapping[str, Any], keyword: str) -> list[Any]:
    listed = schema.get(keyword)
    return listed if isinstance(listed, list) else []


def _get_mapping(schema: Mapping[str, Any], keyword: str) -> Mapping[str, Any]:
    mapping = schema.get(keyword)
    return mapping if isinstance(mapping, Mapping) else {}
