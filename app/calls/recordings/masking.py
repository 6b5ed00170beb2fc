"""Masking of what is stored of a response, beyond the secrets of its call, which are masked already.

    every secret that this process has revealed      ***   (`security.masking.Masker`)
    texts of members and headers with secret names   ***   authorization, *password, *secret, *token, ...
    what has the shape of a secret                   ***   `Bearer ...`, JWTs, keys of well-known services

Only what is stored is masked like this: the client of a live call gets the response as ever. A body that has
no secret is stored byte for byte.
"""

import contextlib
import re
from dataclasses import replace
from typing import Any, Final

from app.calls.recordings.interactions import RecordedError, RecordedResponse
from app.core import exact_json
from app.core.media_types import is_json, is_textual, parse_essence
from app.core.secret_names import is_secret_name
from app.core.telemetry.redaction import mask_shapes
from app.outbound.charsets import charset_of
from app.outbound.framing import StreamEvent
from app.protocols.base import BODY_METADATA_HEADERS
from app.security.masking import MASK, Masker

_MAX_DEPTH: Final = 200
_JSON_LINE: Final = re.compile(r"(?m)^((?:data:)?[ \t]*)([\[{].*[\]}])([ \t]*\r?)$")
_NAMED: Final = re.compile(
    r"(?P<before><(?:[\w.-]{1,100}:)?(?P<element>[\w.-]{1,100})(?:\s[^<>]*)?>)[^<>]+(?=</)"
    r"|(?P<before_>(?:^|(?<=&))(?P<field>[\w.%-]{1,100})=)[^&\s]+"
)


def mask_response(response: RecordedResponse, masker: Masker) -> RecordedResponse:
    """Return what is stored of a response."""
    body = response.body
    if body:
        body = _mask_body(body, response.media_type, masker)
    events = response.events
    if events is not None:
        events = tuple(_mask_event(event, masker) for event in events)
    error = None if response.error is None else _mask_error(response.error, masker)
    headers = response.headers
    if body is not response.body:
        headers = tuple(pair for pair in headers if pair[0].lower() not in BODY_METADATA_HEADERS)
    return replace(
        response,
        media_type=_mask_text(response.media_type, masker),
        headers=_mask_headers(headers, masker),
        body=body,
        events=events,
        error=error,
    )


def mask_value(value: Any, masker: Masker) -> Any:
    """Return a copy of a JSON value with secrets masked."""
    return _mask_value(value, masker)


def _mask_error(error: RecordedError, masker: Masker) -> RecordedError:
    return replace(
        error,
        detail=_mask_text(error.detail, masker),
        body=_mask_value(error.body, masker),
        headers=_mask_headers(error.headers, masker),
    )


def _mask_event(event: StreamEvent, masker: Masker) -> StreamEvent:
    data = event.data
    if event.kind != "bytes":
        data = _mask_json(data, masker) or _mask_text_body(data, "utf-8", masker)
    return StreamEvent(
        data,
        event.kind,
        _mask_text(event.name, masker),
        None if event.id is None else _mask_text(event.id, masker),
        event.retry,
    )


def _mask_headers(headers: tuple[tuple[str, str], ...], masker: Masker) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, MASK if is_secret_name(name) else _mask_text(value, masker)) for name, value in headers
    )


def _mask_body(body: bytes, media_type: str, masker: Masker) -> bytes:
    media = parse_essence(media_type)
    charset = charset_of(media_type) or "utf-8"
    if is_json(media) and charset in ("utf-8", "utf8"):
        masked = _mask_json(body, masker)
        if masked is not None:
            return masked
    if is_textual(media) or b"\x00" not in body[:1024]:
        return _mask_text_body(body, charset, masker)
    return body


def _mask_json(body: bytes, masker: Masker) -> bytes | None:
    """Return JSON masked, the same bytes where it has no secret; None for what is not JSON."""
    try:
        value = exact_json.load_exactly(body)
        masked = _mask_value(value, masker)
        return body if masked == value else exact_json.dumps(masked)
    except (ValueError, RecursionError, TypeError):
        return None


def _mask_text_body(body: bytes, charset: str, masker: Masker) -> bytes:
    with contextlib.suppress(UnicodeError, LookupError):
        text = body.decode(charset)
        lines = _JSON_LINE.sub(lambda match: _mask_line(match, masker), text)
        masked = _mask_text(_NAMED.sub(_mask_named, lines), masker)
        return body if masked == text else masked.encode(charset)
    return body


def _mask_value(value: Any, masker: Masker, depth: int = 0) -> Any:
    if isinstance(value, str):
        return _mask_text(value, masker)
    if depth > _MAX_DEPTH:
        return MASK if isinstance(value, dict | list) else value
    if isinstance(value, dict):
        return {
            _mask_text(name, masker): (
                _mask_member(member) if is_secret_name(name) else _mask_value(member, masker, depth + 1)
            )
            for name, member in value.items()
        }
    if isinstance(value, list):
        return [_mask_value(item, masker, depth + 1) for item in value]
    return value


def _mask_member(value: Any) -> Any:
    """Return the member of a secret name with its texts masked. Numbers stay: `max_tokens` is one."""
    if isinstance(value, str):
        return MASK
    if isinstance(value, dict):
        return {name: _mask_member(member) for name, member in value.items()}
    return [_mask_member(item) for item in value] if isinstance(value, list) else value


def _mask_line(match: re.Match[str], masker: Masker) -> str:
    """Return a line of JSON, or of an event with JSON, masked."""
    masked = _mask_json(match[2].encode(), masker)
    return match[0] if masked is None else f"{match[1]}{masked.decode()}{match[3]}"


def _mask_named(match: re.Match[str]) -> str:
    """Return an element of XML, or a field of a form, masked where its name is that of a secret."""
    name = match["element"] or match["field"]
    before = match["before"] or match["before_"]
    return f"{before}{MASK}" if is_secret_name(name) else match[0]


def _mask_text(text: str, masker: Masker) -> str:
    return mask_shapes(masker.mask(text)) if text else text
