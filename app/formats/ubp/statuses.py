"""Statuses of command responses, and the errors of the gateway that they stand for."""

from collections.abc import Mapping
from typing import Final

from app.core.errors import (
    CircuitOpen,
    Conflict,
    DeadlineExceeded,
    Forbidden,
    GatewayError,
    InvalidInput,
    NotFound,
    RateLimited,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from app.formats.ubp.model import Status

_BY_CLASS: Final[tuple[tuple[type[GatewayError], Status], ...]] = (
    (InvalidInput, Status.INVALID_ARGUMENT),
    (NotFound, Status.NOT_FOUND),
    (Unauthenticated, Status.UNAUTHENTICATED),
    (Forbidden, Status.PERMISSION_DENIED),
    (UpstreamTimeout, Status.TIMEOUT),
    (DeadlineExceeded, Status.TIMEOUT),
    (RateLimited, Status.RATE_LIMITED),
    (TooManyRequests, Status.RATE_LIMITED),
    (UpstreamUnreachable, Status.UNAVAILABLE),
    (CircuitOpen, Status.UNAVAILABLE),
    (Unavailable, Status.UNAVAILABLE),
    (UpstreamError, Status.ERROR),
    (Conflict, Status.ERROR),
)
_BY_HTTP_STATUS: Final[Mapping[int, Status]] = {
    400: Status.INVALID_ARGUMENT,
    422: Status.INVALID_ARGUMENT,
    401: Status.UNAUTHENTICATED,
    403: Status.PERMISSION_DENIED,
    404: Status.NOT_FOUND,
    429: Status.RATE_LIMITED,
    499: Status.CANCELLED,
    503: Status.UNAVAILABLE,
    504: Status.TIMEOUT,
}
_HTTP_STATUSES: Final[Mapping[Status, int]] = {
    Status.SUCCESS: 200,
    Status.INVALID_ARGUMENT: 400,
    Status.UNAUTHENTICATED: 401,
    Status.PERMISSION_DENIED: 403,
    Status.NOT_FOUND: 404,
    Status.TIMEOUT: 504,
    Status.RATE_LIMITED: 429,
    Status.UNAVAILABLE: 503,
    Status.CANCELLED: 499,
}


def choose_status(error: GatewayError) -> Status:
    """Return the status of a command that ended with an error of the gateway."""
    return next((status for kind, status in _BY_CLASS if isinstance(error, kind)), Status.ERROR)


def choose_status_of_response(http_status: int) -> Status:
    """Return the status for an upstream's own HTTP status: SUCCESS below 400."""
    if http_status < 400:
        return Status.SUCCESS
    return _BY_HTTP_STATUS.get(http_status, Status.ERROR)


def choose_http_status(status: Status) -> int:
    """Return the HTTP status for an executor's own status; 500 for one without a counterpart."""
    return _HTTP_STATUSES.get(status, 500)
