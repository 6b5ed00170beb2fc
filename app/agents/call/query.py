"""The query string of a call: the gateway's own parameters, and arguments of the tool."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from app.calls.arguments.texts import TextArguments
from app.core.errors import BadRequest, FieldError, InvalidInput

_TRUE: Final = frozenset({"true", "1"})
_FALSE: Final = frozenset({"false", "0", ""})
_DRY_RUN: Final = "dry_run"
_ENVELOPE: Final = "envelope"
# Names of the gateway's own parameters that do not exist yet: no argument may depend on them.
_RESERVED_NAMES: Final = frozenset({"stream", "format"})
_MAX_PARAMETERS: Final = 1_000


@dataclass(frozen=True, slots=True)
class CallQuery:
    """The gateway's own parameters, and the arguments in the query string; None where it has none."""

    dry_run: bool
    envelope: bool
    arguments: TextArguments | None


def read_query(query: bytes) -> CallQuery:
    """Return what the query string of a call asks for.

    Raises BadRequest for a query string that is not UTF-8 or has more than 1,000 parameters, and InvalidInput
    for a value of `dry_run` or `envelope` that is not true or false, and for reserved names.
    """
    try:
        pairs = parse_qsl(
            query.decode(), keep_blank_values=True, errors="strict", max_num_fields=_MAX_PARAMETERS
        )
    except UnicodeDecodeError:
        error = FieldError("#/query", "Percent-encode the parameters as UTF-8.")
        raise BadRequest("The query string is not valid.", errors=[error]) from None
    except ValueError:
        error = FieldError("#/query", f"Give at most {_MAX_PARAMETERS} parameters.")
        raise BadRequest("The query string is not valid.", errors=[error]) from None
    texts: dict[str, list[str]] = {}
    for name, value in pairs:
        texts.setdefault(name, []).append(value)
    dry_run = _flag(_DRY_RUN, texts.pop(_DRY_RUN, []))
    envelope = _flag(_ENVELOPE, texts.pop(_ENVELOPE, []))
    reserved = sorted(_RESERVED_NAMES.intersection(texts))
    if reserved:
        detail = "This name is reserved for the gateway: give an argument of this name in the body."
        errors = [FieldError(f"#/query/{name}", detail) for name in reserved]
        raise InvalidInput("A query parameter is not valid.", errors=errors)
    given = TextArguments(texts, "#/query", reserved=(_DRY_RUN, _ENVELOPE)) if texts else None
    return CallQuery(dry_run, envelope, given)


def _flag(name: str, values: list[str]) -> bool:
    if not values or (len(values) == 1 and values[0].lower() in _FALSE):
        return False
    if len(values) == 1 and values[0].lower() in _TRUE:
        return True
    # Programs differ in which of several values they use, and a wrong guess would call the tool.
    error = FieldError(f"#/query/{name}", "Give true or false, once.", "boolean")
    raise InvalidInput("A query parameter is not valid.", errors=[error])
