"""A source -> a ParsedSource: it is fetched and converted as needed, without a database connection."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from app.catalog.limits import limits_of
from app.catalog.loader import sealed_credential
from app.core import exact_json
from app.core.errors import FieldError, GatewayError, InvalidDocument, InvalidInput
from app.core.language_tags import read_content_language
from app.core.settings import Settings
from app.core.text import pointer
from app.formats.archive import is_archive
from app.formats.toolclad.sources import is_manifest_source
from app.formats.utcp.auth import Auth
from app.formats.utcp.call_template import InlineDocument
from app.openapi.conversion.results import Conversion
from app.openapi.report import SourceWarning
from app.outbound.egress import build_egress_settings
from app.outbound.scope import connection_scope
from app.protocols.base import Discovered
from app.protocols.call_templates import protocol_of, read_template
from app.protocols.manuals import detect_kind, read_manual
from app.protocols.origins import parts_of
from app.protocols.registry import PROTOCOLS
from app.protocols.variables import variables_of
from app.providers.credentials.model import DISCOVERY_SLOTS, DISCOVERY_STATIC, CredentialDraft, Json
from app.providers.credentials.origins import named_origins, origin_of, origins_of
from app.providers.credentials.sealing import fingerprint, seal_draft, variables_in
from app.providers.credentials.slots import Binding, SlotAllocator, complete
from app.providers.credentials.template_secrets import draft_from_auth, split_template, with_origins
from app.providers.credentials.variable_scope import VariableScope
from app.providers.registration.context import ImportContext
from app.providers.registration.converter import Converter
from app.providers.registration.destinations import confirmed_base_url, redirect_origins
from app.providers.registration.external_refs import Fetch, follow
from app.providers.registration.fetch import SINGLE_TOOLS, Fetcher
from app.providers.registration.from_export import from_export, open_fields
from app.providers.registration.from_manual import ManualRules, from_manual
from app.providers.registration.from_openapi import from_conversion, with_auth_tools
from app.providers.registration.from_toolclad import from_manifests, located, read_manifests
from app.providers.registration.html_pages import (
    build_html_page_error,
    find_configuration_script,
    find_document_urls,
    is_html,
    read_script_urls,
)
from app.providers.registration.json_yaml import looks_like_openapi, parse_manual
from app.providers.registration.model import (
    FETCHED,
    PLAIN,
    DocumentOptions,
    ParsedSource,
    RegistrationSource,
)
from app.providers.registration.redirects import warn_of_unconfirmed
from app.providers.registration.server_parts import read_parts
from app.providers.registration.tool_checks import assess_source, keep_callable
from app.security.loop_detection import gateway_identity
from app.security.sealed_credentials import UNSENT_MEMBERS, SealedCredential, open_credential
from app.security.vault import Vault
from app.storage.models import TENANT

KEY = "tool_call_template"

_HTML: Final = re.compile(rb"\s*(?:\xef\xbb\xbf)?\s*<(?:!doctype html|html|head|body)\b", re.IGNORECASE)
_HTML_BEGIN: Final = 1024
_DOCUMENT_URL: Final = (
    "Give the URL of the document itself, often /openapi.json, /swagger.json or /v3/api-docs of the same "
    "host, not of a page that shows it."
)


@dataclass(frozen=True, slots=True)
class DiscoveryRequest:
    """How a source is fetched: its template without secrets, and the credentials for that, by slot.

    `at` is the JSON pointer of the template in the request.
    """

    template: Json
    credentials: Mapping[str, SealedCredential]
    options: DocumentOptions = PLAIN
    auth_tools: CredentialDraft | None = None
    at: str = ""

    @property
    def slots(self) -> tuple[str, ...]:
        """The provider's own slots that hold a credential."""
        return tuple(slot for slot in DISCOVERY_SLOTS if slot in self.credentials)


