"""A converted OpenAPI document -> a ParsedSource."""

from dataclasses import replace

from app.credentials.model import (
    DEFAULT_SLOT,
    CredentialDraft,
    CredentialSlot,
    SecurityRequirements,
    SlotAssignment,
    SlotRequirement,
    compile_security,
)
from app.credentials.origins import origin_of_template
from app.credentials.slots import matching_slots
from app.openapi.model import Conversion, ConvertedTool
from app.registration.model import ParsedSource, RegistrationSource, ToolDraft
from app.registration.report import SourceReport, SourceWarning

_OPTIONAL_DEFAULT: SecurityRequirements = ((SlotRequirement(DEFAULT_SLOT),), ())


def from_conversion(conversion: Conversion, *, source: RegistrationSource) -> ParsedSource:
    """Return the tools of a converted document, whose bytes are those of `source`.

    A document without any security scheme leaves its tools the slot `default`, because many APIs want a key
    and do not say so.
    """
    slots = tuple(CredentialSlot.from_json(slot) for slot in conversion.slots)
    tools = (_draft(tool, None if slots else _OPTIONAL_DEFAULT) for tool in conversion.tools)
    return ParsedSource(
        kind="openapi",
        format="openapi",
        source=source,
        tools=tuple(tools),
        report=SourceReport.from_json(conversion.report),
        title=conversion.title,
        description=conversion.description,
        slots=slots or (CredentialSlot(DEFAULT_SLOT, "any"),),
    )


def with_auth_tools(parsed: ParsedSource, auth: CredentialDraft | None) -> ParsedSource:
    """Return the source with a template's `auth_tools` in each slot that it fits, else with a warning."""
    if auth is None:
        return parsed
    fitting = [slot.name for slot in parsed.slots if slot.kind == "any"]
    fitting = fitting or matching_slots(auth, parsed.slots)
    inline = tuple(SlotAssignment(slot, auth, "") for slot in fitting)
    if inline:
        return replace(parsed, inline=(*parsed.inline, *inline))
    warning = SourceWarning("auth_tools fits no security scheme of the document and is not used.")
    return replace(parsed, report=parsed.report.with_warnings(warning))


def _draft(tool: ConvertedTool, security: SecurityRequirements | None) -> ToolDraft:
    return ToolDraft(
        source_key=tool.source_key,
        name=tool.name,
        description=tool.description,
        inputs=tool.inputs,
        outputs=tool.outputs,
        tags=tool.tags,
        call_template=tool.call_template,
        security=compile_security(tool.security) if security is None else security,
        origin=origin_of_template(tool.call_template) or "",
        deprecated=tool.deprecated,
        shown=tool.shown,
    )
