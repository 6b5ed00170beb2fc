"""The serialisation tables of OpenAPI's Parameter Object (3.x `style` and `explode`) and RFC 6570.

Swagger 2.0's `collectionFormat` is written as styles: csv = simple or form, ssv = spaceDelimited, tsv =
tabDelimited, pipes = pipeDelimited, multi = exploded form. What the documents leave open is decided here:
null members are left out (RFC 6570 section 2.3: undefined), an empty list or object is not sent, an object
or list inside a list is written as JSON, and deepObject takes nested objects and lists as more brackets
(`a[b][0]=1`), which is how PHP, qs, Spring and Stripe read them.
"""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from app.errors import Fault, InvalidArguments
from app.http_requests.templates import ParameterSpec
from app.text import pointer
from app.utcp.headers import header_value
from app.utcp.percent import escape, escape_reserved, json_text, scalar
from app.utcp.segments import check_path_text, check_segment

_PLAIN: Final = re.compile(r"[A-Za-z0-9_~-][A-Za-z0-9._~-]*").fullmatch
Escape = Callable[[str], str]

_DEEPEST: Final = 32
_QUERY_DELIMITERS: Final = {"spaceDelimited": "%20", "pipeDelimited": "%7C", "tabDelimited": "%09"}
_HEADER_DELIMITERS: Final = {"spaceDelimited": " ", "pipeDelimited": "|"}


def members(value: Any) -> list[tuple[str, Any]] | list[Any]:
    """The members of an object (as pairs) or a list, without nulls."""
    if isinstance(value, dict):
        return [(key, member) for key, member in value.items() if member is not None]
    return [member for member in value if member is not None]


def flat(value: Any, *, explode: bool, escape: Escape) -> list[str]:
    """The encoded items of a list or object: `a`, or `k=v` (exploded object), or `k`, `v` (not exploded)."""
    if not isinstance(value, dict):
        return [escape(scalar(member)) for member in members(value)]
    pairs = [(escape(key), escape(scalar(member))) for key, member in members(value)]
    return [f"{k}={v}" for k, v in pairs] if explode else [text for pair in pairs for text in pair]


def form_pairs(value: Any, *, name: str, style: str, explode: bool, escape: Escape, at: str) -> list[str]:
    """`name=value` pairs for a query, a form body or cookies; `name` is encoded already. None is not sent."""
    if value is None:
        return []
    if not isinstance(value, (dict, list)):
        return [f"{name}={escape(scalar(value))}"]
    if style == "deepObject":
        return _deep(value, name, escape, at, 0)
    if explode and isinstance(value, list):
        return [f"{name}={escape(scalar(member))}" for member in members(value)]
    items = flat(value, explode=explode, escape=escape)
    if explode:
        return items
    return [f"{name}={_QUERY_DELIMITERS.get(style, ',').join(items)}"] if items else []


def query_encoder(spec: ParameterSpec) -> Callable[[Any], str]:
    """Value -> `name=value&name=value`, or nothing."""
    name, at = escape(spec.name), pointer("", spec.input)
    quoted = escape_reserved if spec.allow_reserved else escape
    if spec.content_type is not None:
        media = spec.content_type
        return lambda value: f"{name}={quoted(content_text(value, media, at=at))}"
    style = spec.style or "form"
    explode = style in ("form", "deepObject") if spec.explode is None else spec.explode

    def encode(value: Any) -> str:
        if isinstance(value, str):
            return f"{name}={quoted(value)}"
        return "&".join(form_pairs(value, name=name, style=style, explode=explode, escape=quoted, at=at))

    return encode


