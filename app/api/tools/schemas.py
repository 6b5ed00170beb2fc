"""Request and response models of `/tools`."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from app.calls.stats.tool_usage import ToolUsage
from app.catalog.annotations import Annotations, header_inputs_of
from app.catalog.tools import ToolView, call_url
from app.core.pagination import PageQuery
from app.core.resource_names import PROVIDER_NAME
from app.core.schemas import (
    AnnotationsInput,
    Keywords,
    PageModel,
    ResponseOptionsInput,
    StrictModel,
    Tag,
    Text,
    ToolName,
)
from app.formats.dialects.cost import estimate_tool_cost
from app.formats.toolclad.contract import get_risk_tier
from app.security.requirements import security_json


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

    @classmethod
    def of(cls, usage: ToolUsage | None) -> "ToolUsageView | None":
        """Return the view of a usage; None where it was not read."""
        if usage is None:
            return None
        return cls(
            calls=usage.calls,
            errors=usage.errors,
            p95_ms=usage.p95_ms,
            last_called_at=usage.last_called_at,
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
            usage=ToolUsageView.of(usage),
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
            usage=ToolUsageView.of(usage),
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


ToolListState = Literal[
    "enabled", "disabled", "deprecated", "used", "unused", "destructive", "missing-credential"
]


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
