"""The error tree of the gateway.

    GatewayError
    ├── BadRequest 400            the request cannot be parsed
    │   └── InvalidInput 422      it can be parsed, but is not valid: `errors` has the field errors
    │       ├── InvalidArguments  a tool's arguments are not valid for its schema
    │       ├── InvalidDocument   an OpenAPI document or a manual cannot be used
    │       └── UnsetVariable     `${NAME}` has no value
    ├── Unauthenticated 401, NotFound 404, PreconditionFailed 412
    ├── Conflict 409
    │   ├── ApprovalOutdated      what was approved can no longer be done as it was requested
    │   ├── RecordingNotFound     a key or toolset names a recording that does not exist
    │   ├── NotRecorded           a recording has no response to replay for a call
    │   └── RecordingOutdated     the tool has changed since the response was recorded, and that is an error
    ├── Forbidden 403             the client's API key does not allow it
    │   ├── OwnApproval           a key decides about what it, or a key that created it, has requested
    │   ├── CrossSiteRequest      a request with the cookie of a session that no page of the gateway has sent
    │   └── HttpsRequired         a session over plain HTTP, and not on loopback
    ├── CredentialNotAllowed 403  a stored credential may not be sent to the tool's origin
    ├── MethodNotAllowed 405, UnsupportedMediaType 415
    ├── UpgradeRequired 426       the resource is served over another protocol, which `Upgrade` names
    ├── TooLarge 413, ClientTimeout 408, RateLimited 429
    ├── UriTooLong 414, HeadTooLarge 431, RequestTimeout 408, TooManyRequests 429, NotImplementedByServer 501,
    │   HttpVersionNotSupported 505    rejections by the HTTP server, before it has read the request
    ├── IdempotencyMismatch 422, IdempotencyRunning 409, IdempotencyUnknown 409, IdempotencyNotStored 409
    ├── Unavailable 503           a part of the gateway is not available; all of these send Retry-After
    │   ├── Overloaded            this process is overloaded
    │   ├── CircuitOpen           an upstream has failed repeatedly, and its circuit breaker is open
    │   ├── OriginBusy            the upstream's limit of concurrent calls is reached
    │   ├── Stopping              the process is shutting down, and its streams end
    │   └── CallLogUnavailable    a call with effects could not be recorded, and was not made
    ├── LoopDetected 508          the call has passed through this gateway before
    ├── DeadlineExceeded 504      the call's deadline passed before it was sent
    ├── CredentialMissing 424     a tool needs a credential that is not stored
    ├── BlockedAddress 403        the address guard denies the destination
    └── UpstreamError 502
        ├── UpstreamTimeout 504
        ├── UpstreamUnreachable, UpstreamUnauthorized, UpstreamMalformed, ResponseTooLarge, TokenRequestFailed
        └── UpstreamRejected      has the upstream's own 4xx status

Every error has an HTTP status, a stable slug (the last part of RFC 9457's `type`), a hint (what to do next),
and says whether the same request may succeed when it is repeated. Nothing here depends on a framework;
`app.server.problems` is the only place that turns these errors into responses, and its `catalogue` explains
each slug to readers.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from app.core.suggestions import did_you_mean

PROBLEM_TYPE: Final = "urn:utcp-gateway:problem:"
PROBLEMS_PATH: Final = "/problems"
"""Below this path, each problem type has a page (`app.server.reference_pages`)."""
SCOPES_PATH: Final = "/scopes"
"""Below this path, each scope of API keys has a page."""
_REASON_MEMBERS: Final = ("error", "message", "detail", "error_description", "errors", "title")
"""Members in which JSON APIs state what is wrong; the first three as the released UTCP clients read them."""
_MAX_REASON: Final = 1_000
_CONTROL_CHARACTERS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
_RETRY_AFTER: Final = "Wait for the seconds in Retry-After, then send the same request again."


@dataclass(frozen=True, slots=True)
class FieldError:
    """An error in a field of an input: a JSON pointer (RFC 6901) to the field, and how to correct it.

    `expected` is what is expected there as a JSON value, e.g. the name of a type; `received` is the name of
    the type of what was given there, which itself may be secret and is never repeated; `nearest` is the
    valid value or name that was probably meant; `example` is a valid value. None where one is not known.
    """

    pointer: str
    detail: str
    expected: Any = None
    received: str | None = None
    nearest: str | None = None
    example: Any = None

    def as_json(self) -> dict[str, Any]:
        """Return the field error as a member of a problem's `errors` list."""
        body: dict[str, Any] = {"pointer": self.pointer, "detail": self.detail}
        for name in ("expected", "received", "nearest", "example"):
            value = getattr(self, name)
            if value is not None:
                body[name] = value
        return body


