"""A document -> a ToolSet: OpenAPI by the converter, manuals here."""

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from app.credentials.model import GivenCredential, Json
from app.credentials.sealing import fingerprint
from app.credentials.slots import SlotBook
from app.errors import Fault, InvalidDocument, InvalidInput
from app.openapi.archive import is_archive
from app.openapi.model import Conversion
from app.protocols.call_templates import protocol_of
from app.protocols.manuals import detect, read_manual
from app.protocols.registry import PROTOCOLS
from app.registration.callable_filter import only_callable
from app.registration.context import Subject
from app.registration.converter import Converter
from app.registration.external_refs import Fetch, follow
from app.registration.fetch import Fetcher
from app.registration.from_manual import ManualReading, read_tools
from app.registration.from_openapi import from_conversion, with_auth_tools
from app.registration.json_yaml import looks_like_openapi, parsed
from app.registration.model import StoredSource, ToolSet
from app.registration.report import with_warnings
from app.registration.request_model import PLAIN, DocumentOptions
from app.registration.tool_quality import judged_set
from app.security.identity import identity_of
from app.security.vault import Vault
from app.settings import Settings


@dataclass(frozen=True, slots=True)
class Document:
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
    template: Json | None = None
    """That of the provider whose manual it is, where it was fetched."""
    shared: tuple[str, ...] = ()
    discovery: bool = False
    """Whether it was fetched with a credential."""
    inherited: tuple[str, ...] = ()
    """The provider's own slots, for the tools that are called with its template."""


@dataclass(frozen=True, slots=True)
class DocumentReader:
    """Reads documents of any kind."""

    settings: Settings
    vault: Vault
    fetcher: Fetcher
    converter: Converter

    async def read(self, document: Document, subject: Subject) -> ToolSet:
        """Told apart by what it holds. Raises InvalidInput, UnsetVariable and TooLarge."""
        if await looks_like_openapi(document.body, media_type=document.media_type):
            return await self.openapi(document, subject)
        raw = await parsed(document.body, media_type=document.media_type)
        kind = detect(raw)
        if kind == "openapi":
            return await self.openapi(document, subject)
        if not (isinstance(raw, dict) and isinstance(raw.get("tools"), list)):
            detail = "This is neither a UTCP manual nor an OpenAPI document."
            raise InvalidDocument(detail, errors=[Fault(document.at, detail)])
        stored = StoredSource("manual", document.body, document.media_type, document.url, sealed=True)
        return await self.manual(raw, document, subject, stored)

    async def openapi(self, document: Document, subject: Subject) -> ToolSet:
        """An OpenAPI document, or an archive of one, with the files that it refers to where it says so."""
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

    async def _converted(self, conversion: Conversion, stored: StoredSource, document: Document) -> ToolSet:
        def read() -> ToolSet:
            return only_callable(from_conversion(conversion, source=stored), prepare=self.fetcher.prepare)

        # 10,000 tools take a third of a second.
        tool_set = await asyncio.to_thread(read)
        return with_auth_tools(tool_set, document.auth_tools)

    async def manual(self, raw: Any, document: Document, subject: Subject, stored: StoredSource) -> ToolSet:
        """A parsed manual; of the document count only its circumstances."""
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
            prepare=self.fetcher.prepare,
            fallback_slot=subject.fallback_slot,
            protocols=_allowed(document.template),
            runs_programs=_names_programs(document.template),
            shared=document.shared,
            identity=identity_of(self.vault),
            discovery=document.discovery,
            inherited=document.inherited,
        )
        template = document.template
        own = template if template is not None and protocol_of(template) in PROTOCOLS.inheriting else None

        def read() -> ToolSet:
            return judged_set(read_tools(read_manual(raw, inherited=own), raw=raw, how=how, source=stored))

        # Pure Python over a document of up to 64 MB: in a thread, so that the event loop gets its turns.
        return await asyncio.to_thread(read)


def _allowed(template: Json | None) -> frozenset[str] | None:
    """The protocols of the tools of a fetched manual; None where they are not bounded."""
    named = None if template is None else template.get("allowed_communication_protocols")
    if template is None or named is None:
        return None if template is None else frozenset(PROTOCOLS)
    return frozenset(map(PROTOCOLS.canonical, named)) | {protocol_of(template)}


def _names_programs(template: Json | None) -> bool:
    """Whether the registrar let a fetched manual run programs and read files here."""
    if template is None:
        return True
    named = template.get("allowed_communication_protocols") or ()
    return bool(PROTOCOLS.local & {protocol_of(template), *map(PROTOCOLS.canonical, named)})
