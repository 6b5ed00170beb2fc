"""Sending a planned call to its upstream: credentials, the adapter, and retries where that is safe.

After a 401, a call whose credentials include a token is sent once more with a new token. Otherwise, a call
is retried only where nothing of it was sent, where its tool is `retryable`, or where the upstream accepts an
idempotency key: in at most `OriginPolicy.max_attempts` attempts, within the retry budget of its origin, never
after its deadline, and never while the origin's breaker is open. A request that the HTTP engine sends again
because a reused connection was closed counts as an attempt.
"""

import asyncio
import random
import time
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, Final

from app.calls.arguments.parsing import LARGE_ARGUMENTS_BYTES
from app.calls.context import CallContext
from app.calls.progress import MaskedProgress
from app.calls.recorder import CANCELLED
from app.calls.response.following import follow_result
from app.calls.response.masking import Sender, call_and_mask
from app.calls.services import CallServices
from app.catalog.plan import Plan
from app.core.deadlines import Deadline
from app.core.errors import (
    CallLogUnavailable,
    DeadlineExceeded,
    GatewayError,
    UpstreamError,
    UpstreamMalformed,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnauthorized,
    UpstreamUnreachable,
)
from app.core.exact_json import without_decimals
from app.core.telemetry.traces import CallTrace
from app.outbound.credentials import CredentialResolver, ResolvedCredentials, WireCredential
from app.protocols.base import Call, FollowsLinks, Result

# "Exponential Backoff And Jitter" (AWS): full jitter, a random part of the backoff, spreads retries best.
_FIRST_BACKOFF: Final = 0.1
_MAX_BACKOFF: Final = 2.0
# With less time left than this, no further attempt is made.
_MIN_ATTEMPT_SECONDS: Final = 0.05
# For a client that accepts events, where neither the tool nor a credential sets the header Accept.
_ACCEPT_EVENTS: Final = (("Accept", "text/event-stream, application/x-ndjson;q=0.9, */*;q=0.5"),)
_RETRIED_STATUSES: Final = frozenset({429, 502, 503, 504})


async def send(context: CallContext, services: CallServices) -> Result:
    """Send a call once it has a permit of its upstream, and return the response.

    Raise CircuitOpen, OriginBusy, DeadlineExceeded and CallLogUnavailable, what `CredentialResolver.resolve`
    raises, and what an adapter raises (`protocols.base`).
    """
    plan, recorder, deadline = context.plan, context.recorder, context.deadline
    if services.clock.loop.time() >= deadline:
        raise DeadlineExceeded("The deadline passed before the call could be sent.")
    if not context.permit:
        context.permit = plan.upstream.try_acquire() or await plan.upstream.acquire(deadline)
    if recorder.durable and not plan.safe and not recorder.has_recorded_intent:
        await _record_intent(context, services)
    credentials = await _resolve_credentials(context, services.resolver)
    call = _build_call(context, credentials)
    trace = recorder.trace
    sender = plan.adapter.call if trace is None else partial(_call_in_span, context, trace)
    began = time.perf_counter()
    recorder.attempts = 1
    try:
        try:
            try:
                result = await call_and_mask(sender, call)
            finally:
                recorder.attempts += call.resent
        except UpstreamError as error:
            result = await _retry(error, call, sender, context, services)
        if plan.response_options is not None:
            result = await follow_result(result, call, context, partial(_send_further, context))
        if result.stream is None and (result.events is None or result.body is not None):
            plan.upstream.record_success(context.permit)
        else:
            plan.upstream.record_response_head(context.permit)
            context.streams = True
        return result
    finally:
        recorder.upstream_seconds = time.perf_counter() - began


async def _record_intent(context: CallContext, services: CallServices) -> None:
    """Record that a call is about to be made; raise CallLogUnavailable."""
    deadline = context.deadline
    try:
        with Deadline(services.clock, deadline):
            end = context.events_deadline or deadline
            await context.recorder.record_intent(end - services.clock.loop.time())
    except TimeoutError:
        raise CallLogUnavailable(
            "The call could not be recorded before its deadline. It was not made."
        ) from None


