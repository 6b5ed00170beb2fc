"""What the outcome of a call says about its upstream."""

from enum import IntEnum

from app.errors import (
    UpstreamError,
    UpstreamMalformed,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnreachable,
)

# What proxies and servers answer that cannot serve at all just now (RFC 9110 section 15.6). Any other 5xx may
# be due to one caller's arguments.
_UNAVAILABLE_STATUSES = frozenset({502, 503, 504})


class Verdict(IntEnum):
    """Of one attempt. ANSWERED: it works. FAULT: it answers, with a fault. FAILURE: it does not work.

    FAULT counts for the failure ratio only, so that nobody can shut an upstream for others with a few calls
    whose arguments make it answer 500.
    """

    ANSWERED = 0
    FAULT = 1
    FAILURE = 2


def judge(error: UpstreamError) -> Verdict:
    """Return the verdict for what an adapter raised. A 4xx is an answer."""
    if isinstance(error, (UpstreamTimeout, UpstreamUnreachable)):
        return Verdict.FAILURE
    if isinstance(error, UpstreamMalformed):
        return Verdict.FAULT
    if isinstance(error, UpstreamRejected) and error.answer is not None:
        status = error.answer.status
        if status in _UNAVAILABLE_STATUSES:
            return Verdict.FAILURE
        if status >= 500:
            return Verdict.FAULT
    return Verdict.ANSWERED
