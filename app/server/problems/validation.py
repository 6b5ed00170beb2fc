"""Validation errors of pydantic and FastAPI as field errors with pointers, without values that were sent."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fastapi.exceptions import RequestValidationError

from app.errors import BadRequest, Fault, GatewayError, InvalidInput, UnsupportedMediaType

_MAX_ERRORS = 50
_MAX_SEGMENT_LENGTH = 200
_LOCATIONS = ("query", "path", "header", "cookie")
# Messages for error types of pydantic whose own messages repeat the input or are unclear.
_MESSAGES = {
    "missing": "This is required.",
    "extra_forbidden": "This member is unknown.",
    "uuid_parsing": "Must be a UUID.",
    "union_tag_not_found": "The member that names the kind is missing.",
}
_GENERIC = "This value is not valid."


def invalid(error: RequestValidationError) -> GatewayError:
    """Return the gateway's error for a request that FastAPI rejected: 400, 415 or 422."""
    faults = error.errors()
    in_body = [fault for fault in faults if fault["loc"][:1] == ("body",)]
    for fault in in_body:
        if fault["type"] == "json_invalid":
            at = fault["loc"][-1]
            return BadRequest(
                f"The body is not valid JSON: see character {at}.", errors=[Fault("", "Must be JSON.")]
            )
    if in_body and isinstance(error.body, bytes):
        return UnsupportedMediaType("Send the body as application/json, and say so in Content-Type.")
    found = [_field_error(fault, error.body) for fault in faults[:_MAX_ERRORS]]
    places = ", ".join(dict.fromkeys(one.pointer or "the body" for one in found[:5]))
    return InvalidInput(f"The input is not valid: see {places}.", errors=found)


def _field_error(fault: Mapping[str, Any], body: Any) -> Fault:
    place, *parts = fault["loc"] or ("body",)
    if place in _LOCATIONS:
        pointer = "#" + "".join(f"/{_segment(part)}" for part in (place, *parts))
    else:
        is_missing = fault["type"] == "missing"
        pointer = "".join(f"/{_segment(part)}" for part in _body_path(body, parts, is_missing=is_missing))
    context = fault.get("ctx") or {}
    expected = context.get("expected") or context.get("expected_tags") or context.get("pattern")
    return Fault(pointer, _message(fault), expected if isinstance(expected, str) else None)


def _body_path(body: Any, parts: Sequence[Any], *, is_missing: bool) -> Iterable[Any]:
    """Return the parts of a location that exist in the body; the others name members of a union."""
    node = body
    for number, part in enumerate(parts, start=1):
        if isinstance(node, Mapping):
            if part in node:
                node = node[part]
                yield part
            elif is_missing and number == len(parts):
                yield part
        elif isinstance(node, list):
            if isinstance(part, int) and part < len(node):
                node = node[part]
                yield part
        else:
            return


def _message(fault: Mapping[str, Any]) -> str:
    if own := _MESSAGES.get(fault["type"]):
        return own
    if fault["type"] == "union_tag_invalid":
        return f"The kind must be one of {(fault.get('ctx') or {}).get('expected_tags', 'those listed')}."
    said = str(fault["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    sent = fault.get("input")
    if isinstance(sent, str) and len(sent) > 5 and sent in said:
        return _GENERIC
    return said[:1].upper() + said[1:]


def _segment(part: Any) -> str:
    return str(part)[:_MAX_SEGMENT_LENGTH].replace("~", "~0").replace("/", "~1")
