"""Checks of providers: whether origins, certificates and credentials work, and the stored last result."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid5

from pydantic import TypeAdapter
from sqlalchemy import case, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.access.events import record_event
from app.calls.rate_limiter import RateLimiter
from app.catalog.limits import limits_of
from app.catalog.loader import VariableFinder, egress_of, sealed_credential
from app.core.errors import not_found, scopes_missing
from app.core.rate_limit import RateLimit
from app.outbound.egress import EgressSettings, without_client_certificate
from app.outbound.http import Engine
from app.outbound.limits import Limits
from app.protocols.command_routing import CommandRouter
from app.protocols.registry import PROTOCOLS
from app.providers.checks.credentials import MAX_CANDIDATES, CredentialChecker
from app.providers.checks.origins import EXPIRY_WARNING_DAYS, check_executor, check_origin
from app.providers.checks.records import (
    CheckResult,
    CheckStatus,
    CredentialResult,
    OriginResult,
    ProtocolResult,
    StepResult,
)
from app.providers.credentials.model import DISCOVERY_SLOTS, EGRESS_SLOT, compile_security
from app.providers.registration.destinations import unconfirmed_origins
from app.providers.registration.repository import credentials_of, provider_named, slots_of, variables_for
from app.providers.registration.service import RegistrationService
from app.security.principal import Principal
from app.security.sealed_credentials import SealedCredential
from app.storage.models import Provider, ProviderCheckRow, Tool

CHECK_SECONDS: Final = 20.0
"""A check has ended after this time; what is not known by then has failed."""
CHECK_RATE: Final = RateLimit(10, 60, 10)
"""Checks of one provider: 10 at once, and 10 in 60 s."""
_MAX_ITEMS: Final = 20
_MAX_SECURITIES: Final = 200
_CONCURRENCY: Final = 8
_STORED: Final = TypeAdapter(CheckResult)


@dataclass(frozen=True, slots=True)
class _Subject:
    """What is stored of the provider that is checked.

    `scopes` are the OAuth2 scopes of its slots, `missing` the slots without which a tool cannot be called;
    `tools` are the names of tools that may need no arguments.
    """

    id: UUID
    name: str
    protocol: str
    origins: tuple[str, ...]
    unconfirmed: frozenset[str]
    scopes: Mapping[str, tuple[str, ...]]
    missing: Sequence[str]
    credentials: Mapping[str, SealedCredential]
    egress: EgressSettings | None
    limits: Limits
    tools: Sequence[str]


@dataclass(frozen=True, slots=True)
class ProviderChecks:
    """Checks providers; each check is limited in rate, recorded as an event, and its result is stored."""

    registry: RegistrationService
    engine: Engine
    checker: CredentialChecker
    rate_limiter: RateLimiter
    commands: CommandRouter

    async def check(
        self, name: str, *, probe: bool = False, tool: str | None = None, principal: Principal
    ) -> CheckResult:
        """Check a provider and return the result, which is stored, too. With `probe`, a tool without effects
        is called for each stored credential, or the given `tool`.

        Raises NotFound, RateLimited, Forbidden for a probe without the scope `tools:call`, and InvalidInput
        where the chosen tool cannot be called for the check.
        """
        probed = probe or tool is not None
        if probed and not principal.has_scope("tools:call"):
            raise scopes_missing(
                "A probe calls tools: the API key lacks the scope `tools:call`.", ["tools:call"]
            )
        async with self.registry.database.read_session() as session:
            provider = await self.registry.visible_provider(session, name, principal=principal)
            subject = await self._read_subject(session, provider)
        chosen = None
        if tool is not None:
            chosen = await self.checker.required_plan(tool, provider=subject.name)
        await self.rate_limiter.admit(
            principal.tenant_id,
            key_id=principal.key_id,
            key=None,
            provider_id=uuid5(subject.id, "check"),
            provider=CHECK_RATE,
        )
        deadline = asyncio.get_running_loop().time() + CHECK_SECONDS
        origins, tokens = await asyncio.gather(
            self._check_origins(subject, principal, deadline=deadline),
            self._check_tokens(subject, deadline=deadline),
        )
        protocols: list[ProtocolResult] = []
        if probed:
            plans = [chosen] if chosen is not None else await self._choose_plans(subject)
            found = await _gather_bounded(
                self.checker.call(plan, subject.credentials, deadline=deadline) for plan in plans
            )
            for checks, protocol in found:
                tokens |= {one.slot: one for one in checks if one.status != "not_checked"}
                protocols += [] if protocol is None else [protocol]
        result = _result(subject, origins, list(tokens.values()), protocols, probed=probed)
        await self._store(subject, result, principal=principal)
        return result

    async def _read_subject(self, session: AsyncSession, provider: Provider) -> _Subject:
        rows = await credentials_of(session, [provider.id])
        finder = VariableFinder(
            provider.name, await variables_for(session, provider.id), self.registry.environment
        )
        sealed = {row.slot: sealed_credential(row, finder=finder) for row in rows}
        egress = egress_of(provider.options, sealed.pop(EGRESS_SLOT, None), vault=self.registry.vault)
        for slot in DISCOVERY_SLOTS:
            sealed.pop(slot, None)
        return _Subject(
            id=provider.id,
            name=provider.name,
            protocol=provider.protocol,
            origins=tuple(one for one in provider.origins if one),
            unconfirmed=unconfirmed_origins(provider),
            scopes={slot.name: tuple(slot.scopes or ()) for slot in slots_of(provider)},
            missing=await _find_missing_slots(
                session,
                provider.id,
                stored=sealed,
                has_certificate=egress is not None and egress.client_certificate is not None,
            ),
            credentials=sealed,
            egress=egress,
            limits=limits_of(provider.limits, self.registry.settings),
            tools=await _find_candidates(session, provider.id),
        )

    async def _check_origins(
        self, subject: _Subject, principal: Principal, *, deadline: float
    ) -> list[OriginResult]:
        if subject.protocol in PROTOCOLS.connected:
            return await _gather_bounded(
                check_executor(
                    origin, commands=self.commands, tenant_id=principal.tenant_id, provider=subject.name
                )
                for origin in subject.origins[:_MAX_ITEMS]
            )

        def egress_for(origin: str) -> EgressSettings | None:
            if subject.egress is not None and origin in subject.unconfirmed:
                return without_client_certificate(subject.egress)
            return subject.egress

        return await _gather_bounded(
            check_origin(
                origin,
                engine=self.engine,
                egress=egress_for(origin),
                limits=subject.limits,
                deadline=deadline,
            )
            for origin in subject.origins[:_MAX_ITEMS]
        )

    async def _check_tokens(self, subject: _Subject, *, deadline: float) -> dict[str, CredentialResult]:
        """Return what is known of each slot without calling a tool, by slot."""
        stored = list(subject.credentials.values())[:_MAX_ITEMS]
        found = await _gather_bounded(
            self.checker.check_token(
                one,
                scopes=subject.scopes.get(one.slot, ()),
                origins=subject.origins,
                egress=subject.egress,
                deadline=deadline,
            )
            for one in stored
        )
        checks = {one.slot: one for one in found}
        for slot in subject.missing[:_MAX_ITEMS]:
            checks[slot] = CredentialResult(slot, None, None, "missing", problem="credential-missing")
        return dict(sorted(checks.items()))

    async def _choose_plans(self, subject: _Subject) -> list[Any]:
        """Return one plan for each set of slots that tools need, of those that can be tried."""
        chosen: dict[tuple[str, ...], Any] = {}
        for plan in await self.checker.callable_plans(subject.tools):
            slots = {need.slot for alternative in plan.needs for need in alternative}
            chosen.setdefault((plan.origin, *sorted(slots)), plan)
        return list(chosen.values())

    async def _store(self, subject: _Subject, result: CheckResult, *, principal: Principal) -> None:
        """Store the result and its event; raise NotFound where the provider was deleted meanwhile."""
        expiries = [one.certificate.valid_until for one in result.origins if one.certificate is not None]
        values = {
            "checked_at": result.checked_at,
            "status": result.status,
            "certificate_expires_at": min(expiries, default=None),
            "result": _STORED.dump_python(result, mode="json"),
        }
        async with self.registry.database.transaction() as session:
            provider = await provider_named(session, subject.name, locked=True)
            if provider is None or provider.id != subject.id:
                raise not_found(f"There is no provider {subject.name!r}.")
            row = insert(ProviderCheckRow).values(
                provider_id=subject.id, tenant_id=provider.tenant_id, **values
            )
            await session.execute(row.on_conflict_do_update(index_elements=["provider_id"], set_=values))
            await record_event(
                session,
                actor=principal.key_id,
                action="checked",
                object_type="provider",
                object_name=subject.name,
                detail={"status": result.status, "probed": result.probed},
            )


async def _find_missing_slots(
    session: AsyncSession,
    provider_id: UUID,
    *,
    stored: Mapping[str, SealedCredential],
    has_certificate: bool,
) -> list[str]:
    """Return the slots that hold no credential (or need a client certificate that there is not), and without
    which a tool cannot be called.
    """
    query = select(col(Tool.security)).where(col(Tool.provider_id) == provider_id).distinct()
    missing: set[str] = set()
    for security in (await session.execute(query.limit(_MAX_SECURITIES))).scalars():
        alternatives = [
            {
                need.slot
                for need in needs
                if not (has_certificate if need.certificate else need.slot in stored)
            }
            for needs in compile_security(security)
        ]
        if alternatives and all(alternatives):
            missing |= set().union(*alternatives)
    return sorted(missing)


async def _find_candidates(session: AsyncSession, provider_id: UUID) -> list[str]:
    """Return the names of tools that may need no arguments: those that GET first, one for each security."""
    required = func.coalesce(col(Tool.inputs)["required"].astext, "[]") != "[]"
    is_get = case((col(Tool.call_template)["http_method"].astext == "GET", 0), else_=1)
    rank = func.row_number().over(
        partition_by=col(Tool.security), order_by=(required, is_get, col(Tool.deprecated), col(Tool.name))
    )
    ranked = select(col(Tool.name).label("name"), rank.label("rank")).where(
        col(Tool.provider_id) == provider_id
    )
    by_rank = ranked.subquery()
    query = select(by_rank.c.name).order_by(by_rank.c.rank, by_rank.c.name).limit(MAX_CANDIDATES)
    return list((await session.execute(query)).scalars())


async def _gather_bounded(tasks: Iterable[Any]) -> list[Any]:
    """Return the results of coroutines, of which eight run at a time."""
    permits = asyncio.Semaphore(_CONCURRENCY)

    async def run(task: Any) -> Any:
        async with permits:
            return await task

    return list(await asyncio.gather(*(run(task) for task in tasks)))


def _result(
    subject: _Subject,
    origins: list[OriginResult],
    credentials: list[CredentialResult],
    protocols: list[ProtocolResult],
    *,
    probed: bool,
) -> CheckResult:
    return CheckResult(
        provider=subject.name,
        checked_at=datetime.now(UTC),
        status=_judge_status(origins, credentials, protocols),
        probed=probed,
        origins=origins,
        credentials=credentials,
        protocols=protocols,
        hints=_write_hints(subject.name, origins, credentials, protocols),
        complete=len(subject.origins) <= _MAX_ITEMS and len(subject.credentials) <= _MAX_ITEMS,
    )


def _judge_status(
    origins: Sequence[OriginResult],
    credentials: Sequence[CredentialResult],
    protocols: Sequence[ProtocolResult],
) -> CheckStatus:
    failed = [one for one in origins if one.status == "failed"]
    is_any_ok = any(one.status == "ok" for one in origins)
    unusable = any(one.status in ("rejected", "failed") for one in credentials)
    if unusable or (failed and not is_any_ok) or any(one.status == "failed" for one in protocols):
        return "failed"
    is_degraded = (
        bool(failed)
        or any(one.status == "missing" for one in credentials)
        or any((one.http_status or 0) >= 500 for one in origins)
        or any(one.certificate is not None and _expires_soon(one) for one in origins)
    )
    return "degraded" if is_degraded else "ok"


def _expires_soon(origin: OriginResult) -> bool:
    certificate = origin.certificate
    if certificate is None:
        return False
    return certificate.valid_until - datetime.now(UTC) < timedelta(days=EXPIRY_WARNING_DAYS)


def _write_hints(
    provider: str,
    origins: Sequence[OriginResult],
    credentials: Sequence[CredentialResult],
    protocols: Sequence[ProtocolResult],
) -> list[str]:
    hints = []
    for one in origins:
        last = one.steps[-1] if one.steps else None
        if last is not None and last.status == "failed":
            hints.append(f"{one.origin}: {last.detail} {_hint_at_step(one, last)}")
        elif _expires_soon(one) and one.certificate is not None:
            hints.append(
                f"{one.origin}: its certificate expires on {one.certificate.valid_until:%Y-%m-%d}; whoever "
                "operates the upstream must renew it."
            )
        elif (one.http_status or 0) >= 500:
            hints.append(f"{one.origin}: it responds with status {one.http_status}; look at its own log.")
    path = f"PUT /providers/{provider}/credentials/"
    for check in credentials:
        if check.status == "missing":
            hints.append(f"No credential is stored in slot {check.slot}: {path}{check.slot}.")
        elif check.status in ("rejected", "failed"):
            hints.append(f"{check.detail} Store another credential with {path}{check.slot}.")
    hints += [f"{one.tool}: {one.detail}" for one in protocols if one.status == "failed"]
    return hints


def _hint_at_step(origin: OriginResult, failed: StepResult) -> str:
    if origin.origin.partition("://")[0] in PROTOCOLS.connected:
        return _EXECUTOR_HINT
    return _STEP_HINTS[failed.step]


_EXECUTOR_HINT: Final = "Start it with a key that has the scope `executors:connect`."
_STEP_HINTS: Final = {
    "resolution": "Check the host name and the DNS of the gateway's machine, or ALLOW_NETWORKS.",
    "connection": "Check that the upstream is running, and that the gateway's machine may connect to it.",
    "tls": "Have the certificate renewed, or register its authority with the option `ca_bundle`.",
    "http": "Check what listens at this address: it must speak HTTP/1.1.",
}
