"""Why a key may, or may not, call a tool now: the rules of `execute` in its order, without making a call.

Nothing is sent, requested or counted. Each check calls the function that decides the same for a call; what
depends on the arguments of a call is not checked.
"""

import asyncio
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from sqlalchemy import exists, func, select, true
from sqlmodel import col

from app.calls.execution import (
    ENABLE_HINT,
    RESUME_HINT,
    create_unknown_tool_error,
    describe_missing_credential,
)
from app.calls.services import CallServices
from app.catalog import check_tool_name
from app.catalog.plan import Plan, PlanError
from app.catalog.tools import has_name
from app.core.errors import (
    CredentialMissing,
    GatewayError,
    NotFound,
    RecordingNotFound,
    UnsetVariable,
)
from app.core.upstream_mode import UpstreamMode
from app.outbound.destinations import denied_destination
from app.outbound.network import Network
from app.protocols.command_routing import Capability, CommandRouter
from app.protocols.command_routing.model import not_connected
from app.protocols.registry import PROTOCOLS
from app.security.principal import Principal
from app.security.scopes import Scope
from app.storage.database import Database
from app.storage.models import (
    TENANT,
    Override,
    Provider,
    Revision,
    Tool,
)

CheckName = Literal[
    "key-state",
    "scopes",
    "restrictions",
    "definition",
    "variables",
    "tool-enabled",
    "provider-enabled",
    "rate-limit",
    "circuit-breaker",
    "credentials",
    "destination",
    "requires-approval",
    "pending-approval",
]
ExactCheckName = CheckName | Literal["executor-connected"]
"""The checks by their own names; a CheckName is one of release 0.2.0, whose enums get no further values."""
CALL_SCOPE: Final[Scope] = "tools:call"
_READ_SCOPE: Final[Scope] = "tools:read"
EXECUTOR_HINT: Final = "Start the executor, or wait until it connects: GET /executors lists those that are."
_DESTINATION_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Check:
    """One rule, and whether a call passes it; None where that was not determined.

    A call fails where a check does not pass that is `required`; the others are for information.
    """

    check: CheckName
    passed: bool | None
    detail: str
    hint: str = ""
    required: bool = True
    own_name: ExactCheckName | None = None
    """Its own name, where `check` is the most similar one of release 0.2.0."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The checks of a key and a tool, in the order of a call. `tool` and `provider` are None where the viewer
    may see no tools.
    """

    checks: list[Check]
    tool: str | None
    provider: str | None
    may_see: bool | None


@dataclass(frozen=True, slots=True)
class _FoundTool:
    """A stored tool as a call finds it: its plan, or the error that its plan cannot be compiled with."""

    provider: str
    registrar_tags: frozenset[str]
    plan: Plan | None
    error: GatewayError | None


@dataclass(frozen=True, slots=True)
class _StoredState:
    """What is stored of a tool that is not part of its plan."""

    name: str
    enabled: bool
    provider_enabled: bool
    waits_for_approval: bool


