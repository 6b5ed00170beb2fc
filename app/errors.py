"""The error tree of the gateway.

    GatewayError
    ├── BadRequest 400            the request could not be read
    │   └── InvalidInput 422      it could be read, but is not valid: `errors` points at each field error
    │       ├── InvalidArguments  a tool's arguments do not fit its schema
    │       ├── InvalidDocument   an OpenAPI document or a manual cannot be used
    │       └── UnsetVariable     `${NAME}` has no value
    ├── Unauthenticated 401, NotFound 404, Conflict 409, PreconditionFailed 412
    ├── Forbidden 403             the client's API key does not allow it
    ├── CredentialNotAllowed 403  a stored credential may not be sent to the tool's origin
    ├── TooLarge 413, ClientTimeout 408, RateLimited 429
    ├── IdempotencyMismatch 422, IdempotencyRunning 409, IdempotencyUnknown 409, IdempotencyNotStored 409
    ├── Unavailable 503           a part of the gateway is not available; all of these send Retry-After
    │   ├── Overloaded            this process has more work than it can do
    │   ├── CircuitOpen           an upstream has failed repeatedly, and its circuit breaker is open
    │   ├── OriginBusy            the upstream's limit of concurrent calls is reached
    │   ├── Stopping              the process is shutting down, and its streams end
    │   └── CallLogUnavailable      a call with effects could not be recorded, and was not made
    ├── LoopDetected 508          the call has passed through this gateway before
    ├── DeadlineExceeded 504      the call's deadline passed before it was sent
    ├── CredentialMissing 424     a tool needs a credential that is not stored
    ├── BlockedAddress 403        the address guard denies the destination
    └── UpstreamError 502
        ├── UpstreamTimeout 504
        ├── UpstreamUnreachable, UpstreamUnauthorized, UpstreamMalformed, ResponseTooLarge, TokenRequestFailed
        └── UpstreamRejected      has the upstream's own 4xx status

Every error has an HTTP status and a stable slug (the last part of RFC 9457's `type`). Nothing here depends on
a framework; `app.server.problems` is the only place that turns these errors into responses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

PROBLEM_TYPE: Final = "urn:utcp-gateway:problem:"


@dataclass(frozen=True, slots=True)
class FieldError:
    """One error in an input: an RFC 6901 JSON pointer to it, and a sentence that says how to correct it."""

    pointer: str
    detail: str
    expected: Any = None

    def as_json(self) -> dict[str, Any]:
        """Return the field error as a member of a problem's `errors` list."""
        body: dict[str, Any] = {"pointer": self.pointer, "detail": self.detail}
        if self.expected is not None:
            body["expected"] = self.expected
        return body


class GatewayError(Exception):
    """Base of all errors that a client may see. `detail` is safe to show: never built from `str(exc)`."""

    status: ClassVar[int] = 500
    slug: ClassVar[str] = "internal-error"
    title: ClassVar[str] = "Internal error"

    def __init__(
        self,
        detail: str = "",
        *,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail or self.title)
        self.detail = detail or self.title
        self.errors = tuple(errors)
        self.headers = dict(headers or {})
        self.extra = dict(extra or {})

    def as_problem(self, *, call_id: str | None = None, without_extra: bool = False) -> dict[str, Any]:
        """Return the problem document (RFC 9457), with `call_id` where the error belongs to a call.

        `without_extra` leaves out `extra`, whose values may not be serialisable.
        """
        body: dict[str, Any] = {
            "type": PROBLEM_TYPE + self.slug,
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
        }
        if self.errors:
            body["errors"] = [fault.as_json() for fault in self.errors]
        if call_id is not None:
            body["call_id"] = call_id
        return body if without_extra else {**self.extra, **body}


def clone_error(error: GatewayError) -> GatewayError:
    """Return a copy of an error that is raised in several tasks.

    One instance would collect the tracebacks of all these tasks, and the headers of all their calls.
    """
    copied = type(error).__new__(type(error), *error.args)
    copied.__dict__.update(error.__dict__)
    copied.headers = dict(error.headers)
    return copied


class BadRequest(GatewayError):
    status, slug, title = 400, "bad-request", "The request could not be read"


class ClientTimeout(GatewayError):
    status, slug, title = 408, "client-timeout", "The client stopped sending or reading"


class InvalidInput(BadRequest):
    status, slug, title = 422, "invalid-input", "The input is not valid"


class InvalidArguments(InvalidInput):
    slug, title = "invalid-arguments", "The arguments do not fit the tool's inputs"


class InvalidDocument(InvalidInput):
    slug, title = "invalid-document", "The document cannot be used"


class UnsetVariable(InvalidInput):
    slug, title = "unset-variable", "A variable has no value"


class Unauthenticated(GatewayError):
    status, slug, title = 401, "unauthenticated", "A valid API key is required"

    def __init__(self, detail: str = "", *, retry_after: int | None = None) -> None:
        headers = {"WWW-Authenticate": "Bearer"}
        if retry_after is not None:
            headers["Retry-After"] = str(retry_after)
        super().__init__(detail, headers=headers)


