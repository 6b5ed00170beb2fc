"""The parts of a multipart form: fields, files, and their headers (OAS Encoding Object, RFC 7578).

A file is base64 (also as a `data:` URL), or an object: `data` in base64 or `text`, and its `filename`,
`content_type` and `headers`. Without a name of its own it has that of its field.
"""

import base64
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from app.core import exact_json
from app.core.errors import FieldError, InvalidArguments, InvalidInput
from app.core.media_types import is_textual, is_xml, may_be_json, parse_essence
from app.core.text import pointer
from app.formats.utcp.headers import check_header_value
from app.formats.utcp.percent import write_scalar
from app.protocols.requests.contents import (
    charset_of,
    check_media_type,
    data_url_type,
    decode_base64,
    encode_text,
    xml_encoder,
)
from app.protocols.requests.multipart import Part, multipart
from app.protocols.requests.styles import form_pairs
from app.protocols.requests.templates import BodySpec, EncodingSpec

FORM_STYLE: Final = EncodingSpec()
_BYTES: Final = "application/octet-stream"
_MIXED: Final = "multipart/mixed"
_FILE_MEMBERS: Final = frozenset({"data", "text", "filename", "content_type", "headers"})
_NESTED_MEMBERS: Final = frozenset({"data", "text"})


def form_parts(
    fields: Mapping[str, Any], encoding: Mapping[str, EncodingSpec], other: EncodingSpec | None, at: str
) -> list[Part]:
    """Return the parts of a form; a list is a part for each item, null is left out.

    `other` is the encoding of fields that `encoding` does not have. Raises InvalidArguments with pointers
    below `at`.
    """
    return [
        part
        for name, member in fields.items()
        for part in field_parts(name, member, encoding.get(name) or other or FORM_STYLE, pointer(at, name))
    ]


def positional_parts(value: Any, spec: BodySpec | EncodingSpec, at: str) -> list[Part]:
    """Return the parts of a list, which have no names; raise InvalidArguments with pointers below `at`."""
    if not isinstance(value, list):
        raise InvalidArguments(
            "The parts must be a list", errors=[FieldError(at, "Give a list with an item a part.", "array")]
        )
    parts: list[Part] = []
    for index, item in enumerate(value):
        prefix = spec.prefix_encoding
        one = prefix[index] if index < len(prefix) else spec.item_encoding or FORM_STYLE
        where = pointer(at, index)
        if has_positions(one):
            media = parse_essence(one.content_type or "") or _MIXED
            parts.append(Part(None, *multipart(positional_parts(item, one, where), media=media)))
        else:
            part = _part("", item, one, where)
            parts.append(replace(part, name=None, filename=part.filename or None))
    return parts


def has_positions(spec: BodySpec | EncodingSpec) -> bool:
    """Return whether the value is the list of the parts of a multipart body."""
    return bool(spec.prefix_encoding) or spec.item_encoding is not None


def field_parts(name: str, value: Any, spec: EncodingSpec, at: str) -> list[Part]:
    """Return the parts of one field; raise InvalidArguments with pointers at or below `at`."""
    if value is None:
        return []
    if not isinstance(value, list) or (not spec.file and may_be_json(spec.content_type or "")):
        return [_part(name, value, spec, at)]
    if spec.style is not None and spec.explode is False:
        pairs = form_pairs(value, name="", style=spec.style, explode=False, escape=str, at=at)
        return [Part(name, pair[1:].encode()) for pair in pairs]
    items = ((item, pointer(at, index)) for index, item in enumerate(value))
    return [_part(name, item, spec, where) for item, where in items if item is not None]


def _part(name: str, value: Any, spec: EncodingSpec, at: str) -> Part:
    media = first_media(spec.content_type)
    if spec.file:
        return _file(name, value, spec, media=media or _BYTES, at=at)
    headers = _headers(spec, {}, at)
    if spec.nested_files:
        value = _with_base64(value, at)
    if media is None:
        if isinstance(value, (dict, list)):
            return Part(
                name, exact_json.dumps(value, surrogates="refuse"), "application/json", headers=headers
            )
        return Part(name, write_scalar(value).encode(), headers=headers)
    if may_be_json(media):
        return Part(name, exact_json.dumps(value, surrogates="refuse"), media, headers=headers)
    if spec.xml is not None and is_xml(media):
        return Part(name, xml_encoder(spec.xml, media, at)(value, at), media, headers=headers)
    if spec.text or is_textual(media):
        return Part(name, encode_text(value, charset_of(media), media, at), media, headers=headers)
    return _file(name, value, spec, media=media, at=at)


def first_media(media_types: str | None) -> str | None:
    """Return the first of several media types, a concrete one in place of a range: `image/png, image/*`."""
    if media_types is None:
        return None
    first = media_types.split(",")[0].strip()
    if "*" in first.partition(";")[0]:
        return _BYTES if not first.startswith("text/") else "text/plain"
    return first