def path_encoder(spec: ParameterSpec) -> Callable[[Any], str]:
    """Value -> the text of a placeholder. Raises InvalidArguments for what would leave or empty its
    segment.
    """
    at, style, explode = pointer("", spec.input), spec.style or "simple", bool(spec.explode)
    name = escape(spec.name)

    def safe(text: str) -> str:
        check_path_text(text, at=at)
        return escape(text)

    def encode(value: Any) -> str:
        if spec.content_type is not None:
            text = safe(content_text(value, spec.content_type, at=at))
        elif style == "matrix":
            text = _matrix(value, name, explode=explode, escape=safe)
        elif isinstance(value, (dict, list)):
            items = flat(value, explode=explode, escape=safe)
            delimiter = _QUERY_DELIMITERS.get(style, "." if style == "label" and explode else ",")
            text = ("." if style == "label" and items else "") + delimiter.join(items)
        else:
            text = ("." if style == "label" else "") + safe(scalar(value))
        check_segment(text, at=at)
        return text

    def encode_simple(value: Any) -> str:
        # The common case: identifiers and UUIDs need neither encoding nor a closer look.
        if isinstance(value, str) and _PLAIN(value):
            return value
        # bool is a subclass of int, and "True" is no JSON.
        return str(value) if type(value) is int else encode(value)

    return encode_simple if style == "simple" and spec.content_type is None else encode


def header_encoder(spec: ParameterSpec) -> Callable[[Any], str | None]:
    """Value -> the field value, not percent-encoded; None for an empty list or object, which is not sent."""
    at, explode = pointer("", spec.input), bool(spec.explode)
    delimiter = _HEADER_DELIMITERS.get(spec.style or "simple", ",")

    def encode(value: Any) -> str | None:
        if spec.content_type is not None:
            return header_value(content_text(value, spec.content_type, at=at, ascii_only=True), at=at)
        if not isinstance(value, (dict, list)):
            return header_value(scalar(value), at=at)
        items = flat(value, explode=explode, escape=str)
        return header_value(delimiter.join(items), at=at) if items else None

    return encode


def cookie_encoder(spec: ParameterSpec) -> Callable[[Any], list[str]]:
    """Value -> `name=value` pairs for the one Cookie header (joined with `; `, RFC 6265 section 4.2.1)."""
    name, at = escape(spec.name), pointer("", spec.input)
    explode = True if spec.explode is None else spec.explode

    def encode(value: Any) -> list[str]:
        if spec.content_type is not None:
            return [f"{name}={escape(content_text(value, spec.content_type, at=at))}"]
        return form_pairs(value, name=name, style=spec.style or "form", explode=explode, escape=escape, at=at)

    return encode


def content_text(value: Any, content_type: str, *, at: str, ascii_only: bool = False) -> str:
    """A parameter given by `content`: JSON for JSON types, else text as it is."""
    if is_json(content_type):
        return json.dumps(value, separators=(",", ":")) if ascii_only else json_text(value)
    if isinstance(value, (dict, list)):
        raise InvalidArguments(
            f"{content_type} is given as text", errors=[Fault(at, "Give a string.", "string")]
        )
    return scalar(value)


def is_json(content_type: str) -> bool:
    """True for `application/json`, `*+json` (RFC 6839) and `*/*`, whatever their parameters."""
    media = content_type.partition(";")[0].strip().lower()
    return media in ("application/json", "text/json", "*/*", "application/*") or media.endswith("+json")


def _matrix(value: Any, name: str, *, explode: bool, escape: Escape) -> str:
    if not isinstance(value, (dict, list)):
        text = escape(scalar(value))
        return f";{name}={text}" if text else f";{name}"
    items = flat(value, explode=explode, escape=escape)
    if not items:
        return ""
    if not explode:
        return f";{name}={','.join(items)}"
    named: Iterable[str] = items if isinstance(value, dict) else (f"{name}={item}" for item in items)
    return "".join(f";{item}" for item in named)


def _deep(value: Any, name: str, escape: Escape, at: str, depth: int) -> list[str]:
    if depth > _DEEPEST:
        raise InvalidArguments(
            "The value is nested too deeply", errors=[Fault(at, f"At most {_DEEPEST} levels.")]
        )
    if not isinstance(value, (dict, list)):
        return [] if value is None else [f"{name}={escape(scalar(value))}"]
    keyed = value.items() if isinstance(value, dict) else enumerate(value)
    return [
        pair
        for key, member in keyed
        for pair in _deep(member, f"{name}%5B{escape(str(key))}%5D", escape, at, depth + 1)
    ]
