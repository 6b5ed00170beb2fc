"""Request and response models of `/tools`, `POST /tools:batch` and `GET /tools/{name}/history`."""

from collections import Counter
from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import BaseModel, Field, model_validator

from app.calls.stats.tool_usage import ToolUsage
from app.catalog.annotations import Annotations, header_inputs_of
from app.catalog.tools import ToolView, call_url
from app.core.pagination import PageQuery
from app.core.resource_names import PROVIDER_NAME
from app.core.schemas import (
    AnnotationsInput,
    AspectChange,
    Keywords,
    PageModel,
    Problem,
    ProviderName,
    ResponseOptionsInput,
    StrictModel,
    Tag,
    Text,
    ToolName,
)
from app.formats.dialects.cost import estimate_tool_cost
from app.formats.toolclad.contract import get_risk_tier
from app.providers.tools.batch import (
    MAX_FILTERS,
    MAX_TOOLS,
    BatchDraft,
    BatchOutcome,
    OperationDraft,
    ToolOutcome,
)
from app.providers.tools.service import ToolFilters, ToolListState
from app.security.principal import Principal
from app.security.requirements import security_json
from app.storage.models import ToolHistoryEntry


class ToolAnnotations(BaseModel):
    """What agents are told about a tool; null: unknown."""

    read_only: bool = Field(description="It changes nothing.")
    destructive: bool | None = Field(description="It may delete or overwrite.")
    idempotent: bool | None = Field(description="Repeating a call changes nothing more.")
    open_world: bool = Field(description="It deals with more than a fixed set of things.")
    header_inputs: dict[str, str] = Field(
        default_factory=dict,
        description="Inputs that clients of MCP repeat in the header `Mcp-Param-<token>`, with the tokens.",
    )
    risk_tier: Literal["low", "medium", "high"] | None = Field(
        None, description="What the ToolClad manifest of the tool states; null for other tools."
    )


Available = Annotated[
    bool | None,
    Field(
        description="Whether an executor is connected that executes it; null for tools that no executor "
        "executes."
    ),
]


class ToolCost(BaseModel):
    """What a tool costs a model."""

    tokens: int = Field(description="Estimate of the tokens of its definition: bytes of its JSON / 4.", ge=0)
    average_response_size: int | None = Field(
        description="Bytes of a response on average, as its source states them; null where it does not."
    )


class ToolUsageView(BaseModel):
    """The calls of a tool in the last 7 days, by all keys."""

    calls: int = Field(ge=0)
    errors: int = Field(
        description="Calls with an outcome other than ok, invalid-response, cancelled and replayed.", ge=0
    )
    p95_ms: float | None = Field(description="The 95th percentile of the durations; null where unknown.")
    last_called_at: datetime | None = Field(
        description="When the last of the calls that are still recorded began; null where there is none."
    )


class ToolSummary(BaseModel):
    """A tool as an item of a list."""

    name: str = Field(description="Canonical name, `provider.tool`.", examples=["library.searchBooks"])
    alias: str = Field(
        description="The name for clients that allow no dot in names.", examples=["library_searchBooks"]
    )
    agent_name: str = Field(
        description="The name that agents see: the alias in at most 45 characters.",
        examples=["library_searchBooks"],
    )
    provider: str = Field(examples=["library"])
    description: str
    tags: list[str]
    keywords: list[str] = Field(
        default_factory=list, description="Further words by which search finds it.", examples=[["voucher"]]
    )
    enabled: bool = Field(description="Whether it can be called; also false where its provider is disabled.")
    available: Available = None
    deprecated: bool
    requires_approval: bool = Field(
        description="Whether each call waits until another key has approved it (202)."
    )
    annotations: ToolAnnotations = Field(
        description="What its method of HTTP tells, and what an operator has set."
    )
    publish_output_schema: bool = Field(
        description="Whether agents see the schema of its responses, which are compared with it then."
    )
    response_options: ResponseOptionsInput | None = Field(
        None, description="Whether all pages of a list are read, and operations are polled."
    )
    custom: bool = Field(description="Created with `POST /tools`, not imported.")
    version: int = Field(description="Its ETag is this number in quotes.")
    call_url: str = Field(examples=["https://tools.example.com/tools/library_searchBooks/call"])
    cost: ToolCost
    missing_credential: bool | None = Field(
        None,
        description="Whether its provider has no credential that its calls need; null where that is not "
        "known yet.",
    )
    updated_at: datetime
    usage: ToolUsageView | None = Field(None, description="In a list with `usage=true`, else null.")

    @classmethod
    def of(
        cls,
        tool: ToolView,
        *,
        base_url: str,
        available: bool | None = None,
        missing_credential: bool | None = None,
        usage: ToolUsage | None = None,
    ) -> "ToolSummary":
        """Return the summary of a tool, with its call URL below `base_url`, the gateway's public address."""
        return cls(
            **_summary(tool, base_url),
            available=available,
            missing_credential=missing_credential,
            usage=usage and ToolUsageView.model_validate(usage, from_attributes=True),
        )


