"""Request and response models of `/events`."""

from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import BaseModel, Field

from app.access.events import EventFilters
from app.core.pagination import PageQuery
from app.core.pagination.page_request import ONE_LINE
from app.core.schemas import Rfc3339DateTime, StreamedPage, in_utc
from app.storage.models import Event

Filter = Annotated[str, Field(min_length=1, max_length=300, pattern=ONE_LINE)]


class EventView(BaseModel):
    """An audit event: one change in the control plane."""

    id: UUID
    at: datetime
    actor: str = Field(description="Id of the API key that made the change, or name of the command.")
    action: str = Field(examples=["created"])
    object_type: str = Field(examples=["provider"])
    object_name: str = Field(examples=["library"])
    detail: dict[str, Any]

    @classmethod
    def from_row(cls, row: Event) -> Self:
        """Return the view of a stored event."""
        return cls.model_validate({name: getattr(row, name) for name in cls.model_fields})


class EventPage(StreamedPage[EventView]):
    """A page of events."""


class EventSelection(BaseModel):
    """Filters of events."""

    actor: Filter | None = Field(None, description="Only changes with the API key of this id.")
    action: Filter | None = Field(None, description="Only this kind of change.", examples=["updated"])
    object_type: Filter | None = Field(None, description="Only changes of objects of this type.")
    object_name: Filter | None = Field(None, description="Only changes of objects of this name.")
    since: Rfc3339DateTime | None = Field(None, description="Only changes at or after this time, RFC 3339.")
    until: Rfc3339DateTime | None = Field(None, description="Only changes before this time, RFC 3339.")

    def filters(self, *, actor: str | None, q: str | None = None) -> EventFilters:
        """Return these filters, with another actor, and the search for a text."""
        return EventFilters(
            actor,
            self.action,
            self.object_type,
            self.object_name,
            in_utc(self.since),
            in_utc(self.until),
            q,
        )


class EventQuery(PageQuery, EventSelection):
    """Order and filters of a list of events. `q` searches action, object type and object name."""

    sort: Literal["at", "-at"] = Field("-at", description="Order of the items; `-` for descending.")


class EventCsvQuery(EventSelection):
    """The filters of an export of events."""

    q: Filter | None = Field(
        None, description="Only events whose action, object type or object name contains this."
    )
    limit: int = Field(10_000, ge=1, le=1_000_000, description="Maximum number of rows.")
