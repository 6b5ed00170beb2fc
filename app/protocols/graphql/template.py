"""Call templates of `graphql`."""

from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from app.http_requests.templates import HttpBasedTemplate


class GraphqlTemplate(HttpBasedTemplate):
    """UTCP's `graphql`. `query` is the document of the operation, `variable_types` the GraphQL type of each
    variable; a discovery sets both.
    """

    braced_only: ClassVar[tuple[str, ...]] = ("/query", "/variable_types/**")

    call_template_type: Literal["graphql"] = "graphql"
    operation_type: Literal["query", "mutation", "subscription"] | None = None
    operation_name: str | None = Field(default=None, pattern=r"^[_A-Za-z][_0-9A-Za-z]{0,254}$")
    query: str | None = Field(default=None, max_length=1 << 20)
    variable_types: dict[str, str] | None = None

    @field_validator("operation_name", "query", mode="before")
    @classmethod
    def _empty_is_none(cls, value: Any) -> Any:
        return value or None
