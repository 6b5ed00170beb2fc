"""Export and import of all definitions, without secrets, as one JSON document."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Final, Literal

from pydantic import Field
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.catalog.tools import provider_filter
from app.core.errors import FieldError, InvalidInput
from app.core.schemas import (
    AnnotationsInput,
    Keywords,
    LanguageTag,
    ProviderName,
    ResponseOptionsInput,
    ShortText,
    StrictModel,
    Text,
    UrlText,
)
from app.core.text import pointer, reject_unstorable
from app.providers.credentials.input_models import OverlayText, Tags
from app.providers.credentials.model import DISCOVERY_SLOTS, CredentialSlot, Json
from app.providers.credentials.validation_errors import validated
from app.providers.registration.destinations import confirmed_base_url, unconfirmed_origins
from app.providers.registration.input_models import LimitsInput, OptionsInput
from app.providers.registration.model import (
    DocumentOptions,
    RegistrationBatch,
    RegistrationRequest,
    RegistrationSource,
    RejectedEntry,
)
from app.providers.registration.persist import HIDDEN_OPTIONS, open_source_body
from app.providers.registration.repository import (
    credentials_of,
    final_url_of,
    overrides_of,
    slots_of,
    source_of,
    tools_of,
)
from app.providers.registration.request_parser import MAX_ENTRIES, read_or_reject
from app.providers.registration.service import RegistrationService
from app.providers.transfer.toolsets import ExportedToolset, ToolsetTransfer
from app.security.principal import Principal
from app.storage.models import TENANT, Provider, Tool, Variable
from app.toolsets.changes import MAX_TOOLSETS

FORMAT: Final = "utcp-gateway/1"


class ExportedOverride(StrictModel):
    """A person's changes to an imported tool."""

    description: Text | None = None
    tags: Tags | None = None
    keywords: Keywords | None = None
    enabled: bool | None = None
    requires_approval: bool | None = None
    annotations: AnnotationsInput | None = None
    publish_output_schema: bool | None = None
    response_options: ResponseOptionsInput | None = None


class ExportedProvider(StrictModel):
    """A provider in an export: `document` is its OpenAPI source as text (or in base64), `tools` are the tools
    that did not come from it.
    """

    name: ProviderName
    title: ShortText = ""
    description: Text = ""
    tags: Tags = Field(default_factory=list)
    language: LanguageTag | None = Field(default=None, description="The language that the registrar gave.")
    document_language: LanguageTag | None = Field(
        default=None, description="The language that the source said, for a source that says none."
    )
    enabled: bool = True
    limits: LimitsInput = Field(default_factory=LimitsInput)
    options: OptionsInput = Field(default_factory=OptionsInput)
    url: str | None = None
    final_url: UrlText | None = Field(default=None, description="Where `url` redirected to.")
    media_type: ShortText = ""
    document: str | None = None
    document_base64: str | None = None
    root: ShortText | None = None
    overlay: OverlayText | None = None
    follow_references: bool = False
    call_template: dict[str, Any] = Field(default_factory=dict)
    slots: list[dict[str, Any]] = Field(default_factory=list)
    tools: list[dict[str, Any]] = Field(default_factory=list)
    overrides: dict[str, ExportedOverride] = Field(default_factory=dict)
    variables: list[str] = Field(
        default_factory=list, description="Names only; set their values before the import."
    )
    unconfirmed_origins: Annotated[list[UrlText], Field(max_length=MAX_ENTRIES)] = Field(
        default_factory=list,
        description="Origins of tools that only keys without `credentials:write` added; "
        "they stay unconfirmed.",
    )


class ExportDocument(StrictModel):
    """The document that `GET /export` returns and `POST /import` accepts."""

    format: Literal["utcp-gateway/1"]
    providers: Annotated[list[ExportedProvider], Field(max_length=MAX_ENTRIES)]
    toolsets: Annotated[list[ExportedToolset], Field(max_length=MAX_TOOLSETS)] = Field(
        default_factory=list,
        description="Absent where there are none, and for keys that may not read their definitions.",
    )


@dataclass(frozen=True, slots=True)
class Exporter:
    """Builds the export document."""

    registry: RegistrationService
    toolsets: ToolsetTransfer

    async def export(self, *, principal: Principal) -> Json:
        """Return the export of all providers that the principal may see, as JSON of an ExportDocument.

        It contains no value of a credential or of a variable.
        """
        async with self.registry.database.read_session() as session:
            query = select(Provider).where(col(Provider.tenant_id) == TENANT, provider_filter(principal))
            rows = (await session.execute(query.order_by(col(Provider.name).collate("C")))).scalars().all()
            providers = [await self._export_provider(session, row) for row in rows]
        toolsets = await self.toolsets.export(principal=principal)
        return {"format": FORMAT, "providers": providers, **({"toolsets": toolsets} if toolsets else {})}

    async def _export_provider(self, session: AsyncSession, row: Provider) -> Json:
        source = await source_of(session, row.id)
        tools = await tools_of(session, row.id)
        query = select(col(Variable.name)).where(col(Variable.provider_id) == row.id)
        form: Json = {
            "name": row.name,
            "title": row.title,
            "description": row.description,
            "tags": row.tags,
            "language": row.language,
            "document_language": row.document_language,
            "enabled": row.enabled,
            "limits": row.limits,
            "options": _export_options(row.options),
            "call_template": row.call_template,
            "variables": sorted((await session.execute(query)).scalars()),
            "overrides": await overrides_of(session, row),
        }
        if unconfirmed := unconfirmed_origins(row):
            form["unconfirmed_origins"] = sorted(unconfirmed)
        if source is not None and source.format == "openapi":
            body = open_source_body(source, vault=self.registry.vault)
            form |= {"url": source.url, "media_type": source.media_type, **_encode_document(body)}
            form |= {
                "root": source.root,
                "overlay": source.overlay,
                "follow_references": source.follow_references,
            }
            if final_url := await final_url_of(session, row.id):
                form["final_url"] = final_url
            tools = [tool for tool in tools if tool.revision_id is None]
        # Fingerprints are made with this gateway's key.
        slots = {slot.name: replace(slot, fingerprint=None) for slot in slots_of(row)}
        slots = {**await _list_discovery_slots(session, row), **slots}
        form["slots"] = [slot.to_json() for slot in slots.values()]
        form["tools"] = [_export_tool(row.name, tool) for tool in tools]
        return form