class ToolSource(BaseModel):
    """What the source of a tool says, where people may have said otherwise."""

    description: str
    tags: list[str]
    keywords: list[str]


class ToolDetails(ToolSummary):
    """A tool with its schemas and its call template (without secrets)."""

    inputs: dict[str, Any] = Field(description="JSON Schema of the arguments object.")
    outputs: dict[str, Any] = Field(description="JSON Schema of the response, `{}` where unknown.")
    slimmed: list[str] = Field(description="The steps by which a large tool was reduced for models.")
    call_template: dict[str, Any]
    security: list[list[dict[str, Any]]] = Field(
        description="Credential slots that it needs: any one alternative, with all of its slots."
    )
    average_response_size: int | None
    output_schema_withdrawn_at: datetime | None = Field(
        None,
        description="When the gateway set `publish_output_schema` to false because responses deviated from "
        "the schema; null where it did not, or where the schema was published again.",
    )
    source: ToolSource | None = Field(
        None, description="With `source=true`: what the source says of it, else null."
    )
    created_at: datetime

    @classmethod
    def of(
        cls,
        tool: ToolView,
        *,
        base_url: str,
        available: bool | None = None,
        missing_credential: bool | None = None,
        usage: ToolUsage | None = None,
    ) -> "ToolDetails":
        """Return the details of a tool, with its call URL below `base_url`, the gateway's public address."""
        return cls(
            **_summary(tool, base_url),
            available=available,
            missing_credential=missing_credential,
            usage=usage and ToolUsageView.model_validate(usage, from_attributes=True),
            inputs=tool.inputs,
            outputs=tool.outputs,
            slimmed=tool.slimming_steps,
            call_template=tool.call_template,
            security=security_json(tool.security),
            average_response_size=tool.average_response_size,
            output_schema_withdrawn_at=tool.output_schema_withdrawn_at,
            created_at=tool.created_at,
        )


class ToolPage(PageModel[ToolSummary]):
    """A page of tools."""


class ToolQuery(PageQuery):
    """Order and filters of a list of tools. `q` searches name and description."""

    sort: Literal["name", "-name", "created_at", "-created_at", "updated_at", "-updated_at"] = Field(
        "name", description="Order of the items; `-` for descending."
    )
    provider: Annotated[str, Field(pattern=PROVIDER_NAME)] | None = Field(
        None, description="Only tools of this provider.", examples=["library"]
    )
    tag: Tag | None = Field(None, description="Only tools with this tag, their own or their provider's.")
    enabled: bool | None = Field(None, description="Only tools that are enabled (or disabled).")
    state: ToolListState | None = Field(
        None,
        description="Only tools in this state. `used` and `unused`: called in the last 7 days, or not; they "
        "need `calls:read`. `destructive`: known to delete or overwrite. `missing-credential`: its provider "
        "has no credential that its calls need.",
    )
    names: list[ToolName] = Field(
        default_factory=list,
        max_length=200,
        description="Only the tools of these canonical names.",
        examples=[["library.searchBooks"]],
    )
    usage: bool = Field(
        False, description="Add to each item its calls of the last 7 days; needs `calls:read`."
    )

    def to_filters(self) -> ToolFilters:
        """Return which tools are listed."""
        return ToolFilters(
            self.q, self.provider, self.tag, self.enabled, self.state, self.names, usage=self.usage
        )


