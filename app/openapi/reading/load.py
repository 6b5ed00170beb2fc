"""Parses a document: encodings, JSON or YAML, and the limits that bound the cost of a hostile document.

The result is safe for later stages and the database: it has no NaN, infinities, lone surrogates, NUL
characters, integers beyond 64 bits, or nesting beyond the limit.
"""

import json
import math
import re
from collections.abc import Callable
from typing import Any

import orjson

from app.core.errors import InvalidDocument, TooLarge
from app.formats.archive import DocumentLimits
from app.openapi.formats.detection import (
    describe_other_format,
    describe_other_text,
    detect_format,
    sniff_others,
)
from app.openapi.model import ConvertOptions, Json
from app.openapi.reading.encodings import gunzip, is_gzip, to_utf8
from app.openapi.reading.yaml_load import load_yaml

_KEYS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"\s*+(:?)')
# Errors of JSON writers that orjson rejects and that can be repaired: NaN, infinities, lone surrogates.
_REPAIRABLE = re.compile(rb"NaN|Infinity|\\u[dD][89a-fA-F]|[0-9][eE]\+?[0-9]{3}|[0-9]{300}")
_REPAIRABLE_BYTES = 8 * 2**20
# A top-level `openapi` or `swagger` key, in JSON or in YAML block style.
_SNIFF = re.compile(rb"""(?:^|[{,\s])["']?(?:openapi|swagger)["']?\s*:\s*["']?[0-9]""")

_HEAD = 2**16

Warn = Callable[[str, str], None]


def is_openapi(raw: Any) -> bool:
    """Return whether a parsed document declares itself as OpenAPI or Swagger, of any version."""
    return detect_format(raw) == "openapi"


def is_convertible(raw: Any) -> bool:
    """Return whether a parsed document is OpenAPI, or of a kind that is translated to it."""
    return detect_format(raw) is not None


def sniff(document: bytes) -> bool:
    """Return whether unparsed bytes look like OpenAPI in JSON or YAML, or like what is translated to it,
    judged by their first and last 64 kB.
    """
    parts = [to_utf8(part)[0] for part in (document[: 2**16], document[2**16 :][-(2**16) :]) if part]
    return any(_SNIFF.search(part) or sniff_others(part) for part in parts)


def load(document: bytes, *, options: ConvertOptions, warn: Warn) -> Json:
    """Parse a document that declares itself as OpenAPI, or is of a kind that is translated to it; return its
    raw mapping.

    Raises InvalidDocument or TooLarge; repairs are reported to `warn(pointer, detail)`.
    """
    try:
        raw = load_value(
            document,
            media_type=options.media_type or "",
            limits=options.limits,
            warn=warn,
            drops_tags=True,
        )
    except InvalidDocument as error:
        known = describe_other_text(to_utf8(document[:_HEAD])[0])
        raise (InvalidDocument(known) if known else error) from None
    if not isinstance(raw, dict):
        known = describe_other_text(to_utf8(document[:_HEAD])[0])
        raise InvalidDocument(known or "The document is not an object")
    if not is_convertible(raw):
        known = describe_other_format(raw) or describe_other_text(to_utf8(document[:_HEAD])[0])
        raise InvalidDocument(known or "The document has neither a member `openapi` nor `swagger`")
    return raw


def load_value(
    document: bytes, *, media_type: str, limits: DocumentLimits, warn: Warn, drops_tags: bool = False
) -> Any:
    """Parse any JSON or YAML document under the same limits; return its value. Raises as `load` does.

    `drops_tags` has the same meaning as for `load_yaml`.
    """
    if len(document) > limits.size:
        raise TooLarge(f"The document has {len(document)} bytes; at most {limits.size} are read")
    if is_gzip(document):
        document = gunzip(document, max_bytes=limits.size)
    content, damage = to_utf8(document)
    if damage is not None:
        warn("", damage)
    return _parse_content(content, media_type=media_type, limits=limits, warn=warn, drops_tags=drops_tags)


def decode_document(document: bytes) -> str:
    """Return the text of a document in its detected encoding."""
    return to_utf8(document)[0].decode("utf-8", "replace")


