"""Decoding the body of a response to a JSON value, and validating it, by the output schema of its tool."""

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

import orjson

from app.core.errors import InvalidInput
from app.core.media_types import is_json, is_xml, parse_essence
from app.formats.json_schema.validator import OutputValidator, Violations
from app.formats.xml.parser import parse_xml
from app.formats.xml.shape import CompiledXmlNode, XmlShape
from app.outbound.charsets import charset_of, decode_text
from app.protocols.requests.templates import ResponseSpec
from app.protocols.responses.response_schema import ResponseSchema
from app.protocols.responses.xml_values import xml_value

MAX_DECODED: Final = 8 << 20
"""Bytes up to which a body is decoded and validated."""
MAX_POINTERS: Final = 10
_MAX_FIELDS: Final = 10_000
_UTF8: Final = (None, "utf-8", "utf8")
_FORM: Final = "application/x-www-form-urlencoded"
_LINES: Final = frozenset(
    {"application/jsonl", "application/x-ndjson", "application/ndjson", "application/x-jsonl"}
    | {"application/jsonlines", "application/x-jsonlines"}
)
_RECORD_SEPARATOR: Final = "\x1e"
_SUCCESS: Final = re.compile("[2][0-9X]{2}")


class NotDecodable(ValueError):
    """A body that is not in the form that its media type says, or in one that is not decoded."""


class ResponseReader:
    """Reads the responses of one tool: `outputs` is its output schema, `spec` what its document says
    beyond.
    """

    def __init__(self, outputs: Mapping[str, Any], spec: ResponseSpec | None) -> None:
        self._spec = spec
        own = spec.json_schema if spec is not None else None
        self._document: Mapping[str, Any] = outputs if own is None else own
        self._schema = ResponseSchema(self._document, self._document)
        self._shape = (spec.xml if spec is not None else None) or XmlShape()
        self._node: CompiledXmlNode = self._shape.compile()
        self._validator: OutputValidator | None = None
        try:
            self._validator = OutputValidator(self._document) if self._document else None
        except InvalidInput:
            # The schema of a result is only ever a description: the call is not affected.
            self._validator = None

    def describes(self, status: int) -> bool:
        """Return whether there is a schema for responses with this status."""
        declared = self._spec.status if self._spec is not None else None
        if self._validator is None or 300 <= status < 400:
            return False
        if declared is None or _SUCCESS.fullmatch(declared.upper()) is None:
            return True
        return all(one in (digit, "X") for one, digit in zip(declared.upper(), str(status), strict=False))

    def value(self, body: bytes, media_type: str) -> Any:
        """Return the JSON value of a body; raise NotDecodable.

        JSON is parsed. XML, forms and text become values of the types in the schema, as far as their texts
        are written as such; lines of JSON become a list.
        """
        media = parse_essence(media_type)
        charset = charset_of(media_type)
        try:
            if is_json(media):
                return orjson.loads(body if charset in _UTF8 else decode_text(body, str(charset)))
            if is_xml(media):
                return self._xml_value(body, charset)
            if media == _FORM:
                return self._form_value(decode_text(body, charset or "utf-8"))
            if media in _LINES or media == "application/json-seq" or media.endswith("+json-seq"):
                return _sequence(decode_text(body, charset or "utf-8"))
            if media == "text/plain":
                return self._schema.coerce(decode_text(body, charset or "utf-8"))
        except (ValueError, RecursionError):
            raise NotDecodable("The body is not in the form that its media type says.") from None
        raise NotDecodable("Bodies of this media type are not decoded.")

    def find_violations(self, value: Any) -> Violations:
        """Return how a value violates the schema; none where there is no schema."""
        if self._validator is None:
            return Violations()
        return self._validator.find_violations(value, max_pointers=MAX_POINTERS)

    def _xml_value(self, body: bytes, charset: str | None) -> Any:
        if charset is None or body.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")):
            # A byte order mark is authoritative (RFC 7303 section 3), else the declaration in the document.
            root = parse_xml(body)
        else:
            root = parse_xml(decode_text(body, charset).encode(), encoding="utf-8")
        return xml_value(
            root,
            self._schema,
            self._node,
            is_described=bool(self._document),
            is_named=self._shape.root is not None,
        )

    def _form_value(self, text: str) -> dict[str, Any]:
        fields: dict[str, list[str]] = {}
        pairs = parse_qsl(text.strip(), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS)
        for name, one in pairs:
            fields.setdefault(name, []).append(one)
        members = self._schema.properties
        value: dict[str, Any] = {}
        for name, texts in fields.items():
            schema = members.get(name)
            if schema is not None and schema.is_array:
                value[name] = [schema.items.coerce(one) for one in texts]
            else:
                coerced = texts if schema is None else [schema.coerce(one) for one in texts]
                value[name] = coerced[0] if len(coerced) == 1 else coerced
        return value


def _sequence(text: str) -> list[Any]:
    """Return the values of JSON lines, or of JSON texts after record separators (RFC 7464)."""
    pieces = text.split(_RECORD_SEPARATOR) if _RECORD_SEPARATOR in text else text.split("\n")
    return [orjson.loads(piece) for piece in pieces if piece.strip()]
