"""Request and response models of `/toolsets`."""

from datetime import datetime
from typing import Any, Literal, Self

from pydantic import BaseModel, Field

from app.core.pagination import PageQuery
from app.core.schemas import PageModel, ShortText, StrictModel, Text, ToolsetName
from app.storage.models import ToolsetRow
from app.toolsets.definition import ToolsetDefinition
from app.toolsets.service import ListedToolset, SeenToolset, ToolsetDraft


class ToolsetInput(StrictModel):
    """A toolset without its name."""

    title: ShortText = Field("", description="The title for people.", examples=["Customer support"])
    description: Text = Field("", description="What the toolset is for: agents read it.")
    definition: ToolsetDefinition = Field(
        description="Its members, and how agents see them.",
        examples=[
            {
                "tools": ["library.searchBooks", "library.getStock"],
                "changes": {"library.searchBooks": {"name": "find_books", "presets": {"limit": 5}}},
            }
        ],
    )

    def to_draft(self) -> ToolsetDraft:
        """Return the toolset to be stored."""
        return ToolsetDraft(self.title, self.description, self.definition)


class ToolsetCreate(ToolsetInput):
    """A new toolset."""

    name: ToolsetName


class ToolsetAddresses(BaseModel):
    """Where clients use a toolset."""

    mcp: str = Field(description="Its MCP server.")
    utcp: str = Field(description="Its UTCP manual.")
    search: str
    tool_calls: str = Field(description="Takes the response of a model.")

    @classmethod
    def of(cls, name: str, *, base_url: str) -> Self:
        """Return the addresses below the gateway's public address."""
        root = f"{base_url}/toolsets/{name}"
        return cls(
            mcp=f"{root}/mcp", utcp=f"{root}/utcp", search=f"{root}/search", tool_calls=f"{root}/tool-calls"
        )


class ToolsetSummary(BaseModel):
    """A toolset as an item of a list."""

    name: str = Field(examples=["support"])
    title: str
    description: str
    tools: int = Field(description="The number of its tools that this key may call.", ge=0)
    addresses: ToolsetAddresses
    version: int = Field(description="Its ETag is this number in quotes.")
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of_listed(cls, toolset: ListedToolset, *, base_url: str) -> Self:
        """Return a toolset of a list, with its addresses below the gateway's public address."""
        return cls.model_validate(_summarise(toolset.row, toolset.tools, base_url=base_url))


class ToolsetTool(BaseModel):
    """A tool of a toolset."""

    name: str = Field(description="The name that agents see.", examples=["find_books"])
    tool: str = Field(description="Canonical name.", examples=["library.searchBooks"])
    title: str
    read_only: bool


class ToolsetProblem(BaseModel):
    """A part of a definition that has no effect now."""

    kind: Literal["tool", "provider", "tag", "search", "change", "pinned", "name", "preset"]
    name: str = Field(description="What the definition names.")
    detail: str


class ToolsetView(ToolsetSummary):
    """A toolset with its tools."""

    members: list[ToolsetTool] = Field(description="The tools that this key may call, by name.")
    definition: dict[str, Any] | None = Field(
        description="As in `PUT /toolsets/{name}`; null without `providers:read`, and for a key that is "
        "restricted: it has the preset values."
    )
    problems: list[ToolsetProblem] = Field(
        description="Parts of the definition that have no effect now, e.g. tools that do not exist; empty "
        "where the definition is null."
    )

    @classmethod
    def of(cls, toolset: SeenToolset, *, base_url: str) -> Self:
        """Return the view of a toolset, with its addresses below the gateway's public address."""
        definition = toolset.definition
        members = {
            **_summarise(toolset.row, len(toolset.tools), base_url=base_url),
            "members": toolset.tools,
            "definition": definition and definition.model_dump(mode="json", exclude_defaults=True),
            "problems": toolset.problems,
        }
        return cls.model_validate(members, from_attributes=True)


class ToolsetPage(PageModel[ToolsetSummary]):
    """A page of toolsets."""


class ToolsetQuery(PageQuery):
    """Order and filter of a list of toolsets. `q` searches name, title and description."""

    sort: Literal["name", "-name", "created_at", "-created_at", "updated_at", "-updated_at"] = Field(
        "name", description="Order of the items; `-` for descending."
    )


def _summarise(row: ToolsetRow, tools: int, *, base_url: str) -> dict[str, Any]:
    """Return the members of a ToolsetSummary."""
    columns = ("name", "title", "description", "version", "created_at", "updated_at")
    stored = {name: getattr(row, name) for name in columns}
    return {**stored, "tools": tools, "addresses": ToolsetAddresses.of(row.name, base_url=base_url)}
