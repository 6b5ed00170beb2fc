"""Validates arguments against a tool's JSON Schema (2020-12); each error has a pointer and what was expected.

The validator is jsonschema-rs, configured so that regular expressions take linear time and no `$ref` is
fetched (every JSON Schema library fetches remote ones by default). An error never repeats a value of the
arguments, which may be a secret.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Final, NoReturn

from jsonschema_rs import Draft202012Validator, RegexOptions, Registry

from app.core.errors import FieldError, InvalidArguments, InvalidInput
from app.core.text import pointer
from app.formats.json_schema.error_messages import MAX_ERRORS, build_arguments_error
from app.formats.json_schema.error_search import MAX_SECONDS, ErrorSearch
from app.formats.json_schema.examples import choose_example, find_schema, name_type
from app.formats.json_schema.references import MAPS, VALUES
from app.formats.json_schema.repair import Repaired, RepairScope, repair
from app.formats.json_schema.validation_steps import MAX_STEPS, ValidationSteps, count_steps

_MAX_DESCRIBED: Final = 10
"""How many errors of one check get an example, which takes about 0.1 ms each."""
_TOO_MANY_VALUES: Final = f"This would take more than {MAX_STEPS:,} steps."
FormatChecker = Callable[[str], bool]
"""Returns whether a text is of a format."""
_LINEAR: Final = RegexOptions(size_limit=1 << 20, dfa_size_limit=1 << 20)


class ArgumentValidator:
    """A compiled schema of the arguments object. Compiling takes about 0.1 ms, a check about 2 us."""

    __slots__ = ("_compile", "_schema", "_search", "_seconds", "_steps", "_validator")

    def __init__(
        self,
        schema: Mapping[str, Any],
        seconds: float = MAX_SECONDS,
        *,
        formats: Mapping[str, FormatChecker] | None = None,
    ) -> None:
        """Compile a schema; raise InvalidInput where that fails, e.g. for a dangling or remote `$ref`.

        `seconds` is the CPU time after which the search for errors in large arguments gives up. `formats`
        are checked where they are given; without it, a `format` is a comment, as JSON Schema has it.
        """
        self._compile = partial(_build_validator, formats=formats)
        self._validator, self._schema, self._steps = _compile_schema(dict(schema), self._compile)
        self._search: ErrorSearch | None = None
        self._seconds = seconds

    @property
    def quick_check(self) -> Callable[[Any], bool] | None:
        """Returns whether an object is valid; None where its values must be counted first."""
        return self._validator.is_valid if self._steps.are_few else None

    def check(self, arguments: Any) -> None:
        """Raise InvalidArguments with all errors (at most 50) where the arguments are not valid, or have more
        values than can be validated with this schema.
        """
        if not isinstance(arguments, dict):
            raise InvalidArguments(
                "The arguments must be a JSON object.",
                errors=[FieldError("", "Must be an object.", "object")],
            )
        if not self._steps.allows(arguments):
            raise InvalidArguments(
                "The arguments have too many values to be validated with the schema of this tool.",
                errors=[FieldError("", f"{_TOO_MANY_VALUES} Send fewer values, e.g. in several calls.")],
            )
        if not self._validator.is_valid(arguments):
            self._raise_errors(arguments)

    def repair(
        self, arguments: Any, *, scope: RepairScope, clamped: frozenset[str] = frozenset()
    ) -> Repaired | None:
        """Return arguments that are not valid, repaired (`json_schema.repair`); None where that is not
        possible.
        """
        if not isinstance(arguments, dict) or not self._steps.allows(arguments):
            return None
        return repair(self._get_search(), arguments, scope=scope, clamped=clamped, seconds=self._seconds)

    def is_valid_property(self, name: str, value: Any) -> bool:
        """Return whether the value is valid for the property `name`; True where the root has none of it, and
        where the value has more values than can be validated.
        """
        if not self._steps.allows({name: value}):
            return True
        try:
            return self._get_search().is_valid_at(pointer("/properties", name), value)
        except ValueError:
            return True

    def _get_search(self) -> ErrorSearch:
        if self._search is None:
            self._search = ErrorSearch(self._schema, self._validator, self._compile, self._seconds)
        return self._search

    def _raise_errors(self, arguments: dict[str, Any]) -> NoReturn:
        errors = islice(self._get_search().find_errors(arguments), MAX_ERRORS)
        distinct_errors = list({(error.pointer, error.detail): error for error in errors}.values())
        described = [self._describe_error(one, arguments) for one in distinct_errors[:_MAX_DESCRIBED]]
        raise build_arguments_error([*described, *distinct_errors[_MAX_DESCRIBED:]])

    def _describe_error(self, error: FieldError, arguments: dict[str, Any]) -> FieldError:
        """Return an error with the type of what was received, and an example of what is valid."""
        given, received = _find_value(arguments, error.pointer)
        schema = find_schema(self._schema, error.pointer)
        example = None if schema is None else choose_example(schema)
        if example is not None and not _fits(schema, example):
            example = None
        return replace(error, received=name_type(received) if given else None, example=example)


def _fits(schema: Any, example: Any) -> bool:
    """Return whether an example is valid; one of a schema that refers to others is not tried."""
    try:
        return _build_validator(schema).is_valid(example)
    except ValueError:
        return False


def _find_value(value: Any, location: str) -> tuple[bool, Any]:
    """Return whether there is a value at a JSON pointer, and the value."""
    for token in location.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            return False, None
    return True, value


@dataclass(frozen=True, slots=True)
class Violations:
    """The violations of a schema by a value: how many were found, and the pointers of the first of them.

    `more` says that there may be others: the search has a limit in number and in time. A pointer has the
    names that the schema declares and the indices of lists; any other member, whose name may be data, is `*`.
    """

    count: int = 0
    pointers: tuple[str, ...] = ()
    more: bool = False


class OutputValidator:
    """A compiled schema of results. What violates it is counted, and never repeated."""

    __slots__ = ("_names", "_schema", "_search", "_seconds", "_steps", "_validator")

    def __init__(self, schema: Mapping[str, Any], seconds: float = MAX_SECONDS) -> None:
        """Compile a schema; raise InvalidInput where that fails. A search takes `seconds` of CPU time."""
        self._validator, self._schema, self._steps = _compile_schema(dict(schema))
        self._search: ErrorSearch | None = None
        self._seconds = seconds
        self._names: frozenset[str] | None = None

    def can_validate(self, value: Any) -> bool:
        """Return whether a JSON value has no more values than can be validated with the schema."""
        return self._steps.allows(value)

    def find_violations(self, value: Any, *, max_pointers: int) -> Violations:
        """Return the violations of a JSON value, with at most `max_pointers` different pointers.

        There are none where the value has more values than can be validated, as for a schema that cannot be.
        """
        if not self.can_validate(value) or self._validator.is_valid(value):
            return Violations()
        if self._search is None:
            self._search = ErrorSearch(self._schema, self._validator, _build_validator, self._seconds)
            self._names = frozenset(_list_property_names(self._schema))
        names = self._names or frozenset()
        found = list(
            dict.fromkeys(one.pointer for one in islice(self._search.find_errors(value), MAX_ERRORS))
        )
        pointers = dict.fromkeys(_generalise_pointer(one, value, names) for one in found)
        return Violations(len(found), tuple(islice(pointers, max_pointers)), len(found) >= MAX_ERRORS)


def _list_property_names(schema: Any) -> Iterator[str]:
    """Yield the names of all properties that a schema declares."""
    stack = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, list):
            stack.extend(node)
        elif isinstance(node, dict):
            for word in ("properties", "required"):
                yield from (name for name in node.get(word) or () if isinstance(name, str))
            stack.extend(node.values())


def _generalise_pointer(location: str, value: Any, names: frozenset[str]) -> str:
    """Return a pointer into a value with `*` for the names of members that no schema declares."""
    tokens: list[str] = []
    for token in location.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list):
            value = value[int(key)] if key.isdecimal() and int(key) < len(value) else None
            tokens.append(token)
        else:
            value = value.get(key) if isinstance(value, dict) else None
            tokens.append(token if key in names else "*")
    return "".join(f"/{token}" for token in tokens)


def _compile_schema(
    schema: dict[str, Any], compile_schema: Callable[[dict[str, Any]], Draft202012Validator] | None = None
) -> tuple[Draft202012Validator, dict[str, Any], ValidationSteps]:
    """Return the validator of a schema, the schema that it enforces, and how many steps that takes."""
    compile_schema = compile_schema or _build_validator
    steps = count_steps(schema)
    if not steps.is_affordable:
        detail = (
            f"It applies its subschemas to one value in more than {MAX_STEPS:,} ways: refer to each once."
        )
        error = FieldError("/inputs", detail)
        raise InvalidInput("The tool's schema would take too long to validate.", errors=[error])
    try:
        return compile_schema(schema), schema, steps
    except ValueError:
        pass
    # A pattern that needs look-around has no linear-time form: enforcing it is left to the upstream.
    try:
        usable = _without_unusable_patterns(schema)
        return compile_schema(usable), usable, steps
    except ValueError:
        error = FieldError("/inputs", "The schema is not valid, or refers to something outside of it.")
        raise InvalidInput("The tool's input schema cannot be used.", errors=[error]) from None


def _build_validator(
    schema: dict[str, Any] | bool,
    registry: Registry | None = None,
    *,
    formats: Mapping[str, FormatChecker] | None = None,
) -> Draft202012Validator:
    return Draft202012Validator(
        schema,
        formats=None if formats is None else dict(formats),
        validate_formats=formats is not None,
        registry=registry,
        retriever=_reject_reference,
        pattern_options=_LINEAR,
    )


def _reject_reference(_uri: str) -> NoReturn:
    raise ValueError("References are never fetched.")


def _without_unusable_patterns(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_unusable_patterns(member) for member in node]
    if not isinstance(node, dict):
        return node
    usable = {}
    for key, value in node.items():
        if key == "pattern" and isinstance(value, str) and not is_usable_pattern(value):
            continue
        if key in MAPS and isinstance(value, dict):
            usable[key] = {
                name: _without_unusable_patterns(member)
                for name, member in value.items()
                if key != "patternProperties" or is_usable_pattern(name)
            }
        else:
            usable[key] = value if key in VALUES else _without_unusable_patterns(value)
    return usable


def is_valid_pattern(pattern: str) -> bool:
    """Return whether a regular expression is one, also of a kind that takes more than linear time."""
    try:
        Draft202012Validator({"pattern": pattern})
    except ValueError:
        return False
    return True


def is_usable_pattern(pattern: str) -> bool:
    """Return whether a regular expression can be matched in linear time."""
    try:
        _build_validator({"pattern": pattern})
    except ValueError:
        return False
    return True
