"""Results of calls as MCP has them (`CallToolResult`): content blocks, structured content, and errors."""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import orjson

from app.agents.mcp.jsonrpc import OWN_PREFIX
from app.agents.mcp.tool_lists import RenderedTool
from app.calls.results import Media, ModelResult, TextResource, describe_media
from app.core import exact_json
from app.core.media_types import parse_essence

IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The types of images that models are shown; hosts reject others."""
_NO_JSON: Final = "The call was made, but its response is not JSON, as the published output schema says."
_REDIRECT: Final = (
    "The call was made, but its response is a redirect, which the published output schema does not describe."
)
_CUT: Final = (
    "The call was made, but its response was cut, and what is left is not valid for the published output "
    "schema."
)


def call_result(
    result: ModelResult,
    rendered: RenderedTool | None,
    *,
    is_modern: bool,
    structured_max: int,
    embedded_max: int,
    resource_url: str,
    server_info: dict[str, Any] | None = None,
    on_deviation: Callable[[], None] | None = None,
) -> bytes:
    """Return the result of `tools/call` as JSON.

    A JSON body of at most `structured_max` bytes is structured content, too: only an object for a legacy
    client, which rejects others. Where an output schema is published, the body must be valid for it: if not,
    the result is an error that has the body, because clients raise for such a result. `on_deviation` is
    called where the whole body is not valid for a schema that is published now. Images come first, since many
    hosts show the first block only. Other files of at most `embedded_max` bytes are embedded resources:
    `resource_url` is the URL of one that has none of its own. `server_info` is that of a modern result.
    """
    texts = [result.text]
    is_error = result.is_error
    structured: Any = None
    if rendered is not None and rendered.must_validate_results() and not is_error:
        structured, deviation = (
            (None, _REDIRECT) if result.is_redirect else _validate_result(result, rendered)
        )
        if deviation:
            is_error = True
            texts = [deviation, result.text]
            is_whole = not (result.is_cut or result.is_redirect)
            if on_deviation is not None and rendered.withdrawn_at is None and is_whole:
                on_deviation()
    elif result.body is not None and not is_error and len(result.body) <= structured_max:
        structured = _wrap_in_fragment(result.body, is_modern=is_modern)
    value: dict[str, Any] = {
        "content": _build_content(result, texts, _Embedding(resource_url, embedded_max)),
        "isError": is_error,
    }
    if structured is not None:
        value["structuredContent"] = structured
    meta = _build_meta(result)
    if is_modern:
        value["resultType"] = "complete"
        meta |= server_info or {}
    if meta:
        value["_meta"] = meta
    return exact_json.dumps(value)


@dataclass(frozen=True, slots=True)
class _Embedding:
    """The URL of an embedded file that has none of its own, and the largest size of one in bytes."""

    url: str
    max_bytes: int

    @property
    def limit(self) -> str:
        """A sentence about a file that is not embedded."""
        return f"It is not included: results over MCP have files of at most {self.max_bytes:,} bytes."


def _build_content(result: ModelResult, texts: list[str], embedding: _Embedding) -> list[Any]:
    """Return the content: that of an MCP server in its order, then the notes; else images, texts, other
    media.
    """
    if not result.media and not result.parts:
        return [{"type": "text", "text": text} for text in texts]
    if result.parts:
        parts: list[Any] = [*result.parts, *(f"Note: {note}" for note in result.notes)]
        return [
            _block(part, embedding) or _block(f"{describe_media(part)} {embedding.limit}", embedding)
            for part in parts
        ]
    blocks = [_block(media, embedding) for media in result.media]
    if None in blocks:
        # It describes the file already.
        texts = [*texts[:-1], f"{texts[-1]} {embedding.limit}"]
    images = [block for block in blocks if block is not None and block["type"] == "image"]
    others = [block for block in blocks if block is not None and block["type"] != "image"]
    return [*images, *(_block(text, embedding) for text in texts), *others]


def _block(part: str | Media | TextResource, embedding: _Embedding) -> dict[str, Any] | None:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if isinstance(part, TextResource):
        resource = {"uri": part.uri, "text": part.text}
        if part.media_type:
            resource["mimeType"] = part.media_type
        return {"type": "resource", "resource": resource}
    return _build_media_block(part, embedding)


def _build_meta(result: ModelResult) -> dict[str, Any]:
    meta: dict[str, Any] = {}
    if result.call_id:
        meta[f"{OWN_PREFIX}callId"] = result.call_id
    if result.retry_after is not None:
        meta[f"{OWN_PREFIX}retryAfterSeconds"] = result.retry_after
    if result.continuation is not None:
        meta[f"{OWN_PREFIX}continuation"] = result.continuation
    return meta


def _wrap_in_fragment(body: bytes, *, is_modern: bool) -> Any:
    """Return the JSON of a body as it came; None where the client takes no such value."""
    beginning = body.lstrip()[:1]
    if beginning == b"n" or (beginning != b"{" and not is_modern):
        return None
    return orjson.Fragment(body)


def _validate_result(result: ModelResult, rendered: RenderedTool) -> tuple[Any, str]:
    """Return the structured content for an output schema, or a sentence about why there is none."""
    outputs, validator = rendered.outputs, rendered.validator()
    if outputs is None or validator is None:
        return None, ""
    try:
        value = outputs.wrap(exact_json.loads(result.body or b""))
        exact_json.dumps(value)
    except (ValueError, TypeError, RecursionError):
        return None, _CUT if result.is_cut else _NO_JSON
    violations = validator.find_violations(exact_json.without_decimals(value), max_pointers=3)
    if violations.count == 0:
        return value, ""
    if result.is_cut:
        return None, _CUT
    where = ", ".join(one or "the root" for one in violations.pointers)
    return None, f"The call was made, but its response deviates from the published output schema at {where}."


def _build_media_block(media: Media, embedding: _Embedding) -> dict[str, Any] | None:
    """Return the block of binary content; None for a file that is too large to be embedded."""
    kind = parse_essence(media.media_type)
    if kind in IMAGES and not media.uri:
        return {"type": "image", "data": _encode_base64(media), "mimeType": kind}
    if kind.startswith("audio/") and not media.uri:
        return {"type": "audio", "data": _encode_base64(media), "mimeType": kind}
    if len(media.data) > embedding.max_bytes:
        return None
    return {
        "type": "resource",
        "resource": {"uri": media.uri or embedding.url, "mimeType": kind, "blob": _encode_base64(media)},
    }


def _encode_base64(media: Media) -> str:
    return base64.b64encode(media.data).decode()
