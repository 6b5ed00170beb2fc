"""The query string of a call: the gateway's own parameters, and arguments of the tool."""

from typing import Final
from urllib.parse import parse_qsl

from app.calls.text_arguments import TextArguments
from app.errors import BadRequest, FieldError, InvalidInput

_TRUE: Final = frozenset({"true", "1"})
_FALSE: Final = frozenset({"false", "0", ""})
_DRY_RUN: Final = "dry_run"
# Names of the gateway's own parameters that do not exist yet: no argument may depend on them.
_RESERVED_NAMES: Final = frozenset({"stream", "format", "envelope"})
_MAX_PARAMETERS: Final = 1_000


def read_query(query: bytes) -> tuple[bool, TextArguments | None]:
    """Return whether `dry_run` is requested, and the arguments in the query string; None where it has none.

    Raises BadRequest for a query string that is not UTF-8 or has more than 1,000 parameters, and InvalidInput
    for a value of `dry_run` that is not true or false, and for reserved names.
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
    dry_run = _dry_run(texts.pop(_DRY_RUN, []))
    reserved = sorted(_RESERVED_NAMES.intersection(texts))
    if reserved:
        detail = "This name is reserved for the gateway: give an argument of this name in the body."
        errors = [FieldError(f"#/query/{name}", detail) for name in reserved]
        raise InvalidInput("A query parameter is not valid.", errors=errors)
    return dry_run, TextArguments(texts, "#/query", reserved=(_DRY_RUN,)) if texts else None


def _dry_run(values: list[str]) -> bool:
    if not values or (len(values) == 1 and values[0].lower() in _FALSE):
        return False
    if len(values) == 1 and values[0].lower() in _TRUE:
        return True
    # Programs differ in which of several values they use, and a wrong guess would call the tool.
    error = FieldError("#/query/dry_run", "Give true or false, once.", "boolean")
    raise InvalidInput("A query parameter is not valid.", errors=[error])
