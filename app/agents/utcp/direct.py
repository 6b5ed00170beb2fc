"""`mode=direct`: manuals with the upstreams' own call templates, for clients that call upstreams themselves.

A provider is included only where no credential of it is stored and it is not behind a Unix socket, or where
its registrar permits it (`options.direct`). Its secrets appear as variables, whose values the client must
have.
"""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import structlog
from sqlalchemy import not_, or_, select
from sqlmodel import col

from app.agents.utcp.direct_templates import DirectSlot, DirectTool, render_direct
from app.agents.utcp.provider_manuals import ManualSelection, Representation
from app.catalog.loader import VariableFinder
from app.catalog.tools import (
    ToolView,
    is_enabled,
    principal_filter,
    requires_approval,
    tool_select,
    tool_view,
)
from app.core.errors import Forbidden, GatewayError
from app.formats.utcp.render import render_manual
from app.protocols.call_templates import protocol_of
from app.protocols.record import NotDirect
from app.protocols.variables import variables_of, with_variables
from app.security.principal import Principal
from app.security.sealed_credentials import RELEASED_KINDS
from app.storage.database import Database
from app.storage.models import (
    TENANT,
    Credential,
    Provider,
    Tool,
    Variable,
)

_log = structlog.get_logger(__name__)
_BATCH: Final = 200
_NOT_DIRECT: Final = (
    "This provider can only be called through the gateway, which its credentials or its Unix socket do not "
    "leave. "
    "Its registrar can change this with options.direct."
)


@dataclass(frozen=True, slots=True)
class _TemplateContext:
    """The credential slots and variables with which the templates of one provider's tools are completed."""

    slots: Mapping[str, DirectSlot]
    finder: VariableFinder


@dataclass(frozen=True, slots=True)
class _ProviderRows:
    """The stored credentials and variables of the selected providers."""

    credentials: Mapping[UUID, Sequence[Credential]]
    variables: Sequence[Variable]

    def of(
        self, tool: ToolView, options: Mapping[str, Any], declared: Sequence[Mapping[str, Any]]
    ) -> _TemplateContext | None:
        """Return the context of a tool's provider; None where clients may not call its upstream directly."""
        permitted = options.get("direct")
        if permitted is None:
            # `http://localhost` is another server for each client.
            permitted = not (self.credentials.get(tool.provider_id) or options.get("unix_socket"))
        if not permitted:
            return None
        own = [row for row in self.variables if row.provider_id in (None, tool.provider_id)]
        finder = VariableFinder(tool.provider, own, {})
        return _TemplateContext(self._slots(tool.provider_id, declared), finder)

    def _slots(self, provider: UUID, declared: Sequence[Mapping[str, Any]]) -> dict[str, DirectSlot]:
        """Return the slots of a provider; a kind that its source leaves open, or that no UTCP client has, is
        that of the stored credential.
        """
        slots = {
            str(one["slot"]): _slot(str(one["kind"]), one, scheme=one.get("http_scheme")) for one in declared
        }
        for row in self.credentials.get(provider, ()):
            unknown = row.slot not in slots or slots[row.slot].kind == "any"
            is_exact = row.kind == "bearer" or row.kind in RELEASED_KINDS or row.public.get("grant_type")
            if unknown or is_exact:
                slots[row.slot] = _slot(row.kind, row.public, scheme=row.public.get("scheme"))
        return slots


