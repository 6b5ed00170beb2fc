"""Call templates of `http`."""

from typing import Literal, Self

from pydantic import Field

from app.formats.utcp.auth import Auth
from app.protocols.requests.templates import RequestTemplate


class HttpTemplate(RequestTemplate):
    """UTCP's `http` call template, and what tools from OpenAPI add: `parameters` and `body`."""

    call_template_type: Literal["http"] = "http"
    auth_tools: Auth | None = Field(default=None, repr=False)
    gateways: list[str] | None = Field(default=None, alias="x-gateways", max_length=32)
    """The identities of the UTCP gateways that a call passes."""

    @property
    def passed_gateways(self) -> tuple[str, ...]:
        """The identities of the UTCP gateways that a call passes."""
        return tuple(self.gateways or ())

    def through_gateway(self, *, keeps_auth: bool) -> Self:
        """Return the template as this gateway calls another one with it: what a client of events accepts is
        for the other gateway to know.
        """
        headers = {name: value for name, value in self.headers.items() if name.lower() != "accept"}
        return self.model_copy(update={"headers": headers, "auth": self.auth if keeps_auth else None})
