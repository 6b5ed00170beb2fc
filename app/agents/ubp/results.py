"""Outcomes of calls, and errors, as responses to commands."""

from app.calls import CallContext
from app.calls.results import ModelResult, read_result
from app.core import exact_json
from app.core.errors import GatewayError, UpstreamError
from app.core.telemetry.unexpected import log_unexpected_error
from app.formats.ubp.model import (
    MEDIA_TYPE,
    Command,
    CommandResult,
    Payload,
    Status,
)
from app.formats.ubp.statuses import choose_status, choose_status_of_response
from app.formats.ubp.values import (
    build_bytes_payload,
    build_exact_payload,
    build_struct_payload,
    build_value_payload,
)

CALL_ID = "call_id"
"""The member of a response's metadata with the id of the recorded call."""


async def outcome_result(command: Command, outcome: CallContext, *, base_url: str) -> CommandResult:
    """Return the response to a command from the outcome of its call, which is read and recorded.

    The result of an executor is forwarded in its own form, unless a secret was masked in it. Raise
    ClientDisconnected where the call was ended because the peer has left.
    """
    result = outcome.result
    read = await read_result(outcome, base_url=base_url)
    metadata = {CALL_ID: outcome.call_id}
    if read.is_error:
        return _failed(command, outcome.error, read, metadata)
    if result is not None and result.command_result is not None and not result.is_masked:
        answer = result.command_result
        return CommandResult(
            command.command_id, answer.status, answer.result, answer.error, {**answer.metadata, **metadata}
        )
    payload, kind = _payload(read)
    if kind is not None:
        metadata[MEDIA_TYPE] = kind
    return CommandResult(command.command_id, Status.SUCCESS, payload, "", metadata)


def error_result(command: Command, error: Exception, *, base_url: str) -> CommandResult:
    """Return the response to a command that failed without a call; an unexpected error shows no internals."""
    known = error if isinstance(error, GatewayError) else log_unexpected_error(error)
    problem = build_struct_payload(known.as_problem(base_url=base_url)).payload
    return CommandResult(command.command_id, choose_status(known), problem, known.problem_detail)


def success(command: Command, value: dict[str, object]) -> CommandResult:
    """Return the response of a command of the gateway itself."""
    return CommandResult(command.command_id, Status.SUCCESS, build_struct_payload(value).payload)


def _failed(
    command: Command, error: Exception | None, read: ModelResult, metadata: dict[str, str]
) -> CommandResult:
    problem = build_struct_payload(read.error or {}).payload
    if isinstance(error, UpstreamError) and error.response is not None:
        status = choose_status_of_response(error.response.status)
        body = error.response.body
        if isinstance(body, dict) and isinstance(body.get("error"), str) and body["error"]:
            # What the executor itself has said.
            return CommandResult(command.command_id, status, problem, body["error"], metadata)
        return CommandResult(command.command_id, status, problem, error.problem_detail, metadata)
    status = choose_status(error) if isinstance(error, GatewayError) else Status.ERROR
    detail = error.problem_detail if isinstance(error, GatewayError) else read.text
    return CommandResult(command.command_id, status, problem, detail, metadata)


def _payload(read: ModelResult) -> tuple[Payload, str | None]:
    """Return a result as a payload, and the media type of one that consists of bytes."""
    if read.body is not None:
        return build_exact_payload(exact_json.load_exactly(read.body)), None
    if len(read.media) == 1:
        return build_bytes_payload(read.media[0].data), read.media[0].media_type
    return build_value_payload(read.text).payload, None
