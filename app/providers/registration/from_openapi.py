"""A converted OpenAPI document -> a ParsedSource."""

from dataclasses import replace

from app.openapi.conversion.results import Conversion, ConvertedTool, SecuritySchemeSlot
from app.openapi.report import SourceWarning
from app.providers.credentials.model import (
    DEFAULT_SLOT,
    CredentialDraft,
    CredentialSlot,
    SecurityRequirements,
    SlotAssignment,
    SlotRequirement,
)
from app.providers.credentials.origins import origin_of_template
from app.providers.credentials.slots import matching_slots
from app.providers.registration.model import ParsedSource, RegistrationSource, ToolDraft

_OPTIONAL_DEFAULT: SecurityRequirements = ((SlotRequirement(DEFAULT_SLOT),), ())


def from_conversion(conversion: Conversion, *, source: RegistrationSource) -> ParsedSource:
    """Return the tools of a converted document, whose bytes are those of `source`.

    A document without any security scheme leaves its tools the slot `default`, because many APIs want a key
    and do not say so.
    """
    slots = tuple(_build_slot(slot) for slot in conversion.slots)
    tools = (_build_draft(tool, None if slots else _OPTIONAL_DEFAULT) for tool in conversion.tools)
    return ParsedSource(
        kind="openapi",
        format="openapi",
        source=source,
        tools=tuple(tools),
        report=conversion.report,
        title=conversion.title,
        description=conversion.description,
        language=conversion.language,
        slots=slots or (CredentialSlot(DEFAULT_SLOT, "any"),),
    )


def with_auth_tools(parsed: ParsedSource, auth: CredentialDraft | None) -> ParsedSource:
    """Return the source with a template's `auth_tools` in each slot that it fits, else with a warning.

    As in UTCP, it is for operations that declare security: never for the slot `default`, which is that of
    documents that declare none.
    """
    if auth is None:
        return parsed
    declared = [slot for slot in parsed.slots if slot.kind != "any"]
    inline = tuple(SlotAssignment(slot, auth, "") for slot in matching_slots(auth, declared))
    if inline:
        return replace(parsed, inline=(*parsed.inline, *inline))
    reason = (
        "fits no security scheme of the document and"
        if declared
        else "is for operations that declare security, of which the document has none; it"
    )
    warning = SourceWarning(f"auth_tools {reason} is not used.")
    return replace(parsed, report=parsed.report.with_warnings(warning))


def _build_slot(scheme: SecuritySchemeSlot) -> CredentialSlot:
    return CredentialSlot(
        name=scheme.name,
        kind=scheme.kind,
        scheme=scheme.scheme or None,
        location=scheme.location,
        parameter=scheme.parameter,
        http_scheme=scheme.http_scheme,
        token_url=scheme.token_url,
        metadata_url=scheme.metadata_url,
        scopes=scheme.scopes,
        description=scheme.description or None,
    )


def _build_draft(tool: ConvertedTool, security: SecurityRequirements | None) -> ToolDraft:
    return ToolDraft(
        source_key=tool.source_key,
        name=tool.name,
        description=tool.description,
        inputs=tool.inputs,
        outputs=tool.outputs,
        tags=tool.tags,
        call_template=tool.call_template,
        security=tool.security if security is None else security,
        origin=origin_of_template(tool.call_template) or "",
        deprecated=tool.deprecated,
        keywords=tool.keywords,
        slimmed=tool.slimmed,
    )
