"""The execution of a call, whichever interface it came in by; nothing here knows a web framework.

    find the tool -> validate the arguments -> rate limits -> [idempotency key] -> [response cache]
        -> permit of the upstream -> [intent on record] -> credentials, upstream, retries -> record

`execute` returns a CallOutcome for whatever may be expected to happen, errors included: its interface writes
that in its own form. Only a cancellation from elsewhere is raised.
"""

import asyncio
import re
from collections.abc import Awaitable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import orjson

from app.call_log.bodies import BodyRecorder
from app.call_log.entries import CallLog
from app.calls.arguments import LARGE
from app.calls.context import CallContext, CallOutcome
from app.calls.disconnect import DisconnectWatch
from app.calls.idempotency_store import IdempotencyStore
from app.calls.idempotent_call import IdempotentCall
from app.calls.rate_limiter import RateLimiter
from app.calls.recorder import CallRecorder
from app.calls.request import CallRequest
from app.calls.response_cache import CacheKey, ResponseCache, credential_identity
from app.calls.retries import prepare_call, send
from app.catalog import Catalog
from app.catalog.plan import Plan, PlanError
from app.deadlines import Deadline, TimerQueue
from app.errors import CallLogUnavailable, DeadlineExceeded, GatewayError, NotFound, clone_error
from app.outbound.credentials import CredentialResolver
from app.protocols.base import Result
from app.schemas import TOOL_NAME
from app.security.loop_detection import cdn_loop_headers
from app.security.principal import Principal
from app.telemetry.metrics import Metrics
from app.telemetry.traces import Tracer

_NAME: Final = re.compile(TOOL_NAME)


@dataclass(slots=True)
class CallServices:
    """What calls go through; one for the whole application.

    `call_log` stores the records, and bodies by `bodies` (None: they are not recorded). `max_retry_after`
    (seconds) bounds a Retry-After that is waited for, `max_stored_bytes` a result that is stored under an
    idempotency key. `tracer` is None while calls are not traced. `identity` is this gateway in CDN-Loop.
    """

    catalog: Catalog
    resolver: CredentialResolver
    clock: TimerQueue
    call_log: CallLog
    metrics: Metrics
    rate_limiter: RateLimiter
    idempotency: IdempotencyStore
    response_cache: ResponseCache
    max_retry_after: float
    max_stored_bytes: int
    identity: str = ""
    tracer: Tracer | None = None
    bodies: BodyRecorder | None = None


async def execute(request: CallRequest, services: CallServices) -> CallOutcome:
    """Call a tool, and return its result or the error that it failed with.

    The error is one of `describe`'s, RateLimited, LoopDetected, CircuitOpen, OriginBusy, DeadlineExceeded,
    CallLogUnavailable, one of `IdempotentCall.result`, of resolving credentials or of an adapter
    (`protocols.base`), or what `request.read` raised.
    """
    recorder = CallRecorder(
        request,
        call_log=services.call_log,
        metrics=services.metrics,
        tracer=services.tracer,
        body_keeper=services.bodies,
    )
    context = CallContext(request, recorder)
    outcome = CallOutcome(context)
    try:
        with DisconnectWatch(request.disconnected, services.clock) as watch:
            _check_name(request.tool)
            if request.read is not None:
                await request.read(request)
            body = request.body
            recorder.add_arguments(orjson.dumps(request.arguments) if body is None else body)
            if request.cdn_loop:
                context.headers = cdn_loop_headers(request.cdn_loop, services.identity)
            watch.begin()
            await _admit(context, services)
            if request.idempotency_key is not None:
                outcome.result = await _perform_once(context, services, request.idempotency_key)
            else:
                result = outcome.result = await _perform(context, services, events=request.accepts_events)
                recorder.begin_result(result.media_type)
                if result.stream is None and result.events is None:
                    whole = result.body or b""
                    recorder.add_result(whole)
                    context.complete(upstream_status=result.status, response_bytes=len(whole))
                    if recorder.stored is not None:
                        await recorder.wait_recorded()
    except Exception as error:  # noqa: BLE001 - it is recorded, and the interface gets it.
        outcome.result, outcome.error = None, error
        if not context.detached:
            context.fail(error)
        if recorder.stored is not None and isinstance(error, GatewayError):
            await recorder.wait_recorded()
    except BaseException as error:
        if not context.detached:
            context.fail(error)
        raise
    return outcome


