"""The errors of the client.

    GatewayError
    ├── GatewayUnreachable        no response: `sent` says whether the gateway may have received the request
    ├── GatewayTimeout            a time limit passed, of the request or of its connection: `sent` as above
    ├── UnexpectedResponse        a response that is not one of the gateway's contract
    ├── StreamBroken              a stream ended before its last event
    ├── UnknownTools              tools that were asked for by name, and that this key may not call
    ├── ApprovalPending           the call waits for an approval (approvals.py)
    ├── ApprovalDenied            it was rejected, or nobody decided in time
    └── ProblemError              the gateway's problem details (RFC 9457)
        ├── Unauthenticated       no valid API key
        ├── PermissionDenied      the key may not do this
        ├── NotFound
        ├── InvalidRequest        the request is not valid: `errors` has JSON pointers
        │   └── InvalidArguments  the arguments are not valid for the tool
        ├── Conflict              with the state of a resource, or of an Idempotency-Key
        ├── RateLimited
        ├── CredentialMissing     the tool needs a credential that is not stored
        ├── Unavailable           a part of the gateway, or the way to the upstream
        ├── DeadlineExceeded      a deadline passed at the gateway
        └── UpstreamFailed        the upstream failed
            ├── UpstreamRejected  with a status 4xx
            └── UpstreamTimeout

No error has the API key, neither in its text nor in its attributes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

PROBLEM_PREFIX: Final = "urn:utcp-gateway:problem:"


class GatewayError(Exception):
    """Base of all errors of the client."""

    retryable: bool = False
    """Whether the same request may succeed when it is repeated, without doing anything twice."""


class GatewayUnreachable(GatewayError):
    """There was no whole response. `sent` is false where the gateway cannot have received the request."""

    def __init__(self, detail: str, *, sent: bool) -> None:
        super().__init__(detail)
        self.sent = sent
        self.retryable = not sent


class GatewayTimeout(GatewayError):
    """A time limit passed: of the whole request, or of connecting, sending, reading, or a free connection.

    `sent` is false where the gateway cannot have received the request; otherwise it may have made the call.
    """

    def __init__(self, detail: str, *, sent: bool) -> None:
        super().__init__(detail)
        self.sent = sent
        self.retryable = not sent


class UnexpectedResponse(GatewayError):
    """A response that is not one of the contract, as from a proxy. `status` is its HTTP status."""

    def __init__(self, detail: str, *, status: int) -> None:
        super().__init__(detail)
        self.status = status


class StreamBroken(GatewayError):
    """The stream ended before its last event: what it had is not complete."""


class UnknownTools(GatewayError):
    """`names` are no tools that this key may call."""

    def __init__(self, names: list[str]) -> None:
        super().__init__(f"There are no tools of these names that the key may call: {', '.join(names)}.")
        self.names = names


class ApprovalDenied(GatewayError):
    """The call was not made. `state` is `rejected` or `expired`, `comment` what the decision says."""

    def __init__(self, state: str, comment: str) -> None:
        super().__init__(f"The approval of the call is {state}." + (f" {comment}" if comment else ""))
        self.state = state
        self.comment = comment


@dataclass(frozen=True, slots=True)
class FieldError:
    """An error in a field of an input.

    `pointer` is its JSON pointer (RFC 6901). `expected`, `received` (the name of a type), `nearest` (the
    value
    or name that was probably meant) and `example` are None where the gateway does not know them.
    """

    pointer: str
    detail: str
    expected: Any = None
    received: str | None = None
    nearest: str | None = None
    example: Any = None


class ProblemError(GatewayError):
    """The gateway's problem details (RFC 9457).

    `slug` is the stable last part of its `type`. `retry_after` are seconds, None where the response does not
    say them. `members` is the whole problem document, with members that only some problems have.
    """

    def __init__(self, status: int, members: Mapping[str, Any], *, retry_after: float | None = None) -> None:
        self.status = status
        self.members = dict(members)
        self.slug = _text(members, "type").removeprefix(PROBLEM_PREFIX)
        self.title = _text(members, "title")
        self.detail = _text(members, "detail")
        self.hint = _text(members, "hint")
        self.documentation_url = _text(members, "documentation_url") or None
        self.call_id = _text(members, "call_id") or None
        self.retryable = members.get("retryable") is True
        self.retry_after = retry_after
        self.errors = _field_errors(members.get("errors"))
        self.suggestions = [each for each in _list(members.get("suggestions")) if isinstance(each, str)]
        super().__init__(self._summary())

    def _summary(self) -> str:
        lines = [f"{self.status} {self.slug}: {self.detail or self.title}"]
        lines += [f"{error.pointer or '(the whole)'}: {error.detail}" for error in self.errors]
        return "\n".join([*lines, self.hint] if self.hint else lines)


class Unauthenticated(ProblemError):
    """There is no valid API key."""


class PermissionDenied(ProblemError):
    """The API key may not do this, or the gateway may not connect there."""


class NotFound(ProblemError):
    """There is no such resource that the key may see; `suggestions` are similar names."""


class InvalidRequest(ProblemError):
    """The request is not valid; `errors` says where."""


class InvalidArguments(InvalidRequest):
    """The arguments are not valid for the tool; `errors` says where."""


class Conflict(ProblemError):
    """The request conflicts with what is stored."""


class RateLimited(ProblemError):
    """Too many calls; `retry_after` says when to repeat."""


class CredentialMissing(ProblemError):
    """The tool needs a credential that is not stored."""


class Unavailable(ProblemError):
    """A part of the gateway, or the way to the upstream, is not available for now."""


class DeadlineExceeded(ProblemError):
    """A deadline passed at the gateway."""


class UpstreamFailed(ProblemError):
    """The upstream failed; `upstream_status` and `upstream_body` are None where it did not respond."""

    @property
    def upstream_status(self) -> int | None:
        """The upstream's own HTTP status."""
        status = self.members.get("upstream_status")
        return status if isinstance(status, int) else None

    @property
    def upstream_body(self) -> Any:
        """The upstream's own response, as the gateway has it: JSON or text."""
        return self.members.get("upstream_body")


