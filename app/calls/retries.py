"""Sending a planned call to its upstream: credentials, the adapter, and retries where that is safe.

A call is retried after a 401 with a token that may be stale, once. Otherwise only where nothing of it was
sent, or where the tool is `retryable`, or the call by a key that the upstream knows; at most
`OriginPolicy.max_attempts` times, within the retry budget of its origin, never beyond its deadline, and
never while the origin's breaker is open. What the HTTP engine sends a second time, because a reused
connection was closed, counts.
"""

import asyncio
import random
import time
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, Final

from app.calls.arguments import LARGE
from app.calls.context import CallContext
from app.calls.masking import masked
from app.calls.recorder import CANCELLED
from app.catalog.plan import Plan
from app.errors import (
    GatewayError,
    UpstreamError,
    UpstreamMalformed,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnauthorized,
    UpstreamUnreachable,
)
from app.outbound.credentials import CredentialResolver, ResolvedCredentials, WireCredential
from app.protocols.base import Call, Result
from app.telemetry.traces import CallTrace

# "Exponential Backoff And Jitter" (AWS): waiting a random part of the backoff spreads the retries best.
_FIRST_BACKOFF: Final = 0.1
_MAX_BACKOFF: Final = 2.0
# With less time left than this, a retry is not worth its while.
_SHORTEST_TRY: Final = 0.05
# For a client that takes events, where neither the tool nor a credential says what it takes.
_ACCEPT_EVENTS: Final = (("Accept", "text/event-stream, application/x-ndjson;q=0.9, */*;q=0.5"),)
_RETRIED_STATUSES: Final = frozenset({429, 502, 503, 504})


async def send(context: CallContext, *, resolver: CredentialResolver, max_retry_after: float) -> Result:
    """Return the upstream's response to a call that has its permit.

    `max_retry_after` (seconds) bounds a Retry-After that is waited for. Raises what resolving credentials
    raises, and what an adapter raises (`protocols.base`).
    """
    plan = context.plan
    recorder = context.recorder
    if recorder.trace is None:
        credentials = await _resolve(plan, resolver, deadline=context.deadline)
    else:
        with recorder.trace.step("credentials"):
            credentials = await _resolve(plan, resolver, deadline=context.deadline)
    call = prepare_call(
        plan, context.request.arguments, credentials, call_id=recorder.call_id, deadline=context.deadline
    )
    call.headers = context.headers
    call.has_large_arguments = recorder.request_bytes > LARGE
    if context.events_deadline is not None:
        call.stream_deadline = context.events_deadline
        call.headers += _ACCEPT_EVENTS
    began = time.perf_counter()
    recorder.tries = 1
    try:
        try:
            try:
                result = await _try(call, context)
            finally:
                recorder.tries += call.resent
        except UpstreamError as error:
            result = await _retry(error, call, context, resolver=resolver, max_retry_after=max_retry_after)
        if result.stream is None and (result.events is None or result.body is not None):
            plan.upstream.record_success(context.permit)
        else:
            plan.upstream.record_response_head(context.permit)
            context.streams = True
        return result
    finally:
        recorder.upstream_seconds = time.perf_counter() - began


async def _resolve(plan: Plan, resolver: CredentialResolver, *, deadline: float) -> ResolvedCredentials:
    """What the plan needs, opened; a token is waited for until `deadline`."""
    return await resolver.resolve(
        plan.needs, plan.credentials, origin=plan.origin, egress=plan.egress, deadline=deadline
    )


def prepare_call(
    plan: Plan,
    arguments: dict[str, Any],
    credentials: tuple[WireCredential, ...],
    *,
    call_id: str,
    deadline: float,
) -> Call:
    """Return what the adapter of the plan takes; `deadline` is a `loop.time()`."""
    masker = None
    if plan.mask_responses:
        masker = credentials.masker if isinstance(credentials, ResolvedCredentials) else None
        if plan.masker is not None:
            masker = plan.masker.combined_with(masker)
    return Call(
        target=plan.target,
        arguments=arguments,
        credentials=credentials,
        deadline=deadline,
        limits=plan.limits,
        call_id=call_id,
        egress=plan.egress,
        scope=plan.scope,
        reuse=plan.reuse,
        resend=plan.upstream.policy.max_attempts > 1,
        masker=masker,
    )


