"""Encoding an argument as a request body, by content type (OAS Media Type and Encoding Objects; RFC 7578)."""

import base64
import binascii
import codecs
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from app.errors import FieldError, InvalidArguments, InvalidInput
from app.http_requests.multipart import Part, multipart
from app.http_requests.styles import form_pairs, is_json
from app.http_requests.templates import BodySpec, EncodingSpec
from app.text import pointer
from app.utcp.percent import escape_form, escape_reserved, json_text, scalar

# The bytes of a body, and its Content-Type header (a multipart boundary is generated for each call).
Encoded = tuple[bytes, str]
BodyEncoder = Callable[[Any], Encoded]

_MEDIA_TYPE: Final = re.compile(
    r"[\w!#$&^.+*-]{1,127}/[\w!#$&^.+*-]{1,127}([ \t]*;[\x20-\x7e]{0,255})?", re.ASCII
)
_DEFAULT_TYPES: Final = {
    "*/*": "application/json", "application/*": "application/json", "text/*": "text/plain",
    "multipart/*": "multipart/form-data",
}  # fmt: skip
_TEXT_TYPES: Final = frozenset({
    "application/xml", "application/yaml", "application/x-yaml", "application/graphql",
    "application/x-ndjson", "application/ndjson", "application/jsonl", "application/json-seq",
    "application/javascript", "application/ecmascript", "application/sql", "application/sparql-query",
    "application/sparql-update", "application/toml", "application/jwt", "application/jose",
    "application/x-sh", "application/csv", "application/n-triples", "application/n-quads", "application/trig",
})  # fmt: skip
_DATA_URL: Final = re.compile(r"data:[^,]{0,255};base64,")
_FORM_STYLE: Final = EncodingSpec()


def body_encoder(spec: BodySpec, *, raw_text: bool = False, at: str = "/body") -> BodyEncoder:
    """Return the encoder of a content type. `at` is the pointer of the argument in the errors that it raises.

    With `raw_text` (for UTCP's own templates, as UTCP clients do) a string under a binary type is sent as
    UTF-8; without it such a string is base64. Raises InvalidInput for a content type that cannot be sent.
    """
    header = spec.content_type.strip()
    _check_media(header, "/content_type")
    for name, encoding in spec.encoding.items():
        if (first := _first_media(encoding.content_type)) is not None:
            _check_media(first, pointer("/body/encoding", name, "content_type"))
    media = header.partition(";")[0].strip().lower()
    if media in _DEFAULT_TYPES:
        header = media = _DEFAULT_TYPES[media]
    if is_json(media):
        return lambda value: (orjson.dumps(value), header)
    if media == "application/x-www-form-urlencoded":
        return lambda value: (_urlencoded(value, spec.encoding, at), header)
    if media.startswith("multipart/"):
        # A boundary given in a document could be written into a value.
        return lambda value: multipart(_parts(value, spec.encoding, at), media=media)
    if is_textual(media) or raw_text:
        charset = _charset(header)
        return lambda value: (_text(value, charset, media, at), header)
    if "*" in media:
        header = "application/octet-stream"
    return lambda value: (decode_base64(value, at=at), header)


def _check_media(given: str, at: str) -> None:
    if not _MEDIA_TYPE.fullmatch(given):
        raise InvalidInput("The content type cannot be sent", errors=[FieldError(at, "See RFC 9110, 8.3.1.")])
    _charset(given)


def is_textual(media: str) -> bool:
    """Return whether bodies of a media type are text: `text/*`, XML, YAML, GraphQL, JSON lines and so on."""
    return media.startswith("text/") or media.endswith(("+xml", "+yaml")) or media in _TEXT_TYPES


def decode_base64(value: Any, *, at: str) -> bytes:
    """Return the bytes of a base64 string (standard or URL-safe, padded or not) or of a `data:` URL.

    Raises InvalidArguments with the pointer `at`.
    """
    if isinstance(value, str):
        text = _DATA_URL.sub("", value, count=1) if value.startswith("data:") else value
        text = "".join(text.split()).rstrip("=").replace("-", "+").replace("_", "/")
        try:
            return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
        except (binascii.Error, ValueError):
            pass
    detail = "Encode the bytes as a base64 string."
    raise InvalidArguments("Binary content must be base64", errors=[FieldError(at, detail, "base64")])


def _charset(header: str) -> str:
    found = re.search(r"charset\s*=\s*\"?([\w.:-]+)", header, re.IGNORECASE)
    try:
        return codecs.lookup(found[1]).name if found else "utf-8"
    except LookupError:
        error = FieldError("/content_type", "This charset is not known.")
        raise InvalidInput("The content type's charset is not known", errors=[error]) from None


