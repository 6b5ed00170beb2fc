"""Reads the outcome of a call into a ModelResult."""

from app.calls import CallOutcome
from app.errors import GatewayError
from app.tool_results.model import ModelResult, ResultBudget


async def read_result(outcome: CallOutcome, *, budget: ResultBudget | None = None) -> ModelResult:  # noqa: ARG001
    """Return the result of a call for a model; it reads a streamed response to its end, and records that.

    Errors of the gateway and of the upstream become results with `is_error`.
    """
    if outcome.approval is not None:
        return ModelResult(
            f"The call waits for approval: /approvals/{outcome.approval['id']}.", is_error=True,
            call_id=outcome.call_id,
        )  # fmt: skip
    if outcome.result is None:
        return error_result(outcome.error or GatewayError(), call_id=outcome.call_id)
    result = outcome.result
    streamed = result.stream is not None
    body = await result.read()
    if streamed:
        outcome.add_result(body)
        await outcome.conclude(upstream_status=result.status, response_bytes=len(body))
    text = body.decode("utf-8", "replace") or f"(no content, HTTP {result.status})"
    is_json = result.media_type.startswith("application/json")
    return ModelResult(text, body=body if is_json else None, call_id=outcome.call_id)


def error_result(error: Exception, *, call_id: str = "") -> ModelResult:
    """Return the result of a call that failed with this error; unexpected errors show no internals."""
    detail = error.detail if isinstance(error, GatewayError) else GatewayError().detail
    return ModelResult(detail, is_error=True, call_id=call_id)
