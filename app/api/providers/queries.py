"""The query parameters of the lists of providers and variables."""

from typing import Literal

from pydantic import Field

from app.core.pagination import PageQuery

ProviderState = Literal["enabled", "disabled", "pending"]


class ProviderQuery(PageQuery):
    """Order and filters of a list of providers. `q` searches name, title and description."""

    sort: Literal["name", "-name", "created_at", "-created_at", "updated_at", "-updated_at"] = Field(
        "name", description="Order of the items; `-` for descending."
    )
    state: ProviderState | None = Field(
        None, description="Only enabled or disabled providers; `pending`: those with changes to approve."
    )


class VariableQuery(PageQuery):
    """Order and filters of a list of variables. `q` searches the name, never the value."""

    sort: Literal["name", "-name", "updated_at", "-updated_at"] = Field(
        "name", description="Order of the items; `-` for descending."
    )