def _build_call(context: CallContext, credentials: ResolvedCredentials) -> Call[Any]:
    """Return the call for the adapter: its request, and what its client asks for."""
    plan, request, recorder = context.plan, context.request, context.recorder
    call = prepare_call(
        plan, request.arguments, credentials, call_id=recorder.call_id, deadline=context.deadline
    )
    if context.preset_masker is not None:
        masker = call.masker
        call.masker = context.preset_masker if masker is None else masker.combined_with(context.preset_masker)
    context.response_masker = call.masker
    call.headers = context.headers
    call.tenant_id = request.principal.tenant_id
    call.provider = plan.provider
    if not request.presets and not context.repairs:
        call.command = request.command
    call.on_command_event = request.on_command_event
    call.has_large_arguments = recorder.request_bytes > LARGE_ARGUMENTS_BYTES
    if context.events_deadline is not None:
        call.stream_deadline = context.events_deadline
        call.headers += _ACCEPT_EVENTS
    if request.on_progress is not None:
        call.on_progress = MaskedProgress(request.on_progress, call)
    return call


async def _resolve_credentials(context: CallContext, resolver: CredentialResolver) -> ResolvedCredentials:
    """Return the credentials that the tool needs; a token is waited for until the deadline of the call."""
    plan, trace = context.plan, context.recorder.trace
    with nullcontext() if trace is None else trace.step("credentials"):
        return await resolver.resolve(
            plan.needs, plan.credentials, origin=plan.origin, egress=plan.egress, deadline=context.deadline
        )


def prepare_call(
    plan: Plan,
    arguments: dict[str, Any],
    credentials: tuple[WireCredential, ...],
    *,
    call_id: str,
    deadline: float,
) -> Call[Any]:
    """Return the `Call` for the adapter of the plan; `deadline` is a `loop.time()`."""
    masker = None
    if plan.mask_responses:
        masker = credentials.masker if isinstance(credentials, ResolvedCredentials) else None
        if plan.masker is not None:
            masker = plan.masker.combined_with(masker)
    return Call(
        target=plan.target,
        arguments=arguments if getattr(plan.adapter, "keeps_digits", False) else without_decimals(arguments),
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


async def _send_further(context: CallContext, call: Call[Any], url: str | None) -> Result:
    """Send a further request of a call: with other arguments, or a GET of a URL."""
    adapter = context.plan.adapter
    if url is None:
        return await call_and_mask(adapter.call, call)
    if not isinstance(adapter, FollowsLinks):
        raise TypeError(type(adapter).__name__)
    return await call_and_mask(partial(adapter.follow, url=url), call)


async def _call_in_span(context: CallContext, trace: CallTrace, call: Call[Any]) -> Result:
    """Make the adapter's call in a CLIENT span, whose context is sent to the upstream.

    The span ends with the head of the response.
    """
    plan = context.plan
    span = trace.attempt(plan.adapter.method(plan.target), plan.origin, number=context.recorder.attempts)
    status, error = None, CANCELLED
    try:
        traced = _copy_call(call, headers=(*call.headers, *span.headers))
        try:
            result = await plan.adapter.call(traced)
        finally:
            call.resent, call.masker = traced.resent, traced.masker
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
    error: UpstreamError, call: Call[Any], sender: Sender, context: CallContext, services: CallServices
) -> Result:
    """Return the response of a further attempt; raise the last error where none succeeds."""
    plan = context.plan
    renewed = False
    attempts = 1 + call.resent
    # Not in retries: each reused connection that turned out to be closed would add an attempt.
    call.resend = False
    while True:
        context.report_failure(error)
        if isinstance(error, UpstreamUnauthorized) and not renewed and not error.response_begun:
            renewed = True
            call = await _renew_tokens(error, call, context, services.resolver)
        else:
            # A longer Retry-After is not waited for: the client gets it.
            backoff = _decide_backoff(
                error, call.deadline, context, attempts=attempts, max_retry_after=services.max_retry_after
            )
            if backoff is None:
                raise error
            attempts += 1
            await asyncio.sleep(backoff)
            if plan.upstream.breaker.is_tripped:
                raise error
        context.recorder.attempts += 1
        try:
            return await call_and_mask(sender, call)
        except UpstreamError as next_error:
            error = next_error


