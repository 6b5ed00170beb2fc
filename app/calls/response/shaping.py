"""The shape that a tool gives to the response of its upstream, for every interface alike."""

import asyncio
from http import HTTPStatus
from typing import Any, Final

import orjson

from app.calls.context import CallContext
from app.core import exact_json
from app.core.errors import (
    FieldError,
    InvalidArguments,
    ResponseTooLarge,
    UpstreamError,
    UpstreamMalformed,
)
from app.core.media_types import is_json
from app.protocols.base import BODY_METADATA_HEADERS, Result
from app.protocols.requests.output_spec import OutputSpec
from app.protocols.responses.reader import NotDecodable
from app.protocols.responses.shaping import NotDecodableText, shaped_value, unmet_requirement
from app.protocols.shared.results import JSON, single_event

_INLINE_BYTES: Final = 64 << 10
_NOT_READABLE: Final = "The upstream's response is not what the tool expects."


async def shape_response(result: Result, context: CallContext, spec: OutputSpec, *, events: bool) -> Result:
    """Return a result in the shape of a spec: as one event, too, where `events` are requested.

    Raise what the stream of the result raises, InvalidArguments or UpstreamMalformed where a requirement is
    not met, and ResponseTooLarge.
    """
    try:
        body = await result.read()
    finally:
        await result.aclose()
    if len(body) > _INLINE_BYTES:
        shaped = await asyncio.to_thread(_shape, body, result.media_type, context, spec)
    else:
        shaped = _shape(body, result.media_type, context, spec)
    if context.response_masker is not None:
        # What was encoded is legible now.
        shaped = context.response_masker.mask_json(shaped)
    limit = context.plan.limits.response_bytes
    if len(shaped) > limit:
        raise ResponseTooLarge(f"The result has more than {limit} bytes.")
    result.body, result.media_type = shaped, JSON
    result.headers = [one for one in result.headers if one[0].lower() not in BODY_METADATA_HEADERS]
    if events:
        result.events = single_event(shaped)
    return result


def set_error_text(error: UpstreamError, spec: OutputSpec) -> None:
    """Set the detail of an error to the text of a spec, where the upstream has rejected the call."""
    if spec.error is not None and error.response is not None:
        error.detail = fill_error_text(spec.error, error.response.status)


def fill_error_text(text: str, status: int) -> str:
    """Return the text of an error, with the phrase and the number of the upstream's status in it."""
    try:
        reason = HTTPStatus(status).phrase
    except ValueError:
        reason = str(status)
    return text.replace("{reason}", reason).replace("{status}", str(status))


def _shape(body: bytes, media_type: str, context: CallContext, spec: OutputSpec) -> bytes:
    value = _read_value(body, media_type, context)
    unmet = unmet_requirement(spec, value)
    if unmet is not None:
        if unmet.argument is None:
            raise UpstreamMalformed(unmet.message)
        raise InvalidArguments(unmet.message, errors=[FieldError(unmet.argument, f"{unmet.message}.")])
    try:
        return exact_json.dumps(shaped_value(spec, value, context.request.arguments))
    except (NotDecodableText, orjson.JSONEncodeError):
        raise UpstreamMalformed(_NOT_READABLE) from None


def _read_value(body: bytes, media_type: str, context: CallContext) -> Any:
    if not body:
        return None
    try:
        if is_json(media_type):
            return exact_json.load_exactly(body)
        return context.plan.response_reader().value(body, media_type)
    except (NotDecodable, ValueError, RecursionError):
        raise UpstreamMalformed(_NOT_READABLE) from None