def read_export(raw: Any) -> RegistrationBatch:
    """Parse an export document into registrations; raise InvalidInput where it is not one.

    An entry that is not valid becomes a RejectedEntry.
    """
    entries = raw.get("providers") if isinstance(raw, Mapping) else None
    unknown = sorted(raw.keys() - {"format", "providers", "toolsets"}) if isinstance(raw, Mapping) else []
    if unknown:
        errors = [FieldError(pointer("", key), "Unknown property.") for key in unknown[:10]]
        raise InvalidInput("The document is not an export.", errors=errors)
    if not isinstance(entries, list) or raw.get("format") != FORMAT or len(entries) > MAX_ENTRIES:
        error = FieldError(
            "", f"Send the response of GET /export, with at most {MAX_ENTRIES} providers.", FORMAT
        )
        raise InvalidInput("The document is not an export.", errors=[error])
    toolsets = raw.get("toolsets", [])
    if not isinstance(toolsets, list) or len(toolsets) > MAX_TOOLSETS:
        error = FieldError("/toolsets", f"Give a list of at most {MAX_TOOLSETS} toolsets.", "array")
        raise InvalidInput("The document is not an export.", errors=[error])
    read: list[RegistrationRequest | RejectedEntry] = []
    for index, entry in enumerate(entries):
        read.append(read_or_reject(partial(_read_registration, entry, pointer("/providers", index)), entry))
    return RegistrationBatch(tuple(read), is_list=True)


def _read_registration(entry: Any, at: str) -> RegistrationRequest:
    reject_unstorable(entry, location=at)
    body = validated(ExportedProvider, entry, at=at)
    return RegistrationRequest(
        name=body.name,
        source=_read_source(body, at),
        title=body.title,
        description=body.description,
        tags=tuple(body.tags),
        language=body.language,
        document_language=body.document_language,
        limits=body.limits.stored(),
        options=body.options.stored(),
        option_secrets=body.options.secrets(),
        enabled=body.enabled,
        overrides={key: form.model_dump(exclude_unset=True) for key, form in body.overrides.items()},
        unconfirmed_origins=tuple(sorted(set(body.unconfirmed_origins))),
        at=at,
    )


def _export_options(stored: Mapping[str, Any]) -> Json:
    """Return the options without the registry's internal ones, and without a base URL that is not confirmed:
    a key with `credentials:write` would confirm it by importing it.
    """
    options = {key: value for key, value in stored.items() if key not in HIDDEN_OPTIONS}
    confirmed = confirmed_base_url(stored)
    if confirmed != (options.get("base_url") or None):
        options.pop("base_url", None)
        if confirmed is not None:
            options["base_url"] = confirmed
    return options


def _read_source(body: ExportedProvider, at: str) -> RegistrationSource:
    value = {"tools": body.tools, "slots": body.slots, "call_template": body.call_template}
    raw = b""
    if body.document is not None:
        raw = body.document.encode("utf-8", "replace")
    elif body.document_base64 is not None:
        try:
            raw = base64.b64decode(body.document_base64, validate=True)
        except ValueError:
            error = FieldError(pointer(at, "document_base64"), "The value is not base64.")
            raise InvalidInput("The document cannot be read.", errors=[error]) from None
    options = DocumentOptions(body.root, body.overlay, body.follow_references)
    return RegistrationSource(
        "tools",
        raw,
        body.media_type,
        value=value,
        at=at,
        url=body.url,
        options=options,
        final_url=body.final_url,
    )


async def _list_discovery_slots(session: AsyncSession, provider: Provider) -> dict[str, CredentialSlot]:
    """Return the slots of credentials that are sent when the source is fetched, so that they can be
    refilled.
    """
    rows = [row for row in await credentials_of(session, [provider.id]) if row.slot in DISCOVERY_SLOTS]
    described = ("location", "name", "token_url", "values")
    return {
        row.slot: CredentialSlot.from_json(
            {"slot": row.slot, "kind": row.kind, **{key: row.public.get(key) for key in described}}
        )
        for row in rows
    }


def _export_tool(provider: str, tool: Tool) -> Json:
    return {
        "source_key": tool.source_key,
        "name": tool.name.removeprefix(f"{provider}."),
        "description": tool.description,
        "inputs": tool.inputs,
        "outputs": tool.outputs,
        "tags": tool.tags,
        "keywords": tool.keywords,
        "call_template": tool.call_template,
        "security": tool.security,
        "custom": tool.revision_id is None,
    }


def _encode_document(body: bytes) -> Json:
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return {"document_base64": base64.b64encode(body).decode()}
    # A NUL character in text would be rejected by the import; in base64 the document passes unchanged.
    return {"document_base64": base64.b64encode(body).decode()} if "\x00" in text else {"document": text}
