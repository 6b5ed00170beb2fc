"""Compilation of a gRPC call template, and encoding of the messages of a call."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from app.core.errors import FieldError, InvalidArguments, InvalidInput
from app.core.text import pointer
from app.formats.utcp.call_template import compile_template
from app.outbound.network import Address
from app.protocols.base import Call
from app.protocols.grpc.descriptors import Rpc, Unusable, find_rpc, read_descriptors
from app.protocols.grpc.messages import encode_message
from app.protocols.grpc.metadata import Pairs, template_metadata
from app.protocols.grpc.record import origin_of
from app.protocols.grpc.template import GrpcTemplate

_SERVICE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_METHOD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class GrpcTarget:
    """A compiled template. `rpc` is None where the method must first be looked up by reflection."""

    origin: str
    address: Address
    tls: bool
    service: str | None
    method: str | None
    metadata: Pairs = field(repr=False)
    rpc: Rpc | None = field(repr=False)


def compile_target(template: Mapping[str, Any]) -> GrpcTarget:
    """Return a compiled template; raise InvalidInput with pointers into it."""
    model = compile_template(template, GrpcTemplate)
    for key, name, legal in (
        ("service_name", model.service_name, _SERVICE),
        ("method_name", model.method_name, _METHOD),
    ):
        if name is not None and not legal.fullmatch(name):
            raise InvalidInput(
                "The name is not legal.", errors=[FieldError(f"/{key}", "Give a legal name in gRPC.")]
            )
    host = model.host.strip().removeprefix("[").removesuffix("]")
    return GrpcTarget(
        origin=origin_of(template),
        address=Address(host, model.port),
        tls=model.use_ssl,
        service=model.service_name,
        method=model.method_name,
        metadata=template_metadata(model.headers),
        rpc=_described(model),
    )


def _described(model: GrpcTemplate) -> Rpc | None:
    """Return the method of the template's descriptors, None where it has none; raise InvalidInput."""
    if model.descriptors is None:
        return None
    try:
        pool = read_descriptors(model.descriptors)
    except Unusable as error:
        detail = f"The descriptors cannot be used: {error}."
        raise InvalidInput(detail, errors=[FieldError("/descriptors", "Discover the tool again.")]) from None
    rpc = find_rpc(pool, model.service_name or "", model.method_name or "")
    if rpc is None:
        field_error = FieldError(
            "/descriptors", "They do not describe the method that service_name and method_name name."
        )
        raise InvalidInput("The descriptors cannot be used.", errors=[field_error])
    return rpc


def encode_messages(rpc: Rpc, call: Call[GrpcTarget]) -> list[bytes]:
    """Return the serialised messages of a call; raise InvalidArguments."""
    if not rpc.client_streaming:
        return [encode_message(call.arguments, rpc.request, rpc.pool)]
    listed = call.arguments.get("messages")
    unknown = [key for key in call.arguments if key != "messages"]
    if unknown or not isinstance(listed, list):
        field_error = FieldError(pointer("", *unknown[:1]), "Give one argument: messages, a list.")
        raise InvalidArguments("The arguments are not those of the method.", errors=[field_error])
    return [
        encode_message(one, rpc.request, rpc.pool, at=pointer("/messages", index))
        for index, one in enumerate(listed)
    ]
