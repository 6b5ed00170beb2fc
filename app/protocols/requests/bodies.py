"""Encoding an argument as a request body, by content type (OAS Media Type and Encoding Objects; RFC 7578)."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from app.core import exact_json
from app.core.errors import FieldError, InvalidArguments, InvalidInput
from app.core.media_types import is_textual, is_xml, may_be_json, parse_essence
from app.core.text import pointer
from app.formats.utcp.headers import HEADER_NAME
from app.formats.utcp.percent import escape_form, escape_reserved, write_json
from app.protocols.requests.contents import (
    charset_of,
    check_media_type,
    decode_base64,
    encode_text,
    xml_encoder,
)
from app.protocols.requests.form_parts import (
    FORM_STYLE,
    field_parts,
    first_media,
    form_parts,
    has_positions,
    positional_parts,
)
from app.protocols.requests.multipart import multipart
from app.protocols.requests.sequences import sequence_encoder
from app.protocols.requests.styles import form_pairs
from app.protocols.requests.templates import BodySpec, EncodingSpec

# The bytes of a body, and its Content-Type header (a multipart boundary is generated for each call).
Encoded = tuple[bytes, str]
BodyEncoder = Callable[[Any], Encoded]

_BOUNDARY: Final = re.compile(r";\s*boundary=[^;]*", re.IGNORECASE)
_DEFAULT_TYPES: Final = {
    "*/*": "application/json", "application/*": "application/json", "text/*": "text/plain",
    "multipart/*": "multipart/form-data",
}  # fmt: skip


def body_encoder(spec: BodySpec, *, raw_text: bool = False, at: str = "/body") -> BodyEncoder:
    """Return the encoder of a content type. `at` is the pointer of the argument in the errors that it raises.

    With `raw_text` (for UTCP's own templates, as UTCP clients do) a string under a binary type is sent as
    UTF-8; without it such a string is base64. Raises InvalidInput for a content type that cannot be sent.
    """
    header = spec.content_type.strip()
    check_media_type(header, "/content_type")
    _check_fields(spec.encoding)
    media = parse_essence(header)
    if media in _DEFAULT_TYPES:
        header = media = _DEFAULT_TYPES[media]
    if may_be_json(media):
        return lambda value: (exact_json.dumps(value, surrogates="refuse"), header)
    if media == "application/x-www-form-urlencoded":
        return lambda value: (_urlencoded(value, spec.encoding, at), header)
    if media.startswith("multipart/"):
        # A boundary of the document could occur in a value.
        return _multipart_encoder(spec, media, header, at)
    if spec.xml is not None and is_xml(media):
        encode_xml = xml_encoder(spec.xml, header, at)
        return lambda value: (encode_xml(value, at), header)
    if is_textual(media) or raw_text:
        charset, sequence = charset_of(header), sequence_encoder(media)
        if sequence is None:
            return lambda value: (encode_text(value, charset, media, at), header)
        return lambda value: (
            encode_text(sequence(value, at) if isinstance(value, list) else value, charset, media, at),
            header,
        )
    if "*" in media:
        header = "application/octet-stream"
    return lambda value: (decode_base64(value, at=at), header)


def _check_fields(encoding: Mapping[str, EncodingSpec]) -> None:
    """Raise InvalidInput for content types and headers of parts that cannot be sent."""
    for name, field in encoding.items():
        if (first := first_media(field.content_type)) is not None:
            check_media_type(first, pointer("/body/encoding", name, "content_type"))
        for header in field.headers:
            if not HEADER_NAME.fullmatch(header):
                error = FieldError(pointer("/body/encoding", name, "headers", header), "See RFC 9110, 5.1.")
                raise InvalidInput("The header of a part cannot be sent", errors=[error])


def _multipart_encoder(spec: BodySpec, media: str, header: str, at: str) -> BodyEncoder:
    """Return the encoder of a form; with `single_part` the value is that of its only part."""
    if has_positions(spec):
        # Other parameters have a meaning: multipart/related must have a `type` (RFC 2387).
        whole = _BOUNDARY.sub("", header)
        return lambda value: multipart(positional_parts(value, spec, at), media=whole)
    single = spec.single_part
    if single is None:
        return lambda value: multipart(
            form_parts(_fields(value, at), spec.encoding, spec.other_fields, at), media=media
        )
    one = spec.encoding.get(single, FORM_STYLE)
    return lambda value: multipart(field_parts(single, value, one, at), media=media)


def _fields(value: Any, at: str) -> Mapping[str, Any]:
    if isinstance(value, dict):
        return value
    raise InvalidArguments("A form must be an object", errors=[FieldError(at, "Give an object.", "object")])


def _urlencoded(value: Any, encoding: Mapping[str, EncodingSpec], at: str) -> bytes:
    pairs: list[str] = []
    for name, member in _fields(value, at).items():
        spec = encoding.get(name, FORM_STYLE)
        encode_value = escape_reserved if spec.allow_reserved else escape_form
        key = escape_form(name)
        if spec.content_type is not None and spec.style is None and may_be_json(spec.content_type):
            pairs += [] if member is None else [f"{key}={encode_value(write_json(member))}"]
        elif isinstance(member, dict) and spec.style is None:
            # OAS 3.0, section 4.8.14.3: complex members are stringified without a style.
            pairs.append(f"{key}={encode_value(write_json(member))}")
        else:
            style = spec.style or "form"
            explode = style in ("form", "deepObject") if spec.explode is None else spec.explode
            pairs += form_pairs(
                member,
                name=key,
                style=style,
                explode=explode,
                escape=encode_value,
                at=pointer(at, name),
                item_styles=spec.item_styles,
            )
    return "&".join(pairs).encode()
