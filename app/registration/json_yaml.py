"""Bytes -> JSON values, without ever trusting them; and whether bytes are an OpenAPI document at all."""

import asyncio
from typing import Any, Final

import orjson

from app.errors import BadRequest, Fault, InvalidDocument, InvalidInput, TooLarge
from app.openapi.archive import is_archive
from app.openapi.load import is_openapi, sniff
from app.openapi.model import DocumentLimits
from app.openapi.yaml_load import load_yaml
from app.text import refuse_unstorable

PARSED_AT_ONCE: Final = 1 << 20
"""Up to this many bytes are parsed to see what they are (some 5 ms); others are told by their beginning."""

MOST_VALUES: Final = 1_000_000
"""So many values take orjson 40 ms, in which no other thread runs. An OpenAPI document may have more: that is
read in a child process."""

BY_THE_WAY: Final = 1 << 16
"""Up to this many bytes are worked on in the event loop: a thread would cost more than it spares."""

_YAML_LIMITS: Final = DocumentLimits(yaml_size=4 << 20, yaml_nodes=200_000)
_DEEPEST: Final = 100


async def looks_like_openapi(body: bytes, *, media_type: str = "") -> bool:
    """Whether the bytes are to be read by the converter. Small ones are parsed for that."""
    if is_archive(body):
        return True
    if len(body) > PARSED_AT_ONCE:
        return sniff(body)
    try:
        raw = await parsed(body, media_type=media_type)
    except InvalidInput:
        return sniff(body)
    return is_openapi(raw) or (isinstance(raw, dict) and "paths" in raw and "tools" not in raw)


async def parsed(body: bytes, *, media_type: str = "") -> Any:
    """The JSON or YAML value; raises InvalidDocument and TooLarge. Large ones are parsed in a thread."""
    if len(body) < BY_THE_WAY:
        return _parsed(body, media_type)
    return await asyncio.to_thread(_parsed, body, media_type)


def parsed_json(body: bytes) -> Any:
    """A JSON body; raises TooLarge, and BadRequest with the place of the mistake."""
    refuse_many(body)
    try:
        raw = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"The body is not JSON (line {error.lineno}, column {error.colno}).") from None
    refuse_depth(raw)
    return raw


def refuse_many(body: bytes) -> None:
    """Raises TooLarge for JSON of more values than are read here; what stands in texts counts along."""
    if len(body) > MOST_VALUES and sum(body.count(mark) for mark in (b",", b"[", b"{")) > MOST_VALUES:
        detail = f"A document that is not OpenAPI may have at most {MOST_VALUES} values."
        raise TooLarge(detail, extra={"limit": MOST_VALUES})


def refuse_depth(raw: Any) -> None:
    """Raises InvalidDocument for what is nested deeper than 100 levels; works level by level."""
    level = [raw]
    for _ in range(_DEEPEST + 1):
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
    fault = Fault("", f"At most {_DEEPEST} levels.")
    raise InvalidDocument("The value is nested too deeply.", errors=[fault])


def _parsed(body: bytes, media_type: str) -> Any:
    text = body.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not text:
        raise InvalidDocument("The document is empty.")
    if text[:1] in b"{[" or "json" in media_type.lower():
        refuse_many(text)
        try:
            raw = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            if "json" in media_type.lower():
                where = f"line {error.lineno}, column {error.colno}"
                raise InvalidDocument(f"The document is not valid JSON ({where}).") from None
            raw = _yaml(text)
    else:
        raw = _yaml(text)
    refuse_depth(raw)
    refuse_unstorable(raw)
    return raw


def _yaml(text: bytes) -> Any:
    return load_yaml(text, limits=_YAML_LIMITS, warn=lambda _pointer, _detail: None)
