"""Reads the outcome of a call into a ModelResult."""

import asyncio
from collections.abc import Sequence
from typing import Final

from app.calls import CallOutcome, ClientDisconnected
from app.errors import GatewayError, ResponseTooLarge
from app.protocols.base import Result
from app.tool_results.bodies import read_body
from app.tool_results.events import MAX_COLLECTED, OnEvent, collect_events, events_of
from app.tool_results.model import ModelResult, ResultBudget
from app.tool_results.problems import approval_result, error_result

_INLINE_BYTES: Final = 64 << 10


async def read_result(
    outcome: CallOutcome,
    *,
    budget: ResultBudget | None = None,  # noqa: ARG001
    base_url: str = "",
    on_event: OnEvent | None = None,
) -> ModelResult:
    """Return the result of a call for a model; it reads a streamed response to its end, and records that.

    Errors of the gateway and of the upstream become results with `is_error`. `base_url` is the gateway's
    public URL. `on_event` gets each event of a response that consists of events, e.g. to report progress.
    Raise ClientDisconnected where the client has left.
    """
    if outcome.approval is not None:
        return approval_result(outcome.approval, call_id=outcome.call_id, base_url=base_url)
    if outcome.result is None:
        return _failed(outcome, outcome.error or GatewayError(), base_url)
    try:
        read = await _read(outcome, outcome.result, on_event)
    except Exception as error:  # noqa: BLE001 - it is recorded, and the model reads it.
        await outcome.result.aclose()
        await outcome.fail(error)
        return _failed(outcome, error, base_url)
    except BaseException as error:
        await outcome.result.aclose()
        await outcome.fail(error)
        raise
    read.call_id = outcome.call_id
    _add_repairs(read, outcome)
    return read


def _add_repairs(read: ModelResult, outcome: CallOutcome) -> None:
    """Name the repairs of the arguments in a result."""
    if outcome.repairs:
        _add_notes(read, [f"Argument {one.pointer} was repaired: {one.detail}" for one in outcome.repairs])


def _add_notes(read: ModelResult, notes: Sequence[str]) -> None:
    """Add sentences to a result, at the end of its text."""
    read.notes += tuple(notes)
    read.text = "\n\n".join([read.text, "\n".join(f"Note: {note}" for note in notes)])


def _failed(outcome: CallOutcome, error: Exception, base_url: str) -> ModelResult:
    if isinstance(error, ClientDisconnected):
        raise error
    failed = error_result(error, call_id=outcome.call_id, provider=outcome.provider, base_url=base_url)
    _add_repairs(failed, outcome)
    return failed


async def _read(outcome: CallOutcome, result: Result, on_event: OnEvent | None) -> ModelResult:
    """Return the result of a successful response, read to its end and recorded."""
    streamed = result.stream is not None or result.events is not None
    events = events_of(result)
    if events is not None:
        read, body, cut = await collect_events(events, result, on_event)
        if cut is not None:
            await result.aclose()
            outcome.add_result(body)
            await outcome.fail(cut, response_bytes=len(body), upstream_status=result.status)
            return read
    else:
        if not await result.read_up_to(MAX_COLLECTED):
            raise ResponseTooLarge(f"The response has more than {MAX_COLLECTED} bytes.")
        body = result.body or b""
        read = await _read_body(body, result)
    if streamed:
        await result.aclose()
        outcome.add_result(body)
        await outcome.conclude(upstream_status=result.status, response_bytes=len(body))
    return read


async def _read_body(body: bytes, result: Result) -> ModelResult:
    coding = ", ".join(value for name, value in result.headers if name == "Content-Encoding")
    if len(body) > _INLINE_BYTES:
        return await asyncio.to_thread(
            read_body, body, result.media_type, status=result.status, content_coding=coding
        )
    return read_body(body, result.media_type, status=result.status, content_coding=coding)