class UpstreamRejected(UpstreamFailed):
    """The upstream rejected the call with a status 4xx."""


class UpstreamTimeout(UpstreamFailed):
    """The upstream did not respond in time. It may have processed the call, unless `retryable` is true."""


ERROR_BY_SLUG: Final[Mapping[str, type[ProblemError]]] = {
    "unauthenticated": Unauthenticated,
    **dict.fromkeys(
        ("blocked-address", "credential-not-allowed", "forbidden", "own-approval"), PermissionDenied
    ),
    "not-found": NotFound,
    **dict.fromkeys(
        (
            "bad-request", "invalid-document", "invalid-input", "method-not-allowed", "not-direct",
            "too-large",
            "request-header-fields-too-large", "unset-variable", "unsupported-media-type", "upgrade-required",
            "uri-too-long", "http-version-not-supported",
        ),
        InvalidRequest,
    ),
    "invalid-arguments": InvalidArguments,
    **dict.fromkeys(
        (
            "approval-outdated", "conflict", "idempotency-mismatch", "idempotency-not-stored",
            "idempotency-running",
            "idempotency-unknown", "not-recorded", "precondition-failed",
            "recording-not-found", "recording-outdated",
        ),
        Conflict,
    ),
    **dict.fromkeys(("rate-limited", "too-many-requests"), RateLimited),
    "credential-missing": CredentialMissing,
    **dict.fromkeys(
        ("call-log-unavailable", "circuit-open", "origin-busy", "overloaded", "stopping", "unavailable"),
        Unavailable
    ),
    **dict.fromkeys(("client-timeout", "deadline-exceeded", "request-timeout"), DeadlineExceeded),
    **dict.fromkeys(
        (
            "response-too-large", "token-request-failed", "upstream-error", "upstream-malformed",
            "upstream-unauthorized", "upstream-unreachable",
        ),
        UpstreamFailed,
    ),
    "upstream-rejected": UpstreamRejected,
    "upstream-timeout": UpstreamTimeout,
}  # fmt: skip
"""The class of each slug; a slug of a later gateway is a ProblemError."""


def problem_error(
    status: int, members: Mapping[str, Any], *, retry_after: float | None = None
) -> ProblemError:
    """Return the error of a problem document."""
    slug = _text(members, "type").removeprefix(PROBLEM_PREFIX)
    return ERROR_BY_SLUG.get(slug, ProblemError)(status, members, retry_after=retry_after)


def _field_errors(errors: Any) -> list[FieldError]:
    return [
        FieldError(
            _text(each, "pointer"), _text(each, "detail"), each.get("expected"), each.get("received"),
            each.get("nearest"), each.get("example"),
        )
        for each in _list(errors)
        if isinstance(each, dict)
    ]  # fmt: skip


def _text(members: Mapping[str, Any], name: str) -> str:
    value = members.get(name)
    return value if isinstance(value, str) else ""


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
