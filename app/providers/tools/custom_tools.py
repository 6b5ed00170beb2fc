"""Custom tools: written by a person, not imported from a source."""

from dataclasses import dataclass, replace

from sqlalchemy.ext.asyncio import AsyncSession

from app.access.events import record_event
from app.catalog.feed import record_change
from app.catalog.tools import ToolView, has_name, tool_select, tool_view
from app.core.errors import Conflict, FieldError, Forbidden, InvalidInput
from app.core.text import reject_unstorable
from app.formats.json_schema.normalize import normalize_inputs, normalize_schema
from app.formats.utcp.call_template import Template
from app.protocols.call_templates import for_tool, read_template, with_protocol
from app.protocols.registry import DEFAULT
from app.providers.credentials.model import DEFAULT_SLOT, CredentialDraft, Json, SlotAssignment
from app.providers.credentials.permissions import RegistrationPermissions, permissions_of
from app.providers.credentials.sealing import fingerprint, merged_variables, new_credential, new_variable
from app.providers.credentials.slots import SlotAllocator, complete
from app.providers.credentials.variable_scope import scope_of
from app.providers.registration.approval_requirements import (
    apply_requirements,
    keep_requirements,
    operations_with_variables,
    require_where_changed,
)
from app.providers.registration.destinations import with_tool_origin
from app.providers.registration.from_manual import open_template, slots_of_tools, strict_inputs, tool_security
from app.providers.registration.input_models import CustomToolInput
from app.providers.registration.model import ToolDraft
from app.providers.registration.persist import update_provider
from app.providers.registration.plan import destination_of_row
from app.providers.registration.repository import (
    credentials_of,
    insert_tools,
    lock_names,
    provider_named,
    slots_of,
    tools_of,
    variables_for,
)
from app.providers.registration.request_parser import variable_draft
from app.providers.registration.service import RegistrationService
from app.providers.registration.shared_variables import bind_shared_variables
from app.providers.registration.tool_checks import slimmed_tool
from app.security.principal import Principal
from app.storage.models import Credential, Provider, Variable


