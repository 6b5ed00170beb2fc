"""Enabling and disabling plugins: the provider, its credentials and the toolset, in one transaction."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import orjson
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.access.events import record_event
from app.catalog.loader import VariableFinder, sealed_credential
from app.core import exact_json
from app.core.errors import Conflict, FieldError, InvalidInput, not_found
from app.protocols.registry import DEFAULT
from app.providers.credentials.model import EGRESS_SLOT, CredentialDraft, VariableDraft
from app.providers.credentials.origins import origin_of
from app.providers.plugins.configuration import (
    PluginConfiguration,
    ReadConfiguration,
    read_credentials,
    read_settings,
    reject_missing,
    variable_names,
)
from app.providers.plugins.enabled import DOCUMENT_GIVEN, EnabledPlugin, enabled_plugins, plugin_of_toolset
from app.providers.plugins.entry import PluginDocument, PluginEntry
from app.providers.plugins.loader import PluginCatalogue
from app.providers.plugins.overlay import overlay_of
from app.providers.plugins.words import PluginWords
from app.providers.registration.model import (
    DocumentOptions,
    RegistrationRequest,
    RegistrationResult,
    RegistrationSource,
)
from app.providers.registration.persist import HIDDEN_OPTIONS, PLUGIN_OPTION, definition_of, open_source_body
from app.providers.registration.repository import (
    credentials_of,
    lock_names,
    overrides_of,
    provider_named,
    source_of,
    variables_for,
)
from app.providers.registration.service import RegistrationService, RegistrationUnit
from app.search.hits import Hit
from app.security.principal import Principal
from app.security.sealed_credentials import open_credential, open_variable
from app.storage.models import Provider, Tool, ToolsetRow, now
from app.toolsets.changes import find_toolset, insert_toolset, record_toolset_change, require_unrestricted
from app.toolsets.definition import MemberChange, StoredDefinition, ToolsetDefinition, with_former_names

_PLACES: Final = ("base_url", "server", "server_variables")


@dataclass(frozen=True, slots=True)
class PluginState:
    """An entry of the catalogue, and what is enabled of it. `configured` are the slots with a credential."""

    entry: PluginEntry
    enabled: EnabledPlugin | None = None
    is_allowed: bool = True
    configured: frozenset[str] = frozenset()
    missing_tools: tuple[str, ...] = ()

    @property
    def is_outdated(self) -> bool:
        """Whether the catalogue has a newer version of the entry."""
        return self.enabled is not None and self.enabled.version < self.entry.version


@dataclass(frozen=True, slots=True)
class _Kept:
    """What an enabled plugin has: what a request leaves out stays as it is."""

    provider: Provider
    plugin: EnabledPlugin
    credentials: Mapping[str, CredentialDraft] = field(repr=False)
    variables: Mapping[str, VariableDraft] = field(repr=False)
    option_secrets: Mapping[str, str] = field(repr=False)
    overrides: Mapping[str, Mapping[str, Any]]
    document: RegistrationSource | None
    has_toolset: bool


@dataclass(frozen=True, slots=True)
class PluginService:
    """The catalogue, and what is enabled of it."""

    catalogue: PluginCatalogue
    registration: RegistrationService
    words: PluginWords

    async def states(self, *, principal: Principal) -> list[PluginState]:
        """Return all entries with what is enabled of them and visible to the principal, by name."""
        entries = await self.catalogue.all()
        async with self.registration.database.read_session() as session:
            enabled = await enabled_plugins(session, principal=principal)
        return [
            PluginState(entry, enabled.get(name), self.is_allowed(entry)) for name, entry in entries.items()
        ]

    async def get(self, name: str, *, principal: Principal) -> PluginState:
        """Return an entry with what is enabled of it and visible to the principal; raise NotFound."""
        entry = await self.catalogue.get(name)
        async with self.registration.database.read_session() as session:
            provider = await provider_named(session, name)
            if provider is not None and not principal.may_use(provider.name, provider.tags):
                provider = None
            plugin = None if provider is None else EnabledPlugin.of(provider)
            if provider is None or plugin is None:
                return PluginState(entry, None, self.is_allowed(entry))
            slots = {row.slot for row in await credentials_of(session, [provider.id])}
            variables = {
                row.name for row in await variables_for(session, provider.id) if row.provider_id is not None
            }
            names = select(col(Tool.name)).where(col(Tool.provider_id) == provider.id)
            registered = set(await session.scalars(names))
        configured = frozenset(
            slot
            for slot, one in entry.credentials.items()
            if (slot in slots if entry.document is not None else set(variable_names(one)) <= variables)
        )
        missing = tuple(one for one in entry.tool_names if f"{name}.{one}" not in registered)
        return PluginState(entry, plugin, self.is_allowed(entry), configured, missing)

    def is_allowed(self, entry: PluginEntry) -> bool:
        """Return whether the gateway's operator has allowed what the plugin needs of this machine."""
        setting = entry.requires_setting
        return setting is None or bool(getattr(self.registration.settings, setting.lower()))

    async def suggestions(
        self, texts: list[str], hits: Sequence[Hit], *, principal: Principal
    ) -> list[PluginEntry]:
        """Return plugins that are off and fit a search better than the tools that it has found, to keys that
        may read providers; none to others.
        """
        if not principal.has_scope("providers:read") or principal.is_restricted:
            return []
        names = await self.words.better_than(texts, hits)
        if not names:
            return []
        async with self.registration.database.read_session() as session:
            enabled = await enabled_plugins(session, principal=principal)
        return [await self.catalogue.get(name) for name in names if name not in enabled]

    async def resolve_names(self, names: list[str], *, principal: Principal) -> tuple[list[str], list[str]]:
        """Return those of the names that are of enabled plugins, each once, and a warning for each other."""
        async with self.registration.database.read_session() as session:
            enabled = await enabled_plugins(session, principal=principal)
        known = set(self.catalogue.names())
        found, warnings = [], []
        for name in dict.fromkeys(names):
            if name in enabled:
                found.append(name)
            elif name in known:
                warnings.append(f"Plugin '{name}' is not enabled")
            else:
                warnings.append(f"Plugin '{name}' not found in registry")
        return found, warnings

    async def enable(
        self, name: str, configuration: PluginConfiguration, *, principal: Principal
    ) -> tuple[PluginState, bool]:
        """Enable a plugin, or give an enabled one another configuration or the newest version of its entry;
        return it, and whether it was off.

        What the configuration leaves out stays as it is. Enabling an equal one again changes nothing. Raise
        NotFound, Conflict where there is a provider or a toolset of its name that is not the plugin's,
        Forbidden, InvalidInput, and what registering raises; then nothing is stored.
        """
        require_unrestricted(principal)
        entry = await self.catalogue.get(name)
        self._require_allowed(entry)
        kept = await self._kept(entry)
        read = _merged(entry, configuration, kept)
        request = _request(entry, read, configuration, kept)
        definition = await self._definition(request)
        if kept is not None and self._is_unchanged(kept, entry, read, definition):
            return await self.get(name, principal=principal), False
        plugin = EnabledPlugin(
            name=name,
            version=entry.version,
            settings=read.settings,
            connections=read.connections,
            document=DOCUMENT_GIVEN
            if entry.document is not None and request.source.kind == "document"
            else "",
            definition=definition,
        )
        if kept is not None:
            request = _with_kept(request, kept)

        async def before(session: AsyncSession) -> None:
            provider = await provider_named(session, name, locked=True)
            _require_own(entry, provider, await find_toolset(session, name, lock=True))
            if (provider is None) != (kept is None) or (
                kept and provider and provider.version != kept.provider.version
            ):
                raise Conflict(f"The plugin {name} was changed meanwhile: enable it again.")
            if provider is not None:
                await self.registration.delete(session, provider, principal=principal)
                session.expunge(provider)

        async def after(session: AsyncSession, result: RegistrationResult) -> None:
            result.provider.options = {**result.provider.options, PLUGIN_OPTION: plugin.to_json()}
            await session.flush()
            await _write_toolset(session, entry, result, principal=principal)
            await record_event(
                session, actor=principal.key_id, action="enabled" if kept is None else "updated",
                object_type="plugin", object_name=name, detail={"version": entry.version},
            )  # fmt: skip

        await self.registration.register(request, principal=principal, unit=RegistrationUnit(before, after))
        return await self.get(name, principal=principal), kept is None

    async def disable(self, name: str, *, principal: Principal) -> None:
        """Delete the provider and the toolset of a plugin; raise NotFound where it is not enabled."""
        require_unrestricted(principal)
        registry = self.registration
        async with registry.database.transaction() as session:
            await lock_names(session)
            provider = await provider_named(session, name, locked=True)
            toolset = await find_toolset(session, name, lock=True)
            is_plugin = provider is not None and EnabledPlugin.of(provider) is not None
            has_toolset = toolset is not None and plugin_of_toolset(toolset) == name
            if not (is_plugin or has_toolset):
                await self.catalogue.get(name)
                raise not_found(f"The plugin {name} is not enabled.")
            if provider is not None and is_plugin:
                await registry.delete(session, provider, principal=principal)
            if toolset is not None and has_toolset:
                await session.delete(toolset)
                await session.flush()
                await record_toolset_change(session, name, "deleted", principal)
            await record_event(
                session, actor=principal.key_id, action="disabled", object_type="plugin", object_name=name
            )
        await registry.feed.catch_up()

    def _require_allowed(self, entry: PluginEntry) -> None:
        if not self.is_allowed(entry):
            raise InvalidInput(
                f"The operator of this gateway has not allowed the plugin {entry.name}: "
                f"{entry.requires_setting} is not set.",
                hint=f"Set {entry.requires_setting} (docs/configuration.md), and start the gateway again.",
            )

    async def _kept(self, entry: PluginEntry) -> _Kept | None:
        """Return what the enabled plugin has, None where it is off; raise Conflict."""
        registry = self.registration
        async with registry.database.read_session() as session:
            provider = await provider_named(session, entry.name)
            toolset = await find_toolset(session, entry.name)
            _require_own(entry, provider, toolset)
            plugin = None if provider is None else EnabledPlugin.of(provider)
            if provider is None or plugin is None:
                return None
            rows = await credentials_of(session, [provider.id])
            stored = [one for one in await variables_for(session, provider.id) if one.provider_id]
            source = await source_of(session, provider.id)
            overrides = await overrides_of(session, provider)
        finder = VariableFinder(provider.name, stored, {})
        credentials, secrets = {}, {}
        base_url = _base_url(entry, ReadConfiguration(plugin.settings))
        origin = None if base_url is None else origin_of(base_url)
        for row in rows:
            sealed = sealed_credential(row, finder=finder)
            opened = open_credential(sealed, vault=registry.vault)
            if row.slot == EGRESS_SLOT:
                secrets = opened
            elif row.slot in entry.credentials and entry.document is not None:
                # The origin of the API moves with it; others are what people have allowed.
                origins = tuple(row.allowed_origins)
                kept_origins = None if origins == (origin,) else origins
                credentials[row.slot] = CredentialDraft(sealed.kind, dict(row.public), opened, kept_origins)
        variables = {}
        for one in stored:
            variable = finder.find(one.name)
            value = None if variable is None else open_variable(variable, vault=registry.vault)
            if value is not None:
                variables[one.name] = VariableDraft(value, one.secret)
        document = None
        if plugin.document == DOCUMENT_GIVEN and source is not None:
            body = open_source_body(source, vault=registry.vault)
            document = RegistrationSource("document", body, source.media_type, at="/document")
        return _Kept(
            provider, plugin, credentials, variables, secrets, overrides, document, toolset is not None
        )

    async def _definition(self, request: RegistrationRequest) -> str:
        """Return a keyed digest of what an entry and its settings make, without credentials."""
        bare = replace(request, credentials={}, variables={}, option_secrets={}, overrides={})
        return await definition_of(bare, vault=self.registration.vault)

    def _is_unchanged(
        self, kept: _Kept, entry: PluginEntry, read: ReadConfiguration, definition: str
    ) -> bool:
        same_slots = all(
            slot in kept.credentials and _is_same(kept.credentials[slot], one)
            for slot, one in read.credentials.items()
        )
        same_variables = all(kept.variables.get(name) == one for name, one in read.variables.items())
        is_same = kept.plugin.definition == definition and kept.plugin.version == entry.version
        return is_same and same_slots and same_variables and kept.has_toolset


