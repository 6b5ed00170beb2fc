"""What `tcp` and `udp` share: how arguments become bytes, and how bytes become an answer."""

import asyncio
import codecs
import json
from collections.abc import Mapping
from typing import Any, Final

from app.errors import FieldError, InvalidInput
from app.outbound.framing import StreamEvent
from app.outbound.network import Address
from app.protocols.base import MASKED_HEADER, Call, Result
from app.protocols.shared.boundaries import (
    check_control_characters,
    check_delimiter,
    check_length,
    check_not_empty,
    has_control_characters,
)
from app.protocols.shared.messages import (
    MessagePart,
    join_parts,
    json_text,
    map_encoding_errors,
    message_parts,
    plain_text,
    reject_credentials,
)
from app.protocols.shared.results import BYTES, TEXT, body_result
from app.protocols.shared.sealed_fields import field_values
from app.protocols.shared.socket_template import SocketTemplate

_QUADRATIC: Final = frozenset({"punycode", "idna"})
_QUICK: Final = 256 << 10
_TEMPLATE: Final = "/request_data_template"


def parse_address(origin: str) -> Address:
    """The host and port of `scheme://host:port`."""
    host, _, port = origin.partition("://")[2].rpartition(":")
    return Address(host.removeprefix("[").removesuffix("]"), int(port))


def check_codec(name: str | None) -> None:
    """Raises InvalidInput for a `response_byte_format` that Python cannot decode text with.

    Punycode and IDNA are refused, too: they take quadratic time.
    """
    if name is None:
        return
    try:
        usable = codecs.lookup(name).name not in _QUADRATIC
        # A codec that is not one of text is known, but not to this method.
        b"a".decode(name)
    except UnicodeError:
        pass
    except (LookupError, ValueError):
        usable = False
    if not usable:
        field_error = FieldError("/response_byte_format", "Name a text encoding, or give null for raw bytes.")
        raise InvalidInput("The encoding of the answer is not known.", errors=[field_error])


def encode_request(
    model: SocketTemplate, call: Call, *, delimiter: bytes = b"", masked: bool = False
) -> bytes:
    """The request without framing: JSON of all arguments, or the text template with arguments in it.

    Without a template, text is the values with blanks between them, as in the released clients. Raises
    InvalidArguments, also for arguments that would change where the message ends (`delimiter`: what ends it
    in the framing of that name), and CredentialMissing for a credential that has no place.
    """
    reject_credentials(call, model.call_template_type)
    reject_tls(call, model.call_template_type)
    with map_encoding_errors():
        if model.request_data_format == "json":
            pieces = _json(call.arguments)
        else:
            sealed = field_values(call.credentials, masked=masked)
            pieces = _text(sealed.get(_TEMPLATE, model.request_data_template), call.arguments)
        if model.enforces_boundaries:
            _check_boundaries(model, pieces, delimiter)
        return join_parts(pieces).encode()


def reject_tls(call: Call, protocol: str) -> None:
    """Raises InvalidInput where the provider has certificates for a protocol without TLS."""
    egress = call.egress
    if egress is not None and (egress.ca_bundle or egress.client_certificate):
        raise InvalidInput(f"The protocol {protocol} has no TLS: take the certificates out.")


async def decode_response(raw: bytes, codec: str | None, call: Call) -> Result:
    """The answer as text; as bytes where `codec` is None or, as in the released clients, does not fit.

    Bytes that were to be text are masked here: nobody looks at binary types later, and it may be the caller's
    own argument, sent back, that cannot be decoded.
    """
    text = await asyncio.to_thread(_decoded, raw, codec) if len(raw) > _QUICK else _decoded(raw, codec)
    if text is not None:
        return body_result(text, TEXT, call)
    body = _masked(raw, codec, call)
    result = body_result(body, BYTES, call)
    if body is not raw:
        result.is_masked = True
        result.headers.append((MASKED_HEADER, "body"))
    return result


def text_event(piece: bytes, codec: str | None, call: Call) -> tuple[StreamEvent, bool]:
    """A whole message as an event, in the way of `decode_response`, and whether it was masked here."""
    text = _decoded(piece, codec)
    if text is not None:
        return StreamEvent(text, "text"), False
    data = _masked(piece, codec, call)
    return StreamEvent(data, "bytes"), data is not piece


async def decode_manual(raw: bytes, codec: str | None) -> bytes:
    """What a discovery found, in UTF-8 where its encoding is known."""
    text = await asyncio.to_thread(_decoded, raw, codec)
    return raw if text is None else text


def describe_request(
    model: SocketTemplate, origin: str, call: Call, *, verb: str, delimiter: bytes = b""
) -> dict[str, Any]:
    """The request as JSON, secrets as `***`; framing is not shown."""
    body = encode_request(model, call, delimiter=delimiter, masked=True).decode()
    is_json = model.request_data_format == "json"
    return {"method": verb, "url": origin, "headers": {}, "body": json.loads(body) if is_json else body}


def _json(arguments: Mapping[str, Any]) -> list[MessagePart]:
    """As `json_text` of all of them, each a piece of its own."""
    pieces: list[MessagePart] = []
    for name, value in arguments.items():
        begin = ", " if pieces else "{"
        pieces.append(MessagePart(begin + json_text({name: value})[1:-1], name, is_json=True))
    return [*pieces, MessagePart("}")] if pieces else [MessagePart("{}")]


def _text(template: str | None, arguments: Mapping[str, Any]) -> list[MessagePart]:
    if template:
        return message_parts(template, arguments)
    values = [MessagePart(plain_text(value), name) for name, value in arguments.items()]
    return [piece for value in values for piece in (MessagePart(" "), value)][1:]


def _check_boundaries(model: SocketTemplate, pieces: list[MessagePart], delimiter: bytes) -> None:
    """Raise InvalidArguments for arguments that would change the number or the ends of messages.

    A length before the message lets it hold anything. A delimiter does but for itself, unless it is one of
    line protocols (CR LF, ETX): their upstreams take other control characters for ends as well. Fixed-length
    frames bound text only: JSON says itself where it ends.
    """
    framing = model.framing
    if framing == "length_prefix":
        return
    if framing == "delimiter":
        check_delimiter(pieces, delimiter)
        if not has_control_characters(delimiter.strip(b"\x00").decode("utf-8", "replace")):
            return
    else:
        check_not_empty(pieces)
    check_control_characters(pieces)
    if framing == "fixed_length" and not _all_json(pieces):
        check_length(pieces, model.frame_length)


def _all_json(pieces: list[MessagePart]) -> bool:
    return all(piece.is_json for piece in pieces if piece.argument is not None)


def _masked(raw: bytes, codec: str | None, call: Call) -> bytes:
    """What does not fit its codec without the call's secrets; the same object where it holds none."""
    if codec is None or call.masker is None:
        return raw
    return call.masker.in_charset(codec).mask(raw)


def _decoded(raw: bytes, codec: str | None) -> bytes | None:
    if codec is None:
        return None
    try:
        return raw.decode(codec).encode("utf-8", "replace")
    except UnicodeError:
        return None