def _try(call: Call, context: CallContext) -> Coroutine[Any, Any, Result]:
    """The adapter's call, with a span around it where the call is traced, and its secrets masked."""
    trace = context.recorder.trace
    sending = context.plan.adapter.call(call) if trace is None else _traced(call, context, trace)
    return sending if call.masker is None else masked(sending, call)


async def _traced(call: Call, context: CallContext, trace: CallTrace) -> Result:
    """The adapter's call, with the trace's context for the upstream. The span ends with the head of the
    response."""
    plan = context.plan
    span = trace.attempt(plan.adapter.method(plan.target), plan.origin, number=context.recorder.tries)
    status, error = None, CANCELLED
    try:
        traced = replace(call, headers=(*call.headers, *span.headers))
        try:
            result = await plan.adapter.call(traced)
        finally:
            call.resent = traced.resent
    except GatewayError as failed:
        error = failed.slug
        if isinstance(failed, UpstreamError) and failed.response is not None:
            status = failed.response.status
        raise
    else:
        status, error = result.status, ""
        return result
    finally:
        span.end(status=status, error=error)


async def _retry(
    error: UpstreamError,
    call: Call,
    context: CallContext,
    *,
    resolver: CredentialResolver,
    max_retry_after: float,
) -> Result:
    """The response to a later try; raises the last error where there is none."""
    plan = context.plan
    renewed = False
    tries = 1 + call.resent
    # Once per call is enough: each connection that turns out to be closed would add one to what is counted
    # here.
    call.resend = False
    while True:
        context.report_failure(error)
        if isinstance(error, UpstreamUnauthorized) and not renewed:
            renewed = True
            call = await _with_new_tokens(error, plan, call, resolver=resolver)
        else:
            backoff = _backoff(error, call.deadline, context, tries=tries, max_retry_after=max_retry_after)
            if backoff is None:
                raise error
            tries += 1
            await asyncio.sleep(backoff)
            if plan.upstream.breaker.is_tripped:
                raise error
        context.recorder.tries += 1
        try:
            return await _try(call, context)
        except UpstreamError as next_error:
            error = next_error


async def _with_new_tokens(
    error: UpstreamError, plan: Plan, call: Call, *, resolver: CredentialResolver
) -> Call:
    """The call with new tokens; raises the error where it had none.

    What is answered with a 401 was not carried out, so every method may be sent again.
    """
    rejected = [credential.token for credential in call.credentials if credential.token is not None]
    if not rejected:
        raise error
    for token in rejected:
        await resolver.invalidate(token)
    credentials = await _resolve(plan, resolver, deadline=call.deadline)
    masker = call.masker
    if masker is not None:
        # The upstream has seen the token before, too.
        masker = masker.combined_with(credentials.masker)
    return replace(call, credentials=credentials, masker=masker)


def _backoff(
    error: UpstreamError, deadline: float, context: CallContext, *, tries: int, max_retry_after: float
) -> float | None:
    """Seconds until the next try, None where there is none."""
    plan = context.plan
    upstream = plan.upstream
    may_repeat = plan.retryable or context.is_repeatable
    if (
        tries >= upstream.policy.max_attempts
        or upstream.breaker.is_tripped
        or not is_retryable(error, may_repeat)
    ):
        return None
    backoff = random.uniform(0, min(_FIRST_BACKOFF * 2.0 ** (tries - 1), _MAX_BACKOFF))  # noqa: S311
    retry_after = _retry_after(error)
    if retry_after > max_retry_after:
        # Sooner than it asked for would be no help to the upstream; the client is told when.
        return None
    backoff += retry_after
    if upstream.now() + backoff > deadline - _SHORTEST_TRY or not upstream.budget.try_spend():
        return None
    return backoff


def is_retryable(error: UpstreamError, may_repeat: bool) -> bool:
    """Whether a call that failed so may be sent again; `may_repeat`: though it may have been carried out."""
    if isinstance(error, (UpstreamTimeout, UpstreamUnreachable, UpstreamMalformed)):
        # Malformed is a response, too, that ends before its length.
        return may_repeat or not error.request_sent
    if isinstance(error, UpstreamRejected) and error.response is not None:
        return may_repeat and error.response.status in _RETRIED_STATUSES
    return False


def _retry_after(error: UpstreamError) -> float:
    """The seconds that a response asks for, 0 where it asks for none. A date is for clients to read."""
    for name, value in error.response.headers.items() if error.response is not None else ():
        if name.lower() == "retry-after":
            return float(value) if value.isascii() and value.isdigit() and len(value) < 10 else 0.0
    return 0.0
