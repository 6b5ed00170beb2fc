"""The evidence of a call of a ToolClad tool: its output is read as the manifest says, hashed, and compared
with `[output.schema]`.

The response of such a tool is its results as JSON. The evidence, from which the envelope is made, is recorded
with the bodies of the call, and given to a client that asks for the envelope.
"""

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final

from app.calls.context import CallContext
from app.calls.response.checks import VIOLATIONS_HEADER, render_violations
from app.calls.retries import prepare_call
from app.core import exact_json
from app.core.errors import (
    ResponseTooLarge,
    UpstreamError,
    UpstreamErrorResponse,
    UpstreamMalformed,
    UpstreamTimeout,
)
from app.core.text import split_pointer
from app.formats.json_schema.validator import Violations
from app.formats.toolclad.contract import Contract, HttpSection
from app.formats.toolclad.envelope import Evidence, choose_parser, name_output, scan_id_of
from app.formats.toolclad.outputs import MAX_OUTPUT_BYTES, UnreadableOutput, decode_output, parse_output
from app.outbound.credentials import CredentialResolver
from app.protocols.base import BODY_METADATA_HEADERS, GivesEvidence, Result
from app.security.masking import MASK

_INLINE_BYTES: Final = 64 << 10
_JSON: Final = "application/json"


async def collect_evidence(
    result: Result, context: CallContext, contract: Contract, *, began: float, resolver: CredentialResolver
) -> Result:
    """Return a result with the results of the tool as its body, and set the evidence of the call.

    `began` is the `time.perf_counter()` at which the call was sent. Raise what the stream of the result
    raises, ResponseTooLarge for more than 16 MiB, and UpstreamMalformed for output that is not in its format;
    these leave evidence, too.
    """
    try:
        await _read(result)
    except BaseException as error:
        await result.aclose()
        if isinstance(error, UpstreamError):
            context.evidence = describe_failure(error, context, contract, began=began, resolver=resolver)
        raise
    fields = _collect_fields(context, contract, began=began, resolver=resolver) | _collect_success_fields(
        result, context
    )
    masker = context.response_masker
    if masker is not None and result.body:
        # Whatever its media type is: it is read as text here.
        result.body = masker.mask(result.body)
    output = result.body or b""
    parser = choose_parser(contract.output)
    try:
        if result.execution is not None and result.execution.parsed is not None:
            results = result.execution.parsed
        elif len(output) > _INLINE_BYTES:
            results = await asyncio.to_thread(parse_output, output, parser)
        else:
            results = parse_output(output, parser)
    except UnreadableOutput as error:
        response = UpstreamErrorResponse(status=result.status, body=decode_output(output)[:_INLINE_BYTES])
        failed = UpstreamMalformed(str(error), response=response)
        results = {"error": str(error), "raw_output": decode_output(output)}
        context.evidence = Evidence(fields | {"status": "error"}, output, parser, results, has_results=True)
        raise failed from None
    # What was escaped is legible now, and what a program has parsed was not masked before.
    shown = results if masker is None else masker.mask_value(results)
    is_own = shown is not results or (result.execution is not None and result.execution.parsed is not None)
    evidence = Evidence(fields, output, parser, shown if is_own else None, has_results=is_own)
    return await _check_results(result, shown, context, evidence)


async def _read(result: Result) -> None:
    if not await result.read_up_to(MAX_OUTPUT_BYTES):
        raise ResponseTooLarge(f"The output of a ToolClad tool has at most {MAX_OUTPUT_BYTES} bytes.")


async def _check_results(result: Result, results: Any, context: CallContext, evidence: Evidence) -> Result:
    """Set the evidence, and return the results as a response, with its violations of the output schema."""
    body = exact_json.dumps(results)
    violations = None
    if context.plan.outputs:
        check = context.plan.response_reader().find_violations
        value = exact_json.without_decimals(results)
        if len(body) > _INLINE_BYTES:
            violations = await asyncio.to_thread(check, value)
        else:
            violations = check(value)
    if violations is not None and violations.count:
        context.has_violations = True
        context.evidence = _describe_violations(evidence, violations)
    else:
        context.evidence = evidence
    headers = [one for one in result.headers if one[0].lower() not in BODY_METADATA_HEADERS]
    if violations is not None:
        headers.append((VIOLATIONS_HEADER, render_violations(violations)))
    result.headers, result.body, result.media_type = headers, body, _JSON
    result.has_content_blocks, result.events = False, None
    return result


