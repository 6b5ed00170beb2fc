"""The serialisation styles of OpenAPI's Parameter Object (3.x `style` and `explode`) and RFC 6570.

Swagger 2.0's `collectionFormat` maps to styles: csv = simple or form, ssv = spaceDelimited, tsv =
tabDelimited, pipes = pipeDelimited, multi = exploded form; that of a list within a list to `item_styles`.
What the specifications leave open is decided here: null members are left out (RFC 6570 section 2.3:
undefined), an empty list or object is not sent, an object or list inside a list is written as JSON, and
deepObject writes nested objects and lists with more brackets (`a[b][0]=1`), as PHP, qs, Spring and Stripe
read them.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from app.core.errors import FieldError, InvalidArguments
from app.core.media_types import may_be_json
from app.core.text import pointer
from app.formats.utcp.headers import COOKIE_NAME, check_header_value
from app.formats.utcp.percent import (
    escape,
    escape_reserved,
    escape_reserved_in_segment,
    write_json,
    write_scalar,
)
from app.formats.utcp.segments import check_path_text, check_segment
from app.protocols.requests.templates import ParameterSpec

_UNRESERVED: Final = re.compile(r"[A-Za-z0-9_~-][A-Za-z0-9._~-]*").fullmatch
Escape = Callable[[str], str]

_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]")
_MAX_DEPTH: Final = 32
_QUERY_DELIMITERS: Final = {"spaceDelimited": "%20", "pipeDelimited": "%7C", "tabDelimited": "%09"}
_HEADER_DELIMITERS: Final = {"spaceDelimited": " ", "pipeDelimited": "|"}
# RFC 6265 section 4.1.1, less what servers take in a value although it is not allowed there: spaces, quotes,
# commas and backslashes.
_COOKIE_VALUE: Final = re.compile(r"[\x20-\x3a\x3c-\x7e]*")


def non_null_members(value: Any) -> list[tuple[str, Any]] | list[Any]:
    """Return the members of an object (as pairs) or a list, without nulls."""
    if isinstance(value, dict):
        return [(key, member) for key, member in value.items() if member is not None]
    return [member for member in value if member is not None]


def item_text(
    value: Any, styles: Sequence[str], *, escape: Escape, delimiters: Mapping[str, str] = _QUERY_DELIMITERS
) -> str:
    """Return the encoded text of an item of a list; `styles` are those of the lists within it."""
    if not styles or not isinstance(value, list):
        return escape(write_scalar(value))
    items = [
        item_text(one, styles[1:], escape=escape, delimiters=delimiters) for one in non_null_members(value)
    ]
    return delimiters.get(styles[0], ",").join(items)


def flatten(
    value: Any,
    *,
    explode: bool,
    escape: Escape,
    item_styles: Sequence[str] = (),
    delimiters: Mapping[str, str] = _QUERY_DELIMITERS,
) -> list[str]:
    """Return the encoded items of a list or object: `a`, or `k=v` (exploded), or `k`, `v` (not exploded)."""
    if not isinstance(value, dict):
        return [
            item_text(member, item_styles, escape=escape, delimiters=delimiters)
            for member in non_null_members(value)
        ]
    pairs = [(escape(key), escape(write_scalar(member))) for key, member in non_null_members(value)]
    return [f"{k}={v}" for k, v in pairs] if explode else [text for pair in pairs for text in pair]


def form_pairs(
    value: Any,
    *,
    name: str,
    style: str,
    explode: bool,
    escape: Escape,
    at: str,
    item_styles: Sequence[str] = (),
) -> list[str]:
    """Return `name=value` pairs for a query, a form body or cookies; `name` is encoded already.

    None is not sent. Raises InvalidArguments with the pointer `at` for a value that is nested too deeply.
    """
    if value is None:
        return []
    if not isinstance(value, (dict, list)):
        return [f"{name}={escape(write_scalar(value))}"]
    if style == "deepObject":
        return _deep_object(value, name, escape, at, 0)
    if explode and isinstance(value, list):
        return [
            f"{name}={item_text(member, item_styles, escape=escape)}" for member in non_null_members(value)
        ]
    items = flatten(value, explode=explode, escape=escape, item_styles=item_styles)
    if explode:
        return items
    return [f"{name}={_QUERY_DELIMITERS.get(style, ',').join(items)}"] if items else []


def query_encoder(spec: ParameterSpec) -> Callable[[Any], str]:
    """Return the encoder of a query parameter: value -> `name=value&name=value`, or ""."""
    name, at = escape(spec.name), pointer("", spec.input)
    encode_value = escape_reserved if spec.allow_reserved else escape
    if spec.content_type is not None:
        media = spec.content_type
        return lambda value: f"{name}={encode_value(content_text(value, media, at=at))}"
    style = spec.style or "form"
    explode = style in ("form", "deepObject") if spec.explode is None else spec.explode

    def encode(value: Any) -> str:
        if isinstance(value, str):
            return f"{name}={encode_value(value)}"
        pairs = form_pairs(
            value,
            name=name,
            style=style,
            explode=explode,
            escape=encode_value,
            at=at,
            item_styles=spec.item_styles,
        )
        return "&".join(pairs)

    return encode


def path_encoder(spec: ParameterSpec) -> Callable[[Any], str]:
    """Return the encoder of a path parameter: value -> the text of its placeholder.

    It raises InvalidArguments for a value that would leave its path segment or make it empty.
    """
    at, style, explode = pointer("", spec.input), spec.style or "simple", bool(spec.explode)
    name = escape(spec.name)
    encode_text = escape_reserved_in_segment if spec.allow_reserved else escape

    def safe(text: str) -> str:
        check_path_text(text, at=at)
        return encode_text(text)

    def encode(value: Any) -> str:
        if spec.content_type is not None:
            text = safe(content_text(value, spec.content_type, at=at))
        elif style == "matrix":
            text = _matrix(value, name, explode=explode, escape=safe)
        elif isinstance(value, (dict, list)):
            items = flatten(value, explode=explode, escape=safe, item_styles=spec.item_styles)
            delimiter = _QUERY_DELIMITERS.get(style, "." if style == "label" and explode else ",")
            text = ("." if style == "label" and items else "") + delimiter.join(items)
        else:
            text = ("." if style == "label" else "") + safe(write_scalar(value))
        check_segment(text, at=at)
        return text

    def encode_simple(value: Any) -> str:
        # The common case: identifiers and UUIDs need neither encoding nor a closer look.
        if isinstance(value, str) and _UNRESERVED(value):
            return value
        # bool is a subclass of int, and "True" is not JSON.
        return str(value) if type(value) is int else encode(value)

    return encode_simple if style == "simple" and spec.content_type is None else encode


def header_encoder(spec: ParameterSpec) -> Callable[[Any], str | None]:
    """Return the encoder of a header parameter: value -> field value, not percent-encoded.

    It returns None for an empty list or object, which is not sent.
    """
    at, explode = pointer("", spec.input), bool(spec.explode)
    delimiter = _HEADER_DELIMITERS.get(spec.style or "simple", ",")

    def encode(value: Any) -> str | None:
        if spec.content_type is not None:
            return check_header_value(content_text(value, spec.content_type, at=at, ascii_only=True), at=at)
        if not isinstance(value, (dict, list)):
            return check_header_value(write_scalar(value), at=at)
        items = flatten(
            value,
            explode=explode,
            escape=str,
            item_styles=spec.item_styles,
            delimiters=_HEADER_DELIMITERS,
        )
        return check_header_value(delimiter.join(items), at=at) if items else None

    return encode


def cookie_encoder(spec: ParameterSpec) -> Callable[[Any], list[str]]:
    """Return the encoder of a cookie parameter: value -> `name=value` pairs for the one Cookie header.

    The pairs are joined with `; ` (RFC 6265 section 4.2.1). In the style `cookie` (OAS 3.2) nothing is
    percent-encoded; InvalidArguments is raised for a value that no cookie can have.
    """
    name, at = escape(spec.name), pointer("", spec.input)
    explode = True if spec.explode is None else spec.explode
    if spec.style == "cookie" and spec.content_type is None:
        return lambda value: _plain_cookies(value, spec.name, explode=explode, at=at)

    def encode(value: Any) -> list[str]:
        if spec.content_type is not None:
            return [f"{name}={escape(content_text(value, spec.content_type, at=at))}"]
        return form_pairs(value, name=name, style=spec.style or "form", explode=explode, escape=escape, at=at)

    return encode


def _plain_cookies(value: Any, name: str, *, explode: bool, at: str) -> list[str]:
    if not isinstance(value, (dict, list)):
        pairs = [(name, write_scalar(value))]
    elif not explode:
        items = flatten(value, explode=False, escape=str)
        pairs = [(name, ",".join(items))] if items else []
    elif isinstance(value, dict):
        pairs = [(key, write_scalar(member)) for key, member in non_null_members(value)]
    else:
        pairs = [(name, write_scalar(member)) for member in non_null_members(value)]
    if not all(COOKIE_NAME.fullmatch(key) and _COOKIE_VALUE.fullmatch(text) for key, text in pairs):
        detail = "Give printable ASCII without semicolons, escaped as the upstream expects it."
        raise InvalidArguments("A cookie cannot have this value", errors=[FieldError(at, detail)])
    return [f"{key}={text}" for key, text in pairs]


def content_text(value: Any, content_type: str, *, at: str, ascii_only: bool = False) -> str:
    """Return the text of a parameter that is described by `content`: JSON for JSON types, else as it is.

    Raises InvalidArguments with the pointer `at` for an object or list of another type.
    """
    if may_be_json(content_type):
        text = write_json(value)
        return _NOT_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], text) if ascii_only else text
    if isinstance(value, (dict, list)):
        raise InvalidArguments(
            f"{content_type} must be text", errors=[FieldError(at, "Give a string.", "string")]
        )
    return write_scalar(value)


def _matrix(value: Any, name: str, *, explode: bool, escape: Escape) -> str:
    if not isinstance(value, (dict, list)):
        text = escape(write_scalar(value))
        return f";{name}={text}" if text else f";{name}"
    items = flatten(value, explode=explode, escape=escape)
    if not items:
        return ""
    if not explode:
        return f";{name}={','.join(items)}"
    named: Iterable[str] = items if isinstance(value, dict) else (f"{name}={item}" for item in items)
    return "".join(f";{item}" for item in named)


def _deep_object(value: Any, name: str, escape: Escape, at: str, depth: int) -> list[str]:
    if depth > _MAX_DEPTH:
        raise InvalidArguments(
            "The value is nested too deeply", errors=[FieldError(at, f"At most {_MAX_DEPTH} levels.")]
        )
    if not isinstance(value, (dict, list)):
        return [] if value is None else [f"{name}={escape(write_scalar(value))}"]
    keyed = value.items() if isinstance(value, dict) else enumerate(value)
    return [
        pair
        for key, member in keyed
        for pair in _deep_object(member, f"{name}%5B{escape(str(key))}%5D", escape, at, depth + 1)
    ]
