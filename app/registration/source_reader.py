"""A source -> a ParsedSource: fetched, converted, or read as it is. No database connection is held."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from app.catalog.limits import limits_of
from app.catalog.loader import sealed_credential
from app.credentials.model import DISCOVERY_SLOTS, DISCOVERY_STATIC, CredentialDraft, Json
from app.credentials.origins import named_origins, origins_of
from app.credentials.sealing import fingerprint, seal_draft
from app.credentials.slots import Binding, SlotAllocator, complete
from app.credentials.template_secrets import draft_from_auth, split_template, with_origins
from app.errors import FieldError, InvalidDocument, InvalidInput
from app.models import TENANT
from app.openapi.archive import is_archive
from app.openapi.model import Conversion
from app.outbound.egress import build_egress_settings
from app.outbound.scope import connection_scope
from app.protocols.base import Discovered
from app.protocols.call_templates import protocol_of, read_template
from app.protocols.manuals import detect_kind, read_manual
from app.protocols.origins import parts_of
from app.protocols.registry import PROTOCOLS
from app.protocols.variables import variables_of
from app.registration.context import ImportContext
from app.registration.converter import Converter
from app.registration.destinations import confirmed_base_url
from app.registration.external_refs import Fetch, follow
from app.registration.fetch import Fetcher
from app.registration.from_export import from_export, open_fields
from app.registration.from_manual import ManualRules, from_manual
from app.registration.from_openapi import from_conversion, with_auth_tools
from app.registration.json_yaml import looks_like_openapi, parse_document
from app.registration.model import PLAIN, DocumentOptions, ParsedSource, RegistrationSource
from app.registration.tool_checks import judged_source, only_callable
from app.security.credentials import SealedCredential
from app.security.loop_detection import gateway_identity
from app.security.vault import Vault
from app.settings import Settings
from app.text import pointer
from app.utcp.auth import Auth
from app.utcp.call_template import InlineDocument

KEY = "tool_call_template"


@dataclass(frozen=True, slots=True)
class DiscoveryRequest:
    """How a source is fetched: its template without secrets, and the credentials for that, by slot."""

    template: Json
    credentials: Mapping[str, SealedCredential]
    options: DocumentOptions = PLAIN
    auth_tools: CredentialDraft | None = None

    @property
    def slots(self) -> tuple[str, ...]:
        """The provider's own slots that hold a credential."""
        return tuple(slot for slot in DISCOVERY_SLOTS if slot in self.credentials)


@dataclass(frozen=True, slots=True)
class DocumentOrigin:
    """What is known of a document besides its bytes, where the provider has a template of its own.

    `template` is that template, where an upstream's text was fetched with it, and `fetch` gets the files
    beside the document. `shared_slots` and `inherited_slots` are as in `ManualRules`.
    """

    template: Json | None = None
    fetch: Fetch | None = None
    auth_tools: CredentialDraft | None = None
    shared_slots: tuple[str, ...] = ()
    inherited_slots: tuple[str, ...] = ()
    has_discovery_credential: bool = False


_UPLOADED = DocumentOrigin()


