"""Arguments against a tool's JSON Schema (2020-12): every fault, with its pointer and what was expected.

The validator is jsonschema-rs: its regular expressions take linear time here, and no `$ref` is ever fetched
(every JSON Schema library fetches remote ones by default). A fault never repeats a value of the caller, which
may be a secret.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final, NoReturn

from jsonschema_rs import Draft202012Validator, RegexOptions, Registry

from app.errors import Fault, InvalidArguments, InvalidInput
from app.json_schema.error_messages import MOST_FAULTS
from app.json_schema.error_search import SECONDS, Narrowing
from app.json_schema.references import MAPS, VALUES

_LINEAR: Final = RegexOptions(size_limit=1 << 20, dfa_size_limit=1 << 20)


class ArgumentValidator:
    """A compiled schema of the arguments object. Compiling takes about 0.1 ms, a check about 2 us."""

    __slots__ = ("_narrowing", "_schema", "_seconds", "_validator")

    def __init__(self, schema: Mapping[str, Any], seconds: float = SECONDS) -> None:
        """Raises InvalidInput for a schema that cannot be compiled: a dangling or remote `$ref`, say.

        For `seconds` of work the faults of arguments too large to judge at once are looked for.
        """
        self._validator, self._schema = _compiled(dict(schema))
        self._narrowing: Narrowing | None = None
        self._seconds = seconds

    def check(self, arguments: Any) -> None:
        """Raises InvalidArguments with all faults (at most 50)."""
        if not isinstance(arguments, dict):
            raise InvalidArguments(
                "The arguments must be a JSON object.", errors=[Fault("", "Give an object.", "object")]
            )
        if not self._validator.is_valid(arguments):
            self._refuse(arguments)

    def _refuse(self, arguments: dict[str, Any]) -> NoReturn:
        if self._narrowing is None:
            self._narrowing = Narrowing(self._schema, self._validator, _validator, self._seconds)
        faults = islice(self._narrowing.faults(arguments), MOST_FAULTS)
        unique = list({(fault.pointer, fault.detail): fault for fault in faults}.values())
        raise InvalidArguments(_summary(unique), errors=unique)


def _compiled(schema: dict[str, Any]) -> tuple[Draft202012Validator, dict[str, Any]]:
    """The validator, and the schema that it enforces."""
    try:
        return _validator(schema), schema
    except ValueError:
        pass
    # A pattern that needs look-around has no linear-time form: it is not enforced, the upstream will.
    try:
        usable = _without_unusable_patterns(schema)
        return _validator(usable), usable
    except ValueError:
        fault = Fault("/inputs", "The schema is not valid, or refers to something outside of it.")
        raise InvalidInput("The tool's input schema cannot be used.", errors=[fault]) from None


def _validator(schema: dict[str, Any] | bool, registry: Registry | None = None) -> Draft202012Validator:
    return Draft202012Validator(schema, registry=registry, retriever=_deny, pattern_options=_LINEAR)


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
