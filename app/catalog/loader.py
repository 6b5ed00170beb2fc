"""Reads a tool with all that its calls need, and compiles it. Only the secrets of egress are decrypted."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import orjson
from pydantic import ValidationError
from sqlalchemy import ColumnElement, and_, or_, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.catalog.cache_rule import CacheRule
from app.catalog.limits import limits_of, policy_of
from app.catalog.plan import Plan, PlanError
from app.catalog.response_options import ResponseOptions
from app.catalog.tools import ToolView, has_name, tool_select, tool_view
from app.core import exact_json
from app.core.errors import (
    FieldError,
    GatewayError,
    InvalidInput,
    NotFound,
    UnsetVariable,
)
from app.core.rate_limit import RateLimit
from app.core.settings import Settings
from app.core.text import pointer
from app.formats.toolclad.contract import Contract, get_risk_tier
from app.formats.utcp.variables import list_candidates
from app.outbound.egress import EgressSettings, build_egress_settings, without_client_certificate
from app.outbound.resilience import Origins
from app.outbound.scope import connection_scope
from app.protocols.base import Adapter, DescribesResponses, PassesOwnSecrets, SendsOnce
from app.protocols.call_templates import protocol_of
from app.protocols.registry import PROTOCOLS, Adapters, describe_missing_package
from app.protocols.responses.rule import ResponseRule
from app.protocols.variables import variables_of, with_variables
from app.security.requirements import security_json, slot_names
from app.security.response_masking import ResponseMasker
from app.security.sealed_credentials import SealedCredential, SealedVariable, open_credential
from app.security.vault import Vault
from app.storage.database import Database
from app.storage.models import (
    TENANT,
    Credential,
    Provider,
    Tool,
    Variable,
)

EGRESS_SLOT = "egress"
"""The slot whose sealed fields are the secret egress settings of a provider: proxy_url and client_key."""

UNCONFIRMED_ORIGINS = "unconfirmed_origins"
"""The member of a provider's options that lists origins which only custom tools of keys without
`credentials:write` have added; never shown.
"""

_NIL = UUID(int=0)


@dataclass(frozen=True, slots=True)
class _StoredTool:
    """The rows of a tool; `fetched` tells whether it comes from a manual that was fetched, `shown` are the
    names of the variables in the public fields of the template that fetched it.
    """

    tool: ToolView
    fetched: bool
    shown: frozenset[str]
    options: Mapping[str, Any]
    limits: Mapping[str, Any]
    credentials: Sequence[Credential]
    variables: Sequence[Variable]


@dataclass(frozen=True, slots=True)
class VariableFinder:
    """Finds the variables that a provider's stored texts may name: its own, the tenant's, then the
    environment's.

    A name matches a variable stored under it, or else under one of UTCP's namespaced spellings of it.
    """

    provider: str
    stored: Sequence[Variable]
    environment: Mapping[str, str]

    def find(self, name: str) -> SealedVariable | None:
        """Return the variable for a name, or None where there is none."""
        spellings = dict.fromkeys((name, *list_candidates(name, self.provider)))
        for own in (True, False):
            for spelling in spellings:
                for row in self.stored:
                    if row.name == spelling and (row.provider_id is not None) is own:
                        return _sealed_variable(row, name)
        for spelling in spellings:
            if spelling in self.environment:
                # Whether it is secret is unknown, so it is treated as secret: masked, and shown only in
                # registrars' own texts.
                value = self.environment[spelling]
                return SealedVariable(
                    id=_NIL, tenant_id=TENANT, name=name, secret=True, value=value,
                    sealed=None, version=0, provider_id=None,
                )  # fmt: skip
        return None


@dataclass(frozen=True, slots=True)
class PlanLoader:
    """Reads and compiles plans for a Catalog.

    `environment` is read for the names of variables that the operator lists (`variable_env_names`).
    """

    database: Database
    vault: Vault
    adapters: Adapters
    origins: Origins
    settings: Settings
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)

    async def load(self, name: str) -> Plan:
        """Return the plan of a tool by canonical name or alias.

        Raises NotFound, Unavailable, and Uncallable, whose error (422) tells which part of the stored tool is
        unusable.
        """
        stored = await self.database.read(lambda session: _read_tool(session, name))
        tool = stored.tool
        try:
            await self.adapters.load(protocol_of(tool.call_template))
            return self.compile(stored)
        except GatewayError as error:
            raise PlanError(error, provider=tool.provider, registrar_tags=tool.registrar_tags) from None

    def compile(self, stored: _StoredTool) -> Plan:
        """Compile everything that is the same for each call of the tool; raise InvalidInput where it is
        unusable.
        """
        tool = stored.tool
        protocol = protocol_of(tool.call_template)
        adapter = self.adapters.get(protocol)
        if adapter is None:
            raise InvalidInput(
                describe_missing_package(protocol)
                or f"This gateway does not serve the protocol {protocol} of the tool {tool.name}."
            )
        finder = VariableFinder(tool.provider, stored.variables, self._environment())
        template = _with_values(tool.call_template, finder, stored)
        try:
            target = adapter.prepare(template)
        except InvalidInput as error:
            raise InvalidInput(
                f"The tool {tool.name} cannot be called: {error.detail}.", errors=error.errors
            ) from None
        sealed = {row.slot: sealed_credential(row, finder=finder) for row in stored.credentials}
        egress = egress_of(stored.options, sealed.pop(EGRESS_SLOT, None), vault=self.vault)
        origin, safe = adapter.origin(target), adapter.is_safe(target)
        if egress is not None and origin in stored.options.get(UNCONFIRMED_ORIGINS, ()):
            egress = without_client_certificate(egress)
        contract = _contract_of(tool.call_template)
        sent_once = isinstance(adapter, SendsOnce) and adapter.is_sent_once(target)
        retry_permitted = bool(stored.limits.get("retry_idempotent")) and adapter.is_idempotent(target)
        upstream = self.origins.get(
            TENANT, origin, egress.key if egress else b"", policy_of(stored.limits, self.settings)
        )
        upstream.providers.add(tool.provider)
        return Plan(
            tool_id=tool.id,
            provider_id=tool.provider_id,
            name=tool.name,
            alias=tool.alias,
            provider=tool.provider,
            tags=tuple(tool.tags),
            registrar_tags=tool.registrar_tags,
            enabled=tool.enabled,
            provider_enabled=tool.provider_enabled,
            deprecated=tool.deprecated,
            requires_approval=tool.requires_approval,
            safe=safe,
            retryable=not sent_once and (safe or retry_permitted),
            adapter=adapter,
            target=target,
            origin=origin,
            upstream=upstream,
            inputs=tool.inputs,
            needs=tool.security,
            credentials=sealed,
            limits=limits_of(stored.limits, self.settings, contract=contract),
            egress=egress,
            scope=connection_scope(TENANT, tool.provider_id, sealed.values()),
            reuse=stored.options.get("reuse") is not False,
            rate_limit=RateLimit.from_stored(stored.limits.get("rate")),
            cache_rule=CacheRule.of(stored.limits.get("cache"), tool=tool.name, safe=safe),
            idempotency_header=None if sent_once else stored.limits.get("idempotency_header"),
            outputs=tool.outputs,
            response_spec=adapter.response_spec(target) if isinstance(adapter, DescribesResponses) else None,
            response_rule=ResponseRule.of(stored.options.get("responses"), tool=tool.name),
            read_only=_read_only(tool, safe=safe),
            response_options=ResponseOptions.of(tool.response_options, safe=safe),
            mask_responses=stored.options.get("mask_responses") is not False,
            masker=_masker_of(adapter, target),
            contract=contract,
            fingerprint=self._fingerprint(tool, template, origin),
            description_digest=self._description_digest(tool),
        )

    def _fingerprint(self, tool: ToolView, template: Mapping[str, Any], origin: str) -> bytes:
        parts = [str(tool.id), origin, template, tool.inputs, security_json(tool.security)]
        text = exact_json.dumps(parts, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS, default=str)
        return self.vault.digest("tool-definition", text)

    def _description_digest(self, tool: ToolView) -> bytes:
        text = exact_json.dumps([tool.name, tool.description, tool.annotations], option=orjson.OPT_SORT_KEYS)
        return self.vault.digest("tool-description", text)

    def _environment(self) -> Mapping[str, str]:
        # An empty value counts as no value, as in UTCP's clients.
        names = self.settings.variable_env_names
        return {name: self.environment[name] for name in names if self.environment.get(name)}


def _read_only(tool: ToolView, *, safe: bool) -> bool:
    stated = (tool.annotations or {}).get("read_only")
    if stated is None:
        return safe and get_risk_tier(tool.call_template) != "high"
    return stated is True


def _contract_of(template: Mapping[str, Any]) -> Contract | None:
    """Return the contract of a stored template; raise InvalidInput for one of another release."""
    stored = template.get("toolclad")
    if stored is None:
        return None
    try:
        return Contract.model_validate(stored)
    except ValidationError:
        raise InvalidInput("The contract of the tool is not valid: import its manifest again.") from None


def _masker_of(adapter: Adapter[Any], target: Any) -> ResponseMasker | None:
    """Return a masker for the secrets that an adapter passes to its upstream in addition to credentials,
    if any.
    """
    if not isinstance(adapter, PassesOwnSecrets):
        return None
    return ResponseMasker.for_values(adapter.own_secrets(target))


def egress_of(
    options: Mapping[str, Any], secrets: SealedCredential | None, *, vault: Vault
) -> EgressSettings | None:
    """Return the egress settings of a provider, None where its upstream is reached directly.

    Raises SealBroken where its sealed secrets cannot be decrypted.
    """
    fields = open_credential(secrets, vault=vault) if secrets is not None else {}
    return build_egress_settings(options, fields)


def is_from_fetched_manual() -> ColumnElement[bool]:
    """Return the condition that a tool comes from a manual that was fetched, for statements of
    `tool_select()`.
    """
    return and_(
        col(Provider.kind) == "manual",
        col(Provider.call_template)["call_template_type"].is_not(None),
        col(Provider.protocol).not_in(sorted(PROTOCOLS.introspected)),
        col(Tool.revision_id).is_not(None),
    )


async def _read_tool(session: AsyncSession, name: str) -> _StoredTool:
    statement = tool_select(full=True).add_columns(
        is_from_fetched_manual().label("fetched"),
        col(Provider.call_template).label("provider_template"),
        col(Provider.options).label("options"),
        col(Provider.limits).label("limits"),
    )
    row = (await session.execute(statement.where(has_name(name)))).one_or_none()
    if row is None:
        raise NotFound(f"There is no tool {name}.")
    tool = tool_view(row)
    credentials = await _credentials(session, tool)
    names = {*variables_of(tool.call_template)}.union(*(row.variable_names for row in credentials))
    variables = await _variables(session, tool, names) if names else []
    shown = frozenset(variables_of(row.provider_template)) if row.fetched else frozenset()
    return _StoredTool(tool, row.fetched, shown, row.options, row.limits, credentials, variables)


async def _credentials(session: AsyncSession, tool: ToolView) -> Sequence[Credential]:
    """Return the credentials in the slots that the tool names, and egress. Others, such as those of
    discovery, are not for calls.
    """
    slots = {EGRESS_SLOT} | slot_names(tool.security)
    found = await session.execute(
        select(Credential).where(
            col(Credential.provider_id) == tool.provider_id,
            col(Credential.principal).is_(None),
            col(Credential.slot).in_(sorted(slots)),
        )
    )
    return found.scalars().all()


async def _variables(session: AsyncSession, tool: ToolView, names: Collection[str]) -> Sequence[Variable]:
    spellings = {spelling for name in names for spelling in (name, *list_candidates(name, tool.provider))}
    found = await session.execute(
        select(Variable).where(
            col(Variable.tenant_id) == TENANT,
            or_(col(Variable.provider_id) == tool.provider_id, col(Variable.provider_id).is_(None)),
            col(Variable.name).in_(sorted(spellings)),
        )
    )
    return found.scalars().all()


def _with_values(template: dict[str, Any], finder: VariableFinder, stored: _StoredTool) -> dict[str, Any]:
    """Return the template with the values of its variables; one made from OpenAPI has none (`/$count` is
    a path).
    """
    found = {name: finder.find(name) for name in variables_of(template)}
    secret = [
        name
        for name, variable in found.items()
        if variable is not None
        and variable.secret
        and (variable.value is None or (stored.fetched and name not in stored.shown))
    ]
    if secret:
        # Every dry run would show a secret in the plain part of a plan.
        raise InvalidInput(
            "Secret variables are allowed only in auth, headers and query values.",
            errors=[
                FieldError(pointer("/call_template"), f"The variable {name} has become secret.")
                for name in secret
            ],
        )
    values = {
        name: variable.value
        for name, variable in found.items()
        if variable is not None and variable.value is not None
    }
    try:
        substituted: dict[str, Any] = with_variables(template, values)
    except UnsetVariable as error:
        errors = [FieldError("/call_template" + found.pointer, found.detail) for found in error.errors]
        raise UnsetVariable(error.detail, errors=errors, extra=error.extra) from None
    return substituted


def sealed_credential(row: Credential, *, finder: VariableFinder) -> SealedCredential:
    """Return a credential row as a SealedCredential, with the variables that its sealed fields name."""
    variables = (finder.find(name) for name in row.variable_names)
    return SealedCredential(
        id=row.id,
        tenant_id=row.tenant_id,
        provider_id=row.provider_id,
        slot=row.slot,
        version=row.version,
        kind=row.kind,  # type: ignore[arg-type]
        public=row.public,
        allowed_origins=tuple(row.allowed_origins),
        sealed=row.sealed,
        variables=tuple(variable for variable in variables if variable is not None),
    )


def _sealed_variable(row: Variable, name: str) -> SealedVariable:
    """Return a variable row as a SealedVariable under the name by which the text refers to it."""
    return SealedVariable(
        id=row.id,
        tenant_id=row.tenant_id,
        name=row.name if row.secret else name,
        secret=row.secret,
        value=row.value,
        sealed=row.sealed,
        version=row.version,
        provider_id=row.provider_id,
        allowed_origins=_allowed_origins(row),
    )


def _allowed_origins(row: Variable) -> tuple[str, ...] | None:
    is_limited = row.secret and row.provider_id is None and row.allowed_origins is not None
    return tuple(row.allowed_origins or ()) if is_limited else None
