"""Request and response models of `POST /tools:batch`."""

from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, Field, model_validator

from app.api.tools.schemas import ToolPatch
from app.core.schemas import (
    Problem,
    ProviderName,
    StrictModel,
    Tag,
    ToolName,
)

MAX_TOOLS: Final = 1_000
"""At most so many tools are changed by one request."""
MAX_FILTERS: Final = 50
"""At most so many operations of one request have a filter: each reads the tools anew."""

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