@dataclass(frozen=True, slots=True)
class DocumentOrigin:
    """How a document was fetched, where the provider has a template of its own.

    `template` is that template, where an upstream's text was fetched with it, and `fetch` gets the files
    beside the document. `has_credentials`: any are sent with these requests. `shared_slots` and
    `inherited_slots` are as in `ManualRules`.
    """

    template: Json | None = None
    fetch: Fetch | None = None
    auth_tools: CredentialDraft | None = None
    shared_slots: tuple[str, ...] = ()
    inherited_slots: tuple[str, ...] = ()
    has_discovery_credential: bool = False
    has_credentials: bool = False
    given_variables: frozenset[str] = frozenset()
    """Names of the variables whose values the upstream gets with the request for the document."""


_UPLOADED = DocumentOrigin()
_MAX_NAMED: Final = 10
_UNFOLLOWED: Final = (
    "Files beside the document are requested with the credential of the source only where "
    "`source.follow_references` is true."
)


@dataclass(frozen=True, slots=True)
class SourceReader:
    """Reads every kind of source."""

    settings: Settings
    vault: Vault
    fetcher: Fetcher
    converter: Converter

    async def read(self, source: RegistrationSource, context: ImportContext) -> ParsedSource:
        """Return the tools, slots and inline credentials of a registration's source.

        Raises InvalidInput (also for one without a tool, unless `options.allow_empty`), UnsetVariable,
        TooLarge, Forbidden, BlockedAddress and UpstreamError.
        """
        if source.kind == "template":
            return await self._discover_template(source, context)
        if source.kind == "tools":
            return await self._read_export(source, context)
        if source.kind == "manual":
            try:
                body = await asyncio.to_thread(exact_json.dumps, source.value)
            except TypeError:
                detail = "The source has a text with half of a surrogate pair, which is no Unicode text."
                raise InvalidInput(detail, errors=[FieldError("#/source", detail)]) from None
            stored = replace(source, body=body, media_type="application/json")
            read = await self._read_manual(source.value, stored, _UPLOADED, context)
            read = replace(read, protocol=source.protocol)
            if source.protocol in PROTOCOLS.connected:
                # Also where the provider has no tools left: its executor is the only origin that it can have.
                origin = PROTOCOLS[source.protocol].origin({"executor": context.name})
                return replace(read, named_origins=(origin,))
        else:
            read = await self._read_document(source, _UPLOADED, context)
        return replace(read, named_origins=_find_base_origin(context))

    async def rediscover(
        self, template: Mapping[str, Any], context: ImportContext, *, options: DocumentOptions
    ) -> ParsedSource:
        """Fetch again with the stored template and the stored credentials for that; raise as `read` does."""
        credentials = {
            slot: sealed_credential(row, finder=context.finder)
            for slot, row in context.stored.items()
            if slot in DISCOVERY_SLOTS
        }
        return await self._fetch_source(DiscoveryRequest(dict(template), credentials, options), context)

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

    async def _discover_template(self, source: RegistrationSource, context: ImportContext) -> ParsedSource:
        """Discover the tools of a template; pointers are those of the request that it stood in."""
        try:
            read = await self._discover(source, context)
        except InvalidInput as error:
            error.errors = tuple(
                replace(one, pointer=source.translate_pointer(one.pointer)) for one in error.errors
            )
            raise
        warnings = tuple(
            replace(one, pointer=source.translate_pointer(one.pointer)) for one in read.report.warnings
        )
        return replace(read, report=replace(read.report, warnings=warnings))

    async def _discover(self, source: RegistrationSource, context: ImportContext) -> ParsedSource:
        template = read_template(source.value, at=source.at)
        inline = template.model.document
        if inline is not None:
            return replace(await self._read_inline(inline, source, context), protocol=template.protocol)
        await self.fetcher.adapters.load(template.protocol)
        split = split_template(template.model, scope=context.scope, at=source.at)
        resolved = context.scope.resolved(split.fields)
        for part in parts_of(resolved):
            self._check(part, source_pointer=source.at)
        origins = named_origins(resolved)
        if split.auth or split.auth_tools or split.static:
            context.permissions.require_credentials_write()
        discovery: dict[str, CredentialDraft] = {}
        static = split.static or context.credentials.get(DISCOVERY_STATIC)
        if static is not None:
            discovery[DISCOVERY_STATIC] = with_origins(static, origins)
        auth = split.auth or context.credentials.get("discovery")
        if auth is not None:
            binding = self.binding(origins)
            if auth.public.get("grant_type") == "refresh_token":
                # The endpoint may replace it at its first use, before anything is stored.
                error = FieldError(
                    pointer(source.at, "auth"), "Give a credential of another grant, or the document itself."
                )
                raise InvalidInput(
                    "A source cannot be fetched for the first time with a refresh token.", errors=[error]
                )
            discovery["discovery"] = complete(auth, slot=None, binding=binding, at=pointer(source.at, "auth"))
        sealed = {
            slot: seal_draft(
                draft, provider_id=context.id, slot=slot, vault=self.vault, finder=context.finder
            )
            for slot, draft in discovery.items()
        }
        request = DiscoveryRequest(split.fields, sealed, source.options, split.auth_tools, source.at)
        return replace(await self._fetch_source(request, context), discovery=discovery)

    def _check(self, template: Mapping[str, Any], *, source_pointer: str) -> None:
        """Raise InvalidInput, pointing below `source_pointer`, for a source that can never be fetched."""
        try:
            self.fetcher.prepare(template)
        except InvalidInput as error:
            problems = [
                replace(problem, pointer=source_pointer + problem.pointer) for problem in error.errors
            ]
            raise InvalidInput(f"The source cannot be used: {error.detail}", errors=problems) from None

    async def _read_inline(
        self, inline: InlineDocument, source: RegistrationSource, context: ImportContext
    ) -> ParsedSource:
        """Read a document that stands in the call template itself."""
        auth = (
            None if inline.auth_tools is None else self._build_auth_tools(inline.auth_tools, source, context)
        )
        context = _with_base(context, inline.base_url)
        document = replace(source, body=inline.content.encode(), at=source.at + inline.at)
        read = await self._read_document(document, DocumentOrigin(auth_tools=auth), context)
        return replace(read, named_origins=_find_base_origin(context))

    def _build_auth_tools(
        self, auth: Auth, source: RegistrationSource, context: ImportContext
    ) -> CredentialDraft:
        context.permissions.require_credentials_write()
        return draft_from_auth(auth, scope=context.scope, at=pointer(source.at, "auth_tools"))

    async def _fetch_source(self, request: DiscoveryRequest, context: ImportContext) -> ParsedSource:
        """Read what all servers of the template publish into one source."""
        resolved = context.scope.resolved(request.template)
        protocol = protocol_of(request.template)
        context = _with_base(context, resolved.get("base_url"))
        if protocol in PROTOCOLS.introspected:
            read = await self._read_introspected(request, context)
        else:
            read = await self._read_published(request, resolved, context)
        named = tuple(
            dict.fromkeys(
                [*named_origins(resolved), *_find_base_origin(context), *redirect_origins(context.options)]
            )
        )
        warning = warn_of_unconfirmed(read.report.final_url, named)
        return replace(
            read,
            protocol=protocol,
            call_template=request.template,
            named_origins=named,
            is_fetched=protocol not in PROTOCOLS.introspected,
            report=read.report if warning is None else read.report.with_warnings(warning),
        )

    async def _read_published(
        self, request: DiscoveryRequest, resolved: Json, context: ImportContext
    ) -> ParsedSource:
        async def fetch(url: str | None) -> Discovered:
            return await self._fetch(request, resolved, context, url=url)

        discovered = await fetch(None)
        document = RegistrationSource(
            "document",
            discovered.raw,
            discovered.media_type,
            url=resolved.get("url"),
            options=request.options,
            final_url=discovered.url if discovered.is_redirected else None,
        )
        if is_html(discovered.raw, media_type=discovered.media_type):
            urls = await _find_document_urls(discovered.raw, document.document_url or "", fetch)
            raise build_html_page_error(urls, at=pointer(request.at, "url"), final_url=document.final_url)
        origin = DocumentOrigin(
            template=request.template,
            fetch=fetch,
            auth_tools=request.auth_tools,
            inherited_slots=request.slots,
            has_discovery_credential=DISCOVERY_SLOTS[0] in request.credentials,
            has_credentials=bool(request.credentials),
            given_variables=_collect_given_variables(request, resolved, vault=self.vault),
        )
        read = await self._read_document(document, origin, context)
        return replace(
            read,
            language=read.language or read_content_language(discovered.language),
            report=replace(read.report, final_url=document.final_url),
        )

    async def _read_introspected(self, request: DiscoveryRequest, context: ImportContext) -> ParsedSource:
        """Read the manuals that the adapter makes, with the provider's template under that of each tool."""

        async def fetch(part: Json) -> bytes:
            return (await self._fetch(request, context.scope.resolved(part), context)).raw

        parts = await read_parts(request.template, fetch, at=request.at)
        tools: list[Json] = []
        for part, body in parts.read:
            tools += (with_server_template(part, tool) for tool in orjson.loads(body)["tools"])
        raw = {"utcp_version": "1.0.1", "tools": tools}
        document = RegistrationSource(
            "manual",
            exact_json.dumps(raw),
            "application/json",
            url=request.template.get("url"),
            options=request.options,
        )
        origin = DocumentOrigin(auth_tools=request.auth_tools, shared_slots=request.slots)
        read = await self._read_manual(raw, document, origin, context)
        return replace(read, report=read.report.with_warnings(*parts.warnings), unread_parts=parts.unread)

    async def _fetch(
        self, request: DiscoveryRequest, template: Json, context: ImportContext, *, url: str | None = None
    ) -> Discovered:
        try:
            return await self.fetcher.fetch(
                template,
                url=url,
                credentials=request.credentials,
                limits=limits_of(context.limits, self.settings),
                egress=build_egress_settings(context.options, context.option_secrets),
                scope=connection_scope(TENANT, context.id, request.credentials.values(), purpose="discovery"),
                reuse=context.options.get("reuse") is not False,
            )
        except InvalidInput as error:
            error.errors = tuple(
                replace(problem, pointer=request.at + problem.pointer) for problem in error.errors
            )
            raise

    # Documents

    async def _read_document(
        self, source: RegistrationSource, origin: DocumentOrigin, context: ImportContext
    ) -> ParsedSource:
        """Read a document of either kind, told apart by what it holds."""
        if _HTML.match(source.body[:_HTML_BEGIN]):
            detail = "This is an HTML page, not an OpenAPI document or a UTCP manual."
            raise InvalidDocument(detail, errors=[FieldError(source.at, detail)], hint=_DOCUMENT_URL)
        if is_manifest_source(source.body):
            return await self._read_manifests(source, origin, context)
        if await looks_like_openapi(source.body, media_type=source.media_type):
            return await self._read_openapi(source, origin, context)
        try:
            raw = await parse_manual(source.body, media_type=source.media_type, at=source.at)
        except InvalidDocument as error:
            error.hint = _choose_hint(origin)
            raise
        if detect_kind(raw) == "openapi":
            return await self._read_openapi(source, origin, context)
        if not (isinstance(raw, dict) and isinstance(raw.get("tools"), list)):
            detail = "This is neither a UTCP manual nor an OpenAPI document."
            raise InvalidDocument(detail, errors=[FieldError(source.at, detail)], hint=_choose_hint(origin))
        return await self._read_manual(raw, source, origin, context)

    async def _read_openapi(
        self, source: RegistrationSource, origin: DocumentOrigin, context: ImportContext
    ) -> ParsedSource:
        """Read an OpenAPI document or an archive of one, with the files that it refers to if requested."""
        try:
            return await self._convert_document(source, origin, context)
        except InvalidDocument as error:
            raise translate_option_error(error, at=context.at) from None

    async def _convert_document(
        self, source: RegistrationSource, origin: DocumentOrigin, context: ImportContext
    ) -> ParsedSource:
        url, options = source.document_url, source.options
        if options.follow_references is None and origin.has_credentials:
            return await self._without_files(source, origin, context)
        if options.follow_references is False or origin.fetch is None or url is None:
            conversion = await self.converter.convert(source, options=context.options)
            return await self._read_conversion(conversion, source, origin)
        if options.follow_references and not is_archive(source.body):
            # The root of an archive that was put together here is found anew each time.
            options = replace(options, root=None)
        options = replace(options, follow_references=True)

        async def convert(body: bytes, root: str | None, list_missing: bool) -> Conversion:
            inside = options if root is None else replace(options, root=root)
            document = replace(source, body=body, options=inside)
            return await self.converter.convert(document, options=context.options, list_missing=list_missing)

        complete_document = await follow(
            source.body,
            url=url,
            fetch=origin.fetch,
            convert=convert,
            max_bytes=self.settings.max_document_bytes,
        )
        stored = replace(
            source,
            body=complete_document.body,
            options=replace(options, root=complete_document.root or options.root),
        )
        read = await self._read_conversion(complete_document.conversion, stored, origin)
        return replace(read, report=read.report.with_warnings(*complete_document.warnings))

    async def _without_files(
        self, source: RegistrationSource, origin: DocumentOrigin, context: ImportContext
    ) -> ParsedSource:
        """Read a document, say which files beside it would be requested with the credential of the source."""
        source = replace(source, options=replace(source.options, follow_references=False))
        conversion = await self.converter.convert(source, options=context.options, list_missing=True)
        read = await self._read_conversion(conversion, source, origin)
        if not conversion.missing:
            return read
        names = ", ".join(path[:200] for path in conversion.missing[:_MAX_NAMED])
        warning = SourceWarning(f"The document refers to other files ({names}). {_UNFOLLOWED}")
        return replace(read, report=read.report.with_warnings(warning))

    async def _read_conversion(
        self, conversion: Conversion, source: RegistrationSource, origin: DocumentOrigin
    ) -> ParsedSource:
        def read() -> ParsedSource:
            return keep_callable(from_conversion(conversion, source=source), prepare=self.fetcher.prepare)

        # 10,000 tools take a third of a second.
        return with_auth_tools(await asyncio.to_thread(read), origin.auth_tools)

    async def _read_manual(
        self, raw: Any, source: RegistrationSource, origin: DocumentOrigin, context: ImportContext
    ) -> ParsedSource:
        """Read a parsed manual, the bytes of which are those of `source`."""
        if source.options == FETCHED:
            source = replace(source, options=PLAIN)
        if source.options != PLAIN:
            problem = FieldError(
                source.at, "root, overlay and follow_references go with an OpenAPI document."
            )
            raise InvalidInput("The source is a manual, which has none of these.", errors=[problem])
        template = origin.template
        rules = ManualRules(
            provider=context.name,
            scope=_build_manual_scope(origin, context),
            allocator=SlotAllocator(
                lambda draft: fingerprint(draft, vault=self.vault),
                known=context.known_slots,
                taken=context.taken_slots - set(context.known_slots.values()),
            ),
            at=source.at,
            auth_tools=origin.auth_tools,
            prepare=self.fetcher.prepare,
            fallback_slot=context.fallback_slot,
            protocols=None if template is None else _list_allowed_protocols(template),
            allows_local=template is None or _allows_local(template),
            shared_slots=origin.shared_slots,
            inherited_slots=origin.inherited_slots,
            identity=gateway_identity(self.vault),
            has_discovery_credential=origin.has_discovery_credential,
        )
        inherited_template = (
            template if template is not None and protocol_of(template) in PROTOCOLS.inheriting else None
        )

        def read() -> ParsedSource:
            manual = read_manual(raw, inherited=inherited_template)
            return assess_source(from_manual(manual, raw=raw, rules=rules, source=source))

        # Pure Python over a document of up to 128 MiB: in a thread, so that the event loop gets its turns.
        return await asyncio.to_thread(read)

    async def _read_manifests(
        self, source: RegistrationSource, origin: DocumentOrigin, context: ImportContext
    ) -> ParsedSource:
        """Read ToolClad manifests, the bytes of which are those of `source`."""
        manual = await asyncio.to_thread(read_manifests, source)
        try:
            read = await self._read_manual(manual.raw, source, origin, context)
        except InvalidInput as error:
            error.errors = tuple(located(one, manual, at=source.at) for one in error.errors)
            raise
        return from_manifests(read, manual)

    # Exports

    async def _read_export(self, source: RegistrationSource, context: ImportContext) -> ParsedSource:
        def read() -> ParsedSource:
            tools = from_export(source.value, scope=context.scope, at=source.at)
            return assess_source(keep_callable(tools, prepare=self.fetcher.prepare, scope=context.scope))

        read_tools = await asyncio.to_thread(read)
        template = source.value["call_template"]
        if template:
            template = open_fields(template, at=pointer(source.at, "call_template"))
        base = confirmed_base_url(context.options)
        urls = [str(context.scope.resolved(url)) for url in (source.url, base) if url]
        named = list(origins_of(urls))
        if template:
            named += [*named_origins(context.scope.resolved(template)), *redirect_origins(context.options)]
        if source.body:
            converted = await self._read_openapi(source, _UPLOADED, context)
            custom = tuple(tool for tool in read_tools.tools if tool.is_custom)
            known = {slot.name for slot in converted.slots}
            more = tuple(slot for slot in read_tools.slots if slot.name not in known)
            read_tools = replace(
                converted,
                tools=(*converted.tools, *custom),
                slots=(*converted.slots, *more),
                report=replace(converted.report, final_url=source.final_url),
            )
        return replace(
            read_tools,
            protocol=protocol_of(template),
            call_template=template,
            named_origins=tuple(dict.fromkeys(named)),
        )