async def describe(request: CallRequest, services: CallServices) -> dict[str, Any]:
    """Return the exact upstream request that `execute` would send, secrets as `***`; nothing is sent.

    No token is requested, and nothing is counted or recorded. Raises NotFound (unknown, invisible or
    disabled), InvalidArguments, InvalidInput where the tool's own schema is unusable, and what `request.read`
    raises.
    """
    _check_name(request.tool)
    if request.read is not None:
        await request.read(request)
    plan = await _find_plan(request.tool, request.principal, services.catalog)
    plan.validate(request.arguments)
    credentials = services.resolver.preview(plan.needs, plan.credentials, origin=plan.origin)
    return plan.adapter.describe(prepare_call(plan, request.arguments, credentials, call_id="", deadline=0.0))


async def _admit(context: CallContext, services: CallServices) -> None:
    """Set the plan of the tool, whose arguments fit, and count the call against the rate limits."""
    request = context.request
    principal = request.principal
    plan = await _find_plan(request.tool, principal, services.catalog)
    context.plan = context.recorder.plan = plan
    if context.recorder.request_bytes > LARGE:
        await asyncio.to_thread(plan.validate, request.arguments)
    else:
        plan.validate(request.arguments)
    if principal.rate_limit is not None or plan.rate_limit is not None:
        context.rate_limit_state = await services.rate_limiter.admit(
            principal.tenant_id,
            key_id=principal.key_id,
            key=principal.rate_limit,
            provider_id=plan.provider_id,
            provider=plan.rate_limit,
        )


def _check_name(name: str) -> None:
    """No tool has another kind of name, and PostgreSQL could not even be queried for some of them."""
    if _NAME.fullmatch(name) is None:
        raise NotFound("There is no tool of this name.")


async def _find_plan(name: str, principal: Principal, catalog: Catalog) -> Plan:
    """The plan of a tool by canonical name or alias, which the principal may call."""
    try:
        plan = await catalog.plan(name)
    except PlanError as unusable:
        if not principal.may_use(unusable.provider, unusable.registrar_tags):
            raise NotFound(f"There is no tool {name}.") from None
        raise clone_error(unusable.error) from None
    if not principal.may_use(plan.provider, plan.registrar_tags):
        # In the very words for a tool that does not exist.
        raise NotFound(f"There is no tool {name}.")
    if not plan.enabled:
        raise NotFound(f"The tool {plan.name} is disabled.")
    return plan


def _perform(context: CallContext, services: CallServices, *, events: bool = False) -> Awaitable[Result]:
    """The result of a call that may be made, from the cache or from the upstream, within its deadlines.

    Waiting for a permit, for a token and for retries all count.
    """
    context.set_deadlines(services.clock.loop.time(), events=events)
    if context.plan.cache_rule is None or events:
        return _send(context, services)
    return _cached(context, services)


async def _perform_once(context: CallContext, services: CallServices, key: str) -> Result:
    """The result of the one call that is made under an idempotency key."""
    deadline = context.request.deadline
    seconds = context.plan.limits.total
    if deadline is not None:
        seconds = min(max(deadline - services.clock.loop.time(), 0.0), seconds)
    once = IdempotentCall(
        context,
        services.idempotency,
        perform=partial(_perform, context, services),
        max_bytes=services.max_stored_bytes,
    )
    return await once.result(key, seconds=seconds)


async def _cached(context: CallContext, services: CallServices) -> Result:
    """The result from the response cache, or that of a call with the headers of a conditional request."""
    plan = context.plan
    rule = plan.cache_rule
    request = context.request
    exact = plan.adapter.request_identity(prepare_call(plan, request.arguments, (), call_id="", deadline=0.0))
    if rule is None or exact is None:
        return await _send(context, services)
    key = CacheKey(
        exact,
        identity=credential_identity(plan),
        client=request.principal.key_id,
        rule=rule,
        cache_control=request.cache_control,
        deadline=context.deadline,
    )
    headers = context.headers

    async def fetch(conditions: tuple[tuple[str, str], ...]) -> Result:
        context.headers = headers + conditions
        return await _send(context, services)

    return await services.response_cache.get(key, fetch)


async def _send(context: CallContext, services: CallServices) -> Result:
    """The upstream's response, once there is a permit; raise DeadlineExceeded where no time is left."""
    plan = context.plan
    recorder = context.recorder
    deadline = context.deadline
    if services.clock.loop.time() >= deadline:
        raise DeadlineExceeded("The call's time was over before it could be sent.")
    if not context.permit:
        context.permit = plan.upstream.try_acquire() or await plan.upstream.acquire(deadline)
    if recorder.durable and not plan.safe and not recorder.on_record:
        try:
            with Deadline(services.clock, deadline):
                ends = context.events_deadline or deadline
                await recorder.record_intent(ends - services.clock.loop.time())
        except TimeoutError:
            raise CallLogUnavailable("The call was not on record in its time. It was not made.") from None
    return await send(context, resolver=services.resolver, max_retry_after=services.max_retry_after)
