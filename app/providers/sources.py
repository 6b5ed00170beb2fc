"""A source -> a ToolSet: fetched, converted, or read where it is. No database connection is held."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from app.catalog.limits import limits_of
from app.catalog.loader import stored_form
from app.errors import Fault, InvalidDocument, InvalidInput
from app.openapi.archive import is_archive
from app.openapi.model import Conversion
from app.outbound.egress import egress_from
from app.protocols.base import Discovered
from app.providers.callable import only_callable
from app.providers.conversion import Converter
from app.providers.documents import from_conversion, with_auth_tools
from app.providers.drafts import DISCOVERY_SLOTS, DISCOVERY_STATIC, Json, StoredSource, ToolSet
from app.providers.exported import open_fields, read_exported
from app.providers.fetching import Fetcher
from app.providers.following import Fetch, follow
from app.providers.handmade import SERVED, ManualReading, NotServed, not_served, read_tools
from app.providers.judging import judged_set
from app.providers.keeping import fingerprint, sealed_form
from app.providers.origins import origin_of, origins_of
from app.providers.parsing import looks_like_openapi, parsed
from app.providers.registration import PLAIN, DocumentOptions, GivenCredential, Source
from app.providers.reports import with_warnings
from app.providers.sealing import split_template, with_origins
from app.providers.slots import Binding, SlotBook, complete
from app.providers.subject import Subject
from app.security.credentials import SealedCredential
from app.security.vault import Vault
from app.settings import Settings
from app.utcp.manuals import detect, read_manual
from app.utcp.templates import read_template
from app.utcp.text import pointer


@dataclass(frozen=True, slots=True)
class Reading:
    """What reading a source gave. `discovery` are credentials that the next discovery needs, too."""

    tool_set: ToolSet
    call_template: Json = field(default_factory=dict)
    discovery: Mapping[str, GivenCredential] = field(default_factory=dict)
    named_origins: tuple[str, ...] = ()
    fetched: bool = False


@dataclass(frozen=True, slots=True)
class _Document:
    """Bytes to be read, and where they came from."""

    body: bytes
    media_type: str
    url: str | None = None
    fetched: bool = False
    auth_tools: GivenCredential | None = None
    at: str = ""
    how: DocumentOptions = PLAIN
    fetch: Fetch | None = None
    """How to get the files beside it."""


@dataclass(frozen=True, slots=True)
class SourceReader:
    """Reads every kind of source."""

    settings: Settings
    vault: Vault
    fetcher: Fetcher
    converter: Converter

    async def read(self, source: Source, subject: Subject) -> Reading:
        """Raises InvalidInput, UnsetVariable, TooLarge, BlockedAddress and UpstreamError."""
        if source.kind == "template":
            return await self._discover(source, subject)
        if source.kind == "tools":
            return await self._exported(source, subject)
        base = origin_of(str(subject.options.get("base_url", "")))
        named = (base,) if base else ()
        if source.kind == "manual":
            raw = await asyncio.to_thread(orjson.dumps, source.value)
            stored = StoredSource("manual", raw, "application/json", sealed=True)
            document = _Document(b"", "", at=source.at, how=source.how)
            tool_set = await self._manual(source.value, document, subject, stored)
            return Reading(tool_set, named_origins=named)
        document = _Document(source.body, source.media_type, url=source.url, at=source.at, how=source.how)
        return Reading(await self._document(document, subject), named_origins=named)

    async def rediscover(
        self, template: Mapping[str, Any], subject: Subject, *, how: DocumentOptions
    ) -> Reading:
        """Fetches again with the stored template and the stored credentials for that."""
        target = str(subject.scope.resolved(template["url"]))
        credentials = {
            slot: stored_form(row, finder=subject.finder)
            for slot, row in subject.stored.items()
            if slot in DISCOVERY_SLOTS
        }
        return await self._fetched(dict(template), target, credentials, subject, how=how)

    async def _discover(self, source: Source, subject: Subject) -> Reading:
        template = read_template(source.value, at=source.at)
        if template.protocol not in SERVED or template.http is None:
            key = next(
                (key for key in ("provider_type", "type") if key in source.value), "call_template_type"
            )
            sentence = not_served(template.protocol)
            raise NotServed(sentence, errors=[Fault(pointer(source.at, key), sentence, sorted(SERVED))])
        split = split_template(template.http, scope=subject.scope, at=source.at)
        origin = origin_of(split.target)
        if origin is None:
            fault = Fault(pointer(source.at, "url"), "Give an absolute URL whose host is fixed and legal.")
            raise InvalidInput("The source's URL cannot be used.", errors=[fault])
        if split.auth or split.auth_tools or split.static:
            subject.reach.permit_sealing()
        binding = self.binding((origin,))
        discovery: dict[str, GivenCredential] = {}
        static = split.static or subject.given.get(DISCOVERY_STATIC)
        if static is not None:
            discovery[DISCOVERY_STATIC] = with_origins(static, (origin,))
        auth = split.auth or subject.given.get("discovery")
        if auth is not None:
            discovery["discovery"] = complete(auth, slot=None, binding=binding, at=pointer(source.at, "auth"))
        sealed = {slot: self._sealed(given, slot, subject) for slot, given in discovery.items()}
        reading = await self._fetched(
            split.fields, split.target, sealed, subject, how=source.how, auth_tools=split.auth_tools
        )
        return replace(reading, discovery=discovery)

    async def _exported(self, source: Source, subject: Subject) -> Reading:
        tool_set = await asyncio.to_thread(read_exported, source.value, scope=subject.scope, at=source.at)
        tool_set = await asyncio.to_thread(only_callable, tool_set, prepare=self.prepare, scope=subject.scope)
        tool_set = await asyncio.to_thread(judged_set, tool_set)
        template = source.value["call_template"]
        if template:
            template = open_fields(template, at=pointer(source.at, "call_template"))
        base = subject.options.get("base_url")
        urls = [str(subject.scope.resolved(url)) for url in (source.url, template.get("url"), base) if url]
        if source.body:
            document = _Document(source.body, source.media_type, url=source.url, at=source.at, how=source.how)
            converted = await self._openapi(document, subject)
            by_hand = tuple(tool for tool in tool_set.tools if tool.by_hand)
            known = {slot["slot"] for slot in converted.slots}
            more = tuple(slot for slot in tool_set.slots if slot["slot"] not in known)
            tool_set = replace(converted, tools=(*converted.tools, *by_hand), slots=(*converted.slots, *more))
        return Reading(tool_set, call_template=template, named_origins=origins_of(urls))

    async def _fetched(
        self,
        template: Json,
        target: str,
        credentials: Mapping[str, SealedCredential],
        subject: Subject,
        *,
        how: DocumentOptions,
        auth_tools: GivenCredential | None = None,
    ) -> Reading:
        resolved = subject.scope.resolved(template)

        async def fetch(url: str) -> Discovered:
            return await self.fetcher.fetch(
                {**resolved, "url": url},
                credentials=credentials,
                limits=limits_of(subject.limits, self.settings),
                egress=egress_from(subject.options, subject.option_secrets),
            )

        found = await fetch(target)
        document = _Document(
            found.raw, found.media_type, url=target, fetched=True, auth_tools=auth_tools, how=how, fetch=fetch
        )
        tool_set = await self._document(document, subject)
        base = subject.options.get("base_url")
        named = (origin_of(target), origin_of(str(base)) if base else None)
        return Reading(
            tool_set,
            call_template=template,
            named_origins=tuple(dict.fromkeys(origin for origin in named if origin)),
            fetched=True,
        )

    async def _document(self, document: _Document, subject: Subject) -> ToolSet:
        if await looks_like_openapi(document.body, media_type=document.media_type):
            return await self._openapi(document, subject)
        raw = await parsed(document.body, media_type=document.media_type)
        kind = detect(raw)
        if kind == "openapi":
            return await self._openapi(document, subject)
        if not (isinstance(raw, dict) and isinstance(raw.get("tools"), list)):
            detail = "This is neither a UTCP manual nor an OpenAPI document."
            raise InvalidDocument(detail, errors=[Fault(document.at, detail)])
        stored = StoredSource("manual", document.body, document.media_type, document.url, sealed=True)
        return await self._manual(raw, document, subject, stored)

    async def _openapi(self, document: _Document, subject: Subject) -> ToolSet:
        how, url, base_url = document.how, document.url, subject.options.get("base_url")
        if not how.follows or document.fetch is None or url is None:
            conversion = await self.converter.convert(
                document.body, url=url, base_url=base_url, media_type=document.media_type, how=how
            )
            stored = StoredSource("openapi", document.body, document.media_type, url, how=how)
            return await self._converted(conversion, stored, document)

        # The root of an archive that was put together here is told anew each time.
        given = how if is_archive(document.body) else replace(how, root=None)

        async def convert(body: bytes, root: str | None, gathers: bool) -> Conversion:
            inside = given if root is None else replace(given, root=root)
            return await self.converter.convert(
                body,
                url=url,
                base_url=base_url,
                media_type=document.media_type,
                how=inside,
                gathers=gathers,
            )

        largest = self.settings.max_document_bytes
        found = await follow(document.body, url=url, fetch=document.fetch, convert=convert, largest=largest)
        kept = replace(given, root=found.root or given.root)
        stored = StoredSource("openapi", found.body, document.media_type, url, how=kept)
        tool_set = await self._converted(found.conversion, stored, document)
        return replace(tool_set, report=with_warnings(tool_set.report, *found.remarks))

    async def _converted(self, conversion: Conversion, stored: StoredSource, document: _Document) -> ToolSet:
        def read() -> ToolSet:
            return only_callable(from_conversion(conversion, source=stored), prepare=self.prepare)

        # 10,000 tools take a third of a second.
        tool_set = await asyncio.to_thread(read)
        return with_auth_tools(tool_set, document.auth_tools)

    async def _manual(self, raw: Any, document: _Document, subject: Subject, stored: StoredSource) -> ToolSet:
        if document.how != PLAIN:
            fault = Fault(document.at, "root, overlay and follow_references go with an OpenAPI document.")
            raise InvalidInput("The source is a manual, which has none of these.", errors=[fault])
        scope = subject.scope.narrowed() if document.fetched else subject.scope
        book = SlotBook(
            lambda given: fingerprint(given, vault=self.vault),
            known=subject.known_slots,
            taken=subject.taken_slots - set(subject.known_slots.values()),
        )
        how = ManualReading(
            provider=subject.name,
            scope=scope,
            book=book,
            at=document.at,
            auth_tools=document.auth_tools,
            prepare=self.prepare,
            fallback_slot=subject.fallback_slot,
        )

        def read() -> ToolSet:
            return judged_set(read_tools(read_manual(raw), raw=raw, how=how, source=stored))

        # Pure Python over a document of up to 64 MB: in a thread, so that the event loop gets its turns.
        return await asyncio.to_thread(read)

    def prepare(self, template: Mapping[str, Any]) -> None:
        """Raises InvalidInput for an http template, variables written out, that could never be called."""
        self.fetcher.adapters["http"].prepare(template)

    def binding(self, named: tuple[str, ...], tools: tuple[str, ...] = ()) -> Binding:
        """Where credentials go by default, and whether a token endpoint may be spoken to in the clear."""
        return Binding(
            named, tools, loopback_tokens=self.settings.embedded or _allows_loopback(self.settings)
        )

    def _sealed(self, given: GivenCredential, slot: str, subject: Subject) -> SealedCredential:
        return sealed_form(given, provider_id=subject.id, slot=slot, vault=self.vault, finder=subject.finder)


def _allows_loopback(settings: Settings) -> bool:
    return any(entry.startswith(("127.", "::1", "[::1]", "0.0.0.0/0")) for entry in settings.allow_networks)
