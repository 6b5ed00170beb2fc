"""A ParsedSource -> a RegistrationPlan: the credentials to be stored with their allowed origins, and the uses
of credentials that need consent.
"""

from collections.abc import Mapping

from app.core.errors import FieldError, InvalidInput
from app.core.text import pointer
from app.providers.credentials.model import (
    DISCOVERY_SLOTS,
    EGRESS_SLOT,
    CredentialDraft,
    MissingConsent,
    SlotAssignment,
)
from app.providers.credentials.origins import origin_of
from app.providers.credentials.sealing import variables_in, with_stored_variable_names
from app.providers.credentials.slots import Binding, complete, missing_consents, tool_origins
from app.providers.registration.context import ImportContext
from app.providers.registration.model import ParsedSource, RegistrationPlan
from app.providers.registration.source_reader import SourceReader
from app.storage.models import Credential


def plan_registration(
    source: ParsedSource, context: ImportContext, *, reader: SourceReader
) -> RegistrationPlan:
    """Return what is to be stored of a source, with every credential complete.

    Raises InvalidInput for a credential in a slot that the source does not have, or where it is not clear
    where it may be sent, and Forbidden where the client may store none. Slots that have a stored credential
    keep it.
    """
    credentials: dict[str, CredentialDraft] = {**source.discovery, **_build_egress_credentials(context)}
    slots = {slot.name: slot for slot in source.slots}
    for name, given in context.credentials.items():
        credential_pointer = pointer(context.at, "credentials", name)
        if name in DISCOVERY_SLOTS and name in credentials:
            continue
        if name not in slots:
            problem = FieldError(
                credential_pointer, "The source requires no credential of this name.", expected=sorted(slots)
            )
            raise InvalidInput("A credential does not belong here.", errors=[problem])
        binding = reader.binding(source.named_origins, tool_origins(source.tools, name))
        spelled = with_stored_variable_names(given, scope=context.scope, at=credential_pointer)
        credentials[name] = complete(spelled, slot=slots[name], binding=binding, at=credential_pointer)
    unsent: dict[str, MissingConsent] = {}
    for inline in source.inline:
        if inline.slot in credentials or inline.slot in context.stored:
            continue
        # Of tools that were fetched only their own values go where they say.
        tools_only = () if source.is_fetched else tool_origins(source.tools, inline.slot)
        bound = _bound(inline, source, reader.binding(source.named_origins, inline.origins or tools_only))
        if bound is None:
            token_url = inline.credential.public.get("token_url")
            unsent[inline.slot] = MissingConsent(inline.slot, inline.origins, token_url)
        else:
            credentials[inline.slot] = bound
    if credentials:
        context.permissions.require_credentials_write()
    stored = {slot: destination_of_row(row) for slot, row in context.stored.items()}
    lacking = missing_consents(
        source.tools,
        slots=source.slots,
        credentials={**stored, **credentials},
        registrar_origins=source.named_origins,
    )
    needs_consent = (*unsent.values(), *(one for one in lacking if one.slot not in unsent))
    return RegistrationPlan(source, credentials, needs_consent)


def destination_of_row(row: Credential) -> CredentialDraft:
    """Return a stored credential as far as its destination goes, without its secrets."""
    return CredentialDraft(row.kind, row.public, {}, tuple(row.allowed_origins))  # type: ignore[arg-type]


def egress_credential(secrets: Mapping[str, str]) -> CredentialDraft:
    """Return the secret outbound settings; they are for the connection, so no origin may be sent them."""
    return CredentialDraft("static", {}, dict(secrets), ())


def _bound(inline: SlotAssignment, source: ParsedSource, binding: Binding) -> CredentialDraft | None:
    """Return a credential that stood in a template, with where it may go; None where that needs consent.

    What a fetched manual says goes with its own values only: one that names the registrar's variables goes to
    the origin that the registrar named, and to no other token endpoint.
    """
    given = inline.credential
    is_of_tools = bool(inline.origins) and not inline.is_shared
    names_variables = source.is_fetched and is_of_tools and bool(variables_in(given.secrets))
    origins = inline.origins if is_of_tools and not names_variables else source.named_origins
    token_url = given.public.get("token_url")
    if names_variables and token_url and origin_of(str(token_url)) not in source.named_origins:
        return None
    bound = CredentialDraft(given.kind, given.public, given.secrets, origins or None)
    return complete(bound, slot=None, binding=binding, at="")


def _build_egress_credentials(context: ImportContext) -> dict[str, CredentialDraft]:
    if not context.option_secrets or EGRESS_SLOT in context.stored:
        return {}
    return {EGRESS_SLOT: egress_credential(context.option_secrets)}
