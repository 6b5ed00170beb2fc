"""Sealing of credentials and variables into rows: here, and nowhere else on the control plane."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final
from uuid import UUID

import orjson

from app.catalog.loader import VariableFinder, sealed_credential
from app.credentials.model import CredentialDraft, VariableDraft
from app.credentials.template_secrets import static_locations
from app.credentials.variable_scope import VariableScope
from app.errors import FieldError, UnsetVariable
from app.models import TENANT, Credential, Variable, new_id
from app.security.credentials import (
    SealedCredential,
    SealedVariable,
    seal_credential,
    seal_variable,
)
from app.security.vault import Vault
from app.utcp.variables import BRACED

_NO_VARIABLES: Final = VariableFinder("", (), {})


def fingerprint(given: CredentialDraft, *, vault: Vault) -> str:
    """Return 16 hex digits of an HMAC over the whole credential except its allowed origins."""
    parts = (given.kind, given.public, given.secrets)
    return vault.digest("credential", orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hex()[:16]


def variables_in(secrets: Any) -> list[str]:
    """Return the `${NAME}`s in sealed fields. A bare `$NAME` is none here: passwords hold dollar signs."""
    if isinstance(secrets, str):
        return list(dict.fromkeys(BRACED.findall(secrets)))
    members: Iterable[Any] = secrets.values() if isinstance(secrets, Mapping) else secrets or ()
    return list(dict.fromkeys(name for member in members for name in variables_in(member)))


def with_stored_spellings(given: CredentialDraft, *, scope: VariableScope, at: str) -> CredentialDraft:
    """Return the credential with its `${NAME}`s spelled as they are stored; raise UnsetVariable at `at`."""
    missing = [name for name in variables_in(given.secrets) if scope.find(name) is None]
    if missing:
        raise UnsetVariable(
            f"These variables have no value: {', '.join(missing)}",
            errors=[FieldError(at, f"The variable {name} has no value.") for name in missing],
            extra={"variables": missing},
        )

    def spelled(value: Any) -> Any:
        if isinstance(value, str):
            return BRACED.sub(lambda found: f"${{{_stored(scope, found[1])}}}", value)
        if isinstance(value, dict):
            return {key: spelled(member) for key, member in value.items()}
        return [spelled(member) for member in value] if isinstance(value, list) else value

    return CredentialDraft(given.kind, given.public, spelled(given.secrets), given.allowed_origins)


def _stored(scope: VariableScope, name: str) -> str:
    known = scope.find(name)
    return name if known is None else known.name


def seal_draft(
    given: CredentialDraft, *, provider_id: UUID, slot: str, vault: Vault, finder: VariableFinder
) -> SealedCredential:
    """Return a credential that is not stored in the form in which the resolver takes one, for a discovery."""
    found = (finder.find(name) for name in variables_in(given.secrets))
    credential = SealedCredential(
        id=new_id(),
        tenant_id=TENANT,
        provider_id=provider_id,
        slot=slot,
        version=1,
        kind=given.kind,
        public=given.public,
        allowed_origins=given.allowed_origins or (),
        sealed=b"",
        variables=tuple(variable for variable in found if variable is not None),
    )
    return seal_credential(credential, vault=vault, fields=given.secrets)


def seal_into_credential_row(row: Credential, given: CredentialDraft, *, vault: Vault) -> Credential:
    """Seal a credential into its row, bound to id, slot, version and destinations of that; return the row."""
    row.kind = given.kind
    row.public = {key: value for key, value in given.public.items() if value is not None}
    if given.kind == "static" and (places := static_locations(given.secrets)):
        row.public["values"] = [place.to_json() for place in places]
    row.allowed_origins = list(given.allowed_origins or ())
    row.variable_names = variables_in(given.secrets)
    row.fingerprint = fingerprint(given, vault=vault)[:8]
    bare = sealed_credential(row, finder=_NO_VARIABLES)
    row.sealed = seal_credential(bare, vault=vault, fields=given.secrets).sealed
    return row


def new_credential(provider_id: UUID, slot: str, given: CredentialDraft, *, vault: Vault) -> Credential:
    """Return a row for a credential that is stored for the first time."""
    row = Credential(provider_id=provider_id, slot=slot, kind=given.kind, sealed=b"", fingerprint="")
    return seal_into_credential_row(row, given, vault=vault)


def seal_into_variable_row(row: Variable, given: VariableDraft, *, vault: Vault) -> Variable:
    """Put a value into its row, sealed where it is secret; return the row."""
    row.secret = given.secret
    bare = SealedVariable(
        id=row.id,
        tenant_id=row.tenant_id,
        name=row.name,
        secret=given.secret,
        value=None,
        sealed=None,
        version=row.version,
        provider_id=row.provider_id,
    )
    filled = seal_variable(bare, vault=vault, value=given.value)
    row.value, row.sealed = filled.value, filled.sealed
    return row


def new_variable(provider_id: UUID | None, name: str, given: VariableDraft, *, vault: Vault) -> Variable:
    """Return a row for a variable that is stored for the first time."""
    return seal_into_variable_row(Variable(provider_id=provider_id, name=name), given, vault=vault)


def merged_variables(rows: Iterable[Variable], given: Collection[Variable]) -> list[Variable]:
    """Return the stored variables with the `given` ones in place of those of the same owner and name."""
    taken = {(row.provider_id, row.name) for row in given}
    return [*given, *(row for row in rows if (row.provider_id, row.name) not in taken)]