def _choose_hint(origin: DocumentOrigin) -> str:
    """Return what to do about a document that describes no tools."""
    return InvalidDocument.hint if origin.template is None else f"{InvalidDocument.hint} {SINGLE_TOOLS}"


async def _find_document_urls(page: bytes, url: str, fetch: Fetch) -> tuple[str, ...]:
    """Return the URLs of documents that a page names, or the configuration script of its Swagger UI."""
    urls = await asyncio.to_thread(find_document_urls, page, url=url)
    script = await asyncio.to_thread(find_configuration_script, page, url=url)
    if urls or script is None:
        return urls
    try:
        discovered = await fetch(script)
    except GatewayError:
        return ()
    return await asyncio.to_thread(read_script_urls, discovered.raw, url=url)


def with_server_template(part: Json, tool: Json) -> Json:
    """Return a discovered tool with the members of its server's template that its own template does not set.

    The server's text is not the registrar's: the template is None where it names variables.
    """
    own_template = tool[KEY]
    if variables_of({**own_template, "call_template_type": protocol_of(part)}):
        return {**tool, KEY: None}
    return {**tool, KEY: {**part, **own_template}}


def translate_option_error(error: InvalidDocument, *, at: str) -> InvalidInput:
    """Return the error about options that do not fit the document, with pointers into the registration at
    the pointer `at`; other errors are returned as they are.
    """
    if not error.errors or not all(one.pointer.startswith("/options/") for one in error.errors):
        return error
    return InvalidInput(error.detail, errors=[replace(one, pointer=at + one.pointer) for one in error.errors])


