"""Sending a planned call: credentials, the upstream, and again where that is safe.

A call is sent again after a 401 with a token that may be stale, once. Otherwise only where nothing of it was
sent, or where the tool is `repeatable`, or the call by a key that the upstream knows; at most
`Policy.attempts` times, within the budget of its origin, never beyond its deadline, and never while the
origin's breaker is open. What the engine sends a second time, because a reused connection was closed, counts.
"""

import asyncio
import random
import time
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, Final

from app.calls.arguments import LARGE
from app.calls.masking import masked
from app.calls.recording import CANCELLED, Attempt
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
from app.telemetry.tracing import CallTrace

# "Exponential Backoff And Jitter" (AWS): waiting a random part of the pause spreads the retries best.
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 2.0
# With less time left than this, an attempt is not worth its while.
_SHORTEST_ATTEMPT: Final = 0.05
# For a caller that takes events, where neither the tool nor a credential says what it takes.
_EVENTS: Final = (("Accept", "text/event-stream, application/x-ndjson;q=0.9, */*;q=0.5"),)
_AGAIN_STATUSES: Final = frozenset({429, 502, 503, 504})


async def send(
    plan: Plan,
    arguments: dict[str, Any],
    *,
    resolver: CredentialResolver,
    deadline: float,
    ends: float | None,
    longest_wait: float,
    attempt: Attempt,
) -> Result:
    """The upstream's answer. The place at `plan.upstream` has been taken.

    `deadline` and `ends` are those of the `Call`, `longest_wait` (seconds) bounds a Retry-After that is
    waited for. Raises what resolving credentials raises, and what an adapter raises (`protocols.base`).
    """
    if attempt.trace is None:
        credentials = await resolved(plan, resolver, deadline=deadline)
    else:
        with attempt.trace.step("credentials"):
            credentials = await resolved(plan, resolver, deadline=deadline)
    call = prepared(plan, arguments, credentials, call_id=attempt.call_id, deadline=deadline)
    call.headers = attempt.headers
    call.large = attempt.request_bytes > LARGE
    if ends is not None:
        call.ends = ends
        call.headers += _EVENTS
    began = time.perf_counter()
    attempt.attempts = 1
    try:
        try:
            try:
                result = await _sent(plan, call, attempt)
            finally:
                attempt.attempts += call.resent
        except UpstreamError as error:
            result = await _again(error, plan, call, resolver=resolver, longest=longest_wait, attempt=attempt)
        if result.stream is None and (result.events is None or result.body is not None):
            plan.upstream.answered(attempt.permit)
        else:
            plan.upstream.begun(attempt.permit)
            attempt.streams = True
        return result
    finally:
        attempt.upstream_seconds = time.perf_counter() - began


async def resolved(plan: Plan, resolver: CredentialResolver, *, deadline: float) -> ResolvedCredentials:
    """What the plan needs, opened; a token is waited for until `deadline`."""
    return await resolver.resolve(
        plan.needs, plan.credentials, origin=plan.origin, egress=plan.egress, deadline=deadline
    )


def prepared(
    plan: Plan,
    arguments: dict[str, Any],
    credentials: tuple[WireCredential, ...],
    *,
    call_id: str,
    deadline: float,
) -> Call:
    """What an adapter takes."""
    masker = None
    if plan.mask_responses:
        masker = credentials.masker if isinstance(credentials, ResolvedCredentials) else None
        if plan.masker is not None:
            masker = plan.masker.joined(masker)
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
        resend=plan.upstream.policy.attempts > 1,
        masker=masker,
    )


def _sent(plan: Plan, call: Call, attempt: Attempt) -> Coroutine[Any, Any, Result]:
    """The adapter's call, with a span around it where the call is traced, and its secrets masked."""
    if attempt.trace is None:
        sending = plan.adapter.call(call)
    else:
        sending = _traced(plan, call, attempt, attempt.trace)
    return sending if call.masker is None else masked(sending, call)


