"""Call templates of `text`."""

from typing import ClassVar, Literal

from pydantic import Field

from app.formats.utcp.auth import Auth
from app.formats.utcp.call_template import CallTemplate, InlineDocument


class TextTemplate(CallTemplate):
    """UTCP's `text`: a manual or an OpenAPI document as a provider, or the response of a tool."""

    may_be_secret: ClassVar[tuple[str, ...]] = ("/content",)
    braced_only: ClassVar[tuple[str, ...]] = ("/content",)

    call_template_type: Literal["text"] = "text"
    content: str = Field(max_length=64 << 20)
    base_url: str | None = None
    auth_tools: Auth | None = Field(default=None, repr=False)

    @property
    def document(self) -> InlineDocument:
        """The content of the template as the document of a provider."""
        return InlineDocument(self.content, "/content", self.base_url, self.auth_tools)
