"""Tools as clients see them: the source's definition with a person's overrides; and who may see which."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, Final, Protocol
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Select,
    Text,
    and_,
    any_,
    case,
    cast,
    false,
    func,
    literal,
    literal_column,
    or_,
    select,
    true,
    union,
    union_all,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased
from sqlmodel import col

from app.core.suggestions import MAX_CANDIDATES, find_similar
from app.protocols.registry import DEFAULT, PROTOCOLS
from app.security.principal import Principal
from app.security.requirements import SecurityRequirements, compile_security
from app.storage.models import TENANT, Override, Provider, Tool

OVERRIDDEN: Final = (
    "description", "tags", "enabled", "requires_approval", "annotations", "publish_output_schema",
    "response_options", "keywords",
)  # fmt: skip
"""The columns of an override: what a person can change on a tool."""
_NO_STEPS: Final = literal([], JSONB)
_NO_SCHEMA: Final[ColumnElement[Any]] = literal({}, JSONB)


class Viewer(Protocol):
    """The part of a principal that decides which tools it may see; None means no such limit."""

    @property
    def providers(self) -> frozenset[str] | None: ...
    @property
    def tags(self) -> frozenset[str] | None: ...


@dataclass(frozen=True, slots=True)
class ToolView:
    """A tool with its overrides applied.

    `registrar_tags` are the tags that a registrar set, the only ones that count for the tag limit of a key.
    `enabled` is also false where its provider is disabled. `requires_approval`: another key must approve each
    call.
    """

    id: UUID
    provider_id: UUID
    provider: str
    name: str
    alias: str
    agent_name: str
    """The name that agents see."""
    description: str
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    tags: list[str]
    registrar_tags: frozenset[str]
    enabled: bool
    deprecated: bool
    custom: bool
    requires_approval: bool
    version: int
    call_template: dict[str, Any] = field(repr=False)
    security: SecurityRequirements
    average_response_size: int | None
    created_at: datetime
    updated_at: datetime
    slimming_steps: list[str] = field(default_factory=list)
    """The steps by which a large tool was slimmed for models."""
    provider_enabled: bool = True
    annotations: dict[str, Any] | None = None
    """What an operator has set: read_only, destructive, idempotent, open_world and header_inputs."""
    publish_output_schema: bool = False
    """Whether agents see the schema of its responses."""
    response_options: dict[str, Any] | None = None
    """What an operator has set about its responses: all_pages and poll."""
    keywords: list[str] = field(default_factory=list)
    """Further words by which search finds it."""
    output_schema_withdrawn_at: datetime | None = None
    """When the gateway withdrew that schema because responses deviated from it; None where it did not."""


def is_custom() -> ColumnElement[bool]:
    """Return the condition that a tool is custom (`POST /tools`): it belongs to no revision of a source."""
    return col(Tool.revision_id).is_(None)


def is_enabled() -> ColumnElement[bool]:
    """Return the condition that a tool and its provider are enabled, for statements of `tool_select()`."""
    return and_(col(Provider.enabled), func.coalesce(col(Override.enabled), true()))


def requires_approval() -> ColumnElement[bool]:
    """Return whether calls of a tool require approval: what an operator has set, else its manifest's
    `human_approval`. For statements of `tool_select()`.
    """
    stated = col(Tool.call_template)[("toolclad", "human_approval")].as_boolean()
    return func.coalesce(col(Override.requires_approval), stated, false())


def is_destructive() -> ColumnElement[bool]:
    """Return the condition that a tool is known to delete or overwrite: `destructive` of its annotations
    (`app.catalog.annotations`) is true. For statements of `tool_select()`.
    """
    template, given = col(Tool.call_template), col(Override.annotations)
    of_method = [
        and_(
            func.coalesce(template["call_template_type"].astext, DEFAULT) == record.name,
            func.upper(template[field].astext).in_([value.upper() for value in values]),
        )
        for record in PROTOCOLS.values()
        for field, values in record.destructive.items()
    ]
    is_of_high_risk = template[("toolclad", "risk_tier")].astext == "high"
    by_template = func.coalesce(or_(false(), *of_method), false()) | func.coalesce(is_of_high_risk, false())
    # A tool that only reads destroys nothing, whatever its method says.
    only_reads = given["read_only"].as_boolean().is_(True)
    return func.coalesce(given["destructive"].as_boolean(), and_(~only_reads, by_template))


def lacks_credential(stored: Mapping[str, Collection[str]]) -> ColumnElement[bool]:
    """Return the condition that none of the alternatives of credentials that a tool needs is complete.

    `stored` are the slots of each provider that hold a credential. For statements of `tool_select()`.
    """
    held = literal({name: sorted(found) for name, found in stored.items()}, JSONB)
    alternative = func.jsonb_array_elements(col(Tool.security)).table_valued("value", name="alternative")
    need = func.jsonb_array_elements(cast(alternative.c.value, JSONB)).table_valued("value", name="need")
    slot = cast(need.c.value, JSONB)["slot"].astext
    is_held = func.coalesce(
        func.jsonb_exists(func.jsonb_extract_path(held, col(Provider.name)), slot), false()
    )
    missing = select(literal(1)).select_from(need).where(~is_held).correlate(Provider)
    usable = select(literal(1)).select_from(alternative).where(~missing.exists()).correlate(Provider, Tool)
    return and_(func.jsonb_array_length(col(Tool.security)) > 0, ~usable.exists())


def is_disabled() -> ColumnElement[bool]:
    """Return the opposite of `is_enabled()`, in a form that reads no more than the disabled tools."""
    tool, provider = aliased(Tool), aliased(Provider)
    disabled = select(col(provider.id)).where(~col(provider.enabled))
    by_provider = select(col(tool.id)).where(col(tool.provider_id).in_(disabled))
    override = aliased(Override)
    by_override = select(col(override.tool_id)).where(col(override.enabled).is_(False))
    return col(Tool.id).in_(union_all(by_provider, by_override))


@cache
def tool_select(*, full: bool = False, outputs: bool = True) -> Select[Any]:
    """Return a select of the columns that `tool_view()` reads, joined to provider and override, for the one
    tenant.

    Description and schemas are those that a model sees, which are slimmed for a large tool; with `full` they
    are those that arguments are validated against. Without `outputs`, those are empty and not read.
    """
    slimmed = col(Tool.slimmed)
    description = (slimmed["description"].astext,) if not full else ()
    inputs, slim_outputs = (() if full else (slimmed[part],) for part in ("inputs", "outputs"))
    read_outputs = func.coalesce(*slim_outputs, col(Tool.outputs)) if outputs else _NO_SCHEMA
    columns: list[Any] = [
        col(Tool.id).label("id"),
        col(Tool.provider_id).label("provider_id"),
        col(Provider.name).label("provider"),
        col(Tool.name).label("name"),
        col(Tool.alias).label("alias"),
        func.coalesce(col(Tool.agent_name), col(Tool.alias)).label("agent_name"),
        func.coalesce(col(Override.description), *description, col(Tool.description)).label("description"),
        func.coalesce(*inputs, col(Tool.inputs)).label("inputs"),
        read_outputs.label("outputs"),
        func.coalesce(slimmed["steps"], _NO_STEPS).label("slimming_steps"),
        func.coalesce(col(Override.tags), col(Tool.tags)).label("tags"),
        func.coalesce(col(Override.keywords), col(Tool.keywords)).label("keywords"),
        col(Provider.tags).label("provider_tags"),
        _registrar_tags().label("registrar_tags"),
        is_enabled().label("enabled"),
        col(Provider.enabled).label("provider_enabled"),
        col(Tool.deprecated).label("deprecated"),
        is_custom().label("custom"),
        requires_approval().label("requires_approval"),
        col(Override.annotations).label("annotations"),
        col(Override.response_options).label("response_options"),
        func.coalesce(col(Override.publish_output_schema), false()).label("publish_output_schema"),
        col(Override.output_schema_withdrawn_at).label("output_schema_withdrawn_at"),
        col(Tool.version).label("version"),
        col(Tool.call_template).label("call_template"),
        col(Tool.security).label("security"),
        col(Tool.average_response_size).label("average_response_size"),
        col(Tool.created_at).label("created_at"),
        col(Tool.updated_at).label("updated_at"),
    ]
    return (
        select(*columns)
        .select_from(Tool)
        .join(Provider, col(Provider.id) == col(Tool.provider_id))
        .outerjoin(Override, col(Override.tool_id) == col(Tool.id))
        .where(col(Tool.tenant_id) == TENANT)
    )


def tool_view(row: Any) -> ToolView:
    """Return a row of `tool_select()` as a ToolView."""
    return ToolView(
        id=row.id,
        provider_id=row.provider_id,
        provider=row.provider,
        name=row.name,
        alias=row.alias,
        agent_name=row.agent_name,
        description=row.description,
        inputs=row.inputs,
        outputs=row.outputs,
        slimming_steps=list(row.slimming_steps),
        tags=list(row.tags),
        keywords=list(row.keywords),
        registrar_tags=frozenset(row.provider_tags).union(row.registrar_tags or ()),
        enabled=row.enabled,
        provider_enabled=row.provider_enabled,
        deprecated=row.deprecated,
        custom=row.custom,
        requires_approval=row.requires_approval,
        annotations=row.annotations,
        response_options=row.response_options,
        publish_output_schema=row.publish_output_schema,
        output_schema_withdrawn_at=row.output_schema_withdrawn_at,
        version=row.version,
        call_template=row.call_template,
        security=compile_security(row.security),
        average_response_size=row.average_response_size,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def version_stamp(*parts: Any) -> ColumnElement[Any]:
    """Return an expression for a text that changes with the parts, and whenever the tool's override is
    written (its `xmin`; PostgreSQL, "System Columns"). For statements that join overrides.
    """
    override = func.coalesce(cast(literal_column("overrides.xmin"), Text), "")
    return func.concat_ws("|", *parts, override).label("stamp")


def has_name(name: str) -> ColumnElement[bool]:
    """Return the condition that a tool has this canonical name, which always has a dot, or this alias or
    agent name, which never have one.
    """
    if "." in name:
        return col(Tool.name) == name
    return or_(col(Tool.alias) == name, col(Tool.agent_name) == name)


def has_tag(tag: str) -> ColumnElement[bool]:
    """Return the condition that a tool or its provider has the tag."""
    own = func.coalesce(col(Override.tags), col(Tool.tags))
    return or_(_overlaps(own, [tag]), _overlaps(col(Provider.tags), [tag]))


def provider_filter(principal: Viewer) -> ColumnElement[bool]:
    """Return the condition on providers that a principal may see: the rule of `Principal.may_use` in SQL."""
    rules: list[ColumnElement[bool]] = [true()]
    if principal.providers is not None:
        rules.append(col(Provider.name).in_(sorted(principal.providers)))
    if principal.tags is not None:
        rules.append(_overlaps(col(Provider.tags), sorted(principal.tags)))
    return and_(*rules)


def principal_filter(principal: Viewer) -> ColumnElement[bool]:
    """Return the condition on tools that a principal may see: the rule of `Principal.may_use` in SQL."""
    rules: list[ColumnElement[bool]] = [true()]
    if principal.providers is not None:
        rules.append(col(Provider.name).in_(sorted(principal.providers)))
    if principal.tags is not None:
        tags = sorted(principal.tags)
        rules.append(or_(_overlaps(col(Provider.tags), tags), _overlaps(_registrar_tags(), tags)))
    return and_(*rules)


def visible_tool_names(principal: Viewer) -> Select[Any] | None:
    """Return a query for the names of the tools that a principal limited to tags may see; None for others."""
    if principal.tags is None:
        return None
    return tool_select().with_only_columns(col(Tool.name)).where(principal_filter(principal))


async def visible_providers(
    session: AsyncSession,
    principal: Viewer,
    *,
    names: Collection[str] | None = None,
    tenant_id: UUID = TENANT,
) -> frozenset[str]:
    """Return the names of the providers of a tenant that a principal may see, through their own tags or those
    of a tool; with `names`, only those of these names.
    """
    own = select(col(Provider.name)).where(col(Provider.tenant_id) == tenant_id, provider_filter(principal))
    by_tool = (
        select(col(Provider.name))
        .select_from(Tool)
        .join(Provider, col(Provider.id) == col(Tool.provider_id))
        .outerjoin(Override, col(Override.tool_id) == col(Tool.id))
        .where(col(Tool.tenant_id) == tenant_id, principal_filter(principal))
    )
    if names is not None:
        is_named = col(Provider.name) == any_(cast(sorted(names), ARRAY(Text)))
        own, by_tool = own.where(is_named), by_tool.where(is_named)
    return frozenset((await session.execute(union(own, by_tool))).scalars())


async def similar_providers(session: AsyncSession, name: str, *, principal: Principal) -> list[str]:
    """Return up to three names of providers similar to an unknown name, of those that the key may list.

    Of more than 2,000 providers, those with the same first letter are compared first.
    """
    if not principal.has_scope("providers:read"):
        return []
    initial = func.lower(func.left(col(Provider.name), 1)) == name[:1].lower()
    query = select(col(Provider.name)).where(col(Provider.tenant_id) == TENANT, provider_filter(principal))
    rows = await session.execute(query.order_by(initial.desc(), col(Provider.name)).limit(MAX_CANDIDATES))
    return find_similar(name, rows.scalars(), limit=3)


async def providers_with_tags(session: AsyncSession, tags: Collection[str]) -> frozenset[tuple[str, str]]:
    """Return each provider with each of the tags by which a principal limited to it sees something of the
    provider: its own tags, and those that a registrar gave to its tools.
    """
    wanted = sorted(tags)
    own = select(col(Provider.name), func.unnest(col(Provider.tags)).label("tag")).where(
        col(Provider.tenant_id) == TENANT, _overlaps(col(Provider.tags), wanted)
    )
    by_tool = (
        tool_select()
        .with_only_columns(col(Provider.name), func.unnest(_registrar_tags()).label("tag"))
        .where(_overlaps(_registrar_tags(), wanted))
    )
    rows = await session.execute(union(own, by_tool))
    return frozenset((row[0], row[1]) for row in rows if row[1] in tags)


async def count_visible(session: AsyncSession, principal: Viewer) -> tuple[int, int]:
    """Return the number of providers and of tools that a principal may see, disabled ones included."""
    providers = len(await visible_providers(session, principal))
    counted = tool_select().with_only_columns(func.count()).where(principal_filter(principal))
    return providers, (await session.execute(counted)).scalar_one()


def call_url(base_url: str, alias: str) -> str:
    """Return the URL at which this gateway takes calls of a tool; an alias needs no escaping."""
    return f"{base_url}/tools/{alias}/call"


def _registrar_tags() -> ColumnElement[Any]:
    """Return an expression for the tool's tags that a registrar set: the override's, or those of a custom
    tool.
    """
    own = case((is_custom(), col(Tool.tags)), else_=None)
    return func.coalesce(col(Override.tags), own)


def _overlaps(tags: Any, others: list[str]) -> ColumnElement[bool]:
    """Return the condition that two lists of text have a member in common; a null list has no members."""
    return func.coalesce(tags.bool_op("&&")(cast(others, ARRAY(Text))), false())
