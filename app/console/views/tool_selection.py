"""Tools that an action of a page concerns: those of checked rows, or all that the query of a list matches.

A selection is a query, not a list of rows: its form has the filters of the list beside the names of the
checked rows, and `all` says which of them counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from starlette.datastructures import ImmutableMultiDict

from app.console.http.api_client import ApiClient

MAX_SELECTED: Final = 1_000
"""At most so many tools are changed at once (`POST /tools:batch`)."""
FILTERS: Final = ("q", "provider", "tag", "state")
"""The filters of the list of tools."""
_PAGE: Final = 200


@dataclass(frozen=True, slots=True)
class ToolSelection:
    """The names of checked rows, or (`is_query`) the filters of the list that they are in."""

    names: tuple[str, ...]
    filters: Mapping[str, str]
    is_query: bool

    @classmethod
    def of(cls, fields: ImmutableMultiDict[str, Any]) -> Self:
        """Return the selection of a form's fields or of a URL's parameters."""
        filters = {name: str(fields[name]) for name in FILTERS if fields.get(name)}
        is_query = fields.get("all") == "1"
        names = () if is_query else tuple(dict.fromkeys(str(one) for one in fields.getlist("tool") if one))
        return cls(names, filters, is_query)

    def fields(self) -> list[tuple[str, str]]:
        """Return the fields of a form, or the parameters of a URL, that make this selection again."""
        if self.is_query:
            return [("all", "1"), *self.filters.items()]
        return [("tool", name) for name in self.names] + list(self.filters.items())

    async def resolve(self, api: ApiClient, *, at_most: int = MAX_SELECTED) -> list[str]:
        """Return the canonical names of the tools, at most one more than `at_most`; raise ApiProblem."""
        if not self.is_query:
            return list(self.names[: at_most + 1])
        names: list[str] = []
        cursor = None
        while len(names) <= at_most:
            query = {**self.filters, "limit": _PAGE, "cursor": cursor}
            page = await api.get("/tools", query)
            names += [tool["name"] for tool in page["items"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        return names[: at_most + 1]
