"""What the outcome of an attempt says about the health of its upstream."""

from enum import IntEnum

from app.core.errors import (
    UpstreamError,
    UpstreamMalformed,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnreachable,
)

# The statuses with which proxies and servers say that they cannot serve any request now (RFC 9110 section
# 15.6). Any other 5xx may be due to the arguments of one call.
_UNAVAILABLE_STATUSES = frozenset({502, 503, 504})


class AttemptOutcome(IntEnum):
    """The outcome of one attempt: a response, a server error, or a failure (no response, or 502 to 504).

    A server error counts for the failure ratio only, so that a few calls whose arguments cause a 500 cannot
    open the breaker for all clients.
    """

    RESPONDED = 0
    SERVER_ERROR = 1
    FAILURE = 2


def classify_error(error: UpstreamError) -> AttemptOutcome:
    """Return the outcome for an error that an adapter raised; a 4xx is a response like any other."""
    if isinstance(error, (UpstreamTimeout, UpstreamUnreachable)):
        return AttemptOutcome.FAILURE
    if isinstance(error, UpstreamMalformed):
        return AttemptOutcome.SERVER_ERROR
    if isinstance(error, UpstreamRejected) and error.response is not None:
        status = error.response.status
        if status in _UNAVAILABLE_STATUSES:
            return AttemptOutcome.FAILURE
        if status >= 500:
            return AttemptOutcome.SERVER_ERROR
    return AttemptOutcome.RESPONDED