async def _traced(plan: Plan, call: Call, attempt: Attempt, trace: CallTrace) -> Result:
    """The same, with the trace's context for the upstream. The span ends with the head of the answer."""
    span = trace.attempt(plan.adapter.verb(plan.target), plan.origin, number=attempt.attempts)
    status, error = None, CANCELLED
    try:
        traced = replace(call, headers=(*call.headers, *span.headers))
        try:
            result = await plan.adapter.call(traced)
        finally:
            call.resent = traced.resent
    except GatewayError as failed:
        error = failed.slug
        if isinstance(failed, UpstreamError) and failed.answer is not None:
            status = failed.answer.status
        raise
    else:
        status, error = result.status, ""
        return result
    finally:
        span.end(status=status, error=error)


async def _again(
    error: UpstreamError,
    plan: Plan,
    call: Call,
    *,
    resolver: CredentialResolver,
    longest: float,
    attempt: Attempt,
) -> Result:
    """The answer of a later attempt; raises the last error where there is none."""
    renewed = False
    tries = 1 + call.resent
    # Once per call is enough: each connection that turns out to be closed would add one to what is counted
    # here.
    call.resend = False
    while True:
        attempt.blame(error)
        if isinstance(error, UpstreamUnauthorized) and not renewed:
            renewed = True
            call = await _renewed(error, plan, call, resolver=resolver)
        else:
            again = plan.repeatable or attempt.repeatable
            pause = _pause(error, plan, call.deadline, tries=tries, longest=longest, repeatable=again)
            if pause is None:
                raise error
            tries += 1
            await asyncio.sleep(pause)
            if plan.upstream.breaker.shut:
                raise error
        attempt.attempts += 1
        try:
            return await _sent(plan, call, attempt)
        except UpstreamError as next_error:
            error = next_error


async def _renewed(error: UpstreamError, plan: Plan, call: Call, *, resolver: CredentialResolver) -> Call:
    """The call with new tokens; raises the error where it had none.

    What is answered with a 401 was not carried out, so every method may be sent again.
    """
    refused = [credential.token for credential in call.credentials if credential.token is not None]
    if not refused:
        raise error
    for token in refused:
        await resolver.invalidate(token)
    credentials = await resolved(plan, resolver, deadline=call.deadline)
    masker = call.masker
    if masker is not None:
        # The upstream has seen the token before, too.
        masker = masker.joined(credentials.masker)
    return replace(call, credentials=credentials, masker=masker)


def _pause(
    error: UpstreamError, plan: Plan, deadline: float, *, tries: int, longest: float, repeatable: bool
) -> float | None:
    """Seconds until the next attempt, None where there is none."""
    upstream = plan.upstream
    if tries >= upstream.policy.attempts or upstream.breaker.shut or not _may_again(error, repeatable):
        return None
    pause = random.uniform(0, min(_FIRST_PAUSE * 2.0 ** (tries - 1), _LONGEST_PAUSE))  # noqa: S311
    asked = _retry_after(error)
    if asked > longest:
        # Sooner than it was asked for would be no help to the upstream; the caller is told when.
        return None
    pause += asked
    if upstream.now() + pause > deadline - _SHORTEST_ATTEMPT or not upstream.budget.spend():
        return None
    return pause


def _may_again(error: UpstreamError, repeatable: bool) -> bool:
    if isinstance(error, (UpstreamTimeout, UpstreamUnreachable, UpstreamMalformed)):
        # Malformed is an answer, too, that ends before its length.
        return repeatable or not error.sent
    if isinstance(error, UpstreamRejected) and error.answer is not None:
        return repeatable and error.answer.status in _AGAIN_STATUSES
    return False


def _retry_after(error: UpstreamError) -> float:
    """The seconds that an answer asks for, 0 where it asks for none. A date is a caller's to read."""
    for name, value in error.answer.headers.items() if error.answer is not None else ():
        if name.lower() == "retry-after":
            return float(value) if value.isascii() and value.isdigit() and len(value) < 10 else 0.0
    return 0.0
