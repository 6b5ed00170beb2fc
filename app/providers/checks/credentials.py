"""Whether the stored credentials of a provider are usable: tokens, and, on request, a call without effects.

A credential is sent only where a call would send it: the resolver of calls checks the allowed origins.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from app.calls.response.masking import call_and_mask
from app.calls.retries import prepare_call
from app.catalog import Catalog
from app.catalog.plan import Plan, PlanError
from app.core.errors import (
    FieldError,
    GatewayError,
    InvalidArguments,
    InvalidInput,
    UpstreamError,
    UpstreamRejected,
    UpstreamUnauthorized,
)
from app.core.uuid7 import uuid7
from app.outbound.credentials import CredentialResolver
from app.outbound.egress import EgressSettings
from app.protocols.base import Call, ChecksUpstream
from app.providers.checks.records import CredentialResult, CredentialStatus, ProtocolResult
from app.security.requirements import SlotRequirement, slot_names
from app.security.sealed_credentials import RELEASED_KINDS, TOKEN_KINDS, SealedCredential

MAX_CANDIDATES: Final = 20
"""At most so many tools are compiled to find those that can be called without arguments."""
_REJECTED: Final = (401, 403, 407)


@dataclass(frozen=True, slots=True)
class CredentialChecker:
    """Checks credentials with the parts of the gateway that calls use."""

    catalog: Catalog
    resolver: CredentialResolver

    async def check_token(
        self,
        credential: SealedCredential,
        *,
        scopes: Sequence[str],
        origins: Sequence[str],
        egress: EgressSettings | None,
        deadline: float,
    ) -> CredentialResult:
        """Return whether a credential can be prepared for one of the origins: for OAuth2, get a token."""
        allowed = [one for one in origins if one in credential.allowed_origins]
        if not allowed:
            return _result(
                credential,
                "failed",
                problem="credential-not-allowed",
                detail="It may not be sent to any of the provider's origins.",
            )
        if credential.kind not in TOKEN_KINDS:
            return _result(credential, "not_checked")
        needs = ((SlotRequirement(credential.slot, tuple(scopes)),),)
        try:
            await self.resolver.resolve(
                needs, {credential.slot: credential}, origin=allowed[0], egress=egress, deadline=deadline
            )
        except GatewayError as error:
            return _result(credential, "failed", problem=error.slug, detail=error.detail)
        return _result(credential, "token_obtained")

    async def callable_plans(self, names: Sequence[str]) -> list[Plan]:
        """Return the plans, of at most 20 tools, that can be tried: of enabled tools, those whose protocol
        has a check of its own, and safe ones that need neither arguments nor approval.
        """
        plans: list[Plan] = []
        for name in names[:MAX_CANDIDATES]:
            try:
                plan = await self.catalog.plan(name)
                if not (plan.enabled and plan.provider_enabled):
                    continue
                if not isinstance(plan.adapter, ChecksUpstream):
                    if not plan.safe or plan.requires_approval:
                        continue
                    plan.validate({})
            except (GatewayError, PlanError):
                continue
            plans.append(plan)
        return plans

    async def required_plan(self, name: str, *, provider: str) -> Plan:
        """Return the plan of the tool that was chosen for the check.

        Raises InvalidInput where it is not one of the provider, is disabled, has effects, or needs arguments
        or approval.
        """
        try:
            plan = await self.catalog.plan(name)
        except (GatewayError, PlanError):
            plan = None
        if plan is None or plan.provider != provider:
            raise _build_tool_error(f"The provider {provider} has no usable tool {name}.")
        if not plan.provider_enabled:
            raise _build_tool_error(f"The provider {provider} is paused: its tools cannot be called.")
        if not plan.enabled:
            raise _build_tool_error(f"The tool {plan.name} is disabled.")
        if isinstance(plan.adapter, ChecksUpstream):
            return plan
        if plan.requires_approval:
            raise _build_tool_error(
                f"Each call of {plan.name} requires approval: choose a tool that requires none."
            )
        if not plan.safe:
            raise _build_tool_error(f"Calls of {plan.name} may have effects: choose one whose method is GET.")
        try:
            plan.validate({})
        except InvalidArguments:
            raise _build_tool_error(f"The tool {plan.name} cannot be called without arguments.") from None
        return plan

    async def call(
        self, plan: Plan, credentials: Mapping[str, SealedCredential], *, deadline: float
    ) -> tuple[list[CredentialResult], ProtocolResult | None]:
        """Call the tool of a plan, or have its protocol check its upstream; return what this says of the
        credentials that it needs, and of the protocol.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        error: GatewayError | None = None
        sent: frozenset[str] = frozenset()
        try:
            resolved = await self.resolver.resolve(
                plan.needs, plan.credentials, origin=plan.origin, egress=plan.egress, deadline=deadline
            )
            sent = frozenset(wire.slot for wire in resolved)
            call = prepare_call(plan, {}, resolved, call_id=str(uuid7()), deadline=deadline)
            call.resend = False
            await _exchange_message(plan, call)
        except GatewayError as failed:
            error = failed
        named = sent or slot_names(plan.needs)
        checks = [
            _judge_call(plan, credentials[slot], error, was_sent=slot in sent)
            for slot in sorted(named)
            if slot in credentials
        ]
        if not isinstance(plan.adapter, ChecksUpstream):
            return checks, None
        has_spoken = error is None or isinstance(error, UpstreamUnauthorized | UpstreamRejected)
        return checks, ProtocolResult(
            tool=plan.name,
            protocol=plan.adapter.name,
            status="ok" if has_spoken else "failed",
            milliseconds=round((loop.time() - began) * 1000, 3),
            problem=None if error is None or has_spoken else error.slug,
            detail=None if error is None or has_spoken else error.detail,
        )


async def _exchange_message(plan: Plan, call: Call[Any]) -> None:
    """Exchange one message with the upstream; what it responds is dropped."""
    if isinstance(plan.adapter, ChecksUpstream):
        await plan.adapter.check(call)
        return
    result = await call_and_mask(plan.adapter.call, call)
    await result.aclose()


def _judge_call(
    plan: Plan, credential: SealedCredential, error: GatewayError | None, *, was_sent: bool
) -> CredentialResult:
    """Return what the outcome of a call says of one credential that was to be sent with it."""
    upstream_status = None
    if isinstance(error, UpstreamError) and error.response is not None:
        upstream_status = error.response.status
    status: CredentialStatus
    if error is None:
        status = "accepted" if was_sent else "not_checked"
    elif not was_sent:
        status = "failed"
    elif isinstance(error, UpstreamUnauthorized) or upstream_status in _REJECTED:
        status = "rejected"
    elif upstream_status is not None and upstream_status < 500:
        # The upstream looked at the request itself, after the credential.
        status = "accepted"
    else:
        status = "unknown"
    return _result(
        credential,
        status,
        tool=plan.name if was_sent else None,
        upstream_status=upstream_status,
        problem=None if error is None or status == "accepted" else error.slug,
        detail=None if error is None or status == "accepted" else error.detail,
    )


def _result(credential: SealedCredential, status: CredentialStatus, **members: Any) -> CredentialResult:
    return CredentialResult(
        slot=credential.slot,
        kind=RELEASED_KINDS.get(credential.kind, credential.kind),
        exact_kind=credential.kind,
        status=status,
        **members,
    )


def _build_tool_error(detail: str) -> InvalidInput:
    return InvalidInput(
        "The tool cannot be called for the check: see /tool.",
        errors=[FieldError("/tool", detail)],
        hint="Choose a safe tool of this provider that needs no arguments, or omit `tool`.",
    )
