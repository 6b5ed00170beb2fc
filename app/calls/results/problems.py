"""Failed calls as a model reads them: what failed, what the upstream said, and what to do next."""

import math
from typing import Any, Final

from app.calls.approvals.approved_call import describe_comment
from app.calls.results.model import ModelResult
from app.core import exact_json
from app.core.errors import FieldError, GatewayError, InvalidArguments, UpstreamError
from app.core.telemetry.unexpected import log_unexpected_error

_MAX_EXCERPT: Final = 4_000
_MAX_VALUE: Final = 200
_MAX_FIELD_ERRORS: Final = 20


def error_result(
    error: Exception, *, call_id: str = "", provider: str = "", base_url: str = ""
) -> ModelResult:
    """Return the result of a call that failed with this error; an unexpected one is logged, and shows no
    internals.

    `provider` is the name of the tool's provider, "" where there is none; `base_url` is the gateway's public
    URL without a slash at its end.
    """
    known = error if isinstance(error, GatewayError) else log_unexpected_error(error)
    retry_after = _retry_after(known)
    return ModelResult(
        _describe_error(known, provider, retry_after, base_url),
        is_error=True,
        error=_build_problem(known, call_id, base_url),
        retry_after=retry_after,
        call_id=call_id,
    )


def approval_result(
    approval: dict[str, Any], *, call_id: str = "", base_url: str = "", handle: str = ""
) -> ModelResult:
    """Return the result of a call that waits for this approval, or is being made, with where its state is,
    and what of the call is hidden from whoever decides. `handle` is what `read_more` reads it by; "" where
    the client has no such tool.
    """
    url = f"{base_url}/approvals/{approval['id']}"
    text = (
        "This call was approved, and is being made."
        if approval["state"] == "approved"
        else "This call needs the approval of a person, and has not been made yet."
    )
    text += describe_comment(approval.get("comment", ""))
    text += f" Its state and, once it was made, its result are at {url}"
    text += f", and read_more reads them with the continuation {handle}." if handle else "."
    text += " Do not call the tool again for the same purpose."
    hidden = approval.get("hidden") or ()
    if hidden:
        parts = [f"{part['pointer']} ({part['reason']}, {part['bytes']} bytes)" for part in hidden]
        text += f" Who decides does not see these values: {', '.join(parts[:_MAX_FIELD_ERRORS])}"
        text += f" and {len(parts) - _MAX_FIELD_ERRORS} more." if len(parts) > _MAX_FIELD_ERRORS else "."
    error = {"status": 202, "approval": approval, "url": url}
    if handle:
        error["continuation"] = handle
    return ModelResult(text, is_error=True, error=error, call_id=call_id)


def _describe_error(error: GatewayError, provider: str, retry_after: float | None, base_url: str) -> str:
    if isinstance(error, InvalidArguments):
        return _describe_invalid_arguments(error)
    if isinstance(error, UpstreamError) and error.response is not None:
        return _describe_upstream_response(error, provider, retry_after)
    sentences = [error.problem_detail]
    if retry_after is not None:
        sentences.append(f"Retry in {math.ceil(retry_after)} s.")
    elif _choose_hint(error):
        sentences.append(_choose_hint(error))
    if isinstance(error, UpstreamError) and error.request_sent and not error.retryable:
        sentences.append("The call may have had its effect: find that out before you repeat it.")
    if base_url and error.hint and "PUT /" in error.hint:
        sentences.append(f"The gateway is at {base_url}.")
    return " ".join(one if one.endswith((".", "!", "?")) else f"{one}." for one in sentences if one)


def _describe_upstream_response(error: UpstreamError, provider: str, retry_after: float | None) -> str:
    """Return `HTTP 404 from <provider>: ` and the beginning of the body, which is bounded and masked."""
    response = error.response
    if response is None:
        return error.problem_detail
    source = f"HTTP {response.status} from {provider or 'the upstream'}"
    lines = [
        f"{source}: {_cut_excerpt(response.body, _MAX_EXCERPT, cut=' [truncated]')}"
        if response.body
        else f"{source} (no content)"
    ]
    if retry_after is not None:
        lines.append(f"Retry in {math.ceil(retry_after)} s.")
    elif response.status == 401:
        lines.append(error.hint)
    return "\n".join(lines)


def _cut_excerpt(value: Any, limit: int, *, cut: str) -> str:
    """Return a text, or a value as JSON, of at most `limit` characters; `cut` follows what is longer."""
    if isinstance(value, str):
        text = value
    else:
        try:
            text = exact_json.dumps(value).decode()
        except TypeError:
            text = str(value)
    return text if len(text) <= limit else f"{text[:limit]}{cut}"


def _describe_invalid_arguments(error: InvalidArguments) -> str:
    if not error.errors:
        return f"{error.detail} The tool was not called."
    lines = ["The arguments do not fit the tool's input schema; it was not called. Correct these:"]
    lines += [f"- {_describe_field_error(one)}" for one in error.errors[:_MAX_FIELD_ERRORS]]
    more = len(error.errors) - _MAX_FIELD_ERRORS
    if more > 0:
        lines.append(f"- and {more} more")
    return "\n".join(lines)


def _describe_field_error(error: FieldError) -> str:
    described = error.as_json()
    text = f"{error.pointer or '(the arguments)'}: {error.detail}"
    for name in ("expected", "received", "nearest", "example"):
        value = described.get(name)
        if value is not None:
            text += f" {name.capitalize()}: {_cut_excerpt(value, _MAX_VALUE, cut='...')}."
    return text


def _retry_after(error: GatewayError) -> float | None:
    for name, value in error.headers.items():
        if name.lower() == "retry-after" and value.isascii() and value.isdigit() and len(value) < 10:
            return float(value)
    return None


def _choose_hint(error: GatewayError) -> str:
    """Return what a model or its user can do about an error: neither sets headers."""
    return error.agent_hint if error.agent_hint and error.hint == type(error).hint else error.hint


def _build_problem(error: GatewayError, call_id: str, base_url: str) -> dict[str, Any]:
    problem = error.as_problem(call_id=call_id or None, base_url=base_url)
    if "hint" in problem:
        problem["hint"] = _choose_hint(error)
    try:
        exact_json.dumps(problem)
    except TypeError:
        # An upstream's body may be nested more deeply than can be written.
        return error.as_problem(call_id=call_id or None, base_url=base_url, without_extra=True)
    return problem