def _find_base_origin(context: ImportContext) -> tuple[str, ...]:
    return origins_of([confirmed_base_url(context.options) or ""])


def _with_base(context: ImportContext, base_url: str | None) -> ImportContext:
    """Return the context in which OpenAPI documents are read as of this URL, unless options say otherwise."""
    return replace(context, options={"base_url": base_url, **context.options}) if base_url else context


def _collect_given_variables(request: DiscoveryRequest, resolved: Json, *, vault: Vault) -> frozenset[str]:
    """Return the names of the variables that are sent to the template's origin, not those of signing keys."""
    origins = named_origins(resolved)
    names: set[str] = set()
    for credential in request.credentials.values():
        token_url = credential.public.get("token_url") or credential.public.get("metadata_url")
        if token_url and origin_of(str(token_url)) not in origins:
            continue
        unsent = UNSENT_MEMBERS.get(credential.kind, frozenset())
        fields = open_credential(credential, vault=vault)
        names.update(variables_in([value for name, value in fields.items() if name not in unsent]))
    return frozenset(names)


def _build_manual_scope(origin: DocumentOrigin, context: ImportContext) -> VariableScope:
    """Return the variables that the tools of a manual may name, by who wrote it."""
    if origin.template is None:
        return context.scope
    shown = frozenset(variables_of(origin.template))
    return context.scope.for_fetched_text(given=origin.given_variables, shown=shown)


def _list_allowed_protocols(template: Json) -> frozenset[str]:
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
