"""Conversion of GraphQL responses (section 7 of the specification) into values and errors.

The value is `data`. A response with errors and no data is an error of the upstream; one with partial data is
returned whole, with its `data` and its `errors`.
"""

import asyncio
from typing import Any, Final

import orjson

from app.core import exact_json
from app.core.errors import (
    UpstreamError,
    UpstreamErrorResponse,
    UpstreamMalformed,
    UpstreamRejected,
    UpstreamUnauthorized,
)
from app.outbound.error_bodies import sanitize_error_body
from app.protocols.base import Call, Result
from app.protocols.shared.results import JSON, body_result
from app.security.masking import Masker

_INLINE_BYTES: Final = 256 << 10
_ERROR_BODY: Final = 64 * 1024
_MAX_SECRET_LENGTH: Final = 8 * 1024
# The code of a rejected credential in Apollo Server and others that follow it.
_UNAUTHENTICATED: Final = "UNAUTHENTICATED"


async def read_result(raw: bytes, call: Call[Any], masker: Masker) -> Result:
    """Return the result of a query or mutation from the bytes of its response.

    Raise UpstreamMalformed, UpstreamRejected, UpstreamUnauthorized and ResponseTooLarge.
    """
    if len(raw) > _INLINE_BYTES:
        value = await asyncio.to_thread(_parse_value, raw, masker)
    else:
        value = _parse_value(raw, masker)
    return body_result(value, JSON, call)


async def read_introspection(raw: bytes, masker: Masker) -> Any:
    """Return the data of an introspection; raise what `read_result` raises."""
    return orjson.loads(await asyncio.to_thread(_parse_value, raw, masker))


def response_value(response: Any, masker: Masker) -> bytes:
    """Return the value of one response as JSON; raise UpstreamMalformed and UpstreamRejected."""
    if not isinstance(response, dict) or not response.keys() & {"data", "errors"}:
        raise UpstreamMalformed("The upstream's response is not a GraphQL response.")
    data, errors = response.get("data"), response.get("errors")
    if not errors:
        if not isinstance(data, dict):
            raise UpstreamMalformed("The upstream's response has neither data nor errors.")
        return exact_json.dumps(data)
    if not isinstance(data, dict) or all(value is None for value in data.values()):
        raise response_error(errors, data, masker)
    return exact_json.dumps({"data": data, "errors": errors})


def response_error(errors: Any, data: Any, masker: Masker) -> UpstreamError:
    """Return the error for a response without data; its body has the `errors` and the `data`, masked."""
    raw = exact_json.dumps({"errors": errors, "data": data})
    complete = len(raw) <= _ERROR_BODY
    if not complete:
        raw = raw[: _ERROR_BODY + _MAX_SECRET_LENGTH]
    body = sanitize_error_body(raw, JSON, masker=masker, limit=_ERROR_BODY, complete=complete)
    if _is_unauthenticated(errors):
        error_response = UpstreamErrorResponse(status=401, body=body)
        return UpstreamUnauthorized("The upstream rejected the credential.", response=error_response)
    return UpstreamRejected(
        "The upstream responded with errors and no data.",
        response=UpstreamErrorResponse(status=422, body=body),
    )


def _parse_value(raw: bytes, masker: Masker) -> bytes:
    try:
        response = orjson.loads(raw)
    except orjson.JSONDecodeError:
        raise UpstreamMalformed("The upstream's response is not JSON.") from None
    return response_value(response, masker)


def _is_unauthenticated(errors: Any) -> bool:
    listed = errors if isinstance(errors, list) else []
    extensions = [one.get("extensions") for one in listed if isinstance(one, dict)]
    return any(isinstance(one, dict) and one.get("code") == _UNAUTHENTICATED for one in extensions)