class GatewayError(Exception):
    """Base of all errors that a client may see.

    `detail` is shown to clients: it contains no secret, and is never built from `str(exception)`. `errors`
    are the field errors, `headers` are added to the response, `extra` are further members of the problem
    document. `hint` is one sentence on what to do next, by default that of the class. `retryable` says that
    the same request may succeed when it is repeated, and that repeating it does nothing twice; an instance
    may set it. `page` is the path of the page that explains the error, by default the page of its slug.
    """

    status: ClassVar[int] = 500
    slug: ClassVar[str] = "internal-error"
    title: ClassVar[str] = "Internal error"
    agent_hint: ClassVar[str] = ""
    """The hint for models and their users in place of `hint`, where that is about requests over HTTP."""
    hint: str = "Report `error_id` to the operator of the gateway, whose log has the details under it."
    retryable: bool = False

    def __init__(
        self,
        detail: str = "",
        *,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
        hint: str = "",
    ) -> None:
        super().__init__(detail or self.title)
        self.detail = detail or self.title
        self.errors = tuple(errors)
        self.headers = dict(headers or {})
        self.extra = dict(extra or {})
        self.page = f"{PROBLEMS_PATH}/{self.slug}"
        if hint:
            self.hint = hint

    @property
    def problem_detail(self) -> str:
        """The member `detail` of the problem document."""
        return self.detail

    def as_problem(
        self, *, call_id: str | None = None, base_url: str = "", without_extra: bool = False
    ) -> dict[str, Any]:
        """Return the problem document (RFC 9457), with `call_id` where the error belongs to a call.

        `base_url` is the gateway's public URL without a slash at its end; without it, `documentation_url` is
        a path. `without_extra` leaves out `extra`, whose values may not be serialisable.
        """
        body: dict[str, Any] = {
            "type": PROBLEM_TYPE + self.slug,
            "title": self.title,
            "status": self.status,
            "detail": self.problem_detail,
            "hint": self.hint,
            "retryable": self.retryable,
            "documentation_url": base_url + self.page,
        }
        if self.errors:
            body["errors"] = [error.as_json() for error in self.errors]
        if call_id is not None:
            body["call_id"] = call_id
        return body if without_extra else {**self.extra, **body}


def clone_error(error: GatewayError) -> GatewayError:
    """Return a copy of an error, for one of several tasks that raise it.

    A shared instance would collect the tracebacks of all these tasks, and the headers of all their responses.
    """
    copied = type(error).__new__(type(error), *error.args)
    copied.__dict__.update(error.__dict__)
    copied.headers = dict(error.headers)
    return copied


class BadRequest(GatewayError):
    status, slug, title = 400, "bad-request", "The request could not be read"
    hint = "Correct the request as `detail` says, and send it again."


class ClientTimeout(GatewayError):
    status, slug, title = 408, "client-timeout", "The client stopped sending or reading"
    hint = "Send the whole request without pauses, and read the response as it arrives."
    retryable = True


class InvalidInput(BadRequest):
    status, slug, title = 422, "invalid-input", "The input is not valid"
    hint = "Correct the fields that `errors` points to, and send the request again."


class InvalidArguments(InvalidInput):
    slug, title = "invalid-arguments", "The arguments are not valid for the tool's inputs"
    hint = (
        "Compare the arguments with `inputs` in the response of GET /tools/{name}, and correct the fields "
        "that `errors` points to."
    )


class InvalidDocument(InvalidInput):
    slug, title = "invalid-document", "The document cannot be used"
    hint = (
        "Correct the document where `errors` points to; `utcp-gateway openapi check` shows all findings at "
        "once."
    )


class UnsetVariable(InvalidInput):
    slug, title = "unset-variable", "A variable has no value"
    hint = (
        "Store the variable with PUT /providers/{name}/variables/{variable}, or for all providers with PUT "
        "/variables/{variable}."
    )


