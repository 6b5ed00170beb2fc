"""The execution of a call from any interface of the gateway; independent of a web framework.

    find the tool -> validate the arguments -> rate limits -> [approval] -> [idempotency key]
        -> [response cache] -> permit of the upstream -> [record of intent] -> credentials, upstream,
        retries -> record

`execute` returns a CallOutcome in every case, errors included, and its interface translates that. Only a
cancellation by others is raised.
"""

import asyncio
import re
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

import orjson

from app.calls.approvals.approved_call import CallApprovals, EndedCall, NoCallApprovals, WaitingCall
from app.calls.arguments.masking import find_secret_values
from app.calls.arguments.parsing import LARGE_ARGUMENTS_BYTES
from app.calls.arguments.presets import check_presets, with_presets, without_preset_hints, without_presets
from app.calls.arguments.repairs import repair_arguments, repair_mode
from app.calls.context import CallContext, CallOutcome
from app.calls.disconnect import DisconnectWatch
from app.calls.evidence import collect_evidence
from app.calls.idempotency.call import IdempotentCall
from app.calls.idempotency.store import IdempotencyStore
from app.calls.log.bodies import BodyRecorder
from app.calls.log.entries import CallLog
from app.calls.rate_limiter import RateLimiter
from app.calls.recorder import CallRecorder
from app.calls.recordings.interactions import CallRecordings, NoCallRecordings
from app.calls.recordings.recorded_calls import call_in_mode
from app.calls.request import CallRequest
from app.calls.response.cache import CacheKey, ResponseCache, identify_credentials
from app.calls.response.checks import check_response
from app.calls.response.shaping import shape_response
from app.calls.retries import is_retryable_by_client, prepare_call, send
from app.catalog import Catalog
from app.catalog.plan import Plan, PlanError
from app.core import exact_json
from app.core.deadlines import Deadline, TimerQueue
from app.core.errors import (
    CallLogUnavailable,
    CredentialMissing,
    DeadlineExceeded,
    FieldError,
    GatewayError,
    InvalidArguments,
    InvalidInput,
    NotFound,
    UpstreamError,
    UpstreamUnauthorized,
    clone_error,
    not_found,
)
from app.core.resource_names import TOOL_NAME
from app.core.telemetry.metrics import Metrics
from app.core.telemetry.traces import Tracer
from app.outbound.credentials import CredentialResolver
from app.protocols.base import Result
from app.security.loop_detection import cdn_loop_headers
from app.security.principal import Principal
from app.security.response_masking import ResponseMasker

_NAME: Final = re.compile(TOOL_NAME)


ENABLE_HINT: Final = 'Enable it with PATCH /tools/{name} and {"enabled": true}.'
RESUME_HINT: Final = 'Resume it with PATCH /providers/{name} and {"enabled": true}.'


class SuggestTools(Protocol):
    """Finds the tools that were probably meant by an unknown name."""

    async def __call__(self, name: str, *, principal: Principal) -> Sequence[str]:
        """Return names of tools that the principal may see, the most similar first."""


async def suggest_nothing(name: str, *, principal: Principal) -> Sequence[str]:  # noqa: ARG001 - a SuggestTools.
    """Return no names: where there is no index of the tools."""
    return ()