@dataclass(frozen=True, slots=True)
class CallExplainer:
    """Explains calls with the services that execute them."""

    services: CallServices
    database: Database
    network: Network
    commands: CommandRouter

    async def explain(
        self, tool: str, *, principal: Principal, viewer: Principal, mode: UpstreamMode | None = None
    ) -> Explanation:
        """Return the checks of a call of `tool` (name or alias) by `principal`, as far as `viewer` may know.
        `mode` is the upstream mode of the call, None for live.

        Raise NotFound for a tool that the viewer may not see, whether or not it exists; Unavailable.
        """
        scopes = _check_scopes(principal)
        if not may_look_up(viewer):
            detail = "Not checked: the requesting key has neither `tools:read` nor `tools:call`."
            others: tuple[CheckName, ...] = (
                "restrictions", "definition", "variables", "tool-enabled", "provider-enabled", "rate-limit",
                "circuit-breaker", "credentials", "destination",
            )  # fmt: skip
            may_see = None if principal.has_scope(_READ_SCOPE) else False
            unknown = Check("requires-approval", None, detail, required=False)
            checks = [
                scopes,
                *(Check(name, None, detail) for name in others),
                unknown,
                _check_pending_approval(None),
            ]
            return Explanation(checks, None, None, may_see)
        catalog_tool = await self._find(tool, viewer)
        stored = await self._read(tool, viewer)
        restrictions = _check_restrictions(principal, catalog_tool)
        checks = [
            scopes,
            restrictions,
            *_check_definition(catalog_tool),
            *_check_enabled(catalog_tool, stored),
            *await self._check_plan(catalog_tool, principal, viewer, mode),
            _check_required_approval(catalog_tool.plan),
            _check_pending_approval(stored if viewer.has_scope("providers:read") else None),
        ]
        may_see = principal.has_scope(_READ_SCOPE) and bool(restrictions.passed)
        return Explanation(checks, stored.name, catalog_tool.provider, may_see)

    async def _find(self, name: str, viewer: Principal) -> _FoundTool:
        check_tool_name(name)
        try:
            plan = await self.services.catalog.plan(name)
            catalog_tool = _FoundTool(plan.provider, plan.registrar_tags, plan, None)
        except NotFound:
            raise await create_unknown_tool_error(name, viewer, self.services) from None
        except PlanError as unusable:
            catalog_tool = _FoundTool(unusable.provider, unusable.registrar_tags, None, unusable.error)
        if not viewer.may_use(catalog_tool.provider, catalog_tool.registrar_tags):
            raise await create_unknown_tool_error(name, viewer, self.services)
        return catalog_tool

    async def _read(self, name: str, viewer: Principal) -> _StoredState:
        operation = func.jsonb_build_object("source_key", col(Tool.source_key), "pending_approval", true())
        waits = exists().where(
            col(Revision.provider_id) == col(Provider.id),
            col(Revision.state) == "pending",
            col(Revision.report)["operations"].contains(func.jsonb_build_array(operation)),
        )
        query: Any = (
            select(
                col(Tool.name),
                func.coalesce(col(Override.enabled), true()),
                col(Provider.enabled),
                waits,
            )
            .select_from(Tool)
            .join(Provider, col(Provider.id) == col(Tool.provider_id))
            .outerjoin(Override, col(Override.tool_id) == col(Tool.id))
            .where(col(Tool.tenant_id) == TENANT, has_name(name))
        )
        async with self.database.read_session() as session:
            row = (await session.execute(query)).one_or_none()
        if row is None:
            raise await create_unknown_tool_error(name, viewer, self.services)
        return _StoredState(*row)

    async def _check_plan(
        self, catalog_tool: _FoundTool, principal: Principal, viewer: Principal, mode: UpstreamMode | None
    ) -> list[Check]:
        """Return the checks that need the plan of the tool."""
        plan = catalog_tool.plan
        if plan is None:
            detail = "Not checked: the stored tool cannot be used."
            names: tuple[CheckName, ...] = ("rate-limit", "circuit-breaker", "credentials", "destination")
            return [Check(name, None, detail) for name in names]
        if mode is not None and mode.is_offline:
            return [await self._check_rate_limit(plan, principal), *await self._check_offline(mode)]
        return [
            await self._check_rate_limit(plan, principal),
            _check_breaker(plan),
            self._check_credentials(plan),
            await self._check_reachable(plan, principal, viewer),
        ]

    async def _check_offline(self, mode: UpstreamMode) -> list[Check]:
        """Return the checks of what a call that reaches no upstream needs in place of one."""
        detail = f"Not needed: the mode is {mode.mode}, and nothing is sent to an upstream."
        names: tuple[CheckName, ...] = ("circuit-breaker", "credentials")
        checks = [Check(name, True, detail) for name in names]
        if mode.mode == "replay":
            try:
                await self.services.recordings.require(mode.recording or "")
            except RecordingNotFound as error:
                return [*checks, Check("destination", False, error.detail, error.hint)]
            detail = f"The recording {mode.recording} responds, where it has the call."
        return [*checks, Check("destination", True, detail)]

    async def _check_rate_limit(self, plan: Plan, principal: Principal) -> Check:
        if principal.rate_limit is None and plan.rate_limit is None:
            return Check("rate-limit", True, "Neither the key nor the provider has a rate limit.")
        state = await self.services.rate_limiter.read(
            principal.tenant_id,
            key_id=principal.rate_limit_owner,
            key=principal.rate_limit,
            provider_id=plan.provider_id,
            provider=plan.rate_limit,
        )
        left = ", ".join(
            f"{calls} for the {bucket.kind}"
            for bucket, calls in zip(state.buckets, state.remaining(), strict=True)
        )
        detail = f"Calls left in the rate limits: {left}."
        if state.admitted:
            return Check("rate-limit", True, detail)
        return Check("rate-limit", False, detail, f"Try again in {state.retry_after()} s.")

    def _check_credentials(self, plan: Plan) -> Check:
        try:
            sent = self.services.resolver.preview(
                plan.needs, plan.credentials, origin=plan.origin, egress=plan.egress
            )
        except CredentialMissing as error:
            return Check(
                "credentials", False, error.detail, describe_missing_credential(error, plan.provider)
            )
        except GatewayError as error:
            return Check("credentials", False, error.detail, error.hint)
        slots = ", ".join(dict.fromkeys(wire.slot for wire in sent))
        return Check(
            "credentials",
            True,
            f"Credentials of these slots are sent: {slots}." if slots else "No credential is sent.",
        )

    async def _check_reachable(self, plan: Plan, principal: Principal, viewer: Principal) -> Check:
        """Return whether a call may reach the upstream, or its executor is connected."""
        if plan.adapter.name in PROTOCOLS.connected:
            return await self._check_executor(plan, principal)
        return await self._check_destination(plan, viewer)

    async def _check_executor(self, plan: Plan, principal: Principal) -> Check:
        name, command = plan.provider, plan.adapter.method(plan.target)
        capability = Capability(principal.tenant_id, name, command)
        if not self.commands.is_connected(capability):
            # As a call does: another worker may have one since its last description.
            await self.commands.announce()
        if self.commands.is_connected(capability):
            detail, hint, passed = f"An executor of {name} is connected that executes {command}.", "", True
        else:
            since = self.commands.away_since(principal.tenant_id, name)
            detail, hint, passed = not_connected(capability, since).detail, EXECUTOR_HINT, False
        return Check("destination", passed, detail, hint, own_name="executor-connected")

    async def _check_destination(self, plan: Plan, viewer: Principal) -> Check:
        try:
            async with asyncio.timeout(_DESTINATION_SECONDS):
                denied = await denied_destination(plan.origin, self.network, plan.egress)
        except TimeoutError:
            return Check("destination", None, "The name of the upstream was not resolved in time.")
        if denied is None:
            return Check("destination", True, "The address guard does not block the upstream.")
        detail = "The network policy of the gateway does not allow the upstream's address."
        hint = "Ask the operator of the gateway to allow it."
        if viewer.has_scope("providers:write"):
            detail = f"The network policy of the gateway does not allow {denied.place}."
            hint = f"The operator of the gateway can allow it with {denied.setting}={denied.entry}."
        return Check("destination", False, detail, hint)