class Forbidden(GatewayError):
    status, slug, title = 403, "forbidden", "The API key does not allow this"


class NotFound(GatewayError):
    status, slug, title = 404, "not-found", "Not found"


class Conflict(GatewayError):
    status, slug, title = 409, "conflict", "The request conflicts with what is stored"


class PreconditionFailed(GatewayError):
    status, slug, title = 412, "precondition-failed", "The resource has changed since it was read"


class TooLarge(GatewayError):
    status, slug, title = 413, "too-large", "The request is too large"


class RateLimited(GatewayError):
    status, slug, title = 429, "rate-limited", "Too many calls"


class IdempotencyMismatch(GatewayError):
    status, slug, title = 422, "idempotency-mismatch", "The Idempotency-Key was used for another call"


class IdempotencyRunning(GatewayError):
    status, slug, title = 409, "idempotency-running", "The call with this Idempotency-Key is still running"


class IdempotencyUnknown(GatewayError):
    status, slug, title = 409, "idempotency-unknown", "The outcome of the call with this key is unknown"


class IdempotencyNotStored(GatewayError):
    status, slug, title = 409, "idempotency-not-stored", "The call was made, but its response was not stored"


class UnsupportedMediaType(GatewayError):
    status, slug, title = 415, "unsupported-media-type", "The media type is not supported"


class CredentialMissing(GatewayError):
    status, slug, title = 424, "credential-missing", "The tool needs a credential that is not stored"


class CredentialNotAllowed(GatewayError):
    status, slug, title = 403, "credential-not-allowed", "The stored credential may not be sent there"


class BlockedAddress(GatewayError):
    status, slug, title = 403, "blocked-address", "The destination is not allowed"


class Unavailable(GatewayError):
    status, slug, title = 503, "unavailable", "A part of the gateway is not available"

    def __init__(self, detail: str = "", *, retry_after: int = 1) -> None:
        super().__init__(detail, headers={"Retry-After": str(retry_after)})


class Overloaded(Unavailable):
    slug, title = "overloaded", "The gateway is overloaded"


class CircuitOpen(Unavailable):
    slug, title = "circuit-open", "Calls to the upstream are paused"


class OriginBusy(Unavailable):
    slug, title = "origin-busy", "Too many calls to the upstream are in progress"


class Stopping(Unavailable):
    slug, title = "stopping", "The gateway is stopping"


class CallLogUnavailable(Unavailable):
    slug, title = "call-log-unavailable", "The call cannot be recorded, so it was not made"


class LoopDetected(GatewayError):
    status, slug, title = 508, "loop-detected", "The call loops between gateways"


class DeadlineExceeded(GatewayError):
    status, slug, title = 504, "deadline-exceeded", "The deadline passed before the call was sent"


@dataclass(frozen=True, slots=True)
class UpstreamErrorResponse:
    """An upstream's error response: its status, and its body, which is bounded and already masked."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


class UpstreamError(GatewayError):
    """An error of the upstream or on the way to it.

    `request_sent` is False only where it is certain that nothing of the call reached the upstream.
    """

    status, slug, title = 502, "upstream-error", "The upstream failed"

    def __init__(
        self, detail: str = "", *, response: UpstreamErrorResponse | None = None, request_sent: bool = True
    ) -> None:
        headers = {"X-Error-Source": "upstream"}
        extra: dict[str, Any] = {}
        if response is not None:
            headers |= {"X-Upstream-Status": str(response.status), **response.headers}
            extra = {"upstream_status": response.status, "upstream_body": response.body}
        super().__init__(detail, headers=headers, extra=extra)
        self.response = response
        self.request_sent = request_sent


class UpstreamTimeout(UpstreamError):
    status, slug, title = 504, "upstream-timeout", "The upstream did not respond in time"


class UpstreamUnreachable(UpstreamError):
    slug, title = "upstream-unreachable", "The upstream cannot be reached"


class UpstreamUnauthorized(UpstreamError):
    slug, title = "upstream-unauthorized", "The upstream rejected the stored credential"


class UpstreamMalformed(UpstreamError):
    slug, title = "upstream-malformed", "The upstream's response cannot be read"


class ResponseTooLarge(UpstreamError):
    slug, title = "response-too-large", "The upstream's response is larger than allowed"


class TokenRequestFailed(UpstreamError):
    slug, title = "token-request-failed", "The token endpoint returned no token"


class UpstreamRejected(UpstreamError):
    """An error response of the upstream. Its status is 4xx as sent; 401, 403, 407 and 5xx become 502."""

    slug, title = "upstream-rejected", "The upstream rejected the call"

    def __init__(self, detail: str = "", *, response: UpstreamErrorResponse) -> None:
        super().__init__(detail, response=response)
        is_passed_on = 400 <= response.status < 500 and response.status not in (401, 403, 407)
        self.status: int = response.status if is_passed_on else 502  # type: ignore[misc]


class ResponseTruncated(ConnectionAbortedError):
    """Tells the HTTP server to close the connection of a response that cannot be completed.

    Whoever raises it has logged the cause.
    """
