"""Request and response models of `/tools`."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, Field

from app.catalog.tools import ToolView, call_url
from app.schemas import StrictModel, Tag, Text


class ToolSummary(BaseModel):
    """A tool in a list."""

    name: str = Field(description="Canonical name, `provider.tool`.", examples=["library.searchBooks"])
    alias: str = Field(
        description="The name for clients that allow no dot in names.", examples=["library_searchBooks"]
    )
    provider: str = Field(examples=["library"])
    description: str
    tags: list[str]
    enabled: bool = Field(description="Whether it can be called; also false where its provider is disabled.")
    deprecated: bool
    custom: bool = Field(description="Created with `POST /tools`, not imported.")
    version: int = Field(description="Its ETag is this number in quotes.")
    call_url: str = Field(examples=["https://tools.example.com/tools/library_searchBooks/call"])
    updated_at: datetime

    @classmethod
    def of(cls, tool: ToolView, *, base_url: str) -> "ToolSummary":
        """Return the summary of a tool whose calls this gateway takes below `base_url`."""
        return cls(**_summary(tool, base_url))


class ToolOut(ToolSummary):
    """A tool with its schemas and its call template (without secrets)."""

    inputs: dict[str, Any] = Field(description="JSON Schema of the arguments object.")
    outputs: dict[str, Any] = Field(description="JSON Schema of the response, `{}` where unknown.")
    slimmed: list[str] = Field(description="The steps by which a large tool was reduced for models.")
    call_template: dict[str, Any]
    security: list[list[dict[str, Any]]] = Field(
        description="Credential slots that it needs: any one alternative, with all of its slots."
    )
    average_response_size: int | None
    created_at: datetime

    @classmethod
    def of(cls, tool: ToolView, *, base_url: str) -> "ToolOut":
        """Return the full view of a tool whose calls this gateway takes below `base_url`."""
        return cls(
            **_summary(tool, base_url),
            inputs=tool.inputs,
            outputs=tool.outputs,
            slimmed=tool.slimmed,
            call_template=tool.call_template,
            security=tool.security,
            average_response_size=tool.average_response_size,
            created_at=tool.created_at,
        )


class ToolPage(BaseModel):
    """A page of tools, by name."""

    items: list[ToolSummary]
    next_cursor: str | None


class ToolPatch(StrictModel):
    """The fields to change. An omitted field stays as it is; null reverts to the source's value."""

    description: Text | None = Field(None, examples=["Search the catalogue by words of the title."])
    tags: Annotated[list[Tag], Field(max_length=64)] | None = Field(None, examples=[["reading"]])
    enabled: Annotated[bool, Field(strict=True)] | None = None


class ToolHit(BaseModel):
    """A search result."""

    score: float = Field(
        description="BM25, plus 100 where the query is the tool's name; 0 without a query.", ge=0
    )
    name: str
    alias: str
    provider: str
    description: str
    inputs: dict[str, Any]
    tags: list[str]
    call_url: str


class ToolHits(BaseModel):
    """Search results, best match first."""

    items: list[ToolHit]


def _summary(tool: ToolView, base_url: str) -> dict[str, Any]:
    return {
        "name": tool.name,
        "alias": tool.alias,
        "provider": tool.provider,
        "description": tool.description,
        "tags": tool.tags,
        "enabled": tool.enabled,
        "deprecated": tool.deprecated,
        "custom": tool.custom,
        "version": tool.version,
        "call_url": call_url(base_url, tool.alias),
        "updated_at": tool.updated_at,
    }