def _text(value: Any, charset: str, media: str, at: str) -> bytes:
    if media.endswith(("/xml", "+xml")) and not isinstance(value, str):
        raise InvalidArguments(
            "XML is given as text", errors=[FieldError(at, "Give the XML as a string.", "string")]
        )
    try:
        return scalar(value).encode(charset)
    except UnicodeEncodeError:
        raise InvalidArguments(
            "The text cannot be written in the charset of the content type",
            errors=[FieldError(at, f"Use characters of {charset} only.")],
        ) from None


def _fields(value: Any, at: str) -> Mapping[str, Any]:
    if isinstance(value, dict):
        return value
    raise InvalidArguments(
        "A form is given as an object", errors=[FieldError(at, "Give an object.", "object")]
    )


def _urlencoded(value: Any, encoding: Mapping[str, EncodingSpec], at: str) -> bytes:
    pairs: list[str] = []
    for name, member in _fields(value, at).items():
        spec = encoding.get(name, _FORM_STYLE)
        encode_value = escape_reserved if spec.allow_reserved else escape_form
        key = escape_form(name)
        if spec.content_type is not None and spec.style is None and is_json(spec.content_type):
            pairs += [] if member is None else [f"{key}={encode_value(json_text(member))}"]
        elif isinstance(member, dict) and spec.style is None:
            # OAS 3.0, section 4.8.14.3: complex members are stringified unless a style is given.
            pairs.append(f"{key}={encode_value(json_text(member))}")
        else:
            style = spec.style or "form"
            explode = style in ("form", "deepObject") if spec.explode is None else spec.explode
            pairs += form_pairs(
                member, name=key, style=style, explode=explode, escape=encode_value, at=pointer(at, name)
            )
    return "&".join(pairs).encode()


def _parts(value: Any, encoding: Mapping[str, EncodingSpec], at: str) -> list[Part]:
    parts: list[Part] = []
    for name, member in _fields(value, at).items():
        spec = encoding.get(name, _FORM_STYLE)
        where = pointer(at, name)
        if isinstance(member, list) and not is_json(spec.content_type or ""):
            if spec.style is not None and spec.explode is False:
                pairs = form_pairs(member, name="", style=spec.style, explode=False, escape=str, at=where)
                parts += [Part(name, pair[1:].encode()) for pair in pairs]
            else:
                parts += [
                    _part(name, item, spec, pointer(where, index))
                    for index, item in enumerate(member)
                    if item is not None
                ]
        elif member is not None:
            parts.append(_part(name, member, spec, where))
    return parts


def _part(name: str, value: Any, spec: EncodingSpec, at: str) -> Part:
    media = _first_media(spec.content_type)
    if media is None:
        if isinstance(value, (dict, list)):
            return Part(name, orjson.dumps(value), "application/json")
        return Part(name, scalar(value).encode())
    if is_json(media):
        return Part(name, orjson.dumps(value), media)
    if spec.text or is_textual(media.partition(";")[0].strip().lower()):
        return Part(name, _text(value, _charset(media), media, at), media)
    return _file(name, value, media=media, at=at)


def _file(name: str, value: Any, *, media: str, at: str) -> Part:
    """Return a file part: base64 text, or `{"data": base64, "filename"?, "content_type"?}`."""
    if not isinstance(value, dict):
        return Part(name, decode_base64(value, at=at), media, name)
    chosen, filename = value.get("content_type") or media, value.get("filename") or name
    if not isinstance(chosen, str) or not _MEDIA_TYPE.fullmatch(chosen):
        raise InvalidArguments(
            "The file's content type cannot be sent",
            errors=[FieldError(pointer(at, "content_type"), "See RFC 9110, 8.3.1.")],
        )
    if not isinstance(filename, str):
        raise InvalidArguments(
            "The file's name is not text", errors=[FieldError(pointer(at, "filename"), "Give text.")]
        )
    return Part(name, decode_base64(value.get("data"), at=pointer(at, "data")), chosen, filename)


def _first_media(given: str | None) -> str | None:
    # The Encoding Object may list several types, and wildcards: `image/png, image/jpeg`, `image/*`.
    if given is None:
        return None
    first = given.split(",")[0].strip()
    if "*" in first.partition(";")[0]:
        return "application/octet-stream" if not first.startswith("text/") else "text/plain"
    return first
