"""Reads the outcome of a call into a ModelResult."""

import asyncio
from typing import Final
from uuid import UUID

from app.calls import CallContext, ClientDisconnected
from app.calls.approvals.approved_call import RequestedCall
from app.calls.response.following import PAGES_HEADER
from app.calls.results.bodies import read_body
from app.calls.results.budget import is_within
from app.calls.results.content_blocks import read_blocks
from app.calls.results.continuations import ContinuationStore
from app.calls.results.events import MAX_COLLECTED, OnEvent, collect_events, events_of
from app.calls.results.model import ModelResult, ResultBudget
from app.calls.results.problems import approval_result, error_result
from app.calls.results.rests import fit
from app.core.errors import GatewayError, ResponseTooLarge
from app.protocols.base import Result
from app.protocols.shared.redirects import is_redirect
from app.security.principal import Principal

_INLINE_BYTES: Final = 64 << 10
_APPROVAL_PREFIX: Final = "a_"
_MORE_PAGES: Final = "The list has further pages, which were not read."


async def read_result(
    outcome: CallContext,
    *,
    budget: ResultBudget | None = None,
    continuations: ContinuationStore | None = None,
    base_url: str = "",
    on_event: OnEvent | None = None,
) -> ModelResult:
    """Return the result of a call for a model; it reads a streamed response to its end, and records that.

    Errors of the gateway and of the upstream become results with `is_error`. What the budget cuts is kept in
    `continuations`. `base_url` is the gateway's public URL. `on_event` gets each event of a response that
    consists of events, e.g. to report progress. Raise ClientDisconnected where the client has left.
    """
    if outcome.approval is not None:
        handle = "" if continuations is None else format_approval_handle(outcome.approval["id"])
        return approval_result(outcome.approval, call_id=outcome.call_id, base_url=base_url, handle=handle)
    if outcome.result is None:
        return _report_failure(outcome, outcome.error or GatewayError(), base_url)
    try:
        read = await read_response(
            outcome, outcome.result, budget=budget, continuations=continuations, on_event=on_event
        )
    except Exception as error:  # noqa: BLE001 - it is recorded, and the model reads it.
        return _report_failure(outcome, error, base_url)
    if outcome.repairs:
        _add_repairs(read, outcome)
    return read


def format_approval_handle(approval_id: str) -> str:
    """Return the handle by which `read_more` reads the call of an approval."""
    return f"{_APPROVAL_PREFIX}{approval_id}"


def approval_of_handle(handle: str) -> UUID | None:
    """Return the id of the approval that a handle names; None for a handle of the rest of a result."""
    try:
        return UUID(handle[len(_APPROVAL_PREFIX) :]) if handle.startswith(_APPROVAL_PREFIX) else None
    except ValueError:
        return None


async def read_requested_call(
    requested: RequestedCall,
    *,
    principal: Principal,
    budget: ResultBudget | None = None,
    continuations: ContinuationStore | None = None,
    base_url: str = "",
) -> ModelResult:
    """Return the state of a call whose approval was requested or, once it has ended, its result, as
    `read_result` does.
    """
    ended = requested.ended
    if ended is None:
        handle = format_approval_handle(requested.approval["id"])
        return approval_result(requested.approval, base_url=base_url, handle=handle)
    call_id = ended.call_id or ""
    if ended.result is None:
        return error_result(ended.error or GatewayError(), call_id=call_id, base_url=base_url)
    read = await _read_whole(ended.result)
    read.call_id = call_id
    _add_response_notes(read, ended.result)
    if budget is not None and not is_within(read, budget):
        await fit(read, budget, continuations=continuations, tool=requested.tool, principal=principal)
    return read


async def read_response(
    outcome: CallContext,
    result: Result,
    *,
    budget: ResultBudget | None = None,
    continuations: ContinuationStore | None = None,
    on_event: OnEvent | None = None,
) -> ModelResult:
    """Return the result of a call that succeeded, as `read_result` does.

    Raise what the stream of the response raises, and ResponseTooLarge, after that was recorded.
    """
    try:
        read = await _read(outcome, result, on_event)
    except BaseException as error:
        await result.aclose()
        await outcome.conclude_failed(error)
        raise
    read.call_id = outcome.call_id
    _add_response_notes(read, result)
    if budget is not None and not is_within(read, budget):
        await fit(read, budget, continuations=continuations, tool=outcome.tool, principal=outcome.principal)
    return read


def _report_failure(outcome: CallContext, error: Exception, base_url: str) -> ModelResult:
    if isinstance(error, ClientDisconnected):
        raise error
    failed = error_result(error, call_id=outcome.call_id, provider=outcome.provider, base_url=base_url)
    _add_repairs(failed, outcome)
    return failed


def _add_response_notes(read: ModelResult, result: Result) -> None:
    """Say in a result what the status and the headers of its response say."""
    for name, value in result.headers:
        if name == PAGES_HEADER and value.endswith(";more"):
            read.add_notes([_MORE_PAGES])
    if is_redirect(result.status):
        read.is_redirect = True
        location = next((value for name, value in result.headers if name.lower() == "location"), "")
        read.add_notes(
            [f"The response is a redirect (HTTP {result.status})" + (f" to {location}" if location else ".")]
        )


def _add_repairs(read: ModelResult, outcome: CallContext) -> None:
    """Name the repairs of the arguments in a result."""
    read.add_notes([f"Argument {one.pointer} was repaired: {one.detail}" for one in outcome.repairs])


async def _read(outcome: CallContext, result: Result, on_event: OnEvent | None) -> ModelResult:
    """Return the result of a successful response, read to its end and recorded."""
    streamed = result.stream is not None or result.events is not None
    events = events_of(result)
    if events is not None:
        read, body, cut = await collect_events(events, result, on_event)
        if cut is not None:
            await result.aclose()
            outcome.add_result(body)
            await outcome.conclude_failed(cut, response_bytes=len(body), upstream_status=result.status)
            return read
    else:
        if streamed and not await result.read_up_to(MAX_COLLECTED):
            raise _create_too_large_error()
        body = result.body or b""
        read = await _read_whole(result)
    if streamed:
        await result.aclose()
        outcome.add_result(body)
        await outcome.conclude(upstream_status=result.status, response_bytes=len(body))
    return read


async def _read_whole(result: Result) -> ModelResult:
    """Return the result for a response whose body has arrived; raise ResponseTooLarge."""
    body = result.body or b""
    if len(body) <= _INLINE_BYTES:
        return _read_body(body, result)
    if len(body) > MAX_COLLECTED:
        raise _create_too_large_error()
    return await asyncio.to_thread(_read_body, body, result)


def _create_too_large_error() -> ResponseTooLarge:
    return ResponseTooLarge(f"The response has more than {MAX_COLLECTED} bytes.")


def _read_body(body: bytes, result: Result) -> ModelResult:
    """Return the result for a whole body; in a thread where it has more than `_INLINE_BYTES`."""
    if result.has_content_blocks:
        return read_blocks(body)
    coding = ""
    if result.headers:
        coding = ", ".join([value for name, value in result.headers if name == "Content-Encoding"])
    return read_body(body, result.media_type, status=result.status, content_coding=coding)
