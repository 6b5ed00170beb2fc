"""Validation errors of pydantic and FastAPI as field errors with pointers, without values that were sent."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fastapi.exceptions import RequestValidationError

from app.core.errors import (
    BadRequest,
    FieldError,
    GatewayError,
    InvalidInput,
    UnsupportedMediaType,
)
from app.core.field_names import describe_unknown_member
from app.core.schemas import PATTERN_MESSAGES
from app.core.suggestions import did_you_mean, find_similar
from app.core.text import describe_json_error

_MAX_ERRORS = 50
_MAX_SEGMENT_LENGTH = 200
_LOCATIONS = ("query", "path", "header", "cookie")
# Messages for error types of pydantic whose own messages repeat the input or are unclear.
_MESSAGES = {
    "missing": "This is required.",
    "uuid_parsing": "Must be a UUID.",
    "union_tag_not_found": "The member that names the kind is missing.",
}
_GENERIC = "This value is not valid."
_QUOTED = re.compile("'([^']*)'")


def convert_validation_error(error: RequestValidationError, body_type: Any = None) -> GatewayError:
    """Return the gateway's error for a request that FastAPI rejected: 400, 415 or 422.

    `body_type` is the type of the route's body, whose fields are suggested for unknown members.
    """
    findings = error.errors()
    in_body = [finding for finding in findings if finding["loc"][:1] == ("body",)]
    for finding in in_body:
        if finding["type"] == "json_invalid":
            document = (
                error.body if isinstance(error.body, bytes) else str(error.body).encode(errors="replace")
            )
            detail = describe_json_error("The body", document, int(finding["loc"][-1]))
            return BadRequest(detail, errors=[FieldError("", "Must be JSON.")])
    if in_body and isinstance(error.body, bytes):
        return UnsupportedMediaType("Send the body as application/json, and say so in Content-Type.")
    field_errors = [
        _convert_field_error(finding, error.body, body_type) for finding in findings[:_MAX_ERRORS]
    ]
    pointers = ", ".join(dict.fromkeys(one.pointer or "the body" for one in field_errors[:5]))
    return InvalidInput(f"The input is not valid: see {pointers}.", errors=field_errors)


def _convert_field_error(finding: Mapping[str, Any], body: Any, body_type: Any) -> FieldError:
    location, *parts = finding["loc"] or ("body",)
    if location in _LOCATIONS:
        pointer = "#" + "".join(f"/{_escape_segment(part)}" for part in (location, *parts))
    else:
        is_missing = finding["type"] == "missing"
        pointer = "".join(
            f"/{_escape_segment(part)}" for part in _find_body_path(body, parts, is_missing=is_missing)
        )
    context = finding.get("ctx") or {}
    expected = context.get("expected") or context.get("expected_tags") or context.get("pattern")
    if (location, *parts) == ("query", "cursor"):
        return FieldError(pointer, "This is not a cursor of this list: send `next_cursor` of its last page.")
    if finding["type"] == "extra_forbidden":
        return FieldError(pointer, describe_unknown_member(body_type, parts))
    return FieldError(pointer, _write_message(finding), expected if isinstance(expected, str) else None)


def _find_body_path(body: Any, parts: Sequence[Any], *, is_missing: bool) -> Iterable[Any]:
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


def _write_message(finding: Mapping[str, Any]) -> str:
    if own := _MESSAGES.get(finding["type"]):
        return own
    if finding["type"] == "union_tag_invalid":
        return f"The kind must be one of {(finding.get('ctx') or {}).get('expected_tags', 'those listed')}."
    if finding["type"] == "string_pattern_mismatch":
        pattern = str((finding.get("ctx") or {}).get("pattern"))
        if pattern in PATTERN_MESSAGES:
            return PATTERN_MESSAGES[pattern]
    message = str(finding["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    sent = finding.get("input")
    if finding["type"] in ("literal_error", "enum") and isinstance(sent, str):
        options = _QUOTED.findall(str((finding.get("ctx") or {}).get("expected", "")))
        return f"{message}. {did_you_mean(find_similar(sent, options))}".rstrip()
    if isinstance(sent, str) and len(sent) > 5 and sent in message:
        return _GENERIC
    return message[:1].upper() + message[1:].rstrip(".") + "."


def _escape_segment(part: Any) -> str:
    return str(part)[:_MAX_SEGMENT_LENGTH].replace("~", "~0").replace("/", "~1")
