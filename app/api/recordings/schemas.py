"""Request and response models of `/recordings`."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import BaseModel, Field

from app.calls.recordings.document import ResponseDocument, build_arguments_members
from app.calls.recordings.options import RecordingOptions
from app.core.pagination import PageQuery
from app.core.resource_names import TOOL_NAME
from app.core.schemas import PageModel, RecordingName, StrictModel, Text
from app.security.keys import KEY_ID_PATTERN
from app.storage.models import RecordedInteractionRow, RecordingRow


class RecordingCreate(StrictModel):
    """A new, empty recording."""

    name: RecordingName
    description: Text = ""
    options: RecordingOptions = Field(default_factory=RecordingOptions)


class RecordingPatch(StrictModel):
    """The members to change; of `options`, only those that are given."""

    description: Text = Field("", examples=["Calls of the checkout agent's tests"])
    options: RecordingOptions = Field(default_factory=RecordingOptions)


class RecordingView(BaseModel):
    """A recording."""

    name: str = Field(examples=["checkout"])
    description: str
    options: RecordingOptions
    interactions: int = Field(description="The number of its recorded calls.", ge=0)
    bytes: int = Field(description="Their size in the database.", ge=0)
    omitted: int = Field(
        description="Calls whose responses were not stored: too large, or the recording was full.", ge=0
    )
    version: int = Field(description="Its ETag is this number in quotes.")
    created_at: datetime
    updated_at: datetime
    used_at: datetime = Field(
        description="When it was last recorded to or replayed, to the hour. It is deleted "
        "RECORDING_RETENTION_DAYS after that."
    )

    @classmethod
    def of(cls, row: RecordingRow) -> Self:
        """Return the view of a stored recording."""
        return cls.model_validate({name: getattr(row, name) for name in cls.model_fields})


class RecordingPage(PageModel[RecordingView]):
    """A page of recordings."""


class RecordingQuery(PageQuery):
    """Order and filter of a list of recordings. `q` searches name and description."""

    sort: Literal[
        "name", "-name", "created_at", "-created_at", "updated_at", "-updated_at", "used_at", "-used_at"
    ] = Field("name", description="Order of the items; `-` for descending.")


class InteractionSummary(BaseModel):
    """A recorded call as an item of a list."""

    id: UUID
    position: int = Field(description="Its place in the recording.")
    tool: str = Field(examples=["library.searchBooks"])
    arguments: dict[str, Any] | None = Field(
        None, description="Secrets, and what a toolset sets, are `***`; null where `arguments_text` has them."
    )
    arguments_text: str | None = Field(
        None, description="The arguments as JSON text, where a number has more digits than a double."
    )
    kind: Literal["body", "events", "error"] = Field(description="What the upstream gave.")
    status: int = Field(description="The upstream's status; 0 where there was no response.")
    size: int = Field(description="The length of the response in bytes.")
    recorded_at: datetime

    @classmethod
    def of(cls, row: RecordedInteractionRow, arguments: Mapping[str, Any]) -> Self:
        """Return the view of a stored interaction."""
        return cls.model_validate(_members(row) | build_arguments_members(arguments))


class InteractionView(InteractionSummary):
    """A recorded call with its response."""

    definition: str = Field(description="SHA-256 of the tool's definition when it was recorded.")
    response: ResponseDocument

    @classmethod
    def with_response(
        cls, row: RecordedInteractionRow, arguments: Mapping[str, Any], response: Mapping[str, Any]
    ) -> Self:
        """Return the view of a stored interaction with its response."""
        members = _members(row) | build_arguments_members(arguments)
        return cls.model_validate({**members, "definition": row.definition, "response": response})


class InteractionPage(PageModel[InteractionSummary]):
    """A page of recorded calls."""


class InteractionQuery(PageQuery):
    """Order and filters of a list of recorded calls. `q` searches the tool's name."""

    sort: Literal["recorded_at", "-recorded_at"] = Field(
        "recorded_at", description="Order of the items; `-` for descending."
    )
    tool: Annotated[str, Field(pattern=TOOL_NAME)] | None = Field(None, description="Canonical name.")


class RunCreate(StrictModel):
    """A new run of replays."""

    key_id: Annotated[str, Field(pattern=KEY_ID_PATTERN)] | None = Field(
        None,
        description="Id of a key whose calls without the header `X-Recording-Run` begin with the first "
        "recorded responses again.",
    )


class RunView(BaseModel):
    """A run of replays: each begins with the first recorded response of each request."""

    run: str = Field(
        description="For the header `X-Recording-Run`. Any other name begins a run, too.",
        examples=["019a7f2f4f0e7c2f8b1f0a1b2c3d4e5f"],
    )


def _members(row: RecordedInteractionRow) -> dict[str, Any]:
    names = ("id", "position", "tool", "kind", "status", "size", "recorded_at")
    return {name: getattr(row, name) for name in names}
