"""UTCP's `text`: the content of the template is the response of a tool, or the document of a provider."""

from collections.abc import Mapping
from typing import Any, ClassVar

from app.formats.utcp.call_template import compile_template
from app.protocols.base import AdapterContext, Call, Discovered, Result
from app.protocols.shared.effects import ReadOnly
from app.protocols.shared.results import TEXT, body_result
from app.protocols.shared.sealed_fields import field_values
from app.protocols.text.template import TextTemplate


class TextAdapter(ReadOnly):
    """The adapter that returns the content of templates."""

    name: ClassVar[str] = "text"

    def __init__(self, _context: AdapterContext) -> None:
        """Accept the context for the adapter interface; it is not used."""

    def prepare(self, template: Mapping[str, Any]) -> str:
        """Return the content of a template of `call_template_type` text; raise InvalidInput."""
        text = compile_template(template, TextTemplate)
        return text.content

    def origin(self, target: str) -> str:  # noqa: ARG002 - the contract's.
        """Return `text://`: there is no server."""
        return "text://"

    async def discover(self, call: Call[str]) -> Discovered:
        """Return the content, as bytes of UTF-8."""
        return Discovered(raw=call.target.encode(), media_type="", url="")

    async def call(self, call: Call[str]) -> Result:
        """Return the content as text, with its sealed values inserted; arguments are ignored."""
        content = field_values(call.credentials).get("/content", call.target)
        return body_result(content.encode(), TEXT, call)

    def describe(self, call: Call[str]) -> dict[str, Any]:
        """Return the beginning of the content, secrets masked as `***`."""
        content = field_values(call.credentials, masked=True).get("/content", call.target)
        return {"method": "read", "url": "text://", "headers": {}, "body": content[:1024]}
