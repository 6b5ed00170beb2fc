"""What `tcp` and `udp` share: how arguments become bytes, and how bytes become an answer."""

import asyncio
import codecs
import json
from collections.abc import Mapping
from typing import Any, Final

from app.errors import Fault, InvalidInput
from app.outbound.framing import Event
from app.outbound.network import Place
from app.protocols.base import Call, Result
from app.protocols.shared.answers import BYTES, TEXT, body_answer
from app.protocols.shared.fields import field_values
from app.protocols.shared.messages import fill_message, json_text, plain_text, refuse_credentials, writable
from app.utcp.templates.sockets import TcpTemplate, UdpTemplate

_QUADRATIC: Final = frozenset({"punycode", "idna"})
_QUICK: Final = 256 << 10
_TEMPLATE: Final = "/request_data_template"


def place_of(origin: str) -> Place:
    """The host and port of `scheme://host:port`."""
    host, _, port = origin.partition("://")[2].rpartition(":")
    return Place(host.removeprefix("[").removesuffix("]"), int(port))


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
        fault = Fault("/response_byte_format", "Name a text encoding, or give null for raw bytes.")
        raise InvalidInput("The encoding of the answer is not known.", errors=[fault])


def request_of(model: TcpTemplate | UdpTemplate, call: Call, *, masked: bool = False) -> bytes:
    """The request without framing: JSON of all arguments, or the text template with arguments in it.

    Without a template, text is the values with blanks between them, as in the released clients. Raises
    InvalidArguments, and CredentialMissing for a credential that has no place.
    """
    refuse_credentials(call, model.call_template_type)
    refuse_tls(call, model.call_template_type)
    with writable():
        if model.request_data_format == "json":
            return json_text(call.arguments).encode()
        sealed = field_values(call.credentials, masked=masked)
        return _text(sealed.get(_TEMPLATE, model.request_data_template), call.arguments).encode()


def refuse_tls(call: Call, protocol: str) -> None:
    """Raises InvalidInput where the provider has certificates for a protocol without TLS."""
    egress = call.egress
    if egress is not None and (egress.ca_bundle or egress.client_certificate):
        raise InvalidInput(f"The protocol {protocol} has no TLS: take the certificates out.")


async def decoded_answer(raw: bytes, codec: str | None, call: Call) -> Result:
    """The answer as text; as bytes where `codec` is None or, as in the released clients, does not fit."""
    text = await asyncio.to_thread(_decoded, raw, codec) if len(raw) > _QUICK else _decoded(raw, codec)
    return body_answer(raw, BYTES, call) if text is None else body_answer(text, TEXT, call)


def text_event(piece: bytes, codec: str | None) -> Event:
    """A whole message as an event, in the way of `decoded_answer`."""
    text = _decoded(piece, codec)
    return Event(piece, "bytes") if text is None else Event(text, "text")


async def decoded_manual(raw: bytes, codec: str | None) -> bytes:
    """What a discovery found, in UTF-8 where its encoding is known."""
    text = await asyncio.to_thread(_decoded, raw, codec)
    return raw if text is None else text


def shown(model: TcpTemplate | UdpTemplate, origin: str, call: Call, *, verb: str) -> dict[str, Any]:
    """The request as JSON, secrets as `***`; framing is not shown."""
    body = request_of(model, call, masked=True).decode()
    is_json = model.request_data_format == "json"
    return {"method": verb, "url": origin, "headers": {}, "body": json.loads(body) if is_json else body}


def _text(template: str | None, arguments: Mapping[str, Any]) -> str:
    if template:
        return fill_message(template, arguments)
    return " ".join(plain_text(value) for value in arguments.values())


def _decoded(raw: bytes, codec: str | None) -> bytes | None:
    if codec is None:
        return None
    try:
        return raw.decode(codec).encode("utf-8", "replace")
    except UnicodeError:
        return None
