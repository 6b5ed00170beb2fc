"""The query parameters of the routes for tool calls."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast, get_args
from urllib.parse import parse_qsl

from app.agents.tool_calls.model import DEFAULT_MAX_BYTES, Dialect
from app.calls.results import ResultBudget, ResultFormat, check_fields
from app.core.errors import BadRequest, FieldError, InvalidInput
from app.core.text import pointer
from app.formats.dialects.dialects import Format, Strict

LEAST_MAX_BYTES: Final = 256
MOST_MAX_BYTES: Final = 16 << 20
DIALECTS: Final[Mapping[Format, Dialect]] = {
    **{name: name for name in get_args(Dialect)},
    "gemini-openapi": "gemini",
}
"""The dialect of the calls for each format of exports."""
NAMES: Final = (
    "format", "strict", "stream", "assistant", "max_bytes", "max_tokens", "fields", "result_format"
)  # fmt: skip
_TRUE: Final = frozenset({"true", "1"})
_FALSE: Final = frozenset({"false", "0", ""})
_MAX_PARAMETERS: Final = 100


@dataclass(frozen=True, slots=True)
class ToolCallsQuery:
    """What the query of a request says; `form` is None where the body is to tell it."""

    form: Format | None = None
    strict: Strict = "auto"
    stream: bool = False
    assistant: bool = False
    max_bytes: int | None = None
    max_tokens: int | None = None
    fields: tuple[str, ...] = ()
    result_format: ResultFormat | None = None

    @property
    def dialect(self) -> Dialect | None:
        """The dialect of the calls: an export in either form of Gemini gets the same."""
        return None if self.form is None else DIALECTS[self.form]

    def budget(self, *, max_bytes: int | None, max_tokens: int | None, calls: int = 1) -> ResultBudget:
        """Return the budget of each result; the parameters are the defaults of the toolset, and the number of
        calls, which share `MOST_MAX_BYTES`.
        """
        tokens = self.max_tokens or (None if self.max_bytes else max_tokens)
        share = MOST_MAX_BYTES // max(calls, 1)
        wanted = self.max_bytes or max_bytes or (share if tokens else DEFAULT_MAX_BYTES)
        return ResultBudget(min(wanted, share), tokens, self.fields, self.result_format)


_DEFAULTS: Final = ToolCallsQuery()


def read_query(query: bytes) -> ToolCallsQuery:
    """Return the parameters of a query string; raise InvalidInput for unknown, repeated and invalid ones, and
    BadRequest for one that is not UTF-8.
    """
    if not query:
        return _DEFAULTS
    try:
        pairs = parse_qsl(
            query.decode(), keep_blank_values=True, errors="strict", max_num_fields=_MAX_PARAMETERS
        )
    except ValueError:
        error = FieldError("#/query", f"Give at most {_MAX_PARAMETERS} parameters, percent-encoded as UTF-8.")
        raise BadRequest("The query string is not valid.", errors=[error]) from None
    values: dict[str, str] = {}
    errors: list[FieldError] = []
    for name, value in pairs:
        at = pointer("#/query", name[:200])
        if name not in NAMES:
            errors.append(FieldError(at, "This parameter is unknown.", expected=sorted(NAMES)))
        elif name in values:
            errors.append(FieldError(at, "Give this parameter once."))
        values[name] = value
    parsed = {
        "form": _choice("format", DIALECTS, values, errors),
        "strict": _choice("strict", get_args(Strict), values, errors) or "auto",
        "stream": _boolean("stream", values, errors),
        "assistant": _boolean("assistant", values, errors),
        "max_bytes": _integer("max_bytes", values, errors, LEAST_MAX_BYTES),
        "max_tokens": _integer("max_tokens", values, errors, LEAST_MAX_BYTES // 4),
        "fields": tuple(values.get("fields", "").split()),
        "result_format": _choice("result_format", get_args(ResultFormat), values, errors),
    }
    if errors:
        raise InvalidInput(f"The query is not valid: see {errors[0].pointer}.", errors=errors)
    check_fields(cast("tuple[str, ...]", parsed["fields"]), at="#/query/fields")
    return ToolCallsQuery(**cast("dict[str, Any]", parsed))


def _choice(
    name: str, choices: Iterable[str], values: Mapping[str, str], errors: list[FieldError]
) -> str | None:
    value = values.get(name)
    if value is None or value in choices:
        return value
    errors.append(FieldError(f"#/query/{name}", "Give one of these values.", expected=sorted(choices)))
    return None


def _boolean(name: str, values: Mapping[str, str], errors: list[FieldError]) -> bool:
    value = values.get(name, "").lower()
    if value not in _TRUE | _FALSE:
        errors.append(FieldError(f"#/query/{name}", "Give true or false.", expected="boolean"))
    return value in _TRUE


def _integer(name: str, values: Mapping[str, str], errors: list[FieldError], least: int) -> int | None:
    text = values.get(name)
    if text is None:
        return None
    if text.isascii() and text.isdigit() and len(text) < 12 and least <= int(text) <= MOST_MAX_BYTES:
        return int(text)
    detail = f"Give an integer from {least} to {MOST_MAX_BYTES}."
    errors.append(FieldError(f"#/query/{name}", detail, expected="integer"))
    return None
