"""`mode=direct`: the upstreams' own call templates, for clients that call by themselves.

A provider's are given away only where nothing is lost by it: where no credential of it is stored, or where
its registrar says so (`options.direct`). Its secrets are variables there, which the client has to have.
"""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import or_, select
from sqlmodel import col

from app.catalog.loader import VariableFinder
from app.catalog.tools import ToolView, is_enabled, principal_filter, tool_select, view
from app.database import Database
from app.discovery.direct_templates import DirectTool, Slot, render_direct
from app.discovery.shelves import Representation, Wanted
from app.errors import Forbidden, GatewayError
from app.models import TENANT, Credential, Provider, Tool, Variable
from app.protocols.call_templates import protocol_of
from app.protocols.variables import variables_of, with_variables
from app.security.principal import Principal
from app.utcp.render import render_manual

_AT_ONCE: Final = 200
_CENTRAL: Final = (
    "The credentials of this provider do not leave the gateway, so it is called through it only. "
    "Its registrar can change that with options.direct."
)


@dataclass(frozen=True, slots=True)
class _OfProvider:
    """What the templates of one provider's tools are completed with."""

    slots: Mapping[str, Slot]
    finder: VariableFinder


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of the providers in question."""

    credentials: Mapping[UUID, Sequence[Credential]]
    variables: Sequence[Variable]

    def of(
        self, tool: ToolView, options: Mapping[str, Any], declared: Sequence[Mapping[str, Any]]
    ) -> _OfProvider | None:
        """Of the provider of a tool; None where clients may not know how its upstream is called."""
        said = options.get("direct")
        if not (bool(said) if said is not None else not self.credentials.get(tool.provider_id)):
            return None
        own = [row for row in self.variables if row.provider_id in (None, tool.provider_id)]
        finder = VariableFinder(tool.provider, own, {})
        return _OfProvider(self._slots(tool.provider_id, declared), finder)

    def _slots(self, provider: UUID, declared: Sequence[Mapping[str, Any]]) -> dict[str, Slot]:
        """Its slots; what a source leaves open is as the stored credential says."""
        slots = {str(one["slot"]): _slot(str(one["kind"]), one) for one in declared}
        for row in self.credentials.get(provider, ()):
            if row.slot not in slots or slots[row.slot].kind == "any":
                slots[row.slot] = _slot(row.kind, row.public)
        return slots


class DirectManuals:
    """Reads and renders them; nothing is kept."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def manual(
        self, wanted: Wanted, *, principal: Principal, protocols: frozenset[str]
    ) -> Representation:
        """The manual; it says how many tools a UTCP client could not call, so that they were left out.

        Raises Forbidden where the one provider that was asked for may not be called directly; Unavailable.
        """
        rules = [is_enabled(), principal_filter(principal), col(Tool.tenant_id) == TENANT]
        if wanted.provider is not None:
            rules.append(col(Provider.name) == wanted.provider)
        statement = tool_select(full=True).add_columns(
            col(Provider.options).label("options"), col(Provider.slots).label("slots")
        )
        async with self._database.reading() as session:
            rows = (await session.execute(statement.where(*rules))).all()
            known = await _known(session, {row.provider_id for row in rows})
        return await asyncio.to_thread(_composed, rows, known, wanted, protocols)


def _composed(
    rows: Sequence[Any], known: _Known, wanted: Wanted, protocols: frozenset[str]
) -> Representation:
    bodies: list[tuple[str, bytes]] = []
    left_out = 0
    providers: dict[UUID, _OfProvider | None] = {}
    for row in rows:
        tool = view(row)
        if tool.provider_id not in providers:
            providers[tool.provider_id] = known.of(tool, row.options, row.slots)
        of = providers[tool.provider_id]
        if of is None:
            if wanted.provider is not None:
                raise Forbidden(_CENTRAL)
            continue
        if protocol_of(tool.call_template) not in protocols or not _is_wanted(tool, wanted):
            continue
        try:
            bodies.append((tool.name, _rendered(tool, of, wanted)))
        except (GatewayError, RecursionError):
            left_out += 1
    body = render_manual(wanted.version, [rendered for _, rendered in sorted(bodies)])
    etag = hashlib.sha256(body).hexdigest()[:32]
    return Representation(body, etag, len(bodies), left_out=left_out)


def _rendered(tool: ToolView, of: _OfProvider, wanted: Wanted) -> bytes:
    open_ones = {}
    for name in variables_of(tool.call_template):
        found = of.finder.find(name)
        shown = found.value if found is not None and not found.secret else None
        open_ones[name] = f"${{{name}}}" if shown is None else shown
    direct = DirectTool(
        name=tool.alias,
        provider=tool.provider,
        description=tool.description,
        inputs=tool.inputs,
        outputs=tool.outputs,
        tags=tool.tags,
        template=with_variables(tool.call_template, open_ones),
        security=tool.security,
        slots=of.slots,
    )
    return render_direct(direct, wanted.version)


def _is_wanted(tool: ToolView, wanted: Wanted) -> bool:
    tagged = wanted.tag is None or wanted.tag in tool.tags or wanted.tag in tool.registrar_tags
    return tagged and (wanted.matching is None or tool.id in wanted.matching)


def _slot(kind: str, said: Mapping[str, Any]) -> Slot:
    scope = said.get("scope")
    return Slot(
        kind=kind,
        location=said.get("location"),
        name=said.get("name"),
        token_url=said.get("token_url"),
        scope=scope if isinstance(scope, str) else None,
        values=tuple(said.get("values") or ()),
    )


async def _known(session: Any, providers: set[UUID]) -> _Known:
    credentials: dict[UUID, list[Credential]] = {}
    ids = sorted(providers)
    variables: list[Variable] = []
    for start in range(0, len(ids), _AT_ONCE):
        some = ids[start : start + _AT_ONCE]
        found = await session.execute(select(Credential).where(col(Credential.provider_id).in_(some)))
        for row in found.scalars():
            credentials.setdefault(row.provider_id, []).append(row)
        mine = or_(col(Variable.provider_id).in_(some), col(Variable.provider_id).is_(None))
        rows = await session.execute(
            select(Variable).where(col(Variable.tenant_id) == TENANT, col(Variable.secret).is_(False), mine)
        )
        variables += rows.scalars()
    return _Known(credentials, list({row.id: row for row in variables}.values()))
