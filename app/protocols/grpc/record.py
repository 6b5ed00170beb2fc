"""UTCP 0.x's `grpc`."""

from app.protocols.grpc.template import GrpcTemplate
from app.protocols.record import DirectMode, Fields, ProtocolRecord
from app.protocols.shared.origins import socket_address, socket_origin


def origin_of(fields: Fields) -> str:
    """Return `grpc://host:port`, or `grpcs://host:port` over TLS; raise InvalidInput for a host that is not
    legal.
    """
    return socket_origin("grpcs" if fields.get("use_ssl") else "grpc", fields)


def _address(fields: Fields) -> str:
    return socket_address("grpc", fields)


def _streams(fields: Fields) -> bool:
    return bool(fields.get("server_streaming"))


def _operations(fields: Fields) -> tuple[str, ...]:
    # `/Bank` and `.Bank`, the full name in a descriptor, are the same service.
    service, method = (str(fields.get(key) or "").lstrip("/.") for key in ("service_name", "method_name"))
    return (f"{service}/{method}",) if service and method else ()


PROTOCOL = ProtocolRecord(
    name="grpc",
    template=GrpcTemplate,
    adapter="app.protocols.grpc.adapter:GrpcAdapter",
    extra="grpc",
    libraries=("grpc", "grpc_reflection", "google"),
    origin=origin_of,
    streams=_streams,
    address=_address,
    socket_schemes=("grpc", "grpcs"),
    tls_schemes=("grpcs",),
    is_introspected=True,
    operations=_operations,
    direct=DirectMode(versions=frozenset({0})),
)