def _is_same(kept: CredentialDraft, given: CredentialDraft) -> bool:
    """Return whether a given credential is the kept one; what it does not say is as kept."""
    public = {name: value for name, value in given.public.items() if value is not None}
    return (
        (kept.kind, kept.secrets) == (given.kind, given.secrets)
        and {**kept.public, **public} == kept.public
        and given.allowed_origins in (None, kept.allowed_origins)
    )


def _require_own(entry: PluginEntry, provider: Provider | None, toolset: ToolsetRow | None) -> None:
    """Raise Conflict where a provider or a toolset of the plugin's name was made by somebody else."""
    name = entry.name
    errors = []
    if provider is not None and EnabledPlugin.of(provider) is None:
        errors.append("provider")
    if toolset is not None and plugin_of_toolset(toolset) != name:
        errors.append("toolset")
    if errors:
        kinds = " and a ".join(errors)
        raise Conflict(
            f"There is a {kinds} {name} already, which is not the plugin's.",
            hint=f"Delete it, then enable the plugin: DELETE /{errors[0]}s/{name}.",
        )


def _merged(entry: PluginEntry, configuration: PluginConfiguration, kept: _Kept | None) -> ReadConfiguration:
    """Return the checked configuration, with what is kept; raise InvalidInput."""
    old = {} if kept is None else {k: v for k, v in kept.plugin.settings.items() if k in entry.settings}
    settings = read_settings(entry, {**old, **configuration.settings})
    read = read_credentials(entry, configuration.credentials, settings=settings)
    if kept is not None:
        read = replace(
            read,
            credentials={**kept.credentials, **read.credentials},
            variables={**kept.variables, **read.variables},
            connections={**kept.plugin.connections, **read.connections},
        )
    configured = frozenset(
        slot
        for slot, one in entry.credentials.items()
        if (
            slot in read.credentials
            if entry.document is not None
            else set(variable_names(one)) <= set(read.variables)
        )
    )
    reject_missing(entry, configured)
    return read