@dataclass(frozen=True, slots=True)
class CustomTools:
    """Stores custom tools."""

    registry: RegistrationService

    async def add(self, body: CustomToolInput, *, principal: Principal) -> ToolView:
        """Store a custom tool, and its provider where there is none of that name; return the tool.

        Raises Conflict where the tool's name is taken, InvalidInput, UnsetVariable, and Forbidden where the
        key is limited to other providers or may not store the credentials that the template contains.
        """
        registry = self.registry
        template = read_template(with_protocol(body.call_template), at="/call_template")
        template = for_tool(template, body.name, at="/call_template")
        await registry.reader.fetcher.adapters.load(template.protocol)
        async with registry.database.transaction() as session:
            await lock_names(session)
            provider, is_new = await self._find_or_create_provider(session, body, principal)
            canonical = f"{provider.name}.{body.name}"
            if any(tool.name == canonical for tool in await tools_of(session, provider.id)):
                raise Conflict(f"A tool named {canonical!r} already exists.")
            await keep_requirements(session, actor=principal.key_id)
            # A variable of the provider takes the place of a shared one in its other tools.
            operations = await operations_with_variables(session, provider.id) if body.variables else {}
            variables = await self._store_variables(session, body, provider)
            stored = await credentials_of(session, [provider.id])
            permissions = permissions_of(principal)
            drafted, allocator = self._draft_tool(
                body, template, provider, variables, stored, permissions=permissions
            )
            if body.variables or allocator.assignments:
                permissions.require_credentials_write()
            tool = slimmed_tool(drafted)
            added = self._store_credentials(session, provider, allocator.assignments, stored)
            await session.flush()
            await bind_shared_variables(session, provider, added, actor=principal.key_id)
            update_provider(provider, {"slots": _list_slots(provider, allocator, tool)})
            if not is_new:
                provider.options = with_tool_origin(provider, tool.origin, permissions=permissions)
            provider.origins = list(dict.fromkeys([*provider.origins, tool.origin]))
            _, rejected = await insert_tools(session, provider, [tool], revision_id=None)
            if rejected:
                raise InvalidInput("The tool contains a value that the database cannot store.")
            await apply_requirements(session, provider, [tool], actor=principal.key_id)
            history = registry.history_of(principal)
            await history.write_changes(session, provider.id, {tool.source_key: []}, action="created")
            row = (await session.execute(tool_select().where(has_name(canonical)))).one()
            await record_event(
                session,
                actor=principal.key_id,
                action="created",
                object_type="tool",
                object_name=canonical,
                detail={"origin": tool.origin, "provider_created": is_new},
            )
            await require_where_changed(session, operations, actor=principal.key_id)
            await record_change(session, kind="provider", provider_id=provider.id, object_id=str(provider.id))
        await registry.feed.catch_up()
        return tool_view(row)

    async def _find_or_create_provider(
        self, session: AsyncSession, body: CustomToolInput, principal: Principal
    ) -> tuple[Provider, bool]:
        provider = await provider_named(session, body.provider, locked=True)
        if not principal.may_use(body.provider, () if provider is None else provider.tags):
            # The same text whether or not there is such a provider.
            raise Forbidden(
                "The API key is limited to certain providers or tags, and this provider is not among them."
            )
        if provider is not None:
            return provider, False
        provider = Provider(name=body.provider, protocol=DEFAULT, kind="custom", version=0)
        session.add(provider)
        await session.flush()
        return provider, True

    async def _store_variables(
        self, session: AsyncSession, body: CustomToolInput, provider: Provider
    ) -> list[Variable]:
        vault = self.registry.vault
        stored = await variables_for(session, provider.id)
        own = {row.name for row in stored if row.provider_id == provider.id}
        clash = sorted(own & body.variables.keys())
        if clash:
            errors = [
                FieldError(f"/variables/{name}", "This variable already has a value; change it with PUT.")
                for name in clash
            ]
            raise InvalidInput("These variables already exist.", errors=errors)
        given = [
            new_variable(provider.id, name, variable_draft(value), vault=vault)
            for name, value in body.variables.items()
        ]
        session.add_all(given)
        return merged_variables(stored, given)

    def _draft_tool(
        self,
        body: CustomToolInput,
        template: Template,
        provider: Provider,
        variables: list[Variable],
        stored: list[Credential],
        *,
        permissions: RegistrationPermissions,
    ) -> tuple[ToolDraft, SlotAllocator]:
        registry = self.registry
        reject_unstorable({"inputs": body.inputs, "outputs": body.outputs})
        given_inputs, _ = normalize_inputs(body.inputs, location="/inputs")
        outputs, _ = normalize_schema(body.outputs, location="/outputs")
        inputs = strict_inputs(given_inputs, template)
        slots = slots_of(provider)
        known = {slot.fingerprint: slot.name for slot in slots if slot.fingerprint}
        taken = {*(slot.name for slot in slots), *(row.slot for row in stored)}
        allocator = SlotAllocator(
            lambda given: fingerprint(given, vault=registry.vault), known=known, taken=taken
        )
        scope = scope_of(provider.name, variables, environment=registry.environment, permissions=permissions)
        split, origin = open_template(
            template, scope=scope, prepare=registry.reader.prepare, at="/call_template"
        )
        is_free = any(slot.name == DEFAULT_SLOT and slot.kind == "any" for slot in slots)
        fallback = DEFAULT_SLOT if is_free or DEFAULT_SLOT not in taken else None
        tool = ToolDraft(
            source_key=f"custom:{body.name}",
            name=body.name,
            description=body.description,
            inputs=inputs,
            outputs=outputs,
            tags=tuple(dict.fromkeys(body.tags)),
            keywords=tuple(body.keywords),
            call_template=split.fields,
            security=tool_security(split, origin, allocator=allocator, fallback=fallback, optional=True),
            origin=origin,
        )
        return tool, allocator

    def _store_credentials(
        self,
        session: AsyncSession,
        provider: Provider,
        entries: tuple[SlotAssignment, ...],
        stored: list[Credential],
    ) -> list[Credential]:
        """Store the credentials that the template contains, bound to its origin; return them.

        Raises InvalidInput where the same credential is stored already and bound to another origin.
        """
        have = {row.slot: destination_of_row(row) for row in stored}
        added: list[Credential] = []
        for entry in entries:
            if entry.slot in have:
                _reject_other_origin(entry, have[entry.slot])
                continue
            binding = self.registry.reader.binding(entry.origins)
            ready = complete(entry.credential, slot=None, binding=binding, at="/call_template/auth")
            ready = replace(ready, allowed_origins=entry.origins)
            added.append(new_credential(provider.id, entry.slot, ready, vault=self.registry.vault))
        session.add_all(added)
        return added


def _reject_other_origin(entry: SlotAssignment, stored: CredentialDraft) -> None:
    others = [origin for origin in entry.origins if origin not in (stored.allowed_origins or ())]
    if others:
        error = FieldError(
            "/call_template/url", f"The stored credential {entry.slot!r} must not be sent to this origin."
        )
        raise InvalidInput("The same credential is stored for another origin.", errors=[error])


def _list_slots(provider: Provider, allocator: SlotAllocator, tool: ToolDraft) -> list[Json]:
    """Return the provider's slots as they are stored once it has the tool."""
    slots = {slot.name: slot for slot in slots_of(provider)}
    for slot in slots_of_tools(allocator, (tool,)):
        slots.setdefault(slot.name, slot)
    return [slot.to_json() for slot in slots.values()]
