"""Encoding one value as the content of a body or of a part: text, XML, and bytes in base64."""

import base64
import binascii
import codecs
import re
from collections.abc import Callable
from typing import Any, Final

from app.core.errors import FieldError, InvalidArguments, InvalidInput
from app.core.media_types import is_xml, parse_essence
from app.formats.utcp.percent import write_scalar
from app.formats.xml.shape import XmlShape
from app.formats.xml.writer import write_document

MEDIA_TYPE: Final = re.compile(
    r"[\w!#$&^.+*-]{1,127}/[\w!#$&^.+*-]{1,127}([ \t]*;[\x20-\x7e]{0,255})?", re.ASCII
)
_CHARSET: Final = re.compile(r"charset\s*=\s*\"?([\w.:-]+)", re.IGNORECASE)
_DATA_URL: Final = re.compile(r"data:[^,]{0,255};base64,")


def check_media_type(media_type: str, at: str) -> None:
    """Raise InvalidInput, with the pointer `at`, for a content type that cannot be sent."""
    if not MEDIA_TYPE.fullmatch(media_type):
        raise InvalidInput("The content type cannot be sent", errors=[FieldError(at, "See RFC 9110, 8.3.1.")])
    charset_of(media_type)


def charset_of(header: str) -> str:
    """Return Python's name of the charset of a content type, UTF-8 where it has none; raise InvalidInput."""
    found = _CHARSET.search(header)
    try:
        return codecs.lookup(found[1]).name if found else "utf-8"
    except LookupError:
        error = FieldError("/content_type", "This charset is not supported.")
        raise InvalidInput("The content type's charset is not supported", errors=[error]) from None


def encode_text(value: Any, charset: str, media: str, at: str) -> bytes:
    """Return a write_scalar as text in the charset; raise InvalidArguments with the pointer `at`."""
    if is_xml(media) and not isinstance(value, str):
        raise InvalidArguments(
            "XML must be text", errors=[FieldError(at, "Give the XML as a string.", "string")]
        )
    try:
        return write_scalar(value).encode(charset)
    except UnicodeEncodeError:
        raise InvalidArguments(
            "The text cannot be written in the charset of the content type",
            errors=[FieldError(at, f"Use characters of {charset} only.")],
        ) from None


def xml_encoder(shape: XmlShape, media_type: str, at: str) -> Callable[[Any, str], bytes]:
    """Return the encoder of XML documents: a string is sent as it is, other values by the shape.

    It takes a value and its pointer; `at` is the pointer of the argument.
    """
    root, charset = shape.compile(), charset_of(media_type)
    media = parse_essence(media_type)

    def encode(value: Any, where: str = at) -> bytes:
        if isinstance(value, str):
            return encode_text(value, charset, media, where)
        return write_document(
            value, root, name=shape.root, charset=charset, text_of=write_scalar, location=where
        )

    return encode


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


def data_url_type(value: Any) -> str | None:
    """Return the media type of a `data:` URL in base64 (RFC 2397), None where the value has none."""
    found = _DATA_URL.match(value) if isinstance(value, str) else None
    media_type = found[0].removeprefix("data:").removesuffix(";base64,") if found else ""
    return media_type if MEDIA_TYPE.fullmatch(media_type) else None
