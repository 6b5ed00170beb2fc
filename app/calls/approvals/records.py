"""The rows of approvals: adding them, changing their state, and who may see which."""

from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, Select, and_, func, or_, select, true, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.access.events import record_event
from app.calls.approvals.kinds import (
    CHANGE_KINDS,
    ApprovalKind,
    ApprovalState,
    Decision,
    decidable_kinds,
)
from app.catalog.tools import principal_filter, provider_filter, tool_select
from app.core import exact_json
from app.core.errors import Conflict
from app.core.pagination import Ordering, Page, PageRequest, SortField, contains, read_page
from app.security.principal import Principal
from app.storage.models import (
    TENANT,
    Approval,
    Provider,
    Tool,
    now,
)

ORDER: Final = Ordering(
    {
        "requested_at": SortField(col(Approval.requested_at), "requested_at", datetime),
        "expires_at": SortField(col(Approval.expires_at), "expires_at", datetime),
    },
    item_id=col(Approval.id),
)
MAX_OPERATIONS: Final = 1_000
"""So many changes of a provider are shown."""
_REPLACED: Final = {
    "type": "urn:utcp-gateway:problem:conflict",
    "title": "Replaced",
    "status": 409,
    "detail": "A later refresh replaced it.",
}


async def add_changes(
    session: AsyncSession,
    provider: Provider,
    *,
    revision_id: UUID,
    kind: ApprovalKind,
    operations: list[dict[str, Any]],
    actor: str,
    seconds: float,
) -> Approval:
    """Add the approval of a provider's pending revision, and its audit event; it expires after `seconds`."""
    row = Approval(
        id=revision_id,
        tenant_id=provider.tenant_id,
        kind=kind,
        subject_type="provider",
        subject_name=provider.name,
        provider=provider.name,
        provider_id=provider.id,
        requested_by=actor,
        expires_at=now() + timedelta(seconds=seconds),
        detail=_build_detail(operations),
    )
    session.add(row)
    await session.flush()
    await record_approval_event(session, row, "requested", actor=actor)
    return row