def _request(
    entry: PluginEntry, read: ReadConfiguration, configuration: PluginConfiguration, kept: _Kept | None
) -> RegistrationRequest:
    """Return the registration of the plugin's provider."""
    options: dict[str, Any] = {}
    if entry.document is not None:
        source, options = (
            _document_source(entry, entry.document, configuration, read, kept),
            _options(entry, read),
        )
    else:
        if configuration.document is not None:
            detail = f"The plugin {entry.name} needs no document."
            raise InvalidInput(detail, errors=[FieldError("/document", detail)])
        source = RegistrationSource("manual", value=_manual(entry, read), at="/manual")
    return RegistrationRequest(
        name=entry.name,
        source=source,
        title=entry.title,
        description=entry.description,
        options=options,
        credentials=_bound(entry, read),
        variables=read.variables,
        overrides=_annotations(entry),
    )


def _annotations(entry: PluginEntry) -> dict[str, Mapping[str, Any]]:
    """Return which tools the entry says to be read-only or not, as overrides by source key."""
    operations = () if entry.document is None else entry.document.operations
    return {
        one.operation: {"annotations": {"read_only": one.read_only}}
        for one in operations
        if one.read_only is not None
    }


def _bound(entry: PluginEntry, read: ReadConfiguration) -> dict[str, CredentialDraft]:
    """Return the credentials with the origin of the API, which need not be that of the document."""
    base_url = _base_url(entry, read)
    origin = None if base_url is None else origin_of(base_url)
    if origin is None:
        return dict(read.credentials)
    return {
        slot: draft if draft.allowed_origins else replace(draft, allowed_origins=(origin,))
        for slot, draft in read.credentials.items()
    }


