"""Statuses of gRPC -> errors, with the HTTP statuses that google.rpc.Code names for them."""

from types import MappingProxyType
from typing import Any, Final

import orjson
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from app.errors import (
    ResponseTooLarge,
    UpstreamAnswer,
    UpstreamError,
    UpstreamMalformed,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnauthorized,
    UpstreamUnreachable,
)
from app.outbound.refusals import readable
from app.protocols.grpc.descriptors import pool_of
from app.protocols.grpc.messages import decoded
from app.protocols.grpc.rpc import RpcFailed
from app.security.masking import Masker

STATUSES: Final = MappingProxyType(
    {
        1: 499, 2: 500, 3: 400, 4: 504, 5: 404, 6: 409, 7: 403, 8: 429, 9: 400, 10: 409, 11: 400, 12: 501,
        13: 500, 14: 503, 15: 500, 16: 401,
    }
)  # fmt: skip
_TOO_LATE: Final = 4
_UNAVAILABLE: Final = (1, 14)
_UNAUTHENTICATED: Final = 16
_MOST_DETAILS: Final = 20
_LONGEST: Final = 64 << 10

_STRING, _INT32, _MESSAGE = (
    FieldDescriptor.TYPE_STRING,
    FieldDescriptor.TYPE_INT32,
    FieldDescriptor.TYPE_MESSAGE,
)
# google/rpc/status.proto and error_details.proto, as far as their details help a caller.
_KNOWN: Final = MappingProxyType(
    {
        "Status": (
            ("code", _INT32, ""), ("message", _STRING, ""), ("details", _MESSAGE, "*google.protobuf.Any"),
        ),
        "BadRequest": (("field_violations", _MESSAGE, "*google.rpc.FieldViolation"),),
        "FieldViolation": (("field", _STRING, ""), ("description", _STRING, ""), ("reason", _STRING, "")),
        "ErrorInfo": (("reason", _STRING, ""), ("domain", _STRING, "")),
        "RetryInfo": (("retry_delay", _MESSAGE, "google.protobuf.Duration"),),
        "LocalizedMessage": (("locale", _STRING, ""), ("message", _STRING, "")),
        "ResourceInfo": (
            ("resource_type", _STRING, ""), ("resource_name", _STRING, ""), ("owner", _STRING, ""),
            ("description", _STRING, ""),
        ),
    }
)  # fmt: skip


def answer_of(code: int, name: str, message: str, details: Any = None) -> UpstreamAnswer:
    """What an upstream said, as an answer of HTTP."""
    body = {"code": name, "message": message}
    return UpstreamAnswer(STATUSES.get(code, 500), {**body, "details": details} if details else body)


def refused(failed: RpcFailed, *, masker: Masker, pool: DescriptorPool | None = None) -> UpstreamError:
    """The error that a caller gets; the types of its details are looked for in `pool`, too."""
    if failed.why == "large":
        return ResponseTooLarge("The upstream's answer has a message that is larger than allowed.")
    if failed.code == _TOO_LATE:
        return UpstreamTimeout("The upstream did not answer in time.")
    if failed.why == "broken":
        if failed.code in _UNAVAILABLE:
            return UpstreamUnreachable("The connection to the upstream broke.")
        return UpstreamMalformed("The upstream does not keep to the protocol.")
    said = answer_of(failed.code, failed.name, failed.details[:_LONGEST], _details(failed.status, pool))
    # Other than HTTP's, its message may be empty.
    masked = readable(
        orjson.dumps(said.body), "application/json", masker=masker, limit=_LONGEST, complete=True
    )
    answer = UpstreamAnswer(said.status, masked)
    if failed.code == _UNAUTHENTICATED:
        return UpstreamUnauthorized(f"The upstream refused the call ({failed.name}).", answer=answer)
    return UpstreamRejected(f"The upstream answered with the status {failed.name}.", answer=answer)


def _details(raw: bytes, pool: DescriptorPool | None) -> list[Any]:
    """The google.rpc.Status of a refusal; a detail of a type that nobody knows is left as its name."""
    if not raw or len(raw) > _LONGEST:
        return []
    try:
        status: Any = GetMessageClass(_POOL.FindMessageTypeByName("google.rpc.Status")).FromString(raw)
    except DecodeError:
        return []
    found: list[Any] = []
    for one in status.details[:_MOST_DETAILS]:
        name = one.type_url.rpartition("/")[2]
        body = _detail(name, one.value, _POOL) or (_detail(name, one.value, pool) if pool else None)
        found.append({"@type": one.type_url[:512], **(body or {})})
    return found


def _detail(name: str, value: bytes, pool: DescriptorPool) -> dict[str, Any] | None:
    try:
        descriptor = pool.FindMessageTypeByName(name)
        read = orjson.loads(decoded(value, descriptor, pool, most=_LONGEST))
    except (KeyError, UpstreamError):
        return None
    return read if isinstance(read, dict) else {"value": read}


def _pool() -> DescriptorPool:
    file = descriptor_pb2.FileDescriptorProto(
        name="google/rpc/errors.proto", package="google.rpc", syntax="proto3"
    )
    file.dependency.extend(["google/protobuf/any.proto", "google/protobuf/duration.proto"])
    for name, fields in _KNOWN.items():
        message = file.message_type.add(name=name)
        for number, (key, kind, of) in enumerate(fields, 1):
            label = FieldDescriptor.LABEL_REPEATED if of.startswith("*") else FieldDescriptor.LABEL_OPTIONAL
            made = message.field.add(name=key, number=number, type=kind, label=label)
            if of:
                made.type_name = "." + of.removeprefix("*")
    return pool_of({file.name: file})


_POOL: Final = _pool()
