"""Parses bytes of clients and upstreams into JSON values, within limits, and detects OpenAPI documents."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final

import orjson

from app.core.errors import (
    BadRequest,
    FieldError,
    InvalidDocument,
    InvalidInput,
    TooLarge,
)
from app.core.text import load_json
from app.formats.archive import DocumentLimits, is_archive
from app.openapi.formats.detection import describe_other_format, describe_other_text
from app.openapi.reading.encodings import transcode
from app.openapi.reading.load import is_convertible, sniff
from app.openapi.reading.yaml_load import load_yaml

MAX_BYTES_PARSED: Final = 1 << 20
"""Documents of at most this many bytes are parsed to detect their kind (about 5 ms); of larger ones only the
first bytes are examined.
"""

MAX_VALUES: Final = 1_000_000
"""Values of one JSON document. So many take orjson 40 ms, in which no other thread runs. An OpenAPI document
may have more, because it is converted in a child process.
"""

MAX_BYTES_ON_LOOP: Final = 1 << 16
"""Up to this many bytes are worked on in the event loop: a thread would cost more than it saves."""

_YAML_LIMITS: Final = DocumentLimits(yaml_size=4 << 20, yaml_nodes=200_000)
_MAX_DEPTH: Final = 100


async def looks_like_openapi(body: bytes, *, media_type: str = "") -> bool:
    """Return whether the bytes are for the converter of OpenAPI. Small ones are parsed for that."""
    if is_archive(body):
        return True
    if len(body) > MAX_BYTES_PARSED:
        return sniff(body)
    try:
        raw = await parse_document(body, media_type=media_type)
    except (InvalidInput, TooLarge):
        return sniff(body)
    return is_convertible(raw) or (isinstance(raw, dict) and "paths" in raw and "tools" not in raw)


async def parse_manual(body: bytes, *, media_type: str = "", at: str = "") -> Any:
    """Return the value of what is no OpenAPI document; raise as `parse_document` does, and InvalidDocument
    for a document of a kind that is known and not read. `at` is its JSON pointer.
    """
    try:
        raw = await parse_document(body, media_type=media_type)
    except InvalidDocument:
        reject_other_formats(None, body, at=at)
        raise
    reject_other_formats(raw, body, at=at)
    return raw


def reject_other_formats(raw: Any, body: bytes, *, at: str = "") -> None:
    """Raise InvalidDocument for a document of a kind that is known and not read, parsed or not."""
    if isinstance(raw, Mapping) and "tools" in raw:
        return
    known = describe_other_format(raw) or describe_other_text(body)
    if known is not None:
        raise InvalidDocument(known, errors=[FieldError(at, known)])


async def parse_document(body: bytes, *, media_type: str = "") -> Any:
    """Return the JSON or YAML value, parsed in a thread if large; raise InvalidDocument and TooLarge.

    Its strings may contain characters that cannot be stored (U+0000 and lone surrogates).
    """
    if len(body) < MAX_BYTES_ON_LOOP:
        return _parse(body, media_type)
    return await asyncio.to_thread(_parse, body, media_type)


def parse_json(body: bytes) -> Any:
    """Return the value of a JSON body; raise TooLarge, and BadRequest with line and column."""
    reject_too_many_values(body)
    try:
        raw = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"The body is not JSON (line {error.lineno}, column {error.colno}).") from None
    reject_too_deep(raw)
    return raw


def reject_too_many_values(body: bytes) -> None:
    """Raise TooLarge for JSON that may have over a million values: marks inside of strings count, too."""
    if len(body) > MAX_VALUES and sum(body.count(mark) for mark in (b",", b"[", b"{")) > MAX_VALUES:
        detail = f"A document that is not OpenAPI may have at most {MAX_VALUES} values."
        raise TooLarge(detail, extra={"limit": MAX_VALUES})


def reject_too_deep(raw: Any) -> None:
    """Raise InvalidDocument for a value that is nested deeper than 100 levels."""
    level = [raw]
    for _ in range(_MAX_DEPTH + 1):
        level = [
            child
            for parent in level
            for child in (
                parent.values() if isinstance(parent, dict) else parent if isinstance(parent, list) else ()
            )
            if isinstance(child, dict | list)
        ]
        if not level:
            return
    problem = FieldError("", f"At most {_MAX_DEPTH} levels.")
    raise InvalidDocument("The value is nested too deeply.", errors=[problem])


def _parse(body: bytes, media_type: str) -> Any:
    text = transcode(body).lstrip()
    if not text:
        raise InvalidDocument("The document is empty.")
    if text[:1] in b"{[" or "json" in media_type.lower():
        reject_too_many_values(text)
        try:
            raw = load_json(text)
        except json.JSONDecodeError as error:
            if "json" in media_type.lower():
                where = f"line {error.lineno}, column {error.colno}"
                raise InvalidDocument(f"The document is not valid JSON ({where}).") from None
            raw = _load_yaml(text)
    else:
        raw = _load_yaml(text)
    reject_too_deep(raw)
    return raw


def _load_yaml(text: bytes) -> Any:
    return load_yaml(text, limits=_YAML_LIMITS, warn=lambda _pointer, _detail: None)
