"""Sealing of credentials and variables into rows, for the whole control plane."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final
from uuid import UUID

import orjson

from app.catalog.loader import VariableFinder, sealed_credential
from app.core import exact_json
from app.core.errors import FieldError, InvalidInput, UnsetVariable
from app.core.uuid7 import uuid7
from app.formats.utcp.variables import BRACED
from app.providers.credentials.model import CredentialDraft, VariableDraft
from app.providers.credentials.template_secrets import static_locations
from app.providers.credentials.variable_scope import VariableScope
from app.security.sealed_credentials import SealedCredential, SealedVariable, seal_credential, seal_variable
from app.security.vault import Vault
from app.storage.models import TENANT, Credential, Variable

_NO_VARIABLES: Final = VariableFinder("", (), {})


def fingerprint(draft: CredentialDraft, *, vault: Vault) -> str:
    """Return 16 hex digits of an HMAC over the credential without its allowed origins, to compare
    credentials.
    """
    parts = (draft.kind, draft.public, draft.secrets)
    return vault.digest("credential", exact_json.dumps(parts, option=orjson.OPT_SORT_KEYS)).hex()[:16]


def variables_in(secrets: Any) -> list[str]:
    """Return the names of the variables `${NAME}` in sealed fields.

    `$NAME` is no variable here, since passwords may contain dollar signs.
    """
    if isinstance(secrets, str):
        return list(dict.fromkeys(BRACED.findall(secrets)))
    members: Iterable[Any] = secrets.values() if isinstance(secrets, Mapping) else secrets or ()
    return list(dict.fromkeys(name for member in members for name in variables_in(member)))


def with_stored_variable_names(draft: CredentialDraft, *, scope: VariableScope, at: str) -> CredentialDraft:
    """Return the credential with the stored names of its variables `${NAME}`; raise UnsetVariable, with the
    pointer `at`, for those without a value.
    """
    missing = [name for name in variables_in(draft.secrets) if scope.find(name) is None]
    if missing:
        raise UnsetVariable(
            f"These variables have no value: {', '.join(missing)}",
            errors=[FieldError(at, f"The variable {name} has no value.") for name in missing],
            extra={"variables": missing},
        )

    def renamed(value: Any) -> Any:
        if isinstance(value, str):
            return BRACED.sub(lambda match: f"${{{_stored_name(scope, match[1])}}}", value)
        if isinstance(value, dict):
            return {key: renamed(member) for key, member in value.items()}
        return [renamed(member) for member in value] if isinstance(value, list) else value

    return CredentialDraft(draft.kind, draft.public, renamed(draft.secrets), draft.allowed_origins)


def _stored_name(scope: VariableScope, name: str) -> str:
    known = scope.find(name)
    return name if known is None else known.name


def seal_draft(
    draft: CredentialDraft, *, provider_id: UUID, slot: str, vault: Vault, finder: VariableFinder
) -> SealedCredential:
    """Return a sealed credential that is not stored, for the `CredentialResolver` in a discovery."""
    found = (finder.find(name) for name in variables_in(draft.secrets))
    credential = SealedCredential(
        id=uuid7(),
        tenant_id=TENANT,
        provider_id=provider_id,
        slot=slot,
        version=1,
        kind=draft.kind,
        public=draft.public,
        allowed_origins=draft.allowed_origins or (),
        sealed=b"",
        variables=tuple(variable for variable in found if variable is not None),
    )
    return seal_credential(credential, vault=vault, fields=draft.secrets)


def seal_into_credential_row(row: Credential, draft: CredentialDraft, *, vault: Vault) -> Credential:
    """Seal a credential into its row, bound to its id, slot, version and destinations; return the row."""
    row.kind = draft.kind
    row.public = {key: value for key, value in draft.public.items() if value is not None}
    if draft.kind == "static" and (locations := static_locations(draft.secrets)):
        row.public["values"] = [one.to_json() for one in locations]
    row.allowed_origins = list(draft.allowed_origins or ())
    row.variable_names = variables_in(draft.secrets)
    row.fingerprint = fingerprint(draft, vault=vault)[:8]
    unsealed = sealed_credential(row, finder=_NO_VARIABLES)
    row.sealed = seal_credential(unsealed, vault=vault, fields=draft.secrets).sealed
    return row


def new_credential(provider_id: UUID, slot: str, draft: CredentialDraft, *, vault: Vault) -> Credential:
    """Return a row for a credential that is stored for the first time."""
    row = Credential(provider_id=provider_id, slot=slot, kind=draft.kind, sealed=b"", fingerprint="")
    return seal_into_credential_row(row, draft, vault=vault)


def seal_into_variable_row(row: Variable, draft: VariableDraft, *, vault: Vault) -> Variable:
    """Set the value of a variable in its row, sealed where it is secret; return the row.

    Raise InvalidInput for allowed origins of a variable that is not secret or not shared.
    """
    row.secret = draft.secret
    if draft.allowed_origins is not None and (row.provider_id is not None or not draft.secret):
        detail = "Only secret variables that all providers share have allowed origins."
        raise InvalidInput(detail, errors=[FieldError("/allowed_origins", detail)])
    if not draft.secret:
        row.allowed_origins = None
    elif draft.allowed_origins is not None:
        row.allowed_origins = list(draft.allowed_origins)
    unsealed = SealedVariable(
        id=row.id,
        tenant_id=row.tenant_id,
        name=row.name,
        secret=draft.secret,
        value=None,
        sealed=None,
        version=row.version,
        provider_id=row.provider_id,
    )
    sealed = seal_variable(unsealed, vault=vault, value=draft.value)
    row.value, row.sealed = sealed.value, sealed.sealed
    return row


def new_variable(provider_id: UUID | None, name: str, draft: VariableDraft, *, vault: Vault) -> Variable:
    """Return a row for a variable that is stored for the first time."""
    return seal_into_variable_row(Variable(provider_id=provider_id, name=name), draft, vault=vault)


def merged_variables(rows: Iterable[Variable], new: Collection[Variable]) -> list[Variable]:
    """Return the `new` variables, and those stored ones for which there is no new one of the same owner and
    name.
    """
    replaced = {(row.provider_id, row.name) for row in new}
    return [*new, *(row for row in rows if (row.provider_id, row.name) not in replaced)]
