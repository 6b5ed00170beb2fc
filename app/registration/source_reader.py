"""A source -> a ToolSet: fetched, converted, or read where it is. No database connection is held."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from app.catalog.limits import limits_of
from app.catalog.loader import stored_form
from app.credentials.model import DISCOVERY_SLOTS, DISCOVERY_STATIC, GivenCredential, Json
from app.credentials.origins import named_origins, origin_of, origins_of
from app.credentials.sealing import sealed_form
from app.credentials.slots import Binding, complete
from app.credentials.template_secrets import given_auth, split_template, with_origins
from app.errors import InvalidInput
from app.models import TENANT
from app.outbound.egress import egress_from
from app.outbound.scope import connection_scope
from app.protocols.base import Discovered
from app.protocols.call_templates import protocol_of, read_template
from app.protocols.origins import parts_of
from app.protocols.registry import PROTOCOLS
from app.protocols.variables import variables_of
from app.registration.callable_filter import only_callable
from app.registration.context import Subject
from app.registration.converter import Converter
from app.registration.destinations import confirmed_base_url
from app.registration.document_reader import Document, DocumentReader
from app.registration.fetch import Fetcher
from app.registration.from_export import open_fields, read_exported
from app.registration.model import StoredSource, ToolSet
from app.registration.request_model import PLAIN, DocumentOptions, Source
from app.registration.tool_quality import judged_set
from app.security.credentials import SealedCredential
from app.security.vault import Vault
from app.settings import Settings
from app.text import pointer
from app.utcp.auth import Auth
from app.utcp.call_template import InlineDocument

KEY = "tool_call_template"


@dataclass(frozen=True, slots=True)
class Reading:
    """What reading a source gave. `discovery` are credentials that the next discovery needs, too."""

    tool_set: ToolSet
    call_template: Json = field(default_factory=dict)
    discovery: Mapping[str, GivenCredential] = field(default_factory=dict)
    named_origins: tuple[str, ...] = ()
    fetched: bool = False


@dataclass(frozen=True, slots=True)
class _Way:
    """How a source is asked: its template without secrets, and the credentials for that, by slot."""

    template: Json
    credentials: Mapping[str, SealedCredential]
    how: DocumentOptions = PLAIN
    auth_tools: GivenCredential | None = None


@dataclass(frozen=True, slots=True)
class SourceReader:
    """Reads every kind of source."""

    settings: Settings
    vault: Vault
    fetcher: Fetcher
    documents: DocumentReader

    @classmethod
    def of(cls, settings: Settings, vault: Vault, fetcher: Fetcher, converter: Converter) -> "SourceReader":
        """A reader of all sources."""
        return cls(settings, vault, fetcher, DocumentReader(settings, vault, fetcher, converter))

    def prepare(self, template: Mapping[str, Any]) -> str:
        """The origin of a template, variables written out; InvalidInput for one that can never be called."""
        return self.fetcher.prepare(template)

    async def read(self, source: Source, subject: Subject) -> Reading:
        """Raises InvalidInput, UnsetVariable, TooLarge, BlockedAddress and UpstreamError."""
        if source.kind == "template":
            return await self._discover(source, subject)
        if source.kind == "tools":
            return await self._exported(source, subject)
        base = origin_of(confirmed_base_url(subject.options) or "")
        named = (base,) if base else ()
        if source.kind == "manual":
            raw = await asyncio.to_thread(orjson.dumps, source.value)
            stored = StoredSource("manual", raw, "application/json", sealed=True)
            document = Document(b"", "", at=source.at, how=source.how)
            tool_set = await self.documents.manual(source.value, document, subject, stored)
            return Reading(tool_set, named_origins=named)
        document = Document(source.body, source.media_type, url=source.url, at=source.at, how=source.how)
        return Reading(await self.documents.read(document, subject), named_origins=named)

    async def rediscover(
        self, template: Mapping[str, Any], subject: Subject, *, how: DocumentOptions
    ) -> Reading:
        """Fetches again with the stored template and the stored credentials for that."""
        credentials = {
            slot: stored_form(row, finder=subject.finder)
            for slot, row in subject.stored.items()
            if slot in DISCOVERY_SLOTS
        }
        return await self._fetched(_Way(dict(template), credentials, how=how), subject)

    async def _discover(self, source: Source, subject: Subject) -> Reading:
        template = read_template(source.value, at=source.at)
        inline = template.model.document
        if inline is not None:
            reading = await self._content(inline, source, subject)
            return replace(reading, tool_set=replace(reading.tool_set, protocol=template.protocol))
        await self.fetcher.adapters.ready(template.protocol)
        split = split_template(template.model, scope=subject.scope, at=source.at)
        resolved = subject.scope.resolved(split.fields)
        for part in parts_of(resolved):
            self._check(part, at=source.at)
        origins = named_origins(resolved)
        if split.auth or split.auth_tools or split.static:
            subject.reach.permit_sealing()
        discovery: dict[str, GivenCredential] = {}
        static = split.static or subject.given.get(DISCOVERY_STATIC)
        if static is not None:
            discovery[DISCOVERY_STATIC] = with_origins(static, origins)
        auth = split.auth or subject.given.get("discovery")
        if auth is not None:
            binding = self.binding(origins)
            discovery["discovery"] = complete(auth, slot=None, binding=binding, at=pointer(source.at, "auth"))
        sealed = {slot: self._sealed(given, slot, subject) for slot, given in discovery.items()}
        way = _Way(split.fields, sealed, how=source.how, auth_tools=split.auth_tools)
        reading = await self._fetched(way, subject)
        return replace(reading, discovery=discovery)

    def _check(self, template: Mapping[str, Any], *, at: str) -> None:
        """Raises InvalidInput, pointing below `at`, for a source that nobody could ask."""
        try:
            self.fetcher.prepare(template)
        except InvalidInput as error:
            faults = [replace(fault, pointer=at + fault.pointer) for fault in error.errors]
            raise InvalidInput(f"The source cannot be used: {error.detail}", errors=faults) from None

    async def _content(self, inline: InlineDocument, source: Source, subject: Subject) -> Reading:
        """Read a document that stands in the call template itself."""
        at = source.at + inline.at
        auth = None if inline.auth_tools is None else self._auth_tools(inline.auth_tools, source, subject)
        subject = _with_base(subject, inline.base_url)
        document = Document(inline.content.encode(), "", at=at, auth_tools=auth, how=source.how)
        base = origin_of(confirmed_base_url(subject.options) or "")
        tool_set = await self.documents.read(document, subject)
        return Reading(tool_set, named_origins=(base,) if base else ())

    def _auth_tools(self, auth: Auth, source: Source, subject: Subject) -> GivenCredential:
        subject.reach.permit_sealing()
        at = pointer(source.at, "auth_tools")
        return given_auth(auth, scope=subject.scope, at=at)

    async def _exported(self, source: Source, subject: Subject) -> Reading:
        tool_set = await asyncio.to_thread(read_exported, source.value, scope=subject.scope, at=source.at)
        tool_set = await asyncio.to_thread(
            only_callable, tool_set, prepare=self.fetcher.prepare, scope=subject.scope
        )
        tool_set = await asyncio.to_thread(judged_set, tool_set)
        template = source.value["call_template"]
        if template:
            template = open_fields(template, at=pointer(source.at, "call_template"))
        base = confirmed_base_url(subject.options)
        urls = [str(subject.scope.resolved(url)) for url in (source.url, base) if url]
        named = [*origins_of(urls), *(named_origins(subject.scope.resolved(template)) if template else ())]
        if source.body:
            document = Document(source.body, source.media_type, url=source.url, at=source.at, how=source.how)
            converted = await self.documents.openapi(document, subject)
            by_hand = tuple(tool for tool in tool_set.tools if tool.by_hand)
            known = {slot["slot"] for slot in converted.slots}
            more = tuple(slot for slot in tool_set.slots if slot["slot"] not in known)
            tool_set = replace(converted, tools=(*converted.tools, *by_hand), slots=(*converted.slots, *more))
        tool_set = replace(tool_set, protocol=protocol_of(template))
        return Reading(tool_set, call_template=template, named_origins=tuple(dict.fromkeys(named)))

    async def _fetched(self, way: _Way, subject: Subject) -> Reading:
        """What each server of the template publishes, together."""
        resolved = subject.scope.resolved(way.template)
        protocol = protocol_of(way.template)
        subject = _with_base(subject, resolved.get("base_url"))
        base = origin_of(confirmed_base_url(subject.options) or "")
        named = [*named_origins(resolved), *([base] if base else [])]
        if protocol in PROTOCOLS.introspected:
            tool_set = await self._introspected(way, subject)
        else:
            tool_set = await self._published(way, resolved, subject)
        return Reading(
            replace(tool_set, protocol=protocol),
            call_template=way.template,
            named_origins=tuple(dict.fromkeys(named)),
            fetched=protocol not in PROTOCOLS.introspected,
        )

    async def _published(self, way: _Way, resolved: Json, subject: Subject) -> ToolSet:
        async def fetch(url: str | None) -> Discovered:
            return await self._ask(way, resolved if url is None else {**resolved, "url": url}, subject)

        found = await fetch(None)
        document = Document(
            found.raw,
            found.media_type,
            url=resolved.get("url"),
            fetched=True,
            auth_tools=way.auth_tools,
            how=way.how,
            fetch=fetch,
            template=way.template,
            discovery=DISCOVERY_SLOTS[0] in way.credentials,
            inherited=self._own_slots(way),
        )
        return await self.documents.read(document, subject)

    async def _introspected(self, way: _Way, subject: Subject) -> ToolSet:
        """The manuals that the adapter made, with the provider's own template under that of each tool."""
        tools: list[Json] = []
        parts = parts_of(way.template)
        for part in parts:
            found = await self._ask(way, subject.scope.resolved(part), subject)
            made = orjson.loads(found.raw)
            tools += (laid_over(part, tool) for tool in made["tools"])
        raw = {"utcp_version": "1.0.1", "tools": tools}
        body = orjson.dumps(raw)
        stored = StoredSource("manual", body, "application/json", parts[0].get("url"), sealed=True)
        shared = self._own_slots(way)
        document = Document(body, "application/json", auth_tools=way.auth_tools, how=way.how, shared=shared)
        return await self.documents.manual(raw, document, subject, stored)

    @staticmethod
    def _own_slots(way: _Way) -> tuple[str, ...]:
        return tuple(slot for slot in DISCOVERY_SLOTS if slot in way.credentials)

    async def _ask(self, way: _Way, template: Json, subject: Subject) -> Discovered:
        return await self.fetcher.fetch(
            template,
            credentials=way.credentials,
            limits=limits_of(subject.limits, self.settings),
            egress=egress_from(subject.options, subject.option_secrets),
            scope=connection_scope(TENANT, subject.id, way.credentials.values(), purpose="discovery"),
            reuse=subject.options.get("reuse") is not False,
        )

    def binding(self, named: tuple[str, ...], tools: tuple[str, ...] = ()) -> Binding:
        """Where credentials go by default, and whether a token endpoint may be spoken to in the clear."""
        return Binding(
            named, tools, loopback_tokens=self.settings.embedded or _allows_loopback(self.settings)
        )

    def _sealed(self, given: GivenCredential, slot: str, subject: Subject) -> SealedCredential:
        return sealed_form(given, provider_id=subject.id, slot=slot, vault=self.vault, finder=subject.finder)


def laid_over(part: Json, tool: Json) -> Json:
    """A made tool whose own template stands over that of its server.

    What the server says is no text of the registrar's: where it names variables, the tool is none.
    """
    own = tool[KEY]
    if variables_of({**own, "call_template_type": protocol_of(part)}):
        return {**tool, KEY: None}
    return {**tool, KEY: {**part, **own}}


def _with_base(subject: Subject, base_url: str | None) -> Subject:
    """The subject whose OpenAPI documents are read as if they lay there, unless its options say where."""
    return replace(subject, options={"base_url": base_url, **subject.options}) if base_url else subject


def _allows_loopback(settings: Settings) -> bool:
    return any(entry.startswith(("127.", "::1", "[::1]", "0.0.0.0/0")) for entry in settings.allow_networks)