def may_look_up(viewer: Principal) -> bool:
    """Return whether a key may learn anything about a tool: it may read tools, or call them."""
    return viewer.has_scope(_READ_SCOPE) or viewer.has_scope(CALL_SCOPE)


def _check_scopes(principal: Principal) -> Check:
    if principal.has_scope(CALL_SCOPE):
        return Check("scopes", True, f"The key has the scope `{CALL_SCOPE}`.")
    return Check(
        "scopes",
        False,
        f"The key lacks the scope `{CALL_SCOPE}`.",
        "Add it to `scopes` with PATCH /keys/{key_id}, or use another key.",
    )


def _check_restrictions(principal: Principal, catalog_tool: _FoundTool) -> Check:
    if principal.toolsets is not None:
        names = ", ".join(sorted(principal.toolsets)) or "none"
        return Check(
            "restrictions",
            False,
            f"The key is limited to toolsets, none of which has the tool under this name: {names}.",
            "Add the tool to one of them, or change `toolsets` with PATCH /keys/{key_id}.",
        )
    if not principal.is_restricted:
        return Check("restrictions", True, "The key is not restricted to providers or tags.")
    if principal.may_use(catalog_tool.provider, catalog_tool.registrar_tags):
        return Check("restrictions", True, "The tool is within the restrictions of the key.")
    limits = []
    if principal.providers is not None and catalog_tool.provider not in principal.providers:
        limits.append(f"its provider {catalog_tool.provider} is not among the key's providers")
    else:
        limits.append("no registrar gave it, or its provider, one of the key's tags")
    return Check(
        "restrictions",
        False,
        f"The tool does not exist for the key: {' and '.join(limits)}.",
        "Change `providers` or `tags` with PATCH /keys/{key_id}, or use another key.",
    )


