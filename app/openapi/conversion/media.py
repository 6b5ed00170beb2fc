"""Media types of requests and responses (RFC 9110 section 8.3.1): which are legal, and of which kind."""

import codecs
import re
from collections.abc import Iterable
from typing import Any

from app.core.media_types import is_textual, is_xml, may_be_json, parse_essence

_LEGAL = re.compile(r"[\w!#$&^.+*-]{1,127}/[\w!#$&^.+*-]{1,127}(\s*;[\x20-\x7e]{0,255})?", re.ASCII)
_SEQUENTIAL = frozenset({"text/event-stream"}) | frozenset(
    "application/" + name
    for name in ("jsonl", "x-jsonl", "jsonlines", "x-jsonlines", "ndjson", "x-ndjson", "json-seq")
)
_BYTES = frozenset(
    "application/" + name
    for name in (
        "octet-stream",
        "pdf",
        "zip",
        "gzip",
        "x-tar",
        "x-gzip",
        "x-zip-compressed",
        "zstd",
        "msgpack",
        "wasm",
    )
)
_CHARSET = re.compile(r"charset\s*=\s*\"?([\w.:-]+)", re.IGNORECASE)
_CONCRETE = {
    "*/*": "application/json",
    "application/*": "application/json",
    "text/*": "text/plain",
    "multipart/*": "multipart/form-data",
}


def legal(given: Any) -> bool:
    """Return whether a media type of the document is legal in a header."""
    return isinstance(given, str) and _LEGAL.fullmatch(given.strip()) is not None


def may_be_text(given: str) -> bool:
    """Return whether a document that says only `type: string` for the type can mean text
    (`application/sdp`).
    """
    media = parse_essence(given)
    return media.startswith("application/") and not may_be_json(media) and media not in _BYTES


def is_sequential(given: str) -> bool:
    """Return whether bodies of the type are a sequence of items without anything around it (OAS 3.2): JSON
    lines, JSON text sequences (RFC 7464), server-sent events.
    """
    media = parse_essence(given)
    return media in _SEQUENTIAL or media.endswith("+json-seq")


def is_form(given: str) -> bool:
    """Return whether bodies of the type consist of fields: `application/x-www-form-urlencoded`,
    `multipart/...`.
    """
    media = parse_essence(given)
    return media == "application/x-www-form-urlencoded" or media.startswith("multipart/")


def concrete(given: str) -> str:
    """Return the type to send for a type or a range of types."""
    media = parse_essence(given)
    if media in _CONCRETE:
        return _CONCRETE[media]
    if "*" in media:
        return "application/octet-stream"
    # A body cannot be encoded in an unknown charset; the type is sent without it.
    charset = _CHARSET.search(given)
    return given.strip() if charset is None or _is_known(charset[1]) else media


def _is_known(charset: str) -> bool:
    try:
        codecs.lookup(charset)
    except (LookupError, ValueError):
        return False
    return True


def preferred(offered: Iterable[Any]) -> str | None:
    """Return the preferred of several types, None if none is legal.

    The order is JSON, forms, multipart, text, bytes, XML; types of the same kind stay in the order given.
    """
    legal_ones = [one for one in offered if legal(one)]
    return min(legal_ones, key=_rank, default=None)


def _rank(given: str) -> int:
    media = parse_essence(given)
    if media == "application/json":
        return 0
    if may_be_json(media):
        return 2 if "*" in media else 1
    if media == "application/x-www-form-urlencoded":
        return 3
    if media.startswith("multipart/"):
        return 4 if media == "multipart/form-data" else 5
    if is_xml(media):
        return 9
    if is_textual(media):
        return 6
    return 8 if "*" in media else 7