async def _renew_tokens(
    error: UpstreamError, call: Call[Any], context: CallContext, resolver: CredentialResolver
) -> Call[Any]:
    """Return the call with new tokens; raise `error` where it had none.

    A call with the response 401 was not processed, so that it may be sent again whatever its method.
    """
    rejected = [credential.token for credential in call.credentials if credential.token is not None]
    if not rejected:
        raise error
    for token in rejected:
        await resolver.invalidate(token)
    credentials = await _resolve_credentials(context, resolver)
    masker = call.masker
    if masker is not None:
        # The upstream has also received the previous token.
        masker = masker.combined_with(credentials.masker)
    return _copy_call(call, credentials=credentials, masker=masker)


def _copy_call(call: Call[Any], **changes: Any) -> Call[Any]:
    """Return a copy of a call, whose reports of progress are masked as the copy says."""
    copy = replace(call, **changes)
    if isinstance(call.on_progress, MaskedProgress):
        copy.on_progress = call.on_progress.of_call(copy)
    return copy


def _decide_backoff(
    error: UpstreamError, deadline: float, context: CallContext, *, attempts: int, max_retry_after: float
) -> float | None:
    """Return the seconds to wait before the next attempt, or None where there must be none."""
    plan = context.plan
    upstream = plan.upstream
    may_repeat = plan.retryable or context.is_repeatable
    if (
        attempts >= upstream.policy.max_attempts
        or error.response_begun
        or upstream.breaker.is_tripped
        or not is_retryable(error, may_repeat)
    ):
        return None
    backoff = random.uniform(0, min(_FIRST_BACKOFF * 2.0 ** (attempts - 1), _MAX_BACKOFF))  # noqa: S311
    retry_after = _read_retry_after(error)
    if retry_after > max_retry_after:
        # The upstream must not be called earlier; the client gets its Retry-After.
        return None
    backoff += retry_after
    if upstream.now() + backoff > deadline - _MIN_ATTEMPT_SECONDS or not upstream.budget.try_spend():
        return None
    return backoff


def is_retryable(error: UpstreamError, may_repeat: bool) -> bool:
    """Return whether a call that failed with this error may be sent again.

    `may_repeat` says that it may be sent again even though the upstream may have processed it.
    """
    if isinstance(error, (UpstreamTimeout, UpstreamUnreachable, UpstreamMalformed)):
        # A response that ends before its Content-Length is malformed, too.
        return may_repeat or not error.request_sent
    if isinstance(error, UpstreamRejected) and error.response is not None:
        may_repeat = may_repeat or not error.request_sent
        return may_repeat and error.response.status in _RETRIED_STATUSES
    return False


def is_retryable_by_client(error: UpstreamError, plan: Plan, *, has_idempotency_key: bool) -> bool:
    """Return whether the client may send the same request again, after all attempts of its call failed.

    Under an idempotency key, the outcome of a call that may have been processed is stored and replayed.
    """
    status = (
        error.response.status if isinstance(error, UpstreamRejected) and error.response is not None else 0
    )
    if status == 429 and not error.response_begun:
        # The upstream has not processed it, whatever the method.
        return True
    return is_retryable(error, plan.retryable and not has_idempotency_key)


def _read_retry_after(error: UpstreamError) -> float:
    """Return the seconds of the response's Retry-After; 0 for none, and for a date."""
    for name, value in error.response.headers.items() if error.response is not None else ():
        if name.lower() == "retry-after":
            return float(value) if value.isascii() and value.isdigit() and len(value) < 10 else 0.0
    return 0.0