class DirectManuals:
    """Reads and renders direct manuals. Nothing is cached."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def manual(
        self, selection: ManualSelection, *, principal: Principal, protocols: frozenset[str]
    ) -> Representation:
        """Return the manual of the selected tools that use one of the protocols.

        `left_out` counts the tools that were omitted because a UTCP client could not call them. Raises
        Forbidden where the selection is a single provider that may not be called directly, and Unavailable.
        """
        # Without the gateway, nobody would approve a call.
        unapproved = not_(requires_approval())
        rules = [is_enabled(), unapproved, principal_filter(principal), col(Tool.tenant_id) == TENANT]
        if selection.provider is not None:
            rules.append(col(Provider.name) == selection.provider)
        statement = tool_select(full=True).add_columns(
            col(Provider.options).label("options"), col(Provider.slots).label("slots")
        )
        async with self._database.read_session() as session:
            rows = (await session.execute(statement.where(*rules))).all()
            provider_rows = await _provider_rows(session, {row.provider_id for row in rows})
        return await asyncio.to_thread(_composed, rows, provider_rows, selection, protocols)


def _composed(
    rows: Sequence[Any], provider_rows: _ProviderRows, selection: ManualSelection, protocols: frozenset[str]
) -> Representation:
    bodies: list[tuple[int, str, bytes]] = []
    ranks = selection.ranks
    left_out = 0
    providers: dict[UUID, _TemplateContext | None] = {}
    for row in rows:
        tool = tool_view(row)
        if tool.provider_id not in providers:
            providers[tool.provider_id] = provider_rows.of(tool, row.options, row.slots)
        context = providers[tool.provider_id]
        if context is None:
            if selection.provider is not None:
                raise Forbidden(_NOT_DIRECT)
            continue
        if protocol_of(tool.call_template) not in protocols or not _has_tag(tool, selection.tag):
            continue
        if ranks is not None and tool.id not in ranks:
            continue
        try:
            rank = 0 if ranks is None else ranks[tool.id]
            bodies.append((rank, tool.name, _rendered(tool, context, selection)))
        except (GatewayError, RecursionError, TypeError, ValueError) as error:
            left_out += 1
            reason = error.detail if isinstance(error, NotDirect) else type(error).__name__
            _log.info("a tool was omitted from the direct manual", tool=tool.name, reason=reason)
    body = render_manual(selection.version, [rendered for _, _, rendered in sorted(bodies)])
    etag = hashlib.sha256(body).hexdigest()[:32]
    return Representation(body, etag, len(bodies), left_out=left_out)


def _rendered(tool: ToolView, context: _TemplateContext, selection: ManualSelection) -> bytes:
    values = {}
    for name in variables_of(tool.call_template):
        found = context.finder.find(name)
        value = found.value if found is not None and not found.secret else None
        values[name] = f"${{{name}}}" if value is None else value
    direct = DirectTool(
        name=tool.alias,
        provider=tool.provider,
        description=tool.description,
        inputs=tool.inputs,
        outputs=tool.outputs,
        tags=tool.tags,
        template=with_variables(tool.call_template, values),
        security=tool.security,
        slots=context.slots,
    )
    return render_direct(direct, selection.version)


def _has_tag(tool: ToolView, tag: str | None) -> bool:
    return tag is None or tag in tool.tags or tag in tool.registrar_tags


def _slot(kind: str, fields: Mapping[str, Any], *, scheme: Any) -> DirectSlot:
    scope = fields.get("scope")
    return DirectSlot(
        kind=kind,
        location=fields.get("location"),
        name=fields.get("name"),
        token_url=fields.get("token_url"),
        scope=scope if isinstance(scope, str) else None,
        grant_type=str(fields.get("grant_type") or "client_credentials"),
        values=tuple(fields.get("values") or ()),
        scheme=str(scheme or "Bearer"),
    )


async def _provider_rows(session: Any, providers: set[UUID]) -> _ProviderRows:
    credentials: dict[UUID, list[Credential]] = {}
    ids = sorted(providers)
    variables: list[Variable] = []
    for start in range(0, len(ids), _BATCH):
        some = ids[start : start + _BATCH]
        found = await session.execute(select(Credential).where(col(Credential.provider_id).in_(some)))
        for row in found.scalars():
            credentials.setdefault(row.provider_id, []).append(row)
        mine = or_(col(Variable.provider_id).in_(some), col(Variable.provider_id).is_(None))
        rows = await session.execute(
            select(Variable).where(col(Variable.tenant_id) == TENANT, col(Variable.secret).is_(False), mine)
        )
        variables += rows.scalars()
    return _ProviderRows(credentials, list({row.id: row for row in variables}.values()))
