"""Request and response models of `POST /tools:batch`."""

from collections import Counter
from typing import Annotated, Literal, Self

from pydantic import BaseModel, Field, model_validator

from app.api.tools.schemas import ToolPatch
from app.core.schemas import (
    Problem,
    ProviderName,
    StrictModel,
    Tag,
    ToolName,
)
from app.providers.tools.batch import (
    MAX_FILTERS,
    MAX_TOOLS,
    BatchDraft,
    BatchOutcome,
    OperationDraft,
    ToolOutcome,
)
from app.providers.tools.service import ToolFilters

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
