"""The health of providers: breakers of this worker, statistics of calls, and the stored last check."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from sqlalchemy import ColumnElement, Select, and_, case, exists, func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.calls.stats.queries import (
    NOT_ERRORS,
    CallCounts,
    StatFilters,
    bucket_range,
    call_statistics,
)
from app.catalog.tools import provider_filter
from app.core.errors import (
    BlockedAddress,
    CircuitOpen,
    CredentialMissing,
    CredentialNotAllowed,
    OriginBusy,
    TokenRequestFailed,
    UpstreamError,
    UpstreamMalformed,
    UpstreamTimeout,
    UpstreamUnauthorized,
    UpstreamUnreachable,
)
from app.core.pagination import Ordering, Page, PageRequest, SortField, contains, read_page
from app.outbound.resilience import BreakerState, Origins
from app.protocols.command_routing import CommandRouter
from app.protocols.registry import PROTOCOLS
from app.providers.checks.origins import EXPIRY_WARNING_DAYS
from app.providers.checks.records import CheckStatus
from app.providers.registration.repository import tool_counts
from app.security.principal import Principal
from app.storage.database import Database
from app.storage.models import (
    TENANT,
    CallStat,
    Provider,
    ProviderCheckRow,
    Revision,
)

FAILURES: Final = tuple(
    error.slug
    for error in (
        UpstreamError, UpstreamTimeout, UpstreamUnreachable, UpstreamUnauthorized, UpstreamMalformed,
        TokenRequestFailed, CircuitOpen, OriginBusy, BlockedAddress, CredentialMissing, CredentialNotAllowed,
    )
)  # fmt: skip
"""The outcomes of calls for which the upstream, its credential or the way to it is the reason."""
_DEGRADED_SHARE: Final = 0.1
_PERIOD: Final = timedelta(hours=1)
_ERROR_PERIOD: Final = timedelta(hours=24)
_ORDER: Final = Ordering(
    {"name": SortField(col(Provider.name).collate("C"), "name", unique=True)}, item_id=col(Provider.id)
)


HealthState = Literal["ok", "degraded", "failed", "paused", "unknown"]


@dataclass(frozen=True, slots=True)
class HealthFilters:
    """Which providers: that of this name, those in this state, and, with `q`, those whose name or title
    contains it. None is no filter.
    """

    q: str | None = None
    provider: str | None = None
    state: HealthState | Literal["away", "pending"] | None = None


@dataclass(frozen=True, slots=True)
class OriginBreaker:
    """The circuit breaker of an origin in this worker; `retry_after` are the seconds until a call is let
    through again, None while it is closed.
    """

    origin: str
    state: str
    retry_after: int | None


@dataclass(frozen=True, slots=True)
class FailedCall:
    """When the last call of a provider that failed began, to the minute, and its outcome."""

    at: datetime
    outcome: str


@dataclass(frozen=True, slots=True)
class StoredCheck:
    """When a provider was checked last, and the status of that check."""

    checked_at: datetime
    status: CheckStatus


@dataclass(frozen=True, slots=True)
class HealthReport:
    """The health of a provider: its breakers, its calls of the last hour and its last check.

    `available` tells whether an executor of it is connected, None for providers of no executor; `pending`
    whether changes wait for approval.
    """

    name: str
    title: str
    protocol: str
    tool_count: int
    state: HealthState
    enabled: bool
    available: bool | None
    pending: bool
    breakers: Sequence[OriginBreaker]
    calls: int
    errors: int
    error_rate: float | None
    failures: int
    p95_ms: float | None
    last_error: FailedCall | None
    last_check: StoredCheck | None
    certificate_expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class ProviderHealthReader:
    """Reads the health of providers; the breakers are those of this worker."""

    database: Database
    origins: Origins
    commands: CommandRouter

    async def page(
        self, page: PageRequest, *, filters: HealthFilters, principal: Principal
    ) -> Page[HealthReport]:
        """Return a page of the health of the providers that the key may see.

        Raise InvalidInput for another list's cursor.
        """
        moment = datetime.now(UTC)
        recent = _select_recent(moment)
        await self.commands.follow_workers()
        connected = self.commands.connected_executors(principal.tenant_id)
        state = _select_state(moment, recent, tripped=self.origins.tripped_providers(), connected=connected)
        statement = _select_health(recent, state).where(provider_filter(principal))
        if filters.provider is not None:
            statement = statement.where(col(Provider.name) == filters.provider)
        if filters.q is not None:
            statement = statement.where(contains(filters.q, col(Provider.name), col(Provider.title)))
        if filters.state == "pending":
            statement = statement.where(_is_pending())
        elif filters.state == "away":
            statement = statement.where(_is_away(connected))
        elif filters.state is not None:
            statement = statement.where(state == filters.state)
        async with self.database.read_session() as session:
            rows = await read_page(session, statement, ordering=_ORDER, page=page)
            names = [row.name for row in rows.rows]
            tools = await tool_counts(session, [row.id for row in rows.rows])
            counts = await _read_counts(session, names, moment)
            errors = await _read_last_errors(session, names, moment)
        items = [
            self._build_report(
                row,
                counts.get(row.name, CallCounts()),
                errors.get(row.name),
                connected,
                tool_count=tools.get(row.id, 0),
            )
            for row in rows.rows
        ]
        return Page(items, rows.next_cursor, rows.total, rows.total_at_least)

    def _build_report(
        self,
        row: Any,
        counts: CallCounts,
        last_error: FailedCall | None,
        connected: Collection[str],
        *,
        tool_count: int,
    ) -> HealthReport:
        return HealthReport(
            name=row.name,
            title=row.title,
            protocol=row.protocol,
            tool_count=tool_count,
            state=row.state,
            enabled=row.enabled,
            available=row.name in connected if row.protocol in PROTOCOLS.connected else None,
            pending=row.pending,
            breakers=[
                _describe_breaker(text, origin) for text, origin in self.origins.of_providers({row.name})
            ],
            calls=counts.calls,
            errors=counts.errors,
            error_rate=round(counts.errors / counts.calls, 4) if counts.calls else None,
            failures=row.failures,
            p95_ms=counts.p95_ms,
            last_error=last_error,
            last_check=None if row.checked_at is None else StoredCheck(row.checked_at, row.check_status),
            certificate_expires_at=row.certificate_expires_at,
        )


def _describe_breaker(text: str, origin: Any) -> OriginBreaker:
    state = origin.breaker.state
    is_closed = state is BreakerState.CLOSED
    return OriginBreaker(
        origin=text,
        state=state.value,
        retry_after=None if is_closed else math.ceil(origin.breaker.retry_after()),
    )


def _select_recent(moment: datetime) -> Any:
    """Return the calls and failures of the last hour by provider, as a subfilters."""
    failures = case((col(CallStat.outcome).in_(FAILURES), col(CallStat.calls)), else_=0)
    return (
        select(
            col(CallStat.provider).label("provider"),
            func.sum(col(CallStat.calls)).label("calls"),
            func.sum(failures).label("failures"),
        )
        .where(
            col(CallStat.resolution) == "minute",
            col(CallStat.tenant_id) == TENANT,
            col(CallStat.at) >= moment - _PERIOD,
        )
        .group_by(col(CallStat.provider))
        .cte("recent")
    )


def _is_pending() -> ColumnElement[bool]:
    return exists().where(col(Revision.provider_id) == col(Provider.id), col(Revision.state) == "pending")


def _is_away(connected: Collection[str]) -> ColumnElement[bool]:
    """Return the condition that executors execute the tools of a provider, and it is none of `connected`."""
    return and_(
        col(Provider.protocol).in_(sorted(PROTOCOLS.connected)),
        col(Provider.name).not_in(sorted(connected)),
    )


def _select_state(
    moment: datetime, recent: Any, *, tripped: Collection[str], connected: Collection[str]
) -> ColumnElement[str]:
    """Return the expression for the state of a provider; `tripped` have a breaker that is not closed, and of
    `connected` an executor is connected.
    """
    check = ProviderCheckRow
    expires = col(check.certificate_expires_at)
    failures, calls = recent.c.failures, recent.c.calls
    has_failed = or_(
        col(Provider.name).in_(sorted(tripped)),
        col(check.status) == "failed",
        expires <= moment,
        _is_away(connected),
    )
    is_degraded = or_(
        col(check.status) == "degraded",
        expires <= moment + timedelta(days=EXPIRY_WARNING_DAYS),
        and_(failures > 0, failures >= _DEGRADED_SHARE * calls),
    )
    return case(
        (~col(Provider.enabled), "paused"),
        (has_failed, "failed"),
        (is_degraded, "degraded"),
        (or_(calls > 0, col(check.status) == "ok"), "ok"),
        else_="unknown",
    )


def _select_health(recent: Any, state: ColumnElement[str]) -> Select[Any]:
    check = ProviderCheckRow
    return (
        select(
            col(Provider.id).label("id"),
            col(Provider.name).label("name"),
            col(Provider.title).label("title"),
            col(Provider.enabled).label("enabled"),
            col(Provider.protocol).label("protocol"),
            state.label("state"),
            _is_pending().label("pending"),
            func.coalesce(recent.c.failures, 0).label("failures"),
            col(check.checked_at).label("checked_at"),
            col(check.status).label("check_status"),
            col(check.certificate_expires_at).label("certificate_expires_at"),
        )
        .select_from(Provider)
        .outerjoin(check, col(check.provider_id) == col(Provider.id))
        .outerjoin(recent, recent.c.provider == col(Provider.name))
        .where(col(Provider.tenant_id) == TENANT)
    )


async def _read_counts(
    session: AsyncSession, names: Collection[str], moment: datetime
) -> Mapping[str, CallCounts]:
    """Return the counts of the calls of the last hour by the names of the providers that have some."""
    if not names:
        return {}
    since, until = bucket_range(moment - _PERIOD, moment, "minute")
    statistics = await call_statistics(
        session,
        group="provider",
        interval="minute",
        since=since,
        until=until,
        limit=len(names),
        filters=StatFilters(providers=names),
    )
    return {name: series.totals for name, series in statistics.series.items()}


async def _read_last_errors(
    session: AsyncSession, names: Collection[str], moment: datetime
) -> dict[str, FailedCall]:
    """Return the last error of each provider that has one within 24 hours, by name."""
    stat = CallStat
    rank = func.row_number().over(
        partition_by=col(stat.provider), order_by=(col(stat.at).desc(), col(stat.calls).desc())
    )
    ranked = (
        select(col(stat.provider), col(stat.at), col(stat.outcome), rank.label("rank"))
        .where(
            col(stat.resolution) == "minute",
            col(stat.tenant_id) == TENANT,
            col(stat.at) >= moment - _ERROR_PERIOD,
            col(stat.provider).in_(sorted(names)),
            col(stat.outcome).not_in(NOT_ERRORS),
            col(stat.calls) > 0,
        )
        .subquery()
    )
    errors = await session.execute(select(ranked).where(ranked.c.rank == 1))
    return {row.provider: FailedCall(at=row.at, outcome=row.outcome) for row in errors}