class Unauthenticated(GatewayError):
    status, slug, title = 401, "unauthenticated", "A valid API key is required"
    hint = (
        "Create a key with POST /keys or `utcp-gateway keys create`; `utcp-gateway bootstrap` creates the "
        "first one, which the embedded mode stores in DATA_DIR/admin.key."
    )

    def __init__(self, detail: str = "", *, retry_after: int | None = None) -> None:
        headers = {"WWW-Authenticate": "Bearer"}
        if retry_after is not None:
            headers["Retry-After"] = str(retry_after)
        super().__init__(detail, headers=headers)
        if retry_after is not None:
            self.retryable, self.hint = True, _RETRY_AFTER


class Forbidden(GatewayError):
    status, slug, title = 403, "forbidden", "The API key does not allow this"
    hint = (
        "Use an API key whose scopes and restrictions include this, or ask whoever manages the keys for one."
    )


class CrossSiteRequest(Forbidden):
    slug, title = "cross-site-request", "The request does not come from a page of the gateway"
    hint = (
        "Use the pages of the console; behind a proxy, set PUBLIC_BASE_URL. A program sends its API key as "
        "`Authorization: Bearer <key>`, and no cookie."
    )


class HttpsRequired(Forbidden):
    slug, title = "https-required", "Signing in needs HTTPS"
    hint = (
        "Open an https:// address. Where a proxy ends TLS, set PUBLIC_BASE_URL to its https:// URL; without "
        "TLS, open http://127.0.0.1 on the gateway's machine, or through an SSH tunnel."
    )


def scopes_missing(detail: str, missing: Sequence[str]) -> Forbidden:
    """Return Forbidden for a key that lacks these scopes, with the page of the first one."""
    names = " and ".join(f"`{scope}`" for scope in missing)
    error = Forbidden(
        detail,
        extra={"missing_scopes": list(missing)},
        hint=f"Use an API key with the scope {names}, or ask whoever manages the keys for one.",
    )
    error.page = f"{SCOPES_PATH}/{missing[0]}"
    return error


class OwnApproval(Forbidden):
    slug, title = "own-approval", "A key cannot decide about its own request"
    hint = "Have another key decide: neither the one that requested it, nor one that this one has created."


class NotFound(GatewayError):
    status, slug, title = 404, "not-found", "Not found"
    hint = (
        "Check the spelling; lists such as GET /tools and GET /providers have all names that the API key "
        "may see."
    )


def not_found(detail: str, similar: Sequence[str] = ()) -> NotFound:
    """Return NotFound for an unknown name. `similar` are suggestions, all of which the client may see."""
    if not similar:
        return NotFound(detail)
    return NotFound(detail, hint=did_you_mean(similar), extra={"suggestions": list(similar)})


class MethodNotAllowed(GatewayError):
    status, slug, title = 405, "method-not-allowed", "Method not allowed"
    hint = "Use one of the methods in the header Allow; the API reference at /docs has one entry for each."


class UpgradeRequired(GatewayError):
    status, slug, title = 426, "upgrade-required", "The resource needs another protocol"
    hint = "Use a client of the protocol that the header Upgrade names."


class Conflict(GatewayError):
    status, slug, title = 409, "conflict", "The request conflicts with what is stored"
    hint = "Read what is stored, and change the request as `detail` says."


class ApprovalOutdated(Conflict):
    slug, title = "approval-outdated", "What was approved can no longer be done as it was requested"
    hint = "Request it again: nothing was sent, and the approval cannot be used any more."


class RecordingNotFound(Conflict):
    slug, title = "recording-not-found", "The recording does not exist"
    hint = (
        "Create it with POST /recordings, or import it with PUT /recordings/{name}; nothing was sent to the "
        "upstream."
    )


class NotRecorded(Conflict):
    slug, title = "not-recorded", "There is no recorded response to replay"
    hint = (
        "Compare the arguments with `nearest`; record the call with a key in the mode `record`, or name "
        "arguments that differ each time in `ignored` of the recording."
    )
    agent_hint = "Call the tool with the arguments of `nearest`, or record the call."


class RecordingOutdated(Conflict):
    slug, title = "recording-outdated", "The tool has changed since the response was recorded"
    hint = "Record the call again, or replay it all the same by setting `strict` of the recording to false."


