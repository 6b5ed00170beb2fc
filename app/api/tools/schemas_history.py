"""Query and response models of `GET /tools/{name}/history`."""

from datetime import datetime
from typing import Any, Literal, Self
from uuid import UUID

from pydantic import BaseModel, Field

from app.core.pagination import PageQuery
from app.core.schemas import AspectChange, PageModel
from app.security.principal import Principal
from app.storage.models import ToolHistoryEntry


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