@dataclass(slots=True)
class CallServices:
    """The services that execute calls; one instance per worker.

    `call_log` stores the records; `bodies` seals recorded bodies, None where these are not recorded. A
    Retry-After of more than `max_retry_after` seconds is not waited for; a result of more than
    `max_stored_bytes` bytes is not stored under an idempotency key. `tracer` is None where calls are not
    traced. `identity` names this gateway in the header CDN-Loop. `suggest_tools` is asked where a tool is
    unknown. `approvals` stores the calls of tools that require approval, `recordings` what upstreams gave.
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
    suggest_tools: SuggestTools = suggest_nothing
    approvals: CallApprovals = field(default_factory=NoCallApprovals)
    recordings: CallRecordings = field(default_factory=NoCallRecordings)


async def execute(request: CallRequest, services: CallServices) -> CallOutcome:
    """Call a tool, and return its result, the approval that it waits for, or the error that it failed with.

    The error is one of `describe`'s, RateLimited, LoopDetected, CircuitOpen, OriginBusy, DeadlineExceeded,
    CallLogUnavailable, one of `IdempotentCall.result`, of resolving credentials or of an adapter
    (`protocols.base`), or `request.error`.
    """
    recorder = CallRecorder(
        request,
        call_log=services.call_log,
        metrics=services.metrics,
        tracer=services.tracer,
        body_recorder=services.bodies,
    )
    context = CallContext(request, recorder)
    outcome = CallOutcome(context)
    try:
        with DisconnectWatch(request.disconnected, services.clock) as watch:
            check_name(request.tool)
            if request.error is not None:
                raise request.error  # noqa: TRY301 - recorded like any other error of the call.
            body = request.body
            recorder.add_arguments(_as_json(request.arguments) if body is None else body)
            if request.options.cdn_loop:
                context.headers = cdn_loop_headers(request.options.cdn_loop, services.identity)
            watch.begin()
            await _admit(context, services)
            if context.plan.requires_approval and request.approved is None:
                await _request_approval(outcome, context, services)
            elif request.options.idempotency_key is not None:
                outcome.result = await _perform_once(context, services, request.options.idempotency_key)
            else:
                events = request.accepts_events and context.plan.contract is None
                result = outcome.result = await _perform(context, services, events=events)
                recorder.begin_result(result.media_type)
                if result.stream is None and result.events is None:
                    whole = result.body or b""
                    recorder.add_result(whole)
                    context.complete(upstream_status=result.status, response_bytes=len(whole))
                    if recorder.stored is not None:
                        await recorder.wait_recorded()
    except Exception as error:  # noqa: BLE001 - it is recorded and returned.
        outcome.result, outcome.approval, outcome.error = None, None, error
        _explain(error, context)
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

    For a tool that requires approval it has the member `requires_approval`. With `request.approved`, raise
    ApprovalOutdated where the tool was changed since.

    No token is requested, and nothing is counted or recorded. Raises NotFound (unknown, invisible or
    disabled), InvalidArguments, InvalidInput where the tool's own schema is unusable, and
    `request.error`.
    """
    check_name(request.tool)
    if request.error is not None:
        raise request.error
    plan = await _find_plan(request.tool, request.principal, services)
    if request.approved is not None:
        request.approved.check(plan)
    if request.text_arguments is not None:
        await _add_text_arguments(request, plan)
    if request.presets:
        _add_presets(request, plan)
    try:
        plan.validate(request.arguments)
    except InvalidArguments as error:
        # What is approved is never repaired: it would be another call.
        mode = None if request.approved is not None else repair_mode(request)
        repaired = None if mode is None else repair_arguments(plan, request.arguments, mode)
        if repaired is None:
            raise _move_pointers(without_preset_hints(error, request.presets), request) from None
        request.arguments = repaired.value
    credentials = services.resolver.preview(
        plan.needs, plan.credentials, origin=plan.origin, egress=plan.egress
    )
    described = plan.adapter.describe(
        prepare_call(plan, request.arguments, credentials, call_id="", deadline=0.0)
    )
    return {**described, "requires_approval": True} if plan.requires_approval else described