class PreconditionFailed(GatewayError):
    status, slug, title = 412, "precondition-failed", "The resource has changed since it was read"
    hint = "Read the resource again, and repeat the change with its present ETag in If-Match."


class TooLarge(GatewayError):
    status, slug, title = 413, "too-large", "The request is too large"
    hint = (
        "Send less than the limit, or ask the operator to raise it: MAX_REQUEST_BYTES, and for documents "
        "MAX_DOCUMENT_BYTES."
    )


class RateLimited(GatewayError):
    status, slug, title = 429, "rate-limited", "Too many calls"
    hint = _RETRY_AFTER
    retryable = True


class IdempotencyMismatch(GatewayError):
    status, slug, title = 422, "idempotency-mismatch", "The Idempotency-Key was used for another request"
    hint = "Use a new Idempotency-Key for each different request."


class IdempotencyRunning(GatewayError):
    status, slug, title = 409, "idempotency-running", "The request with this Idempotency-Key is still running"
    hint = (
        "Wait for the seconds in Retry-After, then send the same request with the same Idempotency-Key again."
    )
    retryable = True


class IdempotencyUnknown(GatewayError):
    status, slug, title = 409, "idempotency-unknown", "The outcome of the request with this key is unknown"
    hint = (
        "Find out from the upstream whether the call had its effect; only if it had not, repeat it with a "
        "new Idempotency-Key."
    )


class IdempotencyNotStored(GatewayError):
    status, slug, title = (
        409,
        "idempotency-not-stored",
        "The request was processed, but its response was not stored",
    )
    hint = (
        "Read the effect of the call from the upstream; with a new Idempotency-Key it would be made a "
        "second time."
    )


class UnsupportedMediaType(GatewayError):
    status, slug, title = 415, "unsupported-media-type", "The media type is not supported"
    hint = "Send the body in a media type that `detail` names, and name it in Content-Type."


class CredentialMissing(GatewayError):
    status, slug, title = 424, "credential-missing", "The tool needs a credential that is not stored"
    hint = "Store the credential with PUT /providers/{name}/credentials/{slot}, then call the tool again."


class CredentialNotAllowed(GatewayError):
    status, slug, title = 403, "credential-not-allowed", "The stored credential may not be sent there"
    hint = (
        "If the credential may be sent to the tool's origin, store it again with this origin in "
        "`allowed_origins`."
    )


class BlockedAddress(GatewayError):
    status, slug, title = 403, "blocked-address", "The destination is not allowed"
    hint = (
        "If the gateway may connect to this destination, ask the operator to add its network to the "
        "setting ALLOW_NETWORKS."
    )


class Unavailable(GatewayError):
    status, slug, title = 503, "unavailable", "A part of the gateway is not available"
    hint = _RETRY_AFTER
    retryable = True

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


class UriTooLong(GatewayError):
    status, slug, title = 414, "uri-too-long", "The URL is too long"
    hint = "Shorten the URL, or send the values in the body."


class HeadTooLarge(GatewayError):
    status, slug, title = 431, "request-header-fields-too-large", "The request head is too large"
    hint = "Send fewer or shorter header fields, e.g. without cookies of other sites."


class RequestTimeout(GatewayError):
    status, slug, title = 408, "request-timeout", "The request took too long"
    hint = "Send the request without pauses."
    retryable = True


class TooManyRequests(GatewayError):
    status, slug, title = 429, "too-many-requests", "Too many requests"
    hint = _RETRY_AFTER
    retryable = True


class NotImplementedByServer(GatewayError):
    status, slug, title = 501, "not-implemented", "Not implemented"
    hint = "Use a method and a transfer coding that `detail` does not exclude."


class HttpVersionNotSupported(GatewayError):
    status, slug, title = 505, "http-version-not-supported", "HTTP version not supported"
    hint = "Send the request as HTTP/1.1."


class LoopDetected(GatewayError):
    status, slug, title = 508, "loop-detected", "The call loops between gateways"
    hint = "Register the API itself, in place of a gateway whose calls lead back to this one."


class DeadlineExceeded(GatewayError):
    status, slug, title = 504, "deadline-exceeded", "The deadline passed before the call was sent"
    hint = "Send the call again, with a larger X-Timeout-Ms if it has one."
    agent_hint = "Call the tool again."
    retryable = True


