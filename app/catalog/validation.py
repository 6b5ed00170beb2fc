"""Arguments against a tool's JSON Schema (2020-12): every fault, with its pointer and what was expected.

The validator is jsonschema-rs: its regular expressions take linear time here, and no `$ref` is ever fetched
(every JSON Schema library fetches remote ones by default). A fault never repeats a value of the caller, which
may be a secret.
"""

import difflib
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, NoReturn

from jsonschema_rs import Draft202012Validator, RegexOptions, ValidationError

from app.errors import Fault, InvalidArguments, InvalidInput
from app.utcp.references import MAPS, VALUES
from app.utcp.text import pointer

_MOST_FAULTS: Final = 50
_MOST_CHOICES: Final = 30
_LINEAR: Final = RegexOptions(size_limit=1 << 20, dfa_size_limit=1 << 20)


class ArgumentValidator:
    """A compiled schema of the arguments object. Compiling takes about 0.1 ms, a check about 2 us."""

    __slots__ = ("_properties", "_validator")

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Raises InvalidInput for a schema that cannot be compiled: a dangling or remote `$ref`, say."""
        self._validator = _compiled(dict(schema))
        properties = schema.get("properties")
        self._properties = list(properties) if isinstance(properties, Mapping) else []

    def check(self, arguments: Any) -> None:
        """Raises InvalidArguments with all faults (at most 50)."""
        if not isinstance(arguments, dict):
            raise InvalidArguments(
                "The arguments must be a JSON object.", errors=[Fault("", "Give an object.", "object")]
            )
        if not self._validator.is_valid(arguments):
            self._refuse(arguments)

    def _refuse(self, arguments: dict[str, Any]) -> NoReturn:
        faults = islice(self._faults(arguments), _MOST_FAULTS)
        unique = list({(fault.pointer, fault.detail): fault for fault in faults}.values())
        raise InvalidArguments(_summary(unique), errors=unique)

    def _faults(self, arguments: dict[str, Any]) -> Iterator[Fault]:
        for error in self._validator.iter_errors(arguments):
            yield from _faults_of(error, arguments, self._properties)


def _compiled(schema: dict[str, Any]) -> Draft202012Validator:
    try:
        return _validator(schema)
    except ValueError:
        pass
    # A pattern that needs look-around has no linear-time form: it is not enforced, the upstream will.
    try:
        return _validator(_without_unusable_patterns(schema))
    except ValueError:
        fault = Fault("/inputs", "The schema is not valid, or refers to something outside of it.")
        raise InvalidInput("The tool's input schema cannot be used.", errors=[fault]) from None


def _validator(schema: dict[str, Any] | bool) -> Draft202012Validator:
    return Draft202012Validator(schema, retriever=_deny, pattern_options=_LINEAR)


def _deny(_uri: str) -> NoReturn:
    raise ValueError("No reference is fetched.")


def _without_unusable_patterns(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_unusable_patterns(member) for member in node]
    if not isinstance(node, dict):
        return node
    kept = {}
    for key, value in node.items():
        if key == "pattern" and isinstance(value, str) and not _usable(value):
            continue
        if key in MAPS and isinstance(value, dict):
            kept[key] = {
                name: _without_unusable_patterns(member)
                for name, member in value.items()
                if key != "patternProperties" or _usable(name)
            }
        else:
            kept[key] = value if key in VALUES else _without_unusable_patterns(value)
    return kept


def _usable(pattern: str) -> bool:
    try:
        _validator({"pattern": pattern})
    except ValueError:
        return False
    return True


def _summary(faults: list[Fault]) -> str:
    first = faults[0]
    where = f"{first.pointer}: " if first.pointer else ""
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{where}{first.detail}{more}"


def _faults_of(error: ValidationError, arguments: Any, names: list[str]) -> Iterator[Fault]:
    at = pointer("", *error.instance_path)
    kind = error.kind
    match kind.name:
        case "required":
            yield Fault(pointer(at, _short(kind.value)), "This is required.", "a value")
        case "additionalProperties" | "unevaluatedProperties":
            yield from _unknown(kind.unexpected, at, [] if at else names)  # type: ignore[attr-defined]
        case "falseSchema" if error.schema_path[-1:] == ["additionalProperties"]:
            # What jsonschema-rs says, without a name, of a schema that lists no properties at all.
            yield from _unknown(list(_node(arguments, error.instance_path)), at, [])
        case "anyOf" | "oneOf":
            yield from _alternatives(error, at, arguments)
        case _:
            describe = _SENTENCES.get(kind.name)
            if describe is None:
                yield Fault(at, f"This does not meet the schema's {kind.name}.")
            else:
                detail, expected = describe(error)
                yield Fault(at, detail, expected)


def _unknown(given: list[str], at: str, names: list[str]) -> Iterator[Fault]:
    for name in given[:_MOST_FAULTS]:
        yield Fault(pointer(at, _short(name)), f"No such property is known here.{_closest(name, names)}")


def _alternatives(error: ValidationError, at: str, arguments: Any) -> Iterator[Fault]:
    """The faults of the alternative that came nearest, which is the one that was most likely meant."""
    branches: list[list[ValidationError]] = getattr(error.kind, "context", None) or []
    failed = [branch for branch in branches if branch]
    if error.kind.name == "oneOf" and len(failed) < len(branches):
        yield Fault(at, "This fits several of the alternatives; it must fit exactly one.")
        return
    wanted = [_types_of(branch, error.instance_path) for branch in failed]
    if wanted and all(wanted):
        types = sorted({name for names in wanted for name in names})
        yield Fault(at, f"This must be of type {' or '.join(types)}.", types)
        return
    yield Fault(at, f"This fits none of the {len(branches)} alternatives; the nearest one is explained.")
    # An alternative of another type is further away than any with faults inside; fewer faults are nearer.
    ranked = sorted(zip(wanted, failed, strict=True), key=lambda pair: (bool(pair[0]), len(pair[1])))
    nearest = ranked[0][1] if ranked else []
    for inner in islice(nearest, _MOST_FAULTS):
        yield from _faults_of(inner, arguments, [])


def _node(arguments: Any, path: list[str | int]) -> Any:
    node = arguments
    for key in path:
        node = node[key]
    return node


def _types_of(branch: list[ValidationError], path: list[str | int]) -> list[str]:
    """The types that an alternative wanted at its root (`path`), if that is all it complains of."""
    if len(branch) == 1 and branch[0].kind.name == "type" and branch[0].instance_path == path:
        return list(branch[0].kind.types)  # type: ignore[attr-defined]
    return []


def _short(name: Any) -> str:
    return str(name)[:100]


def _closest(name: str, names: list[str]) -> str:
    found = difflib.get_close_matches(name[:100], names[:500], n=1, cutoff=0.6)
    return f" Did you mean {found[0]}?" if found else ""


def _type(error: ValidationError) -> tuple[str, Any]:
    types: list[str] = error.kind.types  # type: ignore[attr-defined]
    detail = f"This must be of type {' or '.join(types)}."
    given = error.instance
    if isinstance(given, str):
        if {"integer", "number", "boolean"}.intersection(types):
            detail += " Text was given: leave out the quotes."
        elif {"object", "array"}.intersection(types) and given.lstrip()[:1] in ("{", "["):
            detail += " Text was given: give the JSON itself, not a string that holds it."
    elif "array" in types:
        detail += " Put a single value into a list."
    return detail, types[0] if len(types) == 1 else types


def _enum(error: ValidationError) -> tuple[str, Any]:
    options: list[Any] = error.kind.options  # type: ignore[attr-defined]
    texts = [option for option in options if isinstance(option, str)]
    given = error.instance
    hint = _closest(given, texts) if isinstance(given, str) else ""
    return f"This must be one of the listed values.{hint}", options[:_MOST_CHOICES]


def _limit(sentence: str) -> Callable[[ValidationError], tuple[str, Any]]:
    def describe(error: ValidationError) -> tuple[str, Any]:
        return sentence.format(error.kind.value), error.kind.value

    return describe


def _plain(sentence: str) -> Callable[[ValidationError], tuple[str, Any]]:
    return lambda _: (sentence, None)


_SENTENCES: Final[Mapping[str, Callable[[ValidationError], tuple[str, Any]]]] = {
    "type": _type,
    "enum": _enum,
    "const": lambda error: ("This must be the one listed value.", error.kind.value),
    "minimum": _limit("This must be at least {}."),
    "maximum": _limit("This must be at most {}."),
    "exclusiveMinimum": _limit("This must be greater than {}."),
    "exclusiveMaximum": _limit("This must be less than {}."),
    "multipleOf": _limit("This must be a multiple of {}."),
    "minLength": _limit("This must have at least {} characters."),
    "maxLength": _limit("This must have at most {} characters."),
    "minItems": _limit("This must have at least {} items."),
    "maxItems": _limit("This must have at most {} items."),
    "minProperties": _limit("This must have at least {} properties."),
    "maxProperties": _limit("This must have at most {} properties."),
    "pattern": _limit("This must match the regular expression {}"),
    "format": _limit("This must have the format {}."),
    "uniqueItems": _plain("The items must differ from one another."),
    "contains": _plain("None of the items is what one of them must be."),
    "not": _plain("This is what the schema rules out."),
    "falseSchema": _plain("Nothing may be given here."),
    "propertyNames": _plain("A property has a name that is not allowed."),
    "dependentRequired": _plain("Another property is required together with this one."),
}