def _base_url(entry: PluginEntry, read: ReadConfiguration) -> str | None:
    """Return the URL of the API: the setting of this name, else that of the entry."""
    given = read.settings.get("base_url", entry.base_url)
    return None if given is None else str(read.place(given, base_url=None))


def _document_source(
    entry: PluginEntry,
    document: PluginDocument,
    configuration: PluginConfiguration,
    read: ReadConfiguration,
    kept: _Kept | None,
) -> RegistrationSource:
    given = configuration.document
    base_url = _base_url(entry, read)
    moved = base_url if read.settings.get("base_url", entry.base_url) != entry.base_url else None
    overlay = overlay_of(entry, document, base_url=moved)
    follows = (document.follow_references or None) if given is None else False
    options = DocumentOptions(overlay=overlay, follow_references=follows)
    if given is None and kept is not None and kept.document is not None:
        return replace(kept.document, options=replace(options, follow_references=False))
    if given is None:
        template = {"call_template_type": DEFAULT, "url": document.url}
        return RegistrationSource("template", value=template, at="/document", options=options)
    try:
        body = given.encode("utf-8", "replace") if isinstance(given, str) else exact_json.dumps(given)
    except orjson.JSONEncodeError:
        detail = "The document is nested too deeply."
        raise InvalidInput(detail, errors=[FieldError("/document", detail)]) from None
    media_type = "" if isinstance(given, str) else "application/json"
    return RegistrationSource("document", body, media_type, at="/document", options=options)


