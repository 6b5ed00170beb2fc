"""Secrets into rows: credentials and variables are sealed here, and nowhere else on the control plane."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any
from uuid import UUID

import orjson

from app.catalog.loader import VariableFinder
from app.credentials.model import CredentialDraft, VariableDraft
from app.credentials.template_secrets import static_places
from app.credentials.variable_scope import VariableScope
from app.errors import Fault, UnsetVariable
from app.models import TENANT, Credential, Variable, new_id
from app.security.credentials import (
    SealedCredential,
    SealedVariable,
    seal_credential,
    seal_variable,
)
from app.security.vault import Vault
from app.utcp.variables import BRACED


def fingerprint(given: CredentialDraft, *, vault: Vault) -> str:
    """16 hex digits of an HMAC over everything that makes the credential what it is, but where it may go."""
    parts = (given.kind, given.public, given.secrets)
    return vault.digest("credential", orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hex()[:16]


def named_variables(secrets: Any) -> list[str]:
    """The `${NAME}`s in sealed fields. A bare `$NAME` is none here: passwords hold dollar signs."""
    if isinstance(secrets, str):
        return list(dict.fromkeys(BRACED.findall(secrets)))
    members: Iterable[Any] = secrets.values() if isinstance(secrets, Mapping) else secrets or ()
    return list(dict.fromkeys(name for member in members for name in named_variables(member)))


def spelled_as_stored(given: CredentialDraft, *, scope: VariableScope, at: str) -> CredentialDraft:
    """The credential whose `${NAME}`s are spelled as they are stored. Raises UnsetVariable, pointing `at`."""
    missing = [name for name in named_variables(given.secrets) if scope.find(name) is None]
    if missing:
        raise UnsetVariable(
            f"These variables have no value: {', '.join(missing)}",
            errors=[Fault(at, f"The variable {name} has no value.") for name in missing],
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


def sealed_form(
    given: CredentialDraft, *, provider_id: UUID, slot: str, vault: Vault, finder: VariableFinder
) -> SealedCredential:
    """A credential that is not stored, in the form in which the resolver takes one: for a discovery."""
    found = (finder.find(name) for name in named_variables(given.secrets))
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


def fill_credential(row: Credential, given: CredentialDraft, *, vault: Vault) -> Credential:
    """Puts a credential into its row, sealed in the row's own context (id, slot, version, destinations)."""
    row.kind = given.kind
    row.public = {key: value for key, value in given.public.items() if value is not None}
    if given.kind == "static" and (places := static_places(given.secrets)):
        row.public["values"] = [place.to_json() for place in places]
    row.allowed_origins = list(given.allowed_origins or ())
    row.variable_names = named_variables(given.secrets)
    row.fingerprint = fingerprint(given, vault=vault)[:8]
    bare = SealedCredential(
        id=row.id,
        tenant_id=row.tenant_id,
        provider_id=row.provider_id,
        slot=row.slot,
        version=row.version,
        kind=given.kind,
        public=row.public,
        allowed_origins=tuple(row.allowed_origins),
        sealed=b"",
    )
    row.sealed = seal_credential(bare, vault=vault, fields=given.secrets).sealed
    return row


def new_credential(provider_id: UUID, slot: str, given: CredentialDraft, *, vault: Vault) -> Credential:
    """A row for a credential that is stored for the first time."""
    row = Credential(provider_id=provider_id, slot=slot, kind=given.kind, sealed=b"", fingerprint="")
    return fill_credential(row, given, vault=vault)


def fill_variable(row: Variable, given: VariableDraft, *, vault: Vault) -> Variable:
    """Puts a value into its row: sealed where it is secret."""
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
    """A row for a variable that is stored for the first time."""
    return fill_variable(Variable(provider_id=provider_id, name=name), given, vault=vault)


def overlaid(rows: Iterable[Variable], given: Collection[Variable]) -> list[Variable]:
    """The stored variables, where `given` ones of the same owner and name take their place."""
    taken = {(row.provider_id, row.name) for row in given}
    return [*given, *(row for row in rows if (row.provider_id, row.name) not in taken)]