async def _admit(context: CallContext, services: CallServices) -> None:
    """Set the plan of the tool, validate the arguments, and count the call against the rate limits."""
    request = context.request
    principal = request.principal
    plan = await _find_plan(request.tool, principal, services)
    recorder = context.recorder
    context.plan = recorder.plan = plan
    if request.wants_envelope and plan.contract is None:
        raise InvalidInput(
            "The tool has no evidence envelope.",
            errors=[FieldError("#/header/accept", "Only tools of ToolClad manifests have one.")],
        )
    if request.wants_envelope and context.upstream is not None and context.upstream.is_offline:
        raise InvalidInput(
            "A response that is replayed or mocked has no evidence envelope: nothing was executed.",
            errors=[FieldError("#/header/accept", "Accept application/json.")],
        )
    if request.text_arguments is not None:
        await _add_text_arguments(request, plan, recorder)
    if request.presets:
        _add_presets(request, plan)
        recorder.add_presets(request.presets)
        context.preset_masker = _create_preset_masker(request, plan)
    try:
        if recorder.request_bytes > LARGE_ARGUMENTS_BYTES:
            await asyncio.to_thread(plan.validate, request.arguments)
        else:
            plan.validate(request.arguments)
    except InvalidArguments as error:
        if request.approved is not None or not await _repair(context):
            raise _move_pointers(without_preset_hints(error, request.presets), request) from None
    if request.approved is not None:
        request.approved.check(plan)
        return
    if principal.rate_limit is not None or plan.rate_limit is not None:
        context.rate_limit_state = await services.rate_limiter.admit(
            principal.tenant_id,
            key_id=principal.rate_limit_owner,
            key=principal.rate_limit,
            provider_id=plan.provider_id,
            provider=plan.rate_limit,
        )


async def _repair(context: CallContext) -> bool:
    """Return whether arguments that were not valid could be repaired; if so, they are set and recorded."""
    request, recorder = context.request, context.recorder
    mode = repair_mode(request)
    if recorder.request_bytes > LARGE_ARGUMENTS_BYTES:
        repaired = await asyncio.to_thread(repair_arguments, context.plan, request.arguments, mode)
    else:
        repaired = repair_arguments(context.plan, request.arguments, mode)
    if repaired is None:
        return False
    request.arguments, context.repairs = repaired.value, repaired.repairs
    # The presets are recorded apart from what the client gave.
    given = without_presets(repaired.value, request.presets) if request.presets else repaired.value
    recorder.replace_arguments(exact_json.dumps(given))
    return True


def _build_waiting_call(context: CallContext) -> WaitingCall:
    request = context.request
    return WaitingCall(
        context.recorder.id,
        request.principal,
        context.plan,
        request.arguments,
        request.options.idempotency_key,
        request.options.cdn_loop,
        request.toolset or None,
        request.presets,
        context.upstream,
        request.options.recording_run,
    )


async def _request_approval(outcome: CallOutcome, context: CallContext, services: CallServices) -> None:
    """Have a call wait for approval, or set the outcome of the one that was requested with its idempotency
    key, once that has ended.
    """
    requested = await services.approvals.request(_build_waiting_call(context))
    if requested.ended is not None:
        outcome.result = _replay_approved(requested.ended, context)
    else:
        outcome.approval = requested.approval
        context.wait_for_approval()
    await context.recorder.wait_recorded()


def _replay_approved(ended: EndedCall, context: CallContext) -> Result:
    """Return the result of a call that was requested with the same idempotency key, approved and made; raise
    the error that it ended with.
    """
    if ended.call_id is not None:
        context.recorder.call_id = ended.call_id
        context.evidence = ended.evidence
        error = ended.error
        size = 0 if ended.result is None else len(ended.result.body or b"")
        context.replay(200 if error is None else error.status, response_bytes=size)
    if ended.result is None:
        raise ended.error or GatewayError()
    return ended.result


def _explain(error: Exception, context: CallContext) -> None:
    """Set what depends on the call: whether the client may repeat it, and where a credential is stored."""
    if isinstance(error, UpstreamError):
        error.retryable = is_retryable_by_client(
            error, context.plan, has_idempotency_key=context.request.options.idempotency_key is not None
        )
        if isinstance(error, UpstreamUnauthorized):
            path = f"/providers/{context.plan.provider}/credentials/{{slot}}"
            error.hint = f"Store a credential that the upstream accepts with PUT {path}."
    elif isinstance(error, CredentialMissing):
        error.hint = describe_missing_credential(error, context.plan.provider)


