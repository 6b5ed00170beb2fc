"""Statuses of gRPC as errors of the gateway, with the HTTP statuses that google.rpc.Code names for them.

The details of a status (https://google.aip.dev/193) are read by Google's own descriptors of
google/rpc/status.proto and google/rpc/error_details.proto.
"""

from types import MappingProxyType
from typing import Any, Final

import orjson
from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from app.core import exact_json
from app.core.errors import (
    ResponseTooLarge,
    UpstreamError,
    UpstreamErrorResponse,
    UpstreamMalformed,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnauthorized,
    UpstreamUnreachable,
)
from app.outbound.error_bodies import sanitize_error_body
from app.protocols.grpc.messages import decode_message
from app.protocols.grpc.rpc import RpcFailed
from app.security.masking import Masker

HTTP_STATUSES: Final = MappingProxyType(
    {
        1: 499, 2: 500, 3: 400, 4: 504, 5: 404, 6: 409, 7: 403, 8: 429, 9: 400, 10: 409, 11: 400, 12: 501,
        13: 500, 14: 503, 15: 500, 16: 401,
    }
)  # fmt: skip
"""HTTP status by google.rpc.Code (google/rpc/code.proto)."""
_DEADLINE_EXCEEDED: Final = 4
_CANCELLED_OR_UNAVAILABLE: Final = (1, 14)
_UNAUTHENTICATED: Final = 16
_DETAILS_MAX: Final = 20
_STATUS_BYTES_MAX: Final = 64 << 10
# The default pool holds every generated module that the process has imported: a detail of another package is
# read by the upstream's own descriptors, or not at all.
_STANDARD_PACKAGES: Final = (f"{error_details_pb2.DESCRIPTOR.package}.", "google.protobuf.")


def upstream_response(code: int, name: str, message: str, details: Any = None) -> UpstreamErrorResponse:
    """Return an upstream's status as a response of HTTP: `{"code": name, "message": ..., "details": ...}`.

    `code` is a google.rpc.Code; `details` is left out where it is empty.
    """
    body = {"code": name, "message": message}
    return UpstreamErrorResponse(
        HTTP_STATUSES.get(code, 500), {**body, "details": details} if details else body
    )


def status_error(failed: RpcFailed, *, masker: Masker, pool: DescriptorPool | None = None) -> UpstreamError:
    """Return the error of a call that failed, with the secrets of `masker` masked in what the upstream sent.

    Details whose types google.rpc does not define are decoded with `pool`, the upstream's descriptors.
    """
    if failed.cause == "large":
        return ResponseTooLarge("The upstream's response has a message that is larger than allowed.")
    if failed.code == _DEADLINE_EXCEEDED:
        return UpstreamTimeout("The upstream did not respond in time.")
    if failed.cause == "broken":
        if failed.code in _CANCELLED_OR_UNAVAILABLE:
            return UpstreamUnreachable("The connection to the upstream broke.")
        return UpstreamMalformed("The upstream violates the gRPC protocol.")
    details = _details(failed.status, pool)
    sent = upstream_response(failed.code, failed.name, failed.details[:_STATUS_BYTES_MAX], details)
    # Other than HTTP's, its message may be empty.
    masked = sanitize_error_body(
        exact_json.dumps(sent.body), "application/json", masker=masker, limit=_STATUS_BYTES_MAX, complete=True
    )
    error_response = UpstreamErrorResponse(sent.status, masked)
    if failed.code == _UNAUTHENTICATED:
        return UpstreamUnauthorized(
            f"The upstream rejected the credentials ({failed.name}).", response=error_response
        )
    return UpstreamRejected(f"The upstream responded with the status {failed.name}.", response=error_response)


def _details(raw: bytes, pool: DescriptorPool | None) -> list[Any]:
    """Return the details of a serialised google.rpc.Status as JSON objects with `@type`; [] for no Status.

    A detail whose type is unknown, or whose value does not decode, has no other member.
    """
    if not raw or len(raw) > _STATUS_BYTES_MAX:
        return []
    try:
        status: Any = status_pb2.Status.FromString(raw)
    except DecodeError:
        return []
    found: list[Any] = []
    for detail in status.details[:_DETAILS_MAX]:
        name = detail.type_url.rpartition("/")[2]
        known = descriptor_pool.Default() if name.startswith(_STANDARD_PACKAGES) else pool
        members = None if known is None else _members(name, detail.value, known)
        found.append({"@type": detail.type_url[:512], **(members or {})})
    return found


def _members(name: str, value: bytes, pool: DescriptorPool) -> dict[str, Any] | None:
    """Return a message as JSON members; None where `pool` lacks its type or the bytes do not decode."""
    try:
        descriptor = pool.FindMessageTypeByName(name)
        read = orjson.loads(decode_message(value, descriptor, pool, max_bytes=_STATUS_BYTES_MAX))
    except (KeyError, UpstreamError):
        return None
    return read if isinstance(read, dict) else {"value": read}