def _parse_content(
    content: bytes, *, media_type: str, limits: DocumentLimits, warn: Warn, drops_tags: bool
) -> Any:
    start = content[:4096].lstrip()[:2]
    if not start:
        raise InvalidDocument("The document is empty")
    if start == b"PK":
        raise InvalidDocument("The document is compressed in a way that is not read; send it unpacked")
    if start[:1] not in b"{[":
        # YAML, also where it is called JSON: no document is a JSON text of another kind.
        return load_yaml(content, limits=limits, warn=warn, drops_tags=drops_tags)
    if content.count(b",") > limits.nodes:
        raise TooLarge(f"The document has more than {limits.nodes} values")
    try:
        raw = orjson.loads(content)
    except orjson.JSONDecodeError as problem:
        where = f" (line {problem.lineno}, column {problem.colno})"
    else:
        measure(raw, limits)
        return _clean_value(raw, content, warn)
    if len(content) <= _REPAIRABLE_BYTES and _REPAIRABLE.search(content):
        return _repair_json(content, where, limits=limits, warn=warn)
    if "json" not in media_type.lower() and len(content) <= limits.yaml_size and b"\t" not in content[:1]:
        # YAML's flow style also starts with a brace; the error for a document that is neither is JSON's.
        try:
            return load_yaml(content, limits=limits, warn=warn, drops_tags=drops_tags)
        except InvalidDocument as problem:
            if not problem.detail.startswith("The document is neither"):
                raise
    raise InvalidDocument(f"The document is not valid JSON{where}")


def _clean_value(raw: Any, content: bytes, warn: Warn) -> Any:
    if rb"\u0000" in content:
        raw = _remove_unstorable(raw, warn)
    if not is_openapi(raw):
        return raw
    written = sum(1 for found in _KEYS.finditer(content) if found[1])
    if written != _count_keys(raw):
        warn("", "an object has the same key twice; its last value was taken")
    return raw


def _repair_json(content: bytes, where: str, *, limits: DocumentLimits, warn: Warn) -> Any:
    try:
        raw = json.loads(content)
    except (ValueError, RecursionError):
        raise InvalidDocument(f"The document is not valid JSON{where}") from None
    measure(raw, limits)
    return _remove_unstorable(raw, warn)


def measure(root: Any, limits: DocumentLimits) -> None:
    """Raise InvalidDocument or TooLarge for nesting or size beyond the limits.

    The levels are visited one by one, because deep nesting could overflow the stack of a recursive function.
    """
    level = [root] if isinstance(root, dict | list) else []
    depth = nodes = 0
    while level:
        depth += 1
        nodes += sum(map(len, level))
        if depth > limits.depth:
            raise InvalidDocument(f"The document is nested deeper than {limits.depth} levels")
        if nodes > limits.nodes:
            raise TooLarge(f"The document has more than {limits.nodes} values")
        level = [
            child
            for parent in level
            for child in (parent.values() if type(parent) is dict else parent)
            if type(child) is dict or type(child) is list
        ]


def _count_keys(root: Any) -> int:
    keys, stack = 0, [root]
    while stack:
        parent = stack.pop()
        if type(parent) is dict:
            keys += len(parent)
            parent = parent.values()
        stack.extend(child for child in parent if type(child) is dict or type(child) is list)
    return keys


def _remove_unstorable(value: Any, warn: Warn) -> Any:
    """Return a copy that every JSON writer and Postgres's jsonb accept; its depth is already bounded."""
    if isinstance(value, str):
        if value.isascii() and "\x00" not in value:
            return value
        repaired = value.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")
        if repaired != value:
            warn("", "NUL characters or lone surrogates were removed from its strings")
        return repaired
    if isinstance(value, dict):
        return {
            _remove_unstorable(key, warn): _remove_unstorable(member, warn) for key, member in value.items()
        }
    if isinstance(value, list):
        return [_remove_unstorable(member, warn) for member in value]
    if isinstance(value, float) and not math.isfinite(value):
        warn("", "NaN or infinite numbers were replaced by null")
        return None
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**64:
        return float(value) if abs(value) < 10**308 else None
    return value