def describe_missing_credential(error: CredentialMissing, provider: str) -> str:
    """Return what to do next about a missing credential, with the path of its slot."""
    if not error.extra.get("slots"):
        return error.hint
    path = f"/providers/{provider}/credentials/{error.extra['slots'][0]}"
    return f"Store the credential with PUT {path}, then call the tool again."


async def _add_text_arguments(request: CallRequest, plan: Plan, recorder: CallRecorder | None = None) -> None:
    """Add the text arguments of a request to its arguments, and record these; raise InvalidArguments."""
    texts = request.text_arguments
    if texts is None:
        return
    arguments = request.arguments = texts.merge(request.arguments, plan)
    if recorder is None:
        return
    if recorder.request_bytes > LARGE_ARGUMENTS_BYTES:
        body = await asyncio.to_thread(_as_json, arguments)
    else:
        body = _as_json(arguments)
    recorder.replace_arguments(body)


def _as_json(arguments: Any) -> bytes:
    try:
        return exact_json.dumps(arguments)
    except orjson.JSONEncodeError:
        raise InvalidArguments("The arguments are nested too deeply.") from None


def _add_presets(request: CallRequest, plan: Plan) -> None:
    """Add the arguments that the toolset sets; raise InvalidArguments."""
    try:
        check_presets(request.presets, plan.inputs)
        request.arguments = with_presets(request.arguments, request.presets)
    except InvalidArguments as error:
        raise _move_pointers(error, request) from None


def _create_preset_masker(request: CallRequest, plan: Plan) -> ResponseMasker | None:
    """Return the masker of preset arguments that are secrets by the tool's inputs; None where none is."""
    if not plan.mask_responses:
        return None
    return ResponseMasker.for_values(find_secret_values(with_presets({}, request.presets), plan.inputs))


def _move_pointers(error: InvalidArguments, request: CallRequest) -> InvalidArguments:
    """Return the error with pointers to where the request has the arguments: in its body, or as texts."""
    return error if request.text_arguments is None else request.text_arguments.relocate(error)


def check_name(name: str) -> None:
    """Raise NotFound for a text that cannot be the name of a tool: PostgreSQL rejects some of these."""
    if _NAME.fullmatch(name) is None:
        raise NotFound("There is no tool of this name.")


async def _find_plan(name: str, principal: Principal, services: CallServices) -> Plan:
    """Return the plan of a tool by name or alias; raise NotFound where the principal may not call it."""
    try:
        plan = await services.catalog.plan(name)
    except NotFound:
        raise await create_unknown_tool_error(name, principal, services) from None
    except PlanError as unusable:
        if not principal.may_use(unusable.provider, unusable.registrar_tags):
            raise await create_unknown_tool_error(name, principal, services) from None
        raise clone_error(unusable.error) from None
    if not principal.may_use(plan.provider, plan.registrar_tags):
        # The same message as for a tool that does not exist, so that its existence is not revealed.
        raise await create_unknown_tool_error(name, principal, services)
    if not plan.provider_enabled:
        hint = RESUME_HINT.replace("{name}", plan.provider)
        raise NotFound(f"The provider {plan.provider} is paused: its tools cannot be called.", hint=hint)
    if not plan.enabled:
        raise NotFound(f"The tool {plan.name} is disabled.", hint=ENABLE_HINT)
    return plan


async def create_unknown_tool_error(name: str, principal: Principal, services: CallServices) -> NotFound:
    """Return the error for a tool that does not exist or that the principal may not see, with names that were
    probably meant.
    """
    return not_found(f"There is no tool {name}.", await services.suggest_tools(name, principal=principal))