def _options(entry: PluginEntry, read: ReadConfiguration) -> dict[str, Any]:
    options: dict[str, Any] = {}
    base_url = _base_url(entry, read)
    if base_url is not None:
        options["base_url"] = base_url
    if entry.document is not None and entry.document.server is not None:
        options["server"] = entry.document.server
    variables = {
        setting.server_variable: str(read.settings[name])
        for name, setting in entry.settings.items()
        if setting.server_variable is not None and name in read.settings
    }
    if variables:
        options["server_variables"] = variables
    return options


def _manual(entry: PluginEntry, read: ReadConfiguration) -> dict[str, Any]:
    tools = []
    for tool in entry.manual.tools if entry.manual is not None else ():
        made: dict[str, Any] = tool.model_dump(mode="json", exclude={"presets"})
        template = read.place(tool.tool_call_template, base_url=entry.base_url)
        tools.append({**made, "tool_call_template": {"name": tool.name, **template}})
    return {"utcp_version": "1.0.1", "manual_version": str(entry.version), "tools": tools}


def _with_kept(request: RegistrationRequest, kept: _Kept) -> RegistrationRequest:
    """Return the registration with what people have changed on the provider and its tools."""
    provider = kept.provider
    options = {
        key: value
        for key, value in provider.options.items()
        if key not in HIDDEN_OPTIONS and key not in _PLACES
    }
    return replace(
        request,
        tags=tuple(provider.tags),
        limits=provider.limits,
        enabled=provider.enabled,
        options={**options, **request.options},
        option_secrets=kept.option_secrets,
        overrides=_merged_overrides(request.overrides, kept.overrides),
    )


def _merged_overrides(
    own: Mapping[str, Mapping[str, Any]], kept: Mapping[str, Mapping[str, Any]]
) -> dict[str, Mapping[str, Any]]:
    """Return the overrides of an entry with those that people have made, which win."""
    merged = {key: {**own.get(key, {}), **changed} for key, changed in kept.items()}
    for key in own.keys() & kept.keys():
        annotations = {**own[key]["annotations"], **(kept[key].get("annotations") or {})}
        merged[key]["annotations"] = annotations
    return {**own, **merged}


def toolset_of(entry: PluginEntry, names: Mapping[str, str]) -> ToolsetDefinition:
    """Return the toolset of a plugin; `names` are the canonical names of its tools by those of the entry."""
    presets: dict[str, Mapping[str, Any]] = {}
    if entry.document is not None:
        presets = {one.name: one.presets for one in entry.document.operations}
    elif entry.manual is not None:
        presets = {one.name: one.presets for one in entry.manual.tools}
    changes = {}
    for name, canonical in names.items():
        own = entry.toolset.changes.get(name, MemberChange())
        changes[canonical] = own.model_copy(
            update={"name": own.name or name, "presets": {**presets.get(name, {}), **own.presets}}
        )
    return ToolsetDefinition.model_validate({
        "tools": list(names.values()),
        "changes": {tool: change.model_dump() for tool, change in changes.items()},
        "read_only": entry.toolset.read_only,
        "result_budget": entry.toolset.result_budget,
    })  # fmt: skip


async def _write_toolset(
    session: AsyncSession, entry: PluginEntry, result: RegistrationResult, *, principal: Principal
) -> None:
    """Store the toolset of a plugin, new or in place of the one that it has; raise InvalidInput where none of
    its tools was registered.
    """
    stored = set(result.names.values())
    names = {name: f"{entry.name}.{name}" for name in entry.tool_names if f"{entry.name}.{name}" in stored}
    absent = [name for name in entry.tool_names if name not in names]
    if absent and (entry.document is None or not names):
        skipped = [one for one in result.report.operations if one.outcome == "skipped"]
        reasons = [f"{one.source_key}: {one.reason}" for one in skipped]
        raise InvalidInput(
            f"The plugin {entry.name} cannot be enabled: {', '.join(absent)} cannot be called.",
            errors=[FieldError("", reason) for reason in reasons],
        )
    definition = await asyncio.to_thread(toolset_of, entry, names)
    title, description = entry.title, entry.toolset.description or entry.description
    row = await find_toolset(session, entry.name, lock=True)
    before = None if row is None else StoredDefinition.model_validate(row.definition)
    after = with_former_names(before, definition).model_copy(update={"plugin": entry.name})
    if row is None:
        await insert_toolset(
            session, entry.name, after, title=title, description=description, principal=principal
        )
        return
    row.title, row.description = title, description
    row.definition = after.model_dump(mode="json")
    row.version += 1
    row.updated_at = now()
    await session.flush()
    await record_toolset_change(session, entry.name, "updated", principal)