@dataclass(frozen=True, slots=True)
class SourceReader:
    """Reads every kind of source."""

    settings: Settings
    vault: Vault
    fetcher: Fetcher
    converter: Converter

    async def read(self, source: RegistrationSource, context: ImportContext) -> ParsedSource:
        """Return what a registration's source holds.

        Raises InvalidInput, UnsetVariable, TooLarge, Forbidden, BlockedAddress and UpstreamError.
        """
        if source.kind == "template":
            return await self._discover(source, context)
        if source.kind == "tools":
            return await self._exported(source, context)
        if source.kind == "manual":
            body = await asyncio.to_thread(orjson.dumps, source.value)
            stored = replace(source, body=body, media_type="application/json")
            read = await self._manual(source.value, stored, _UPLOADED, context)
        else:
            read = await self._document(source, _UPLOADED, context)
        return replace(read, named_origins=_base_origin(context))

    async def rediscover(
        self, template: Mapping[str, Any], context: ImportContext, *, options: DocumentOptions
    ) -> ParsedSource:
        """Fetch again with the stored template and the stored credentials for that; raise as `read` does."""
        credentials = {
            slot: sealed_credential(row, finder=context.finder)
            for slot, row in context.stored.items()
            if slot in DISCOVERY_SLOTS
        }
        return await self._fetched(DiscoveryRequest(dict(template), credentials, options), context)

    def prepare(self, template: Mapping[str, Any]) -> str:
        """Return the origin of a template whose variables are written out; raise InvalidInput for one that
        can never be called.
        """
        return self.fetcher.prepare(template)

    def binding(self, named: tuple[str, ...], tools: tuple[str, ...] = ()) -> Binding:
        """Return where credentials go by default, and whether a token endpoint may be used without TLS."""
        return Binding(
            named, tools, loopback_tokens=self.settings.embedded or _allows_loopback(self.settings)
        )

    # Call templates

    async def _discover(self, source: RegistrationSource, context: ImportContext) -> ParsedSource:
        template = read_template(source.value, at=source.at)
        inline = template.model.document
        if inline is not None:
            return replace(await self._inline(inline, source, context), protocol=template.protocol)
        await self.fetcher.adapters.ready(template.protocol)
        split = split_template(template.model, scope=context.scope, at=source.at)
        resolved = context.scope.resolved(split.fields)
        for part in parts_of(resolved):
            self._check(part, at=source.at)
        origins = named_origins(resolved)
        if split.auth or split.auth_tools or split.static:
            context.permissions.require_credentials_write()
        discovery: dict[str, CredentialDraft] = {}
        static = split.static or context.given.get(DISCOVERY_STATIC)
        if static is not None:
            discovery[DISCOVERY_STATIC] = with_origins(static, origins)
        auth = split.auth or context.given.get("discovery")
        if auth is not None:
            binding = self.binding(origins)
            discovery["discovery"] = complete(auth, slot=None, binding=binding, at=pointer(source.at, "auth"))
        sealed = {
            slot: seal_draft(
                draft, provider_id=context.id, slot=slot, vault=self.vault, finder=context.finder
            )
            for slot, draft in discovery.items()
        }
        request = DiscoveryRequest(split.fields, sealed, source.options, split.auth_tools)
        return replace(await self._fetched(request, context), discovery=discovery)

    def _check(self, template: Mapping[str, Any], *, at: str) -> None:
        """Raise InvalidInput, pointing below `at`, for a source that can never be fetched."""
        try:
            self.fetcher.prepare(template)
        except InvalidInput as error:
            faults = [replace(fault, pointer=at + fault.pointer) for fault in error.errors]
            raise InvalidInput(f"The source cannot be used: {error.detail}", errors=faults) from None

    async def _inline(
        self, inline: InlineDocument, source: RegistrationSource, context: ImportContext
    ) -> ParsedSource:
        """Read a document that stands in the call template itself."""
        auth = None if inline.auth_tools is None else self._auth_tools(inline.auth_tools, source, context)
        context = _with_base(context, inline.base_url)
        document = replace(source, body=inline.content.encode(), at=source.at + inline.at)
        read = await self._document(document, DocumentOrigin(auth_tools=auth), context)
        return replace(read, named_origins=_base_origin(context))

    def _auth_tools(self, auth: Auth, source: RegistrationSource, context: ImportContext) -> CredentialDraft:
        context.permissions.require_credentials_write()
        return draft_from_auth(auth, scope=context.scope, at=pointer(source.at, "auth_tools"))

    async def _fetched(self, request: DiscoveryRequest, context: ImportContext) -> ParsedSource:
        """Read what each server of the template publishes, together."""
        resolved = context.scope.resolved(request.template)
        protocol = protocol_of(request.template)
        context = _with_base(context, resolved.get("base_url"))
        if protocol in PROTOCOLS.introspected:
            read = await self._introspected(request, context)
        else:
            read = await self._published(request, resolved, context)
        return replace(
            read,
            protocol=protocol,
            call_template=request.template,
            named_origins=tuple(dict.fromkeys([*named_origins(resolved), *_base_origin(context)])),
            is_fetched=protocol not in PROTOCOLS.introspected,
        )

    async def _published(
        self, request: DiscoveryRequest, resolved: Json, context: ImportContext
    ) -> ParsedSource:
        async def fetch(url: str | None) -> Discovered:
            template = resolved if url is None else {**resolved, "url": url}
            return await self._fetch(request, template, context)

        found = await fetch(None)
        document = RegistrationSource(
            "document", found.raw, found.media_type, url=resolved.get("url"), options=request.options
        )
        origin = DocumentOrigin(
            template=request.template,
            fetch=fetch,
            auth_tools=request.auth_tools,
            inherited_slots=request.slots,
            has_discovery_credential=DISCOVERY_SLOTS[0] in request.credentials,
        )
        return await self._document(document, origin, context)

    async def _introspected(self, request: DiscoveryRequest, context: ImportContext) -> ParsedSource:
        """Read the manuals that the adapter makes, with the provider's template under that of each tool."""
        tools: list[Json] = []
        parts = parts_of(request.template)
        for part in parts:
            found = await self._fetch(request, context.scope.resolved(part), context)
            made = orjson.loads(found.raw)
            tools += (laid_over(part, tool) for tool in made["tools"])
        raw = {"utcp_version": "1.0.1", "tools": tools}
        document = RegistrationSource(
            "manual", orjson.dumps(raw), "application/json", url=parts[0].get("url"), options=request.options
        )
        origin = DocumentOrigin(auth_tools=request.auth_tools, shared_slots=request.slots)
        return await self._manual(raw, document, origin, context)

    async def _fetch(self, request: DiscoveryRequest, template: Json, context: ImportContext) -> Discovered:
        return await self.fetcher.fetch(
            template,
            credentials=request.credentials,
            limits=limits_of(context.limits, self.settings),
            egress=build_egress_settings(context.options, context.option_secrets),
            scope=connection_scope(TENANT, context.id, request.credentials.values(), purpose="discovery"),
            reuse=context.options.get("reuse") is not False,
        )

    # Documents

    async def _document(
        self, source: RegistrationSource, origin: DocumentOrigin, context: ImportContext
    ) -> ParsedSource:
        """Read a document of either kind, told apart by what it holds."""
        if await looks_like_openapi(source.body, media_type=source.media_type):
            return await self._openapi(source, origin, context)
        raw = await parse_document(source.body, media_type=source.media_type)
        if detect_kind(raw) == "openapi":
            return await self._openapi(source, origin, context)
        if not (isinstance(raw, dict) and isinstance(raw.get("tools"), list)):
            detail = "This is neither a UTCP manual nor an OpenAPI document."
            raise InvalidDocument(detail, errors=[FieldError(source.at, detail)])
        return await self._manual(raw, source, origin, context)

    async def _openapi(
        self, source: RegistrationSource, origin: DocumentOrigin, context: ImportContext
    ) -> ParsedSource:
        """Read an OpenAPI document or an archive of one, with the files that it refers to if requested."""
        base_url = context.options.get("base_url")
        if not source.options.follow_references or origin.fetch is None or source.url is None:
            conversion = await self.converter.convert(source, base_url=base_url)
            return await self._converted(conversion, source, origin)
        # The root of an archive that was put together here is found anew each time.
        options = source.options if is_archive(source.body) else replace(source.options, root=None)

        async def convert(body: bytes, root: str | None, names_missing: bool) -> Conversion:
            inside = options if root is None else replace(options, root=root)
            document = replace(source, body=body, options=inside)
            return await self.converter.convert(document, base_url=base_url, gathers=names_missing)

        found = await follow(
            source.body,
            url=source.url,
            fetch=origin.fetch,
            convert=convert,
            max_bytes=self.settings.max_document_bytes,
        )
        stored = replace(source, body=found.body, options=replace(options, root=found.root or options.root))
        read = await self._converted(found.conversion, stored, origin)
        return replace(read, report=read.report.with_warnings(*found.warnings))

    async def _converted(
        self, conversion: Conversion, source: RegistrationSource, origin: DocumentOrigin
    ) -> ParsedSource:
        def read() -> ParsedSource:
            return only_callable(from_conversion(conversion, source=source), prepare=self.fetcher.prepare)

        # 10,000 tools take a third of a second.
        return with_auth_tools(await asyncio.to_thread(read), origin.auth_tools)

    async def _manual(
        self, raw: Any, source: RegistrationSource, origin: DocumentOrigin, context: ImportContext
    ) -> ParsedSource:
        """Read a parsed manual, the bytes of which are those of `source`."""
        if source.options != PLAIN:
            fault = FieldError(source.at, "root, overlay and follow_references go with an OpenAPI document.")
            raise InvalidInput("The source is a manual, which has none of these.", errors=[fault])
        template = origin.template
        rules = ManualRules(
            provider=context.name,
            scope=context.scope if template is None else context.scope.narrowed(),
            allocator=SlotAllocator(
                lambda draft: fingerprint(draft, vault=self.vault),
                known=context.known_slots,
                taken=context.taken_slots - set(context.known_slots.values()),
            ),
            at=source.at,
            auth_tools=origin.auth_tools,
            prepare=self.fetcher.prepare,
            fallback_slot=context.fallback_slot,
            protocols=None if template is None else _allowed_protocols(template),
            allows_local=template is None or _allows_local(template),
            shared_slots=origin.shared_slots,
            inherited_slots=origin.inherited_slots,
            identity=gateway_identity(self.vault),
            has_discovery_credential=origin.has_discovery_credential,
        )
        own = template if template is not None and protocol_of(template) in PROTOCOLS.inheriting else None

        def read() -> ParsedSource:
            manual = read_manual(raw, inherited=own)
            return judged_source(from_manual(manual, raw=raw, rules=rules, source=source))

        # Pure Python over a document of up to 64 MB: in a thread, so that the event loop gets its turns.
        return await asyncio.to_thread(read)

    # Exports

    async def _exported(self, source: RegistrationSource, context: ImportContext) -> ParsedSource:
        def read() -> ParsedSource:
            tools = from_export(source.value, scope=context.scope, at=source.at)
            return judged_source(only_callable(tools, prepare=self.fetcher.prepare, scope=context.scope))

        read_tools = await asyncio.to_thread(read)
        template = source.value["call_template"]
        if template:
            template = open_fields(template, at=pointer(source.at, "call_template"))
        base = confirmed_base_url(context.options)
        urls = [str(context.scope.resolved(url)) for url in (source.url, base) if url]
        named = [*origins_of(urls), *(named_origins(context.scope.resolved(template)) if template else ())]
        if source.body:
            converted = await self._openapi(source, _UPLOADED, context)
            custom = tuple(tool for tool in read_tools.tools if tool.is_custom)
            known = {slot.name for slot in converted.slots}
            more = tuple(slot for slot in read_tools.slots if slot.name not in known)
            read_tools = replace(
                converted, tools=(*converted.tools, *custom), slots=(*converted.slots, *more)
            )
        return replace(
            read_tools,
            protocol=protocol_of(template),
            call_template=template,
            named_origins=tuple(dict.fromkeys(named)),
        )