class ToolPatch(StrictModel):
    """The fields to change. An omitted field is not changed; null reverts to the source's value."""

    description: Text | None = Field(None, examples=["Search the catalogue by words of the title."])
    tags: Annotated[list[Tag], Field(max_length=64)] | None = Field(None, examples=[["reading"]])
    keywords: Keywords | None = Field(
        None,
        description="Further words by which search finds it, in place of the source's `x-keywords`.",
        examples=[["coupon", "voucher"]],
    )
    enabled: Annotated[bool, Field(strict=True)] | None = None
    requires_approval: Annotated[bool, Field(strict=True)] | None = Field(
        None,
        description="Whether each call waits for approval. false, and null where it removes the requirement, "
        "need the scope `approvals:decide`.",
    )
    annotations: AnnotationsInput | None = Field(
        None,
        description="What agents are told about it; replaces what was set before. "
        "It does not decide which calls are retried.",
        examples=[{"read_only": True}],
    )
    publish_output_schema: Annotated[bool, Field(strict=True)] | None = Field(
        None,
        description="Whether agents see the schema of its responses. The gateway sets it to false after "
        "three responses that deviate from the schema; true publishes it again, and counts anew.",
    )
    response_options: ResponseOptionsInput | None = Field(
        None,
        description="Whether all pages of a list are read, and operations are polled until they are done.",
        examples=[{"all_pages": {"by": "link"}, "poll": False}],
    )

    @property
    def may_end_approval(self) -> bool:
        """Whether calls need no approval any more where the tool, or its source, says nothing else."""
        return "requires_approval" in self.model_fields_set and not self.requires_approval

    def to_changes(self) -> dict[str, Any]:
        """Return the members of the override to set; None reverts to the source."""
        return self.model_dump(exclude_unset=True)


def _summary(tool: ToolView, base_url: str) -> dict[str, Any]:
    known = Annotations.of_template(tool.call_template).overridden(tool.annotations)
    return {
        "name": tool.name,
        "alias": tool.alias,
        "agent_name": tool.agent_name,
        "provider": tool.provider,
        "description": tool.description,
        "tags": tool.tags,
        "keywords": tool.keywords,
        "enabled": tool.enabled,
        "deprecated": tool.deprecated,
        "requires_approval": tool.requires_approval,
        "annotations": ToolAnnotations(
            read_only=known.read_only,
            destructive=known.destructive,
            idempotent=known.idempotent,
            open_world=known.open_world,
            header_inputs=dict(header_inputs_of(tool.annotations)),
            risk_tier=get_risk_tier(tool.call_template),
        ),
        "publish_output_schema": tool.publish_output_schema,
        "response_options": tool.response_options,
        "custom": tool.custom,
        "version": tool.version,
        "call_url": call_url(base_url, tool.alias),
        "cost": ToolCost.model_validate(
            estimate_tool_cost(
                tool.name,
                tool.description,
                tool.inputs,
                average_response_size=tool.average_response_size,
            )
        ),
        "updated_at": tool.updated_at,
    }


class ToolHistoryQuery(PageQuery):
    """Order of the history of a tool. `q` searches the actions and all that changed."""

    sort: Literal["-at", "at"] = Field("-at", description="Order of the items; `-at`: newest first.")


class FieldChangeView(BaseModel):
    """The change of one field."""

    field: str = Field(
        description="`description`, `tags`, `deprecated`, `enabled`, `security`, or `call_template.` and the "
        "name of a member.",
        examples=["description"],
    )
    before: Any = Field(description="Null where there was no value.")
    after: Any = Field(description="Null where there is no value.")
    truncated: bool = Field(
        description="Whether a value is longer than 2,000 characters: text is cut, other values are null."
    )


