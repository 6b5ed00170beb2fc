"""One request with its retries, without input and output of its own.

`Steps` are generators: they yield what is to be done (`Send`, `Wait`), are sent what came of it, and return
the result. The clients drive them, one with blocking calls and one with async ones, so that the rules are
written once.
"""

import json
import random
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, TypeVar

from utcp_gateway_client.gateway.errors import (
    GatewayError,
    GatewayTimeout,
    GatewayUnreachable,
    UnexpectedResponse,
    problem_error,
)

T = TypeVar("T")

_FIRST_DELAY_SECONDS: Final = 0.25
_MAX_DELAY_SECONDS: Final = 8.0
# The gateway's own problem arrives a little later than the deadline that it was given.
_GRACE_SECONDS: Final = 2.0
_CLIENT_ERROR: Final = 400
_FROM_PROXIES: Final = frozenset({429, 502, 503, 504})
_RUNNING: Final = "idempotency-running"


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the gateway.

    `repeatable` says that it may be sent again after a connection that ended, or any error of a proxy: it
    only
    reads, or has an Idempotency-Key. `deadline` says that the gateway is told how many milliseconds remain.
    `stream` leaves the body of a successful response unread.
    """

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    timeout: float | None = None
    repeatable: bool = False
    deadline: bool = False
    stream: bool = False


@dataclass(frozen=True, slots=True)
class Send:
    """Send the request, within `seconds`."""

    request: Request
    headers: Mapping[str, str]
    seconds: float


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing for so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Reply:
    """A response; header names in lower case. `connection` is what the body is read from, in a stream."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    connection: Any = None

    def json(self) -> Any:
        """Return the body as JSON; raise UnexpectedResponse."""
        try:
            return json.loads(self.body)
        except ValueError:
            raise UnexpectedResponse(
                "The response is not JSON: is this the address of a gateway?", status=self.status
            ) from None


@dataclass(frozen=True, slots=True)
class Failure:
    """There was no whole response. `sent` is false where the gateway cannot have received the request.

    `timeout` says that a time limit of the connection passed.
    """

    detail: str
    sent: bool
    timeout: bool = False

    def error(self) -> GatewayTimeout | GatewayUnreachable:
        """Return the error that it is."""
        return (GatewayTimeout if self.timeout else GatewayUnreachable)(self.detail, sent=self.sent)


Step = Send | Wait
Outcome = Reply | Failure | None
Steps = Generator[Step, Outcome, T]


def exchange(
    request: Request,
    *,
    timeout: float,
    retries: int,
    clock: Callable[[], float] = time.monotonic,
    jitter: Callable[[], float] = random.random,
) -> Steps[Reply]:
    """Send the request until it succeeds, and return the response; raise GatewayError.

    It is repeated at most `retries` times within `timeout` seconds: after a problem that is `retryable`, and
    where it is `repeatable` after a connection that ended and after the errors of a proxy. `Retry-After` is
    honoured: where it is beyond the timeout, the problem is raised at once. While a call with the same
    Idempotency-Key runs, further requests do not count.
    """
    timeout = request.timeout or timeout
    end = clock() + timeout
    repeated = 0
    while True:
        remaining = end - clock()
        if remaining <= 0:
            raise GatewayTimeout(f"There was no response within {timeout:g} seconds.", sent=repeated > 0)
        reply = yield Send(request, _headers(request, remaining), remaining + _grace(request))
        if isinstance(reply, Reply) and reply.status < _CLIENT_ERROR:
            return reply
        if reply is None:
            raise TypeError("A request was sent, and nothing came of it.")
        error, retry_after, may_repeat = _judge(reply, request)
        running = getattr(error, "slug", "") == _RUNNING
        delay = _delay(repeated, jitter()) if retry_after is None else retry_after
        if not may_repeat or (repeated >= retries and not running):
            raise error
        if clock() + delay >= end:
            if isinstance(reply, Failure) and clock() >= end:
                detail = f"There was no response within {timeout:g} seconds."
                raise GatewayTimeout(detail, sent=reply.sent)
            raise error
        repeated += 0 if running else 1
        yield Wait(delay)


def _headers(request: Request, remaining: float) -> dict[str, str]:
    headers = {"Accept": "application/json", **request.headers}
    if request.body is not None:
        headers["Content-Type"] = "application/json"
    if request.deadline:
        headers["X-Timeout-Ms"] = str(max(1, int(remaining * 1000)))
    return headers


def _grace(request: Request) -> float:
    return _GRACE_SECONDS if request.deadline else 0.0


def _judge(reply: Reply | Failure, request: Request) -> tuple[GatewayError, float | None, bool]:
    """Return the error, the seconds to wait where the response says them, and whether to repeat."""
    if isinstance(reply, Failure):
        return reply.error(), None, request.repeatable or not reply.sent
    retry_after = _retry_after(reply.headers.get("retry-after"))
    problem = _problem(reply)
    if problem is None:
        detail = f"The response with status {reply.status} is no problem document of a gateway."
        may_repeat = request.repeatable and reply.status in _FROM_PROXIES
        return UnexpectedResponse(detail, status=reply.status), retry_after, may_repeat
    error = problem_error(reply.status, problem, retry_after=retry_after)
    return error, retry_after, error.retryable


def _problem(reply: Reply) -> dict[str, Any] | None:
    if reply.headers.get("content-type", "").partition(";")[0].strip() != "application/problem+json":
        return None
    try:
        problem = json.loads(reply.body)
    except ValueError:
        return None
    return problem if isinstance(problem, dict) else None


def _retry_after(text: str | None) -> float | None:
    """Return the seconds that `Retry-After` says (RFC 9110 section 10.2.3), None where it says none."""
    if text is None:
        return None
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        when = parsedate_to_datetime(text)
    except ValueError:
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max(0.0, (when - datetime.now(UTC)).total_seconds())


def _delay(repeated: int, jitter: float) -> float:
    """Return the seconds before the next attempt: half of them are random, so that clients do not meet."""
    most: float = min(_MAX_DELAY_SECONDS, _FIRST_DELAY_SECONDS * 2**repeated)
    return most / 2 + most / 2 * jitter
