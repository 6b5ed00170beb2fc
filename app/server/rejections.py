"""Rejections by the HTTP server itself, before a request reaches the application: RFC 9457 problems.

`reason` is the label value of the metric of rejections; there are no others.
"""

from typing import Final, NamedTuple

from app.core import exact_json
from app.core.errors import (
    BadRequest,
    GatewayError,
    HeadTooLarge,
    HttpVersionNotSupported,
    NotImplementedByServer,
    Overloaded,
    RequestTimeout,
    TooManyRequests,
    UriTooLong,
)

_MEDIA_TYPE: Final = b"application/problem+json"


class Rejection(NamedTuple):
    """Why a request or connection is rejected, and the response; without a body, no response is sent."""

    reason: str
    status: int
    body: bytes
    retry_after: int | None = None

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """The headers of the response, except those of the connection."""
        header_list = [(b"content-type", _MEDIA_TYPE), (b"content-length", b"%d" % len(self.body))]
        if self.retry_after is not None:
            header_list.append((b"retry-after", b"%d" % self.retry_after))
        return header_list


def _build_rejection(
    reason: str, error: type[GatewayError], detail: str, *, retry_after: int | None = None
) -> Rejection:
    problem = error(detail).as_problem()
    # The server does not know the gateway's public URL.
    del problem["documentation_url"]
    return Rejection(reason, error.status, exact_json.dumps(problem), retry_after)


MALFORMED: Final = _build_rejection("malformed", BadRequest, "The request is not HTTP/1.1 (RFC 9112).")
BAD_HOST: Final = _build_rejection(
    "host", BadRequest, "Send the Host header once, with a host and an optional port."
)
BAD_TARGET: Final = _build_rejection(
    "target",
    BadRequest,
    "The request target must be a path, or an http URL of the host that the Host header names.",
)
FRAMING_TOO_LARGE: Final = _build_rejection(
    "framing", BadRequest, "The chunk sizes, chunk extensions and trailers of the body are too large."
)
URI_TOO_LONG: Final = _build_rejection(
    "uri", UriTooLong, "The request target is longer than the server accepts."
)
HEAD_TOO_LARGE: Final = _build_rejection(
    "head",
    HeadTooLarge,
    "The request line and the header fields are larger, or more, than the server accepts.",
)
HEAD_TIMEOUT: Final = _build_rejection(
    "head_timeout", RequestTimeout, "The head of the request did not arrive in time."
)
BODY_TIMEOUT: Final = _build_rejection(
    "body_timeout", RequestTimeout, "The body of the request stopped arriving."
)
BAD_METHOD: Final = _build_rejection(
    "method", NotImplementedByServer, "The method CONNECT is not implemented."
)
BAD_TRANSFER_CODING: Final = _build_rejection(
    "transfer_coding",
    NotImplementedByServer,
    "The only transfer coding of a request is `chunked`, given once.",
)
BAD_VERSION: Final = _build_rejection("version", HttpVersionNotSupported, "Send HTTP/1.1 or HTTP/1.0.")
PIPELINE_TOO_LONG: Final = _build_rejection(
    "pipeline",
    TooManyRequests,
    "Too many requests were sent before their responses were read.",
    retry_after=1,
)
ADDRESS_LIMIT: Final = _build_rejection(
    "address",
    TooManyRequests,
    "There are too many connections or requests from this client address.",
    retry_after=1,
)
CONNECTION_LIMIT: Final = _build_rejection(
    "connections", Overloaded, "There are too many connections.", retry_after=1
)
# These have no response: there is no request, or the client does not read.
NO_REQUEST: Final = Rejection("silent", 0, b"")
EVICTED: Final = Rejection("evicted", 0, b"")
BODY_AFTER_RESPONSE: Final = Rejection("body_after_response", 0, b"")
RESPONSE_TIMEOUT: Final = Rejection("response_timeout", 0, b"")

REASONS: Final = tuple(
    dict.fromkeys(value.reason for value in list(globals().values()) if isinstance(value, Rejection))
)