class ToolHistoryItem(BaseModel):
    """One change of a tool."""

    id: UUID
    at: datetime
    action: Literal[
        "imported", "added", "changed", "removed", "approved", "created", "overridden", "deleted"
    ] = Field(
        description="`imported`: with the provider; `added`, `changed`, `removed`: by a refresh; "
        "`approved`: by the approval of pending changes; `created`, `deleted`: a custom tool; `overridden`: "
        "by `PATCH /tools/{name}` or `POST /tools:batch`."
    )
    actor: str | None = Field(
        description="Id of the API key, or the name of a command. Null for the key of somebody else, where "
        "the request's own key is restricted to providers or tags."
    )
    revision: UUID | None = Field(description="The import that the definition came from.")
    compatibility: Literal["breaking", "compatible"] = Field(
        description="Whether calls written for the version before still work."
    )
    differences: list[AspectChange] = Field(
        description="Of the definition in the source, as in the response to a refresh."
    )
    changes: list[FieldChangeView] = Field(
        description="Values before and after; those of inputs and outputs are in `differences` only."
    )

    @classmethod
    def of(cls, row: ToolHistoryEntry, *, principal: Principal) -> Self:
        """Return the item of a stored entry, as the principal may see it."""
        hidden = principal.is_restricted and row.actor != principal.key_id
        return cls(
            id=row.id,
            at=row.at,
            action=row.action,
            actor=None if hidden else row.actor,
            revision=row.revision_id,
            compatibility="breaking" if row.breaking else "compatible",
            differences=[AspectChange(**one) for one in row.differences],
            changes=[FieldChangeView(**one) for one in row.changes],
        )


class ToolHistoryPage(PageModel[ToolHistoryItem]):
    """A page of the history of a tool."""


ToolState = Literal["enabled", "disabled", "deprecated"]
_Tags = Annotated[list[Tag], Field(max_length=64)]


class ToolFilter(StrictModel):
    """Selects tools that the key may see; all members must match. At least one member is required."""

    provider: ProviderName | None = Field(None, description="Only tools of this provider.")
    tag: Tag | None = Field(None, description="Only tools with this tag, their own or their provider's.")
    q: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\u0000-\u001F\u007F]+$")] | None = (
        Field(None, description="Only tools whose name or description contains this, in upper or lower case.")
    )
    state: ToolState | None = Field(None, description="Only enabled, disabled or deprecated tools.")

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if not self.model_fields_set or all(value is None for value in self.model_dump().values()):
            msg = "must have at least one of provider, tag, q and state"
            raise ValueError(msg)
        return self

    def to_filters(self) -> ToolFilters:
        """Return which tools are selected."""
        return ToolFilters(self.q, self.provider, self.tag, state=self.state)


class ToolOperation(StrictModel):
    """One change of the tool of a name, or of all tools that a filter selects."""

    tool: ToolName | None = Field(None, description="Canonical name or alias; give either this or `filter`.")
    filter: ToolFilter | None = None
    patch: ToolPatch | None = Field(None, description="As in `PATCH /tools/{name}`.")
    add_tags: _Tags = Field(default_factory=list, description="Tags that are added to the present ones.")
    remove_tags: _Tags = Field(
        default_factory=list, description="Tags that are removed from the present ones."
    )
    adopt_source_tags: Annotated[bool, Field(strict=True)] = Field(
        False,
        description="Whether `add_tags` and `remove_tags` may set the remaining tags of the source as tags "
        "of a registrar, which count for the restriction of keys to tags. Without it, the change fails.",
    )
    if_match: Annotated[str, Field(max_length=200)] | None = Field(
        None, description="The ETag of the version that was read; with `tool` only.", examples=['"1"']
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.tool is None) is (self.filter is None):
            msg = "must have either tool or filter"
            raise ValueError(msg)
        if self.if_match is not None and self.tool is None:
            msg = "must have if_match with tool only: the tools of a filter have different ETags"
            raise ValueError(msg)
        patched = self.patch.model_fields_set if self.patch is not None else set()
        if not patched and not self.add_tags and not self.remove_tags:
            msg = "must have a patch with at least one member, add_tags or remove_tags"
            raise ValueError(msg)
        if "tags" in patched and (self.add_tags or self.remove_tags):
            msg = "must have either patch.tags or add_tags and remove_tags"
            raise ValueError(msg)
        return self

    def to_draft(self) -> OperationDraft:
        """Return the change to be applied."""
        return OperationDraft(
            self.tool,
            None if self.filter is None else self.filter.to_filters(),
            {} if self.patch is None else self.patch.to_changes(),
            self.add_tags,
            self.remove_tags,
            self.adopt_source_tags,
            self.if_match,
        )


