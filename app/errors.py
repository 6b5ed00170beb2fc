"""The error tree of the gateway.

    GatewayError
    ├── BadRequest 400            the request could not be read
    │   └── InvalidInput 422      it was read, and something in it is wrong: `errors` points at each fault
    │       ├── InvalidArguments  a tool's arguments do not fit its schema
    │       ├── InvalidDocument   an OpenAPI document or a manual cannot be used
    │       └── UnsetVariable     `${NAME}` has no value
    ├── Unauthenticated 401, NotFound 404, Conflict 409, PreconditionFailed 412
    ├── Forbidden 403             the caller's key does not allow it
    ├── CredentialNotAllowed 403  a stored credential may not be sent where the tool lies
    ├── TooLarge 413, CallerStalled 408, RateLimited 429
    ├── IdempotencyMismatch 422, IdempotencyRunning 409, IdempotencyUnknown 409, IdempotencyUnkept 409
    ├── Unavailable 503           a part of the gateway is not available; all of these say Retry-After
    │   ├── Overloaded            this process has more to do than it can
    │   ├── CircuitOpen           an upstream has failed repeatedly, and is left alone for a while
    │   ├── OriginBusy            as many calls of an upstream are under way as may be
    │   ├── Stopping              the process ends, and its streams with it
    │   └── AuditUnavailable      a call with effects could not be put on record, and was not made
    ├── LoopDetected 508          the call has been at this gateway before
    ├── TimeOver 504              the call's time was over before it could be made
    ├── CredentialMissing 424     a tool needs a credential that nobody has stored
    ├── BlockedAddress 403        the address guard refused the destination
    └── UpstreamError 502
        ├── UpstreamTimeout 504
        ├── UpstreamUnreachable, UpstreamUnauthorized, UpstreamMalformed, ResponseTooLarge, TokenRefused
        └── UpstreamRejected      keeps the upstream's own 4xx

Every error carries an HTTP status and a stable slug (the last part of RFC 9457's `type`). Nothing here
knows a framework; `app.server.problems` is the only place that turns these into responses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

PROBLEM_TYPE: Final = "urn:utcp-gateway:problem:"


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with an input: an RFC 6901 JSON pointer, and a sentence that one can act on."""

    pointer: str
    detail: str
    expected: Any = None

    def as_json(self) -> dict[str, Any]:
        """The fault as a member of a problem's `errors` list."""
        body: dict[str, Any] = {"pointer": self.pointer, "detail": self.detail}
        if self.expected is not None:
            body["expected"] = self.expected
        return body


class GatewayError(Exception):
    """Base of all errors that a client may see; `detail` is safe to show, and never built from `str(exc)`."""

    status: ClassVar[int] = 500
    slug: ClassVar[str] = "internal-error"
    title: ClassVar[str] = "Internal error"

    def __init__(
        self,
        detail: str = "",
        *,
        errors: Sequence[Fault] = (),
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail or self.title)
        self.detail = detail or self.title
        self.errors = tuple(errors)
        self.headers = dict(headers or {})
        self.extra = dict(extra or {})

    def as_problem(self, *, call_id: str | None = None, bare: bool = False) -> dict[str, Any]:
        """The problem document (RFC 9457); a `bare` one is without `extra`, which may hold any value.

        `call_id` is the id of the call that failed.
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
        return body if bare else {**self.extra, **body}


def again(error: GatewayError) -> GatewayError:
    """The same error anew: one raised in several tasks at once would collect all their tracebacks, and the
    headers of all their calls."""
    copied = type(error).__new__(type(error), *error.args)
    copied.__dict__.update(error.__dict__)
    copied.headers = dict(error.headers)
    return copied


class BadRequest(GatewayError):
    status, slug, title = 400, "bad-request", "The request could not be read"


class CallerStalled(GatewayError):
    status, slug, title = 408, "caller-stalled", "The caller stopped sending its call, or taking its answer"


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
    status, slug, title = 409, "idempotency-unknown", "Nobody knows how the call with this key ended"


class IdempotencyUnkept(GatewayError):
    status, slug, title = 409, "idempotency-unkept", "The call was carried out, but its answer was not kept"


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
    slug, title = "overloaded", "The gateway has too much to do"


class CircuitOpen(Unavailable):
    slug, title = "circuit-open", "The upstream is left alone for a while"


class OriginBusy(Unavailable):
    slug, title = "origin-busy", "Too many calls of the upstream are under way"


class Stopping(Unavailable):
    slug, title = "stopping", "The gateway is stopping"


class AuditUnavailable(Unavailable):
    slug, title = "audit-unavailable", "The call cannot be put on record, so it was not made"


class LoopDetected(GatewayError):
    status, slug, title = 508, "loop-detected", "The call goes round in a circle"


class TimeOver(GatewayError):
    status, slug, title = 504, "time-over", "The time of the call was over before it could be made"


@dataclass(frozen=True, slots=True)
class UpstreamAnswer:
    """What an upstream said when it refused: its status and a bounded, already masked body."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


class UpstreamError(GatewayError):
    """`sent` is False where it is certain that nothing of the call reached the upstream."""

    status, slug, title = 502, "upstream-error", "The upstream failed"

    def __init__(self, detail: str = "", *, answer: UpstreamAnswer | None = None, sent: bool = True) -> None:
        headers = {"X-Error-Source": "upstream"}
        extra: dict[str, Any] = {}
        if answer is not None:
            headers |= {"X-Upstream-Status": str(answer.status), **answer.headers}
            extra = {"upstream_status": answer.status, "upstream_body": answer.body}
        super().__init__(detail, headers=headers, extra=extra)
        self.answer = answer
        self.sent = sent


class UpstreamTimeout(UpstreamError):
    status, slug, title = 504, "upstream-timeout", "The upstream did not answer in time"


class UpstreamUnreachable(UpstreamError):
    slug, title = "upstream-unreachable", "The upstream cannot be reached"


class UpstreamUnauthorized(UpstreamError):
    slug, title = "upstream-unauthorized", "The upstream refused the stored credential"


class UpstreamMalformed(UpstreamError):
    slug, title = "upstream-malformed", "The upstream's answer cannot be read"


class ResponseTooLarge(UpstreamError):
    slug, title = "response-too-large", "The upstream's answer is larger than allowed"


class TokenRefused(UpstreamError):
    slug, title = "token-refused", "The token endpoint gave no token"


class UpstreamRejected(UpstreamError):
    """An upstream 4xx keeps its status; 401, 403, 407 and 5xx become 502."""

    slug, title = "upstream-rejected", "The upstream refused the call"

    def __init__(self, detail: str = "", *, answer: UpstreamAnswer) -> None:
        super().__init__(detail, answer=answer)
        kept = 400 <= answer.status < 500 and answer.status not in (401, 403, 407)
        self.status: int = answer.status if kept else 502  # type: ignore[misc]


class AnswerCut(ConnectionAbortedError):
    """Raised to the server so that it cuts a connection whose answer cannot be ended; logged before."""
