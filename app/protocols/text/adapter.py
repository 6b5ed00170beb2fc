"""UTCP's `text`: the answer of a tool is the content of its template. A provider's is read as a document."""

from collections.abc import Mapping
from typing import Any, ClassVar

from app.protocols.base import AdapterContext, Call, Discovered, Result
from app.protocols.shared.effects import ReadOnly
from app.protocols.shared.results import TEXT, body_result
from app.protocols.shared.sealed_fields import field_values
from app.protocols.text.template import TextTemplate
from app.utcp.call_template import compile_template


class TextAdapter(ReadOnly):
    """Answers without asking anybody."""

    name: ClassVar[str] = "text"

    def __init__(self, _context: AdapterContext) -> None:
        """Nothing is needed."""

    def prepare(self, template: Mapping[str, Any]) -> str:
        """The content; raises InvalidInput."""
        text = compile_template(template, TextTemplate)
        return text.content

    def origin(self, target: str) -> str:  # noqa: ARG002 - the contract's.
        """None that could be reached."""
        return "text://"

    async def discover(self, call: Call) -> Discovered:
        """The content."""
        return Discovered(raw=call.target.encode(), media_type="", url="")

    async def call(self, call: Call) -> Result:
        """The content as text, with what of it is sealed; arguments change nothing."""
        content = field_values(call.credentials).get("/content", call.target)
        return body_result(content.encode(), TEXT, call)

    def describe(self, call: Call) -> dict[str, Any]:
        """What would be read."""
        shown = field_values(call.credentials, masked=True).get("/content", call.target)
        return {"method": "read", "url": "text://", "headers": {}, "body": shown[:1024]}