def laid_over(part: Json, tool: Json) -> Json:
    """Return a made tool whose own template stands over that of its server.

    What the server says is no text of the registrar's: a tool whose template names variables has none.
    """
    own = tool[KEY]
    if variables_of({**own, "call_template_type": protocol_of(part)}):
        return {**tool, KEY: None}
    return {**tool, KEY: {**part, **own}}


def _base_origin(context: ImportContext) -> tuple[str, ...]:
    return origins_of([confirmed_base_url(context.options) or ""])


def _with_base(context: ImportContext, base_url: str | None) -> ImportContext:
    """Return the context in which OpenAPI documents are read as of this URL, unless options say otherwise."""
    return replace(context, options={"base_url": base_url, **context.options}) if base_url else context


def _allowed_protocols(template: Json) -> frozenset[str]:
    """Return the protocols that the tools of a fetched manual may have."""
    named = template.get("allowed_communication_protocols")
    if named is None:
        return frozenset(PROTOCOLS)
    return frozenset(map(PROTOCOLS.canonical, named)) | {protocol_of(template)}


def _allows_local(template: Json) -> bool:
    """Return whether the registrar let a fetched manual run programs and read files on this machine."""
    named = template.get("allowed_communication_protocols") or ()
    return bool(PROTOCOLS.local & {protocol_of(template), *map(PROTOCOLS.canonical, named)})


def _allows_loopback(settings: Settings) -> bool:
    return any(entry.startswith(("127.", "::1", "[::1]", "0.0.0.0/0")) for entry in settings.allow_networks)