def _build_detail(operations: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what an approval of changes shows, and how many bytes of JSON it does not show."""
    detail: dict[str, Any] = {"operations": operations[:MAX_OPERATIONS], "count": len(operations)}
    if len(operations) > MAX_OPERATIONS:
        detail["hidden_bytes"] = len(exact_json.dumps(operations[MAX_OPERATIONS:]))
    return detail


async def record_approval_event(session: AsyncSession, row: Approval, action: str, *, actor: str) -> None:
    """Add the audit event of a change of an approval; it contains no arguments."""
    detail = {
        "kind": row.kind,
        "subject": {"type": row.subject_type, "name": row.subject_name, "provider": row.provider},
        "requested_by": row.requested_by,
    }
    if row.comment:
        detail["comment"] = row.comment
    if row.call_id is not None:
        detail["call_id"] = str(row.call_id)
    await record_event(
        session,
        actor=actor,
        action=action,
        object_type="approval",
        object_name=str(row.id),
        detail=detail,
        tenant=row.tenant_id,
    )


async def decide(
    session: AsyncSession, approval_id: UUID, *, state: ApprovalState, decision: Decision
) -> Approval:
    """Change a pending approval to `state` and return it; raise Conflict where it is not pending any more."""
    ended = None if state == "approved" else func.now()
    statement = (
        update(Approval)
        .where(
            col(Approval.id) == approval_id,
            col(Approval.state) == "pending",
            col(Approval.expires_at) > func.now(),
        )
        .values(
            state=state,
            decided_by=decision.principal.key_id,
            decided_at=func.now(),
            comment=decision.comment,
            ended_at=ended,
        )
        .returning(Approval)
    )
    row: Approval | None = (await session.execute(statement)).scalar_one_or_none()
    if row is None:
        current = await session.get(Approval, approval_id, populate_existing=True)
        raise create_decided_error(current)
    return row


def create_decided_error(row: Approval | None) -> Conflict:
    """Return the error for an approval that is not pending any more."""
    state = "deleted" if row is None else "expired" if row.state == "pending" else row.state
    by = f" by the key {row.decided_by}" if row is not None and row.decided_by else ""
    return Conflict(
        f"The approval is not pending any more: it is {state}{by}.",
        extra={"state": state},
        hint="Read it with GET /approvals/{id}; what should be done in any case has to be requested again.",
    )


async def replace_changes(session: AsyncSession, provider_id: UUID) -> None:
    """Let the pending changes of a provider expire, because they are replaced or it is deleted."""
    await session.execute(
        update(Approval)
        .where(
            col(Approval.provider_id) == provider_id,
            col(Approval.state) == "pending",
            col(Approval.kind).in_(CHANGE_KINDS),
        )
        .values(state="expired", ended_at=func.now(), failure=_REPLACED)
    )


async def find_visible(session: AsyncSession, approval_id: UUID, *, principal: Principal) -> Approval | None:
    """Return an approval that the principal may see, None where there is none."""
    statement = _select_visible(principal).where(col(Approval.id) == approval_id)
    row: Approval | None = (await session.execute(statement)).scalar_one_or_none()
    return row


async def find_pending_changes_of(
    session: AsyncSession, provider: str, *, principal: Principal
) -> Approval | None:
    """Return the pending approval of a provider's changes that the principal may see, None without one."""
    statement = _select_visible(principal).where(
        col(Approval.provider) == provider,
        col(Approval.kind).in_(CHANGE_KINDS),
        col(Approval.state) == "pending",
    )
    rows = await session.execute(statement.order_by(col(Approval.id).desc()).limit(1))
    row: Approval | None = rows.scalar_one_or_none()
    return row


async def read_page_of_approvals(
    session: AsyncSession,
    page: PageRequest,
    *,
    principal: Principal,
    kind: str | None,
    state: str | None,
    provider: str | None,
    q: str | None,
) -> Page[Approval]:
    """Return a page of the approvals that the principal may see.

    With `q`, those whose subject's name or comment contains it. Raise InvalidInput for another list's cursor.
    """
    statement = _select_visible(principal)
    for column, value in ((Approval.kind, kind), (Approval.state, state), (Approval.provider, provider)):
        if value is not None:
            statement = statement.where(col(column) == value)
    if q is not None:
        statement = statement.where(contains(q, col(Approval.subject_name), col(Approval.comment)))
    return await read_page(session, statement, ordering=ORDER, page=page)


def _select_visible(principal: Principal) -> Select[Any]:
    """Select the approvals that a key may see: those that it requested, and those about which it may decide,
    within its restrictions.
    """
    is_requester = col(Approval.requested_by) == principal.key_id
    kinds = decidable_kinds(principal)
    decidable = and_(col(Approval.kind).in_(kinds), _build_restriction(principal))
    seen = or_(is_requester, decidable) if kinds else is_requester
    return select(Approval).where(col(Approval.tenant_id) == TENANT, seen)


def _build_restriction(principal: Principal) -> ColumnElement[bool]:
    if principal.tags is None:
        if principal.providers is None:
            return true()
        return col(Approval.provider).in_(sorted(principal.providers))
    tools = tool_select().with_only_columns(col(Tool.name)).where(principal_filter(principal))
    providers = select(col(Provider.name)).where(provider_filter(principal))
    return or_(
        and_(col(Approval.subject_type) == "tool", col(Approval.subject_name).in_(tools)),
        and_(col(Approval.subject_type) == "provider", col(Approval.subject_name).in_(providers)),
    )


def is_overdue(row: Approval) -> bool:
    """Return whether an approval has expired, and the sweep has not ended it yet."""
    return row.state == "pending" and row.expires_at <= now()


def approval_json(row: Approval) -> dict[str, Any]:
    """Return the public members of an approval, as an item of a list: no arguments, no result."""
    overdue = is_overdue(row)
    return {
        "id": str(row.id),
        "kind": row.kind,
        "state": "expired" if overdue else row.state,
        "subject": {"type": row.subject_type, "name": row.subject_name, "provider": row.provider},
        "requested_by": row.requested_by,
        "requester": row.detail.get("requester"),
        "requested_at": row.requested_at,
        "expires_at": row.expires_at,
        "decided_by": row.decided_by,
        "decided_at": row.decided_at,
        "comment": row.comment,
        "ended_at": row.expires_at if overdue else row.ended_at,
        "call_id": None if row.call_id is None else str(row.call_id),
        "failure": row.failure,
    }