def _check_definition(catalog_tool: _FoundTool) -> Iterator[Check]:
    """Yield the checks of the stored tool itself and of the variables in its call template."""
    error = catalog_tool.error
    if isinstance(error, UnsetVariable):
        yield Check("definition", True, "The stored tool can be used.")
        yield Check("variables", False, error.detail, error.hint)
    elif error is not None:
        yield Check("definition", False, error.detail, error.hint)
        yield Check("variables", None, "Not checked: the stored tool cannot be used.")
    else:
        yield Check("definition", True, "The stored tool can be used.")
        yield Check("variables", True, "Every variable in the call template has a value.")


def _check_enabled(catalog_tool: _FoundTool, stored: _StoredState) -> Iterator[Check]:
    """Yield the checks whether tool and provider are enabled; calls on this worker go by its plan."""
    is_enabled = (
        stored.enabled and stored.provider_enabled if catalog_tool.plan is None else catalog_tool.plan.enabled
    )
    tool, provider = (True, True) if is_enabled else (stored.enabled, stored.provider_enabled)
    if not is_enabled and tool and provider:
        # It was enabled a moment ago: this worker has not read the change yet.
        tool = False
    yield Check(
        "tool-enabled",
        tool,
        "The tool is enabled." if tool else "The tool is disabled.",
        "" if tool else ENABLE_HINT,
    )
    yield Check(
        "provider-enabled",
        provider,
        f"The provider is {'enabled' if provider else 'disabled'}.",
        "" if provider else RESUME_HINT,
    )


def _check_breaker(plan: Plan) -> Check:
    breaker = plan.upstream.breaker
    if not breaker.is_tripped:
        return Check("circuit-breaker", True, "The circuit breaker of the upstream is closed.")
    if breaker.would_admit():
        return Check(
            "circuit-breaker", True, "The circuit breaker of the upstream is open; it admits a probe now."
        )
    return Check(
        "circuit-breaker",
        False,
        "Calls to this upstream are paused, because it has failed repeatedly.",
        f"Try again in {math.ceil(breaker.retry_after())} s.",
    )


def _check_pending_approval(stored: _StoredState | None) -> Check:
    if stored is None:
        detail = "Not checked: the requesting key may not know it without `providers:read`."
        return Check("pending-approval", None, detail, required=False)
    if not stored.waits_for_approval:
        return Check("pending-approval", True, "No change of the tool waits for approval.", required=False)
    return Check(
        "pending-approval",
        False,
        "A change of the tool waits for approval; until then, calls use the stored definition.",
        "Approve it with POST /approvals/{id}/approve.",
        required=False,
    )


def _check_required_approval(plan: Plan | None) -> Check:
    if plan is None:
        return Check(
            "requires-approval", None, "Not checked: the stored tool cannot be used.", required=False
        )
    if not plan.requires_approval:
        return Check("requires-approval", True, "A call of the tool needs no approval.", required=False)
    return Check(
        "requires-approval",
        False,
        "Another key must approve each call: the response is 202 with the approval.",
        "Approve it with POST /approvals/{id}/approve, by a key with the scope `approvals:decide`.",
        required=False,
    )
