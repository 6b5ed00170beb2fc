"""What `tcp` and `udp` share: encoding of arguments as bytes, and decoding of responses."""

import asyncio
import codecs
from collections.abc import Mapping
from typing import Any, Final

from app.core.errors import FieldError, InvalidInput
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
from app.protocols.shared.described import describe_message
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
    """Return the host and port of an origin `scheme://host:port`."""
    host, _, port = origin.partition("://")[2].rpartition(":")
    return Address(host.removeprefix("[").removesuffix("]"), int(port))


def check_codec(name: str | None) -> None:
    """Raise InvalidInput for a `response_byte_format` that is no text encoding of Python.

    Punycode and IDNA are rejected, too: they take quadratic time. None means raw bytes.
    """
    if name is None:
        return
    try:
        usable = codecs.lookup(name).name not in _QUADRATIC
        # Codecs that are no text encodings have a name, but this method raises LookupError for them.
        b"a".decode(name)
    except UnicodeError:
        pass
    except (LookupError, ValueError):
        usable = False
    if not usable:
        field_error = FieldError("/response_byte_format", "Name a text encoding, or give null for raw bytes.")
        raise InvalidInput("The encoding of the response is not known.", errors=[field_error])


def encode_request(
    model: SocketTemplate, call: Call[Any], *, delimiter: bytes = b"", masked: bool = False
) -> bytes:
    """Return the request without framing: JSON of all arguments, or the text template filled with them.

    Without a template, text is the values with blanks between them, as in the released clients. `delimiter`
    ends messages in the framing of that name. Raise InvalidArguments for arguments that cannot be encoded or
    would change where the message ends, and CredentialMissing for a credential that cannot be sent.
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


def reject_tls(call: Call[Any], protocol: str) -> None:
    """Raise InvalidInput where the provider has certificates for a protocol without TLS."""
    egress = call.egress
    if egress is not None and (egress.ca_bundle or egress.client_certificate):
        raise InvalidInput(f"The protocol {protocol} has no TLS: remove the certificates.")


async def decode_response(raw: bytes, codec: str | None, call: Call[Any]) -> Result:
    """Return a response as text; as bytes where `codec` is None or cannot decode it, as in released clients.

    Bytes that cannot be decoded are masked here: binary media types are not masked later, and the part that
    cannot be decoded may be an argument that the upstream echoes next to a secret.
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


def text_event(piece: bytes, codec: str | None, call: Call[Any]) -> tuple[StreamEvent, bool]:
    """Return a message as an event, decoded as by `decode_response`, and whether a secret was masked."""
    text = _decoded(piece, codec)
    if text is not None:
        return StreamEvent(text, "text"), False
    data = _masked(piece, codec, call)
    return StreamEvent(data, "bytes"), data is not piece


async def decode_manual(raw: bytes, codec: str | None) -> bytes:
    """Return a discovered document in UTF-8; unchanged where `codec` is None or cannot decode it."""
    text = await asyncio.to_thread(_decoded, raw, codec)
    return raw if text is None else text


def describe_request(
    model: SocketTemplate, origin: str, call: Call[Any], *, verb: str, delimiter: bytes = b""
) -> dict[str, Any]:
    """Return the request as JSON, secrets masked as `***`, without its framing."""
    body = encode_request(model, call, delimiter=delimiter, masked=True).decode()
    is_json = model.request_data_format == "json"
    shown = describe_message(body) if is_json else body
    return {"method": verb, "url": origin, "headers": {}, "body": shown}


def _json(arguments: Mapping[str, Any]) -> list[MessagePart]:
    """Return the parts of `json_text(arguments)`, one for each argument."""
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

    With a length prefix a message may contain anything. With a delimiter it may contain anything else, unless
    the delimiter is a control character (CR LF, ETX): upstreams of line protocols may take others for ends as
    well. Fixed-length frames limit text only: JSON is self-delimiting.
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


def _masked(raw: bytes, codec: str | None, call: Call[Any]) -> bytes:
    """Return undecodable bytes with the secrets of the call masked; the same object where there are none."""
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
