"""The request bodies of variables: JSON, or text, which is the value itself or a .env file."""

from collections.abc import Mapping
from typing import Any, Final

from fastapi import Request

from app.core.errors import BadRequest, FieldError, InvalidInput
from app.core.media_types import parse_essence
from app.formats.utcp.variables import parse_dotenv
from app.providers.credentials.input_models import NO_NUL
from app.providers.credentials.model import VariableDraft
from app.providers.credentials.validation_errors import validated
from app.providers.registration.input_models import VariableInput, VariablesInput
from app.providers.registration.request_parser import read_body, read_json, variable_draft

_TEXT: Final = "text/plain"
_MAX_BYTES: Final = 1 << 20


def variable_body() -> dict[str, Any]:
    """Return the OpenAPI request body of a variable, for the `openapi_extra` of its route."""
    text = {"type": "string", "maxLength": 65_536, **NO_NUL}
    value = {"schema": text, "example": "the-secret-of-the-upstream"}
    return _request_body(VariableInput.__name__, {"value": "eu", "secret": False}, value)


def variables_body() -> dict[str, Any]:
    """Return the OpenAPI request body of an import of variables, for the `openapi_extra` of its route."""
    file = {"schema": {"type": "string", "minLength": 1}, "example": "API_TOKEN=secret\n"}
    one = {"variables": {"API_TOKEN": {"value": "secret"}}}
    return _request_body(VariablesInput.__name__, one, file)


async def read_variable(request: Request, *, max_bytes: int) -> VariableDraft:
    """Return the variable of a body: `{"value", "secret"}`, or the value as text/plain, which is secret.

    Raises BadRequest, InvalidInput, TooLarge and UnsupportedMediaType.
    """
    if _media_type(request) != _TEXT:
        return variable_draft(validated(VariableInput, await read_json(request, max_bytes=max_bytes)))
    text = await _text(request, max_bytes=max_bytes)
    try:
        return variable_draft(validated(VariableInput, {"value": text}))
    except InvalidInput as error:
        # The value is the whole body.
        errors = [FieldError("", one.detail) for one in error.errors]
        raise InvalidInput(error.detail, errors=errors) from None


async def read_variables(request: Request, *, max_bytes: int) -> Mapping[str, VariableDraft]:
    """Return the variables of a body, by name: `{"variables": {...}}`, or a .env file as text/plain, whose
    variables are secret.

    Raises BadRequest, InvalidInput, TooLarge and UnsupportedMediaType.
    """
    limit = min(max_bytes, _MAX_BYTES)
    if _media_type(request) not in {_TEXT, ""}:
        body = validated(VariablesInput, await read_json(request, max_bytes=limit))
        return {name: variable_draft(one) for name, one in body.variables.items()}
    text = await _text(request, max_bytes=limit)
    if not text.strip():
        raise BadRequest("The body is empty.")
    return {name: VariableDraft(value) for name, value in parse_dotenv(text).items()}


async def _text(request: Request, *, max_bytes: int) -> str:
    try:
        return (await read_body(request, max_bytes=max_bytes)).decode("utf-8")
    except UnicodeDecodeError:
        raise BadRequest("The body is not UTF-8.") from None


def _media_type(request: Request) -> str:
    return parse_essence(request.headers.get("content-type", ""))


def _request_body(name: str, example: Any, text: dict[str, Any]) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{name}"}
    content = {"application/json": {"schema": schema, "example": example}, _TEXT: text}
    return {"requestBody": {"required": True, "content": content}}