class ToolBatch(StrictModel):
    """Changes of many tools, applied in their order in one transaction."""

    operations: list[ToolOperation] = Field(
        min_length=1,
        max_length=MAX_TOOLS,
        description=f"Together they change at most {MAX_TOOLS:,} tools. At most {MAX_FILTERS} have a filter.",
        examples=[[{"filter": {"provider": "library", "tag": "members"}, "patch": {"enabled": False}}]],
    )
    atomic: Annotated[bool, Field(strict=True)] = Field(
        False, description="Whether nothing is changed where one of the changes fails."
    )
    dry_run: Annotated[bool, Field(strict=True)] = Field(
        False, description="Whether only the results are returned, and nothing is changed."
    )

    def to_draft(self) -> BatchDraft:
        """Return the changes to be applied."""
        operations = [operation.to_draft() for operation in self.operations]
        return BatchDraft(operations, atomic=self.atomic, dry_run=self.dry_run)


class ToolBatchItem(BaseModel):
    """The result of one operation for one tool."""

    operation: int = Field(description="The index of the operation, from 0.", ge=0)
    name: str = Field(description="Canonical name; as given, where there is no such tool.")
    outcome: Literal["changed", "unchanged", "failed", "rolled_back"] = Field(
        description="`rolled_back`: it would have succeeded, but another change of an atomic batch failed."
    )
    status: int = Field(
        description="The HTTP status that this change alone would have had; 424 where it was rolled back."
    )
    version: int | None = Field(description="Of the tool as stored; its ETag is this number in quotes.")
    changed: list[str] = Field(description="The fields that differ afterwards.")
    problem: Problem | None = None

    @classmethod
    def of(cls, result: ToolOutcome, *, base_url: str) -> Self:
        """Return the view of the result for a tool, with problem types below the gateway's public address."""
        error = result.error
        return cls(
            operation=result.operation,
            name=result.name,
            outcome=result.outcome,
            status=error.status if error else 424 if result.outcome == "rolled_back" else 200,
            version=result.version,
            changed=list(result.changed),
            problem=None if error is None else error.as_problem(base_url=base_url),
        )


class ToolBatchCounts(BaseModel):
    """The number of items with each outcome."""

    changed: int
    unchanged: int
    failed: int
    rolled_back: int


class ToolBatchResult(BaseModel):
    """The results of a batch, in the order of its operations; those of a filter by name."""

    applied: bool = Field(description="Whether the changes were stored.")
    dry_run: bool
    items: list[ToolBatchItem]
    counts: ToolBatchCounts

    @classmethod
    def of(cls, result: BatchOutcome, *, dry_run: bool, base_url: str) -> Self:
        """Return the view of the results of a batch."""
        items = [ToolBatchItem.of(outcome, base_url=base_url) for outcome in result.outcomes]
        counted = Counter[str](item.outcome for item in items)
        counts = ToolBatchCounts(**{name: counted[name] for name in ToolBatchCounts.model_fields})
        return cls(applied=result.applied, dry_run=dry_run, items=items, counts=counts)

    @property
    def status(self) -> int:
        """The status of the response: 207 where a change failed."""
        return 207 if self.counts.failed else 200