@dataclass(frozen=True, slots=True)
class UpstreamErrorResponse:
    """An upstream's error response: its status, its body, and the headers that are passed on to the client.

    The body is bounded in size and masked.
    """

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


def _read_stated_reason(body: Any) -> str:
    """Return the reason that the body of an error response states, on one line; "" where it is an HTML page.

    That is the first member of `_REASON_MEMBERS` that is not empty, written as JSON unless it is text. Where
    the body has no such member, the whole body is the reason.
    """
    if isinstance(body, Mapping):
        stated = (body.get(name) for name in _REASON_MEMBERS)
        body = next(
            (value for value in stated if value and (not isinstance(value, str) or value.strip())), body
        )
    if not body:
        return ""
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, default=str)
    if text.lstrip().startswith("<"):
        return ""
    reason = _CONTROL_CHARACTERS.sub(" ", text).strip()
    return reason if len(reason) <= _MAX_REASON else f"{reason[:_MAX_REASON]} [truncated]"


class UpstreamError(GatewayError):
    """An error of the upstream or on the way to it.

    `request_sent` is False only where the request certainly did not reach the upstream. `response` is the
    upstream's error response, None where there is none.
    """

    status, slug, title = 502, "upstream-error", "The upstream failed"
    hint = (
        "Look at `upstream_status` and `upstream_body`, which are the upstream's own response, if there is "
        "one."
    )

    response_begun: bool = False
    """Whether the gateway has used a part of the response; then only the adapter may resume the call."""
    counts_for_breaker: ClassVar[bool] = True
    """Whether the circuit breaker of the origin counts this error as a failure."""

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

    @property
    def problem_detail(self) -> str:
        """`detail` and the reason in the upstream's response: UTCP clients show users nothing else."""
        reason = _read_stated_reason(self.extra.get("upstream_body"))
        return f"{self.detail} Its response says: {reason}" if reason else self.detail


class UpstreamTimeout(UpstreamError):
    status, slug, title = 504, "upstream-timeout", "The upstream did not respond in time"
    hint = (
        "Allow more time by X-Timeout-Ms or the provider's `limits`; where `retryable` is false, first find "
        "out whether the upstream has processed the call."
    )
    agent_hint = (
        "Whoever manages the provider can allow more time by its `limits`; where `retryable` is false, first "
        "find out whether the upstream has processed the call."
    )


class UpstreamUnreachable(UpstreamError):
    slug, title = "upstream-unreachable", "The upstream cannot be reached"
    hint = "Check that the upstream is running, and that the gateway's machine can connect to its origin."


class UpstreamUnauthorized(UpstreamError):
    slug, title = "upstream-unauthorized", "The upstream rejected the stored credential"
    hint = "Store a credential that the upstream accepts with PUT /providers/{name}/credentials/{slot}."


class UpstreamMalformed(UpstreamError):
    slug, title = "upstream-malformed", "The upstream's response cannot be read"
    hint = "Check that the URL is that of the API, and what the upstream sends there."


class ResponseTooLarge(UpstreamError):
    slug, title = "response-too-large", "The upstream's response is larger than allowed"
    hint = "Request less, e.g. a page or fewer fields, or raise `response_bytes` in the provider's `limits`."


class TokenRequestFailed(UpstreamError):
    slug, title = "token-request-failed", "The token endpoint returned no token"
    hint = "Check the client id, the client secret and the token URL of the stored credential."


class UpstreamRejected(UpstreamError):
    """An error response of the upstream. Its status is 4xx as sent; 401, 403, 407 and 5xx become 502."""

    slug, title = "upstream-rejected", "The upstream rejected the call"
    hint = "Change the arguments as the upstream's own response in `upstream_body` says."

    def __init__(self, detail: str = "", *, response: UpstreamErrorResponse) -> None:
        super().__init__(detail, response=response)
        if response.status >= 500:
            self.hint = "The upstream itself failed: look at `upstream_body`, and at the upstream's own log."
        is_passed_on = 400 <= response.status < 500 and response.status not in (401, 403, 407)
        self.status: int = response.status if is_passed_on else 502  # type: ignore[misc]


class ResponseTruncated(ConnectionAbortedError):
    """Makes the HTTP server close the connection of a response that cannot be completed.

    Whoever raises it logs the cause first.
    """