def _perform(context: CallContext, services: CallServices, *, events: bool = False) -> Awaitable[Result]:
    """Return the result of an admitted call within its deadlines: from the cache, the upstream, or what its
    upstream mode has in place of that.

    The deadlines also bound waiting for a permit, for a token and between retries. The response is decoded
    and validated where the call asks for it.
    """
    plan, mode = context.plan, context.upstream
    context.set_deadlines(services.clock.loop.time(), events=events and plan.output_shape is None)
    live = partial(_perform_live, context, services, events=events)
    sending = live() if mode is None else call_in_mode(mode, context, services.recordings, live)
    if plan.contract is not None:
        # Its results have been compared with the schema of its own manifest.
        return sending
    if context.request.options.preferences is None and not plan.response_rule.is_active:
        return sending
    return check_response(sending, context)


def _perform_live(context: CallContext, services: CallServices, *, events: bool) -> Awaitable[Result]:
    """Return the result from the cache or the upstream, in the shape that the tool gives it."""
    plan, shape = context.plan, context.plan.output_shape
    # A cached response may be that of a client that may read what is a secret preset here; and what is
    # decoded is masked with what the call has sent. Evidence is that of an execution.
    is_cached = (
        plan.cache_rule is not None
        and plan.contract is None
        and context.upstream is None
        and not events
        and context.preset_masker is None
        and not (shape is not None and shape.decodes)
    )
    sending: Awaitable[Result] = _perform_cached(context, services) if is_cached else _send(context, services)
    if shape is not None:
        sending = shape_response(sending, context, shape, events=events)
    if plan.contract is not None:
        sending = collect_evidence(sending, context, plan.contract, resolver=services.resolver)
    return sending


async def _perform_once(context: CallContext, services: CallServices, key: str) -> Result:
    """Return the result of the only call that is made under an idempotency key."""
    deadline = context.request.deadline
    seconds = context.plan.limits.total
    if deadline is not None:
        seconds = min(max(deadline - services.clock.loop.time(), 0.0), seconds)
    idempotent = IdempotentCall(
        context,
        services.idempotency,
        perform=partial(_perform, context, services),
        max_bytes=services.max_stored_bytes,
    )
    return await idempotent.result(key, seconds=seconds)


async def _perform_cached(context: CallContext, services: CallServices) -> Result:
    """Return the result from the response cache, or from the upstream, perhaps by a conditional request."""
    plan = context.plan
    rule = plan.cache_rule
    request = context.request
    call = prepare_call(plan, request.arguments, (), call_id="", deadline=0.0)
    request_identity = plan.adapter.request_identity(call)
    if rule is None or request_identity is None:
        return await _send(context, services)
    key = CacheKey(
        request_identity,
        credentials=identify_credentials(plan),
        client=request.principal.key_id,
        rule=rule,
        cache_control=request.options.cache_control,
        deadline=context.deadline,
    )
    headers = context.headers

    async def fetch(conditions: tuple[tuple[str, str], ...]) -> Result:
        context.headers = headers + conditions
        return await _send(context, services)

    return await services.response_cache.get(key, fetch)


async def _send(context: CallContext, services: CallServices) -> Result:
    """Wait for a permit, and return the upstream's response; raise DeadlineExceeded where no time is left."""
    plan = context.plan
    recorder = context.recorder
    deadline = context.deadline
    if services.clock.loop.time() >= deadline:
        raise DeadlineExceeded("The deadline passed before the call could be sent.")
    if not context.permit:
        context.permit = plan.upstream.try_acquire() or await plan.upstream.acquire(deadline)
    if recorder.durable and not plan.safe and not recorder.has_recorded_intent:
        try:
            with Deadline(services.clock, deadline):
                end = context.events_deadline or deadline
                await recorder.record_intent(end - services.clock.loop.time())
        except TimeoutError:
            raise CallLogUnavailable(
                "The call could not be recorded before its deadline. It was not made."
            ) from None
    return await send(context, resolver=services.resolver, max_retry_after=services.max_retry_after)