def _file(name: str, value: Any, spec: EncodingSpec, *, media: str, at: str) -> Part:
    if not isinstance(value, dict):
        content = decode_base64(value, at=at)
        media = _declared_type(value, spec) or media
        return Part(name, content, media, name, _headers(spec, {}, at))
    unknown = [FieldError(pointer(at, key), "No such member.") for key in value if key not in _FILE_MEMBERS]
    if unknown:
        raise InvalidArguments("A file has members that are not known", errors=unknown)
    filename = name if value.get("filename") is None else value["filename"]
    if not isinstance(filename, str):
        raise InvalidArguments(
            "The file's name is not text", errors=[FieldError(pointer(at, "filename"), "Give text.")]
        )
    chosen = value.get("content_type")
    if chosen is None:
        chosen = _declared_type(value.get("data"), spec) or media
    else:
        _check_type(chosen, spec, pointer(at, "content_type"))
    headers = value.get("headers")
    if headers is not None and not isinstance(headers, dict):
        error = FieldError(pointer(at, "headers"), "Give an object.", "object")
        raise InvalidArguments("The headers of a part are not an object", errors=[error])
    content = _content(value, charset=chosen, at=at)
    return Part(name, content, chosen, filename or name, _headers(spec, headers or {}, at))


def _content(file: Mapping[str, Any], *, charset: str, at: str) -> bytes:
    """Return the bytes of a file object; `charset` is its content type."""
    text = file.get("text")
    if text is None:
        return decode_base64(file.get("data"), at=pointer(at, "data"))
    if file.get("data") is not None or not isinstance(text, str):
        error = FieldError(pointer(at, "text"), "Give the contents once: as `data`, or as `text`.", "string")
        raise InvalidArguments("A file has two contents, or a text that is no string", errors=[error])
    try:
        return text.encode(charset_of(charset))
    except UnicodeEncodeError:
        error = FieldError(pointer(at, "text"), "Use characters of the charset of `content_type` only.")
        raise InvalidArguments("The file's text cannot be written in its charset", errors=[error]) from None


def _declared_type(value: Any, spec: EncodingSpec) -> str | None:
    """Return the type of a `data:` URL where the document declares it, or leaves the type open."""
    found = data_url_type(value)
    return found if found is not None and _is_declared(found, spec) else None


def _check_type(chosen: Any, spec: EncodingSpec, at: str) -> None:
    if not isinstance(chosen, str) or not _is_sendable(chosen):
        raise InvalidArguments(
            "The file's content type cannot be sent", errors=[FieldError(at, "See RFC 9110, 8.3.1.")]
        )
    if not _is_declared(chosen, spec):
        detail = f"The document has {spec.content_type}."
        raise InvalidArguments(
            "The file has another content type than the document", errors=[FieldError(at, detail)]
        )


def _is_sendable(media_type: str) -> bool:
    try:
        check_media_type(media_type, "")
    except InvalidInput:
        return False
    return "*" not in parse_essence(media_type)


def _is_declared(chosen: str, spec: EncodingSpec) -> bool:
    if not spec.file or spec.content_type is None:
        return True
    media = parse_essence(chosen)
    for one in map(parse_essence, spec.content_type.split(",")):
        # Bytes of any type are the default, and what documents write for files that they do not restrict.
        if one in (media, _BYTES, "*/*") or (one.endswith("/*") and media.startswith(one[:-1])):
            return True
    return False


def _headers(spec: EncodingSpec, given: Mapping[str, Any], at: str) -> tuple[tuple[str, str], ...]:
    """Return the headers of a part; raise InvalidArguments for those that the document does not declare."""
    if not spec.headers and not given:
        return ()
    names = {name.lower(): name for name in spec.headers}
    values = {name: header.value for name, header in spec.headers.items() if header.value is not None}
    base = pointer(at, "headers")
    for name, value in given.items():
        if name.lower() not in names or isinstance(value, (dict, list)):
            error = FieldError(pointer(base, name), "The part has no header of this name, or not this value.")
            raise InvalidArguments("A part has headers that are not declared", errors=[error])
        if value is not None:
            values[names[name.lower()]] = value
    missing = [name for name, header in spec.headers.items() if header.required and name not in values]
    if missing:
        errors = [FieldError(pointer(base, name), "Give a value.") for name in missing]
        raise InvalidArguments("A part lacks a header", errors=errors)
    return tuple(
        (name, check_header_value(write_scalar(value), at=pointer(base, name)))
        for name, value in values.items()
    )


def _with_base64(value: Any, at: str) -> Any:
    """Return a value in which files are base64 strings: inside JSON, they have no name or type."""
    if isinstance(value, list):
        return [_with_base64(item, pointer(at, index)) for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    contents = _NESTED_MEMBERS & value.keys()
    if len(contents) == 1 and value.keys() <= _FILE_MEMBERS and isinstance(value[min(contents)], str):
        extra = sorted(value.keys() - _NESTED_MEMBERS)
        if extra:
            error = FieldError(
                pointer(at, extra[0]), "Leave it out: a file inside JSON is only its contents."
            )
            raise InvalidArguments("A file inside JSON has neither name nor type", errors=[error])
        return base64.b64encode(_content(value, charset="utf-8", at=at)).decode()
    return {key: _with_base64(member, pointer(at, key)) for key, member in value.items()}
