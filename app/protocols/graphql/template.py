"""Call templates of `graphql`."""

import re
from typing import Any, ClassVar, Final, Literal, Self

from pydantic import Field, field_validator

from app.core.errors import FieldError, InvalidInput
from app.protocols.requests.templates import HttpBasedTemplate

_FIELD: Final = re.compile(r"[_A-Za-z][_0-9A-Za-z]{0,254}")


class GraphqlTemplate(HttpBasedTemplate):
    """UTCP's `graphql`. `query` is the document of the operation, `variable_types` the GraphQL type of each
    variable; a discovery sets both, and `fields_argument` (our own): the argument by which a client chooses
    the fields of the result.
    """

    braced_only: ClassVar[tuple[str, ...]] = ("/query", "/variable_types/**")

    call_template_type: Literal["graphql"] = "graphql"
    operation_type: Literal["query", "mutation", "subscription"] | None = None
    operation_name: str | None = Field(default=None, pattern=r"^[_A-Za-z][_0-9A-Za-z]{0,254}$")
    query: str | None = Field(default=None, max_length=1 << 20)
    variable_types: dict[str, str] | None = None
    fields_argument: str | None = Field(default=None, pattern=r"^[_A-Za-z][_0-9A-Za-z]{0,254}$")

    def for_tool(self, name: str) -> Self:
        """Return the template with the last part of `name` as the field, where it has no operation."""
        if self.query is not None or self.operation_name is not None:
            return self
        field = name.rpartition(".")[2]
        if _FIELD.fullmatch(field) is None:
            detail = "Give a query or an operation_name: the tool's name is no name of a field in GraphQL."
            raise InvalidInput("The tool names no operation.", errors=[FieldError("/operation_name", detail)])
        return self.model_copy(update={"operation_name": field})

    @field_validator("operation_name", "query", "fields_argument", mode="before")
    @classmethod
    def _empty_is_none(cls, value: Any) -> Any:
        return value or None
