"""The arguments of meta-tools as models send them: a value for a list, a text for a number or for JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeVar

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError

from app.calls.arguments.parsing import parse_arguments
from app.calls.results import ResultFormat, check_fields
from app.core.errors import FieldError, GatewayError, InvalidArguments, InvalidInput
from app.core.text import pointer
from app.search.parameters import MAX_QUERIES, MAX_QUERY_LENGTH
from app.toolsets.meta_tools.definitions import FIND_LIMIT, MAX_DESCRIBED, MAX_FIND_LIMIT

_Model = TypeVar("_Model", bound=BaseModel)

_NAMES: Final = ("name", "tool_name")
_ARGUMENTS: Final = ("arguments", "parameters")
_RESULT: Final = ("fields", "result_format")


def _as_list(value: Any) -> Any:
    """Return a lone value as a list, and a JSON text of a list as this list."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            parsed = orjson.loads(value)
        except orjson.JSONDecodeError:
            return [value]
        return parsed if isinstance(parsed, list) else [value]
    return [value] if isinstance(value, str) else value


def _without_nulls(value: Any) -> Any:
    """Return an object without its members that are null: many models send each member."""
    if isinstance(value, dict):
        return {name: member for name, member in value.items() if member is not None}
    return value


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")


_Query = Annotated[str, StringConstraints(min_length=1, max_length=MAX_QUERY_LENGTH)]
_Name = Annotated[str, StringConstraints(min_length=1, max_length=400)]
_Tags = Annotated[list[_Name], BeforeValidator(_as_list), Field(max_length=50)]


class FindArguments(_Arguments):
    """The arguments of `find_tools`."""

    query: Annotated[list[_Query], BeforeValidator(_as_list), Field(min_length=1, max_length=MAX_QUERIES)]
    limit: int = Field(FIND_LIMIT, ge=1, le=MAX_FIND_LIMIT)
    provider: str | None = None
    tags: _Tags = []
    read_only: bool = False
    detail: Literal["brief", "schema"] = "brief"


class DescribeArguments(_Arguments):
    """The arguments of `describe_tools`."""

    names: Annotated[list[_Name], BeforeValidator(_as_list), Field(min_length=1, max_length=MAX_DESCRIBED)]


class _ResultArguments(_Arguments):
    """What `call_read_tool` and `call_tool` say of the result."""

    fields: Annotated[list[_Name], BeforeValidator(_as_list)] = []
    result_format: ResultFormat | None = None


class ReadMoreArguments(_Arguments):
    """The arguments of `read_more`."""

    continuation: _Name


@dataclass(frozen=True, slots=True)
class InnerCall:
    """The call that a meta-tool is to make.

    `fields` are the wanted parts of the result (JSON pointers or JSONPaths; empty: all), and `result_format`
    is the form of a result that is a table (None: as it is).
    """

    name: str
    arguments: dict[str, Any]
    fields: Sequence[str] = ()
    result_format: ResultFormat | None = None


def parse(model: type[_Model], arguments: Any) -> _Model:
    """Return the arguments of a meta-tool; raise InvalidArguments with the pointers of what is wrong."""
    try:
        return model.model_validate(_without_nulls(as_object(arguments)))
    except ValidationError as error:
        errors = [
            FieldError(pointer("", *one["loc"]), f"{one['msg']}.")
            for one in error.errors(include_url=False, include_context=False, include_input=False)
        ]
        raise InvalidArguments("The arguments are not valid.", errors=errors) from None


def parse_call(arguments: Any) -> InnerCall:
    """Return the call that a meta-tool is to make; raise InvalidArguments.

    Accepted beside `{"name": ..., "arguments": {...}}`: `tool_name` and `parameters`, arguments as a JSON
    text, the name within the arguments, and arguments beside the name. `fields` and `result_format` are those
    of the meta-tool where they are beside `arguments`, else of the tool.
    """
    given = as_object(arguments)
    name = _first(given, _NAMES)
    nested = _first(given, _ARGUMENTS)
    rest = {key: value for key, value in given.items() if key not in (*_NAMES, *_ARGUMENTS)}
    result = _ResultArguments()
    if nested is not None:
        result = _parse_result({key: rest.pop(key) for key in _RESULT if key in rest})
    inner = as_object(nested, at="/arguments") if nested is not None else rest
    if name is None:
        name = _first(inner, _NAMES)
        deeper = _first(inner, _ARGUMENTS)
        if deeper is not None:
            inner = as_object(deeper, at="/arguments/arguments")
        else:
            inner = {key: value for key, value in inner.items() if key not in _NAMES}
    elif nested is not None and rest:
        errors = [
            FieldError(pointer("", key), "This argument is unknown: those of the tool belong in `arguments`.")
            for key in list(rest)[:20]
        ]
        raise InvalidArguments("The arguments are not valid.", errors=errors)
    if not isinstance(name, str) or not name:
        detail = "Give the name of the tool to call, as find_tools gives it."
        raise InvalidArguments(
            "The arguments are not valid.", errors=[FieldError("/name", detail, expected="string")]
        )
    return InnerCall(name, inner, tuple(result.fields), result.result_format)


def _parse_result(given: dict[str, Any]) -> _ResultArguments:
    result = parse(_ResultArguments, given)
    try:
        check_fields(result.fields, at="/fields")
    except InvalidInput as error:
        raise InvalidArguments(error.detail, errors=error.errors) from None
    return result


def as_object(value: Any, *, at: str = "") -> dict[str, Any]:
    """Return arguments as an object: absent ones are empty, a JSON text is parsed. Raise InvalidArguments."""
    if value is None:
        return {}
    if isinstance(value, str):
        try:
            value = parse_arguments(value.encode("utf-8", "replace"))
        except GatewayError as error:
            raise InvalidArguments(
                "The arguments are not valid.", errors=[FieldError(at, error.detail, expected="object")]
            ) from None
    if not isinstance(value, dict):
        raise InvalidArguments(
            "The arguments are not valid.", errors=[FieldError(at, "Must be an object.", expected="object")]
        )
    return value


def _first(members: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((members[name] for name in names if members.get(name) is not None), None)