def _describe_violations(evidence: Evidence, violations: Violations) -> Evidence:
    results = {
        "error": "The output does not fit [output.schema] of the manifest.",
        "violations": list(violations.pointers),
        "raw_output": decode_output(evidence.output),
    }
    fields = {**evidence.fields, "status": "error"}
    return Evidence(fields, evidence.output, evidence.parser, results, has_results=True)


def _collect_fields(
    context: CallContext, contract: Contract, *, began: float, resolver: CredentialResolver
) -> dict[str, Any]:
    """Return the members of the envelope that do not depend on how the call ended."""
    recorder, plan = context.recorder, context.plan
    call_id = str(recorder.id)
    scan_id = scan_id_of(call_id)
    fields: dict[str, Any] = {
        "status": "success",
        "scan_id": scan_id,
        "tool": contract.tool,
        "command": "",
        "duration_ms": round((time.perf_counter() - began) * 1000),
        "timestamp": recorder.at.isoformat(),
        "exit_code": 0,
        "stderr": "",
        "output_file": name_output(contract, scan_id),
    }
    if isinstance(plan.adapter, GivesEvidence):
        credentials = resolver.preview(plan.needs, plan.credentials, origin=plan.origin, egress=plan.egress)
        arguments = _mask_presets(context)
        call = prepare_call(plan, arguments, credentials, call_id=call_id, deadline=0.0)
        fields |= plan.adapter.evidence(call)
    return fields


def _mask_presets(context: CallContext) -> dict[str, Any]:
    """Return the arguments of a call, those that a toolset has set as `***`: a client may not see these."""
    presets = {split_pointer(at)[0]: MASK for at in context.request.presets}
    return {**context.request.arguments, **presets}


def _collect_success_fields(result: Result, context: CallContext) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if result.execution is not None:
        stderr, masker = result.execution.stderr, context.response_masker
        stderr = stderr if masker is None else masker.mask_text(stderr)
        fields = {"exit_code": result.execution.exit_code, "stderr": stderr}
    return fields | ({"http_status": result.status} if _is_http(context) else {})


def describe_failure(
    error: UpstreamError,
    context: CallContext,
    contract: Contract,
    *,
    began: float,
    resolver: CredentialResolver,
) -> Evidence:
    """Return the evidence of a call that failed: what is known of the response, secrets masked."""
    fields = _collect_fields(context, contract, began=began, resolver=resolver) | {
        "status": "error",
        "exit_code": -1,
    }
    body = error.response.body if error.response is not None else None
    results: dict[str, Any] = {"error": error.detail}
    output = b""
    if isinstance(error, UpstreamTimeout):
        fields["status"] = "timeout"
    elif isinstance(body, Mapping) and {"exit_code", "stderr", "stdout"} == body.keys():
        output = str(body["stdout"] or "").encode()
        code = body["exit_code"]
        fields |= {"exit_code": -1 if code is None else code, "stderr": str(body["stderr"] or "")}
        results |= {"returncode": code, "stderr": fields["stderr"], "raw_output": decode_output(output)}
    elif body is not None:
        output = body.encode() if isinstance(body, str) else exact_json.dumps(body)
        results["raw_output"] = decode_output(output)
    if _is_http(context) and error.response is not None:
        fields |= _describe_http_failure(error.response.status, context)
        if fields["status"] == "error":
            results["error"] = f"unexpected status {error.response.status}"
    return Evidence(fields, output, choose_parser(contract.output), results, has_results=True)


def _describe_http_failure(status: int, context: CallContext) -> dict[str, Any]:
    """Return the status of the envelope for a status of HTTP that is no success."""
    kind = "client_error" if 400 <= status < 500 else "server_error" if 500 <= status < 600 else "error"
    contract = context.plan.contract
    is_listed = contract is not None and contract.http is not None and _is_expected(contract.http, status)
    return {"http_status": status, "status": kind if is_listed else "error"}


def _is_expected(http: HttpSection, status: int) -> bool:
    """Return whether a manifest lists a status as an error, or lists no statuses at all."""
    return status in http.error_status or not (http.success_status or http.error_status)


def _is_http(context: CallContext) -> bool:
    contract = context.plan.contract
    return contract is not None and contract.http is not None
