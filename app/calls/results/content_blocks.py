"""Content of MCP servers (`CallToolResult.content`) as a model reads it."""

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

import orjson

from app.calls.results.bodies import MAX_MEDIA_BYTES, describe_media, detect_media_type
from app.calls.results.model import Media, ModelResult, TextResource
from app.core import exact_json
from app.core.media_types import parse_essence

_MEDIA: Final = ("image", "audio")
Part = str | Media | TextResource


def read_blocks(body: bytes) -> ModelResult:
    """Return the result for the value of a tool of an MCP server: one block of content, or a list of them.

    Texts that were JSON are JSON values in `body`. What is no valid block, or has more than
    `MAX_MEDIA_BYTES`, is text.
    """
    value = orjson.loads(body)
    parts = tuple(_read_part(item) for item in (value if isinstance(value, list) else [value]))
    text = "\n\n".join(_describe_part(part) for part in parts)
    media = tuple(part for part in parts if isinstance(part, Media))
    return ModelResult(text if text.strip() else "(blank text)", media=media, parts=parts)


def _read_part(item: Any) -> Part:
    if isinstance(item, str):
        return item
    if isinstance(item, dict):
        if item.get("type") in _MEDIA:
            return _read_media(item, "data", uri="") or _dump_json(item)
        resource = item.get("resource")
        if item.get("type") == "resource" and isinstance(resource, dict):
            return _read_resource(resource) or _dump_json(item)
    return _dump_json(item)


def _read_resource(resource: Mapping[str, Any]) -> Part | None:
    uri, text, kind = resource.get("uri"), resource.get("text"), resource.get("mimeType")
    if not isinstance(uri, str) or not uri:
        return None
    if isinstance(text, str):
        return TextResource(uri, kind if isinstance(kind, str) else "", text)
    return _read_media(resource, "blob", uri=uri)


def _read_media(item: Mapping[str, Any], name: str, *, uri: str) -> Part | None:
    """Return binary content, a sentence about content that is too large, and None for what is not valid."""
    encoded, kind = item.get(name), item.get("mimeType")
    if not isinstance(encoded, str):
        return None
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return None
    stated = parse_essence(kind) if isinstance(kind, str) else ""
    media = Media(detect_media_type(data, stated), data, uri)
    if len(data) > MAX_MEDIA_BYTES:
        return f"{describe_media(media)} It is not included: it has more than {MAX_MEDIA_BYTES:,} bytes."
    return media


def _describe_part(part: Part) -> str:
    if isinstance(part, Media):
        return describe_media(part)
    return part.text if isinstance(part, TextResource) else part


def _dump_json(item: Any) -> str:
    return exact_json.dumps(item).decode()
