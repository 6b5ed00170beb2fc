"""The execution of a call from any interface of the gateway; independent of a web framework.

    find the tool -> validate the arguments -> rate limits -> [approval] -> [idempotency key]
        -> [response cache] -> permit of the upstream -> [record of intent] -> credentials, upstream,
        retries -> record

`execute` returns a CallContext in every case, errors included, and its interface translates that. Only a
cancellation by others is raised.
"""

import asyncio
import time
from functools import partial
from typing import Any, Final

import orjson

from app.calls.approvals.approved_call import EndedCall, WaitingCall
from app.calls.arguments.masking import find_secret_values
from app.calls.arguments.parsing import LARGE_ARGUMENTS_BYTES
from app.calls.arguments.presets import check_presets, with_presets, without_preset_hints, without_presets
from app.calls.arguments.repairs import repair_arguments, repair_mode
from app.calls.context import CallContext
from app.calls.disconnect import DisconnectWatch
from app.calls.evidence import collect_evidence, describe_failure
from app.calls.idempotency.call import IdempotentCall
from app.calls.recorder import CallRecorder
from app.calls.recordings.recorded_calls import open_recording, respond_offline
from app.calls.request import CallRequest
from app.calls.response.cache import CacheKey, identify_credentials
from app.calls.response.checks import check_response
from app.calls.response.shaping import set_error_text, shape_response
from app.calls.retries import is_retryable_by_client, prepare_call, send
from app.calls.services import CallServices
from app.catalog import check_tool_name
from app.catalog.plan import Plan, PlanError
from app.core import exact_json
from app.core.errors import (
    CredentialMissing,
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
from app.protocols.base import Result
from app.security.loop_detection import cdn_loop_headers
from app.security.principal import Principal
from app.security.response_masking import ResponseMasker

ENABLE_HINT: Final = 'Enable it with PATCH /tools/{name} and {"enabled": true}.'
RESUME_HINT: Final = 'Resume it with PATCH /providers/{name} and {"enabled": true}.'


async def execute(request: CallRequest, services: CallServices) -> CallContext:
    """Call a tool, and return the call with its result, the approval that it waits for, or its error.

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
    try:
        if request.error is not None:
            raise request.error  # noqa: TRY301 - recorded like any other error of the call.
        recorder.add_arguments(_as_json(request.arguments) if request.body is None else request.body)
        if request.options.cdn_loop:
            context.headers = cdn_loop_headers(request.options.cdn_loop, services.identity)
        with DisconnectWatch(request.disconnected, services.clock):
            context.plan = recorder.plan = await _find_plan(request.tool, request.principal, services)
            await _admit(context, services)
            if context.plan.requires_approval and request.approved is None:
                await _request_approval(context, services)
            elif request.options.idempotency_key is not None:
                context.result = await _perform_once(context, services, request.options.idempotency_key)
            else:
                await _perform_and_record(context, services)
    except Exception as error:  # noqa: BLE001 - it is recorded and returned.
        context.result, context.approval, context.error = None, None, error
        _explain(error, context)
        if not context.detached:
            context.fail(error)
        if recorder.stored is not None and isinstance(error, GatewayError):
            await recorder.wait_recorded()
    except BaseException as error:
        if not context.detached:
            context.fail(error)
        raise
    return context


async def describe(request: CallRequest, services: CallServices) -> dict[str, Any]:
    """Return the exact upstream request that `execute` would send, secrets as `***`; nothing is sent.

    For a tool that requires approval it has the member `requires_approval`. With `request.approved`, raise
    ApprovalOutdated where the tool was changed since.

    No token is requested, and nothing is counted or recorded. Raises NotFound (unknown, invisible or
    disabled), InvalidArguments, InvalidInput where the tool's own schema is unusable, and
    `request.error`.
    """
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
    """Complete and validate the arguments, and count the call against the rate limits."""
    request, recorder, plan = context.request, context.recorder, context.plan
    principal = request.principal
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
    is_small = recorder.request_bytes <= LARGE_ARGUMENTS_BYTES and isinstance(request.arguments, dict)
    if not (is_small and plan.is_valid is not None and plan.is_valid(request.arguments)):
        await _validate(context)
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


async def _validate(context: CallContext) -> None:
    """Validate the arguments, or repair them as the call allows; raise InvalidArguments."""
    request, plan = context.request, context.plan
    try:
        if context.recorder.request_bytes > LARGE_ARGUMENTS_BYTES:
            await asyncio.to_thread(plan.validate, request.arguments)
        else:
            plan.validate(request.arguments)
    except InvalidArguments as error:
        if request.approved is not None or not await _repair(context):
            raise _move_pointers(without_preset_hints(error, request.presets), request) from None


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


async def _request_approval(context: CallContext, services: CallServices) -> None:
    """Have a call wait for approval, or set the outcome of the one that was requested with its idempotency
    key, once that has ended.
    """
    requested = await services.approvals.request(_build_waiting_call(context))
    if requested.ended is not None:
        context.result = _replay_approved(requested.ended, context)
    else:
        context.approval = requested.approval
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


async def _find_plan(name: str, principal: Principal, services: CallServices) -> Plan:
    """Return the plan of a tool by name or alias; raise NotFound where the principal may not call it."""
    try:
        plan = await services.catalog.plan(name)
    except NotFound:
        check_tool_name(name)
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


async def _perform_and_record(context: CallContext, services: CallServices) -> None:
    """Set the result of an admitted call; one whose body is whole ends the call, and is recorded."""
    recorder = context.recorder
    result = context.result = await _perform(context, services, events=context.request.accepts_events)
    recorder.begin_result(result.media_type)
    if result.stream is None and result.events is None:
        body = result.body or b""
        recorder.add_result(body)
        context.complete(upstream_status=result.status, response_bytes=len(body))
        if recorder.stored is not None:
            await recorder.wait_recorded()


async def _perform(context: CallContext, services: CallServices, *, events: bool = False) -> Result:
    """Return the result of an admitted call within its deadlines: from the cache, the upstream, or what its
    upstream mode has in place of that.

    The deadlines also bound waiting for a permit, for a token and between retries. With `events`, the client
    accepts them.
    """
    plan, mode = context.plan, context.upstream
    events = events and plan.contract is None
    context.set_deadlines(services.clock.loop.time(), events=events and plan.output_shape is None)
    if mode is None:
        result = await _perform_live(context, services, events=events)
    elif mode.is_offline:
        result = await respond_offline(mode, context, services.recordings)
    else:
        recording = await open_recording(mode, context, services.recordings)
        try:
            result = await _perform_live(context, services, events=events)
        except UpstreamError as error:
            await recording.record_error(error, context)
            raise
        await recording.record_result(result)
    if plan.contract is None and (plan.checks_responses or context.request.options.preferences is not None):
        # The results of a manifest have been compared with its own schema.
        result = await check_response(result, context)
    return result


async def _perform_live(context: CallContext, services: CallServices, *, events: bool) -> Result:
    """Return the result from the cache or the upstream, in the shape that the tool gives it."""
    plan, shape = context.plan, context.plan.output_shape
    began = time.perf_counter()
    try:
        if plan.cache_rule is not None and _may_use_cache(context, events=events):
            result = await _perform_cached(context, services)
        else:
            result = await send(context, services)
        if shape is not None:
            result = await shape_response(result, context, shape, events=events)
    except UpstreamError as error:
        if shape is not None:
            set_error_text(error, shape)
        if plan.contract is not None:
            context.evidence = describe_failure(
                error, context, plan.contract, began=began, resolver=services.resolver
            )
        raise
    if plan.contract is not None:
        result = await collect_evidence(
            result, context, plan.contract, began=began, resolver=services.resolver
        )
    return result


def _may_use_cache(context: CallContext, *, events: bool) -> bool:
    """Return whether the response cache may answer a call of a tool that has a cache rule."""
    plan, shape = context.plan, context.plan.output_shape
    # A cached response may be that of a client that may read what is a secret preset here; and what is
    # decoded is masked with what the call has sent. Evidence is that of an execution.
    return (
        plan.contract is None
        and context.upstream is None
        and not events
        and context.preset_masker is None
        and not (shape is not None and shape.decodes)
    )


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
        return await send(context, services)
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
        return await send(context, services)

    return await services.response_cache.get(key, fetch)
